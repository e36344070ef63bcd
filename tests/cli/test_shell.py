"""What is typed: help, refusals by name, exit codes, errors that say what to do (CLI-1, CLI-2)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from drawbar import __version__
from drawbar.surfaces.cli.main import main
from drawbar.surfaces.cli.refusals import _COMMANDS, _OPTIONS, refusal_of_command, refusal_of_option
from drawbar.surfaces.cli.shell import root

DRAWBAR = [sys.executable, "-m", "drawbar.surfaces.cli.main"]


def drawbar(*argv: str, stdin: bytes | None = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*DRAWBAR, *argv], input=stdin, capture_output=True, env={**os.environ, **env}, timeout=60, check=False
    )


@dataclass
class Answer:
    """What a command said."""

    returncode: int
    stdout: str
    stderr: str


Type = Callable[..., Answer]


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Type:
    """Types a command in this process: quick, for what needs no process of its own."""

    def run(*argv: str) -> Answer:
        code = main(argv)
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return run


def tree(group: click.Group = root, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its words."""
    with click.Context(group) as ctx:
        for name in group.list_commands(ctx):
            command = group.get_command(ctx, name)
            assert command is not None
            words = f"{path} {name}".strip()
            yield words, command
            if isinstance(command, click.Group):
                yield from tree(command, words)


def test_the_version() -> None:
    done = drawbar("--version")
    assert (done.returncode, done.stdout.decode()) == (0, f"drawbar {__version__}\n")
    assert drawbar("--version", "runs").stdout == done.stdout


@pytest.mark.clause("CLI-2")
@pytest.mark.parametrize("words", ["", *(words for words, _ in tree())])
def test_every_command_has_help_with_an_example(words: str, typed: Type) -> None:
    done = typed(*words.split(), "--help")
    assert done.returncode == 0
    text = done.stdout
    assert "Example: " in text or "Example: eval" in text
    example = re.search(r"Example: (?:eval \"\$\()?(drawbar .*)", text)
    assert example is not None
    assert example[1].split()[1:][: len(words.split())] == words.split()


@pytest.mark.clause("CLI-2")
def test_help_names_every_command_without_loading_it() -> None:
    text = drawbar("--help").stdout.decode()
    for words, command in tree():
        if " " not in words:
            assert re.search(rf"^  {words} ", text, re.MULTILINE)
            assert command.help


@pytest.mark.clause("CLI-1", "CLI-2")
@pytest.mark.parametrize("words", sorted(_COMMANDS))
def test_a_command_that_is_not_built_is_refused_by_name_and_absent(words: str, typed: Type) -> None:
    assert words not in dict(tree()), "built by now: take it off the list"
    done = typed(*words.split(), "--anything", "else") if words else typed()
    assert done.returncode == 2
    assert done.stdout == ""
    said = done.stderr
    assert refusal_of_command(words) is not None
    assert "built yet" in said
    if words:
        assert f"`drawbar {words}`" in said


@pytest.mark.clause("CLI-1")
@pytest.mark.parametrize(("words", "option"), [(words, option) for words in _OPTIONS for option in _OPTIONS[words]])
def test_a_flag_that_is_not_built_is_refused_by_name_and_absent(words: str, option: str, typed: Type) -> None:
    assert option not in typed(*words.split(), "--help").stdout.split()
    for given in ([option, "x"], [f"{option}=x"]):
        done = typed(*words.split(), "do it", *given)
        assert done.returncode == 2
        assert refusal_of_option(words, option) in done.stderr


def test_nobody_promised_this() -> None:
    assert refusal_of_command("fly") is None
    assert refusal_of_option("run", "--fly") is None
    done = drawbar("run", "x", "--modle", "y")
    assert done.returncode == 2
    assert "--model" in done.stderr.decode()
    assert drawbar("fly").returncode == 2


