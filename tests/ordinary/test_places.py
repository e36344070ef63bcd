"""Where a workspace lies and what it is called makes no difference (QLT-1, BND-11)."""

from __future__ import annotations

import os

import pytest
from tests.ordinary.kit import Ground

pytestmark = pytest.mark.clause("QLT-1", "BND-11")

NAMES = {
    "spaces": "my  project ",
    "quotes": 'it\'s "quoted" `here` $HOME',
    "newline": "two\nlines",
    "backslash and colon": "a\\b:c;d",
    "emoji": "👩\u200d💻 café",
    "right to left": "שלום\u202e",
    "a dash first": "-n",
    "glob": "[a]*?{b,c}",
    "long": "n" * 255,
    "capitals": "Project",
}
SCRIPT = """
    cd "$PWD"
    echo more >>file.txt
    git add -A
    git commit -qm More
    mkdir -p made/deep
    python3 -c 'import os; print(os.path.samefile(os.getcwd(), os.environ["PWD"]))' >made/said
    cp file.txt made/deep/
    git status --short
    cat made/said
"""


def _work(ground: Ground) -> None:
    assert ground.works(SCRIPT, leaves=["made"]) == "?? made/\nTrue\n"
    ground.run("git config core.fsmonitor ./evil; echo evil >.git/hooks/pre-commit")
    assert "evil" not in ground.program.outside("cat .git/config; cat .git/hooks/pre-commit || true", ground.root)
    assert "file.txt" in ground.works("ls", scope="read-only")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_workspace_of_any_name(ground: Ground, name: str) -> None:
    ground.repository({".drawbar/config.toml": "\n"}, name=name)
    _work(ground)


def test_a_name_that_is_no_text(ground: Ground) -> None:
    ground.repository({}, name=os.fsdecode(b"caf\xe9 \xff"))
    _work(ground)


def test_a_deep_workspace(ground: Ground) -> None:
    ground.repository({}, name="/".join(["d" * 100] * 30))
    assert len(str(ground.root)) > 3000
    _work(ground)


@pytest.mark.bug("SBX-02")
def test_files_that_share_their_bytes(ground: Ground) -> None:
    """Hard links within the workspace, as package stores make them, are written like any file."""
    ground.repository()
    ground.program.outside("mkdir store; cp file.txt store/a; ln store/a store/b; ln store/a linked", ground.root)
    assert ground.works(
        "echo both >>linked; tail -1 store/b; rm store/a; ln linked store/a; cp -al store copy", leaves=["copy"]
    )


@pytest.mark.bug("SBX-01", "SBX-10")
def test_what_leads_out_leads_nowhere(ground: Ground) -> None:
    """Symlinks and hard links to a file beside the workspace: readable or not, never written."""
    ground.repository()
    ground.program.outside(
        "echo before >../beside; ln -s ../beside soft; ln ../beside hard; ln -s ../new new", ground.root
    )
    for command in ("echo x >soft", "echo x >hard", "echo x >new"):
        assert ground.run(command)["exit_code"] != 0, command
    assert ground.program.outside("cat ../beside; ls ..", ground.root) == "before\nbeside\nproject\n"


def test_reached_through_a_symlink(ground: Ground) -> None:
    ground.repository()
    ground.program.outside(f"mkdir -p {ground.folder}/links; ln -s ../project {ground.folder}/links/here", ground.root)
    real = ground.root
    ground.open(ground.folder / "links" / "here")
    assert ground.root == real
    _work(ground)


def test_names_that_differ_in_case_alone(ground: Ground) -> None:
    ground.repository({"README": "upper\n", "readme": "lower\n", "Src/a": "1\n", "src/a": "2\n", ".GITignore": "x\n"})
    assert ground.works("cat README readme Src/a src/a; mv readme ReadMe; git status -s", leaves=["ReadMe"]) == (
        "upper\nlower\n1\n2\n D readme\n?? ReadMe\n"
    )


def test_from_a_folder_below_the_root(ground: Ground) -> None:
    ground.repository({"a/b/c.txt": "c\n"})
    root = ground.root
    ground.open(root / "a" / "b")
    assert ground.root == root
    assert ground.works("cat c.txt; git rev-parse --show-prefix; echo x >../up.txt", leaves=["a/up.txt"]) == "c\na/b/\n"


def test_below_what_only_its_owner_opens(ground: Ground) -> None:
    """A closed folder on the way, a home of mode 0700 above all, is no obstacle to its owner."""
    ground.repository(name="closed/project")
    ground.program.outside("chmod 700 ..", ground.root)
    _work(ground)
