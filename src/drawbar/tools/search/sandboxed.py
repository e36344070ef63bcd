"""The harness's side of a search: sends the worker into the read-only scope and takes its answer (ENG-6).

The worker's modules travel on standard input, because the folder that this package is installed in may be out of
reach inside the sandbox. Nothing of it touches the workspace, and a pattern that never ends is ended with the call.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from drawbar.contracts.boundary import CommandRequest, Target
from drawbar.contracts.tool import ToolContext, ToolResult

__all__ = ["SearchPrograms", "search"]

_PACKAGE: Final = "drawbar.tools.search"
_MODULES: Final = ("globs", "dialects", "regex", "ignore", "worker")
_ANSWER_BYTES: Final = 8 << 20
_SYSTEM_PYTHON: Final = "/usr/bin/python3"

_BOOTSTRAP: Final = """\
import json, sys
bundle = json.loads(sys.stdin.buffer.read())
sources = bundle["sources"]
class Bundled:
    def find_spec(self, name, path=None, target=None):
        if name in sources:
            return type(sys.__spec__)(name, self, is_package=not sources[name])
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(compile(sources[module.__name__], module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Bundled())
from drawbar.tools.search.worker import main
main(bundle["job"])
"""


class SearchPrograms:
    """Which programs of this machine a search may use, found once.

    Args:
        path: a search path instead of the environment's, as for ``PATH``; the empty string finds nothing.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._found: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.python: str | None = None

    def find(self, names: Sequence[str], root: Path) -> tuple[str, ...]:
        """Absolute paths of the programs called ``names``; never one that lies below ``root`` (QLT-3)."""
        from shutil import which

        key = tuple(names)
        if key not in self._found:
            folders = os.environ.get("PATH", os.defpath) if self._path is None else self._path
            absolute = os.pathsep.join(folder for folder in folders.split(os.pathsep) if folder.startswith("/"))
            found = (which(name, path=absolute) for name in names) if absolute else ()
            self._found[key] = tuple(path for path in found if path)
        return tuple(path for path in self._found[key] if not Path(os.path.realpath(path)).is_relative_to(root))

    def interpreters(self) -> tuple[str, ...]:
        """Pythons to try, the one that worked last first: this process's own may be out of reach inside."""
        known = (_SYSTEM_PYTHON, sys.executable) if os.access(_SYSTEM_PYTHON, os.X_OK) else (sys.executable,)
        return tuple(sorted(known, key=lambda python: python != self.python))


async def search(
    job: Mapping[str, Any],
    target: Target,
    context: ToolContext,
    programs: SearchPrograms,
    *,
    names: Sequence[str],
    limit_s: float,
) -> dict[str, Any] | ToolResult:
    """Carry out one search at ``target``.

    Args:
        job: what to search, as :func:`drawbar.tools.search.worker.run` takes it.
        target: the file or folder that the gate opened; the worker refuses any other under its name.
        context: of the call.
        programs: what the machine has.
        names: the program that does this kind of search fast.
        limit_s: seconds until the search is ended.

    Returns:
        The worker's answer, or the result that says why there is none.
    """
    assert target.fd is not None
    seen = os.fstat(target.fd)
    place = {"path": str(target.path), "device": seen.st_dev, "inode": seen.st_ino}
    whole = {**job, **place, "programs": programs.find(names, context.root.path)}
    bundle = json.dumps({"job": whole, "sources": _sources()}).encode()
    said = ""
    for python in programs.interpreters():
        result = await context.commands.run(
            CommandRequest(
                argv=(python, "-I", "-S", "-W", "ignore", "-c", _BOOTSTRAP),
                scope="read-only",
                limit_s=limit_s,
                stdin=bundle,
                separate=True,
                head_bytes=_ANSWER_BYTES,
            )
        )
        if result.cause == "timeout":
            return ToolResult.error(
                f"The search was ended after {limit_s:g} s. Name a smaller folder in path, or a simpler pattern.",
                cause="timeout",
            )
        answer = _answer(result.head)
        if answer is not None:
            programs.python = python
            return answer
        said = result.denial or result.stderr.strip()[-500:] or f"exit code {result.exit_code}"
    return ToolResult.error(f"The search could not be run in the sandbox: {said}. Use bash with grep or find instead.")


def _answer(text: str) -> dict[str, Any] | None:
    try:
        # The standard library's reader, because a name's undecodable bytes arrive as lone surrogates.
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None  # pyright: ignore[reportUnknownVariableType]


@functools.cache
def _sources() -> dict[str, str]:
    from importlib import resources

    folder = resources.files(_PACKAGE)
    sources = {f"{_PACKAGE}.{name}": folder.joinpath(f"{name}.py").read_text("utf-8") for name in _MODULES}
    return {"drawbar": "", "drawbar.tools": "", _PACKAGE: "", **sources}