@pytest.mark.clause("CLI-1")
@pytest.mark.parametrize(
    ("argv", "stdin", "said"),
    [
        (["run"], b"", "standard input is empty"),
        (["run"], b" \n\t\n", "standard input is empty"),
        (["run", ""], b"work", "the request is empty"),
        (["run", "  "], b"", "the request is empty"),
        (["run"], b"\xff\xfe", "not UTF-8"),
        (["run", "-"], b"", "standard input is empty"),
        (["run", "x", "--cwd", "/nowhere"], b"", "/nowhere is no folder"),
        (["run", "x", "--json", "--quiet"], b"", "choose one"),
        (["run", "x", "--approval", "yolo"], b"", "yolo"),
        (["run", "x", "--sandbox", "maybe"], b"", "maybe"),
        (["run", "x", "--ask-timeout", "-1"], b"", "-1"),
        (["run", "x", "y"], b"", "y"),
        (["runs", "approve", "r_1", "perhaps"], b"", "once, session, always, deny"),
        (["runs", "approve", "r_1", "a_1", "a_2", "once"], b"", "once, session, always, deny"),
        (["runs", "list", "--limit", "0"], b"", "0"),
        (["schema", "nothing"], b"", "no schema 'nothing'"),
    ],
)
def test_bad_usage_is_exit_2_and_says_what_to_do(argv: list[str], stdin: bytes, said: str, data_root: Path) -> None:
    done = drawbar(*argv, stdin=stdin)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr.decode()
    assert done.stdout == b""
    assert not data_root.exists(), "bad usage left something on disk"


@pytest.mark.clause("API-1")
def test_with_json_an_error_is_an_object_with_its_code() -> None:
    done = drawbar("run", "", "--json")
    error = json.loads(done.stderr)["error"]
    assert (done.returncode, error["code"], error["field"]) == (2, "invalid_request", "text")


@pytest.mark.clause("QLT-20")
def test_an_error_names_no_secret() -> None:
    key = "sk-ant-api03-" + "Zq8" * 20
    done = drawbar("schema", key, MY_API_KEY=key)
    assert done.returncode == 2
    assert key.encode() not in done.stderr


@pytest.mark.bug("APR-13")
def test_an_error_cannot_drive_the_terminal() -> None:
    assert b"\x1b" not in drawbar("schema", "\x1b]0;owned\x07").stderr


def test_an_argument_that_is_no_text_is_refused() -> None:
    done = subprocess.run([*map(os.fsencode, DRAWBAR), b"run", b"\xff"], capture_output=True, timeout=60)
    assert done.returncode == 2
    assert b"UTF-8" in done.stderr


@pytest.mark.clause("CLI-2")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    assert b"_DRAWBAR_COMPLETE" in drawbar("completion", shell).stdout
    if shell == "bash":
        done = drawbar(_DRAWBAR_COMPLETE="bash_complete", COMP_WORDS="drawbar runs in", COMP_CWORD="2")
        assert {line.partition(",")[2] for line in done.stdout.decode().split()} == {"inspect", "interrupt"}


def test_a_reader_that_leaves_early_is_no_error() -> None:
    shell = f"{' '.join(DRAWBAR)} schema | true"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {shell}"], capture_output=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == b""


@pytest.mark.parametrize(("redirect", "code"), [(">&-", 0), ("2>&-", 0), ("</dev/null >/dev/full", 1), ("<&-", 0)])
def test_closed_and_full_streams_make_no_trace(redirect: str, code: int) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{' '.join(DRAWBAR)} schema tool.started {redirect}"], capture_output=True, timeout=60
    )
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert (b"No space left" in done.stderr) is (code == 1)


@pytest.mark.clause("CLI-5")
@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_any_encoding_can_be_written_to(encoding: str) -> None:
    done = drawbar("runs", "approve", "r_1", "ünsure—日本", PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert done.returncode == 2
    assert done.stderr


@pytest.mark.clause("CLI-2")
@pytest.mark.parametrize(
    ("argv", "meant"),
    [(["rnu", "x"], "drawbar run"), (["runs", "lits"], "drawbar runs list"), (["docter"], "drawbar doctor")],
)
def test_a_misspelt_command_is_recognised(argv: list[str], meant: str, typed: Type) -> None:
    done = typed(*argv)
    assert done.returncode == 2
    assert f"did you mean `{meant}`?" in done.stderr
