"""Ordinary work as data, the ground it is done on, and the watch over what it leaves there (QLT-1, BND-11)."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

import pytest

__all__ = ["PATH", "PROGRAMS", "Case", "Ground", "HarnessProgram", "cases"]

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
PROGRAMS = HERE / "programs"
PATH = ":".join(filter(None, [os.environ.get("ORDINARY_TESTS_PATH", ""), "/usr/local/bin:/usr/bin:/bin"]))
"""Where programs are looked for; the variable names more folders, such as one with uv in it."""

GITS_OWN = {
    *("HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "COMMIT_EDITMSG", "MERGE_MSG", "AUTO_MERGE", "REBASE_HEAD"),
    *("BISECT_LOG", "gc.log", "gc.pid", "config", "config.worktree", "description", "hooks", "info", "index"),
    *("objects", "refs", "logs", "branches", "packed-refs", "modules", "worktrees", "rr-cache", "shallow"),
    *("gitdir", "commondir", "locked", "lost-found", "NOTES_EDITMSG", "TAG_EDITMSG", "CHERRY_PICK_HEAD"),
}
"""What git itself puts into its folder."""


@dataclass(frozen=True)
class Case:
    """One piece of work: a script that must succeed and say some things, and the names it leaves.

    Args:
        script: run by ``bash -c`` with ``set -euo pipefail``, in the root.
        says: pieces of its output, in this order.
        denies: what it must not say.
        leaves: patterns of names below the root; whatever lies below such a name belongs to it.
        files: there beforehand and committed, besides ``file.txt``.
        outside: what the person did beforehand, in the root.
        needs: programs without which there is nothing to try.
        programs: files of ``programs/`` to put in the root.
        slow: takes over three seconds.
        by: ``person`` for what root itself refuses to do.
        limit_s: for the command.
    """

    script: str
    says: Sequence[str] = ()
    denies: Sequence[str] = ()
    leaves: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    outside: str = ""
    needs: Sequence[str] = ()
    programs: Sequence[str] = ()
    slow: bool = False
    by: Literal["anybody", "person"] = "anybody"
    limit_s: float = 60

    def skip_unless_here(self) -> None:
        missing = [program for program in self.needs if shutil.which(program, path=PATH) is None]
        if missing:
            pytest.skip(f"not installed here: {', '.join(missing)}")


def cases(table: Mapping[str, Case]) -> pytest.MarkDecorator:
    """Parametrise a test over a table of cases, the slow ones marked."""
    return pytest.mark.parametrize(
        "case",
        [pytest.param(case, id=name, marks=[pytest.mark.slow] if case.slow else []) for name, case in table.items()],
    )


class HarnessProgram:
    """The program that runs the harness as one user; answers one request at a time."""

    def __init__(self, become: Sequence[str], python: str, home: Path, far: Path, packages: str) -> None:
        self.home = home
        self.far = far
        self.root = os.geteuid() == 0 and not become
        self.environ = {"PATH": PATH, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm"}
        imports = f"{CHECKOUT / 'src'}:{packages}"
        self._process = subprocess.Popen(
            [*become, python, str(HERE / "harness_program.py")],
            env={**self.environ, "PYTHONPATH": imports, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """The program's answer.

        Raises:
            RuntimeError: when it died; what it said is on standard error.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"what": what, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the program that runs the harness ended")
        return json.loads(line)

    def outside(self, script: str, cwd: Path) -> str:
        """Do something as the person would, outside of any sandbox."""
        done = self.ask(
            "outside", argv=["bash", "-c", f"set -euo pipefail\n{dedent(script)}"], cwd=str(cwd), environ=self.environ
        )
        assert done["exit_code"] == 0, (script, done["output"])
        return done["output"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


class Ground:
    """One workspace of one user, with a sandbox over it: kept between commands, or one for each.

    What appears in it is watched: :meth:`check` fails on any name that no command was said to leave.
    """

    def __init__(self, program: HarnessProgram, folder: Path, *, keep: bool) -> None:
        self.program = program
        self.folder = folder
        self.keep = keep
        self.root = folder / "project"
        self._box: int | None = None
        self._leaves: list[str] = []
        self._before: dict[str, str] = {}
        self._beside: set[str] = set()

    def repository(self, files: Mapping[str, str] | None = None, name: str = "project") -> Path:
        """Make the root, as a repository with one commit."""
        self.root = self.folder / name
        self.put({"file.txt": "one\ntwo\nthree\n", **(files or {})})
        self.program.outside("git init -q && git add -A && git commit -qm Begin", self.root)
        return self.root

    def put(self, files: Mapping[str, str]) -> None:
        """Files of the person."""
        owner = os.stat(self.folder)
        self.program.outside(f"mkdir -p -- {shlex.quote(str(self.root))}", self.folder)
        made: list[Path] = []
        for name, content in files.items():
            path = self.root / name
            for folder in (*reversed(path.parents), path):
                if folder.is_relative_to(self.root) and not os.path.lexists(folder):
                    made.append(folder)
                    path.write_text(content) if folder == path else folder.mkdir()
            if content.startswith("#!"):
                path.chmod(0o755)
        for path in made:
            os.chown(path, owner.st_uid, owner.st_gid)

    def open(self, cwd: Path | None = None) -> None:
        """Pin the root; from now on what appears in it is watched."""
        opened = self.program.ask(
            "open",
            root=str(cwd or self.root),
            data=str(self.program.far / f"data-{self.folder.name}-{self.keep}"),
            keep=self.keep,
            environ=self.program.environ,
        )
        assert "refused" not in opened, opened
        self._box = opened["box"]
        self.root = Path(opened["root"])
        self._before = dict(_names(self.root))
        self._beside = _around(self.program.home, self.root)

    def run(self, script: str, *, leaves: Sequence[str] = (), limit_s: float = 60, **options: Any) -> dict[str, Any]:
        """How a script ended in the sandbox."""
        if self._box is None:
            self.open()
        self._leaves += leaves
        asked = {"scope": "workspace", "stdin": None, "limit_s": limit_s, **options}
        return self.program.ask(
            "run", box=self._box, argv=["/bin/bash", "-c", f"set -euo pipefail\n{dedent(script)}"], **asked
        )

    def works(self, script: str, **options: Any) -> str:
        """What a script says that must succeed."""
        done = self.run(script, **options)
        assert done.get("exit_code") == 0, f"{script}\n--\n{done}"
        return done["output"]

    def does(self, case: Case) -> str:
        """Carry out a case on a repository of its own."""
        case.skip_unless_here()
        programs = {name: (PROGRAMS / name).read_text() for name in case.programs}
        self.repository({**case.files, **programs})
        if case.outside:
            self.program.outside(case.outside, self.root)
        said = self.works(case.script, leaves=case.leaves, limit_s=case.limit_s)
        place = 0
        for piece in case.says:
            found = said.find(piece, place)
            assert found >= 0, f"no {piece!r} in\n{said[place:]}"
            place = found + len(piece)
        unwanted = [piece for piece in case.denies if piece in said]
        assert not unwanted, said
        return said

    def check(self) -> None:
        """Fail on litter: names that nobody made, modes that changed, anything beside the root."""
        if self._box is None:
            return
        after = dict(_names(self.root))
        litter = [name for name in after if name not in self._before and not self._is_left(name)]
        assert not litter, f"litter in the workspace: {litter}"
        changed = [
            name
            for name, mode in self._before.items()
            if after.get(name, mode) != mode and not any(fnmatchcase(name, wanted) for wanted in self._leaves)
        ]
        assert not changed, f"modes that changed: {changed}"
        assert _around(self.program.home, self.root) == self._beside, "something was written beside the workspace"
        git = self.root / ".git"
        if git.is_dir():
            ghosts = {name for name in os.listdir(git) if name not in GITS_OWN}
            assert not ghosts, f"ghosts in .git: {ghosts}"

    def close(self) -> None:
        if self._box is not None:
            self.program.ask("close", box=self._box)

    def _is_left(self, name: str) -> bool:
        parts = Path(name).parts
        above = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
        return any(fnmatchcase(step, wanted) for wanted in self._leaves for step in above)


def _names(root: Path) -> Iterator[tuple[str, str]]:
    """Every name below ``root`` outside of git's own folder, with type and mode; the root's own under the empty one."""
    yield "", _mode(root)
    for folder, folders, files in os.walk(root):
        if Path(folder) == root and ".git" in folders:
            folders.remove(".git")
        for name in (*folders, *files):
            path = Path(folder, name)
            yield str(path.relative_to(root)), _mode(path)


def _mode(path: Path) -> str:
    status = os.lstat(path)
    return f"{stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid}"


def _around(home: Path, root: Path) -> set[str]:
    """What lies in the home and in the folders from there to the root, the root aside."""
    folders = [home, *(folder for folder in root.parents if folder.is_relative_to(home))]
    return {str(folder / name) for folder in folders for name in os.listdir(folder)}
