"""How shell commands are read, and that the strict reading is what a real bash does (BND-6, QLT-4)."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from drawbar.boundary.plain_shell import NotPlain, PlainCommand, quoted, read_plain
from drawbar.boundary.shell import MAX_COMMAND_BYTES, ParsedCommand, parse_command


@pytest.mark.clause("BND-6")
def test_what_a_command_line_is_made_of() -> None:
    parsed = parse_command("A=1 make -j2 >log 2>&1 && cat $(find . -name x) | sort -u; (cd d; ls)\ncat <<E\n$y\nE\n")
    assert parsed.error is None
    assert [command.words for command in parsed.commands if not command.nested] == [
        ("make", "-j2"),
        ("cat", "$(find . -name x)"),
        ("sort", "-u"),
        ("cat",),
    ]
    assert {command.words for command in parsed.commands if command.nested} == {
        ("find", ".", "-name", "x"),
        ("cd", "d"),
        ("ls",),
    }
    assert parsed.commands[0].assignments == ("A=1",)
    assert parsed.separators == ("&&", "|", ";")
    assert "$(find . -name x)" in parsed.substitutions
    assert "$y" in parsed.substitutions
    assert len(parsed.heredocs) == 1
    assert parsed.control == ("subshell",)
    assert parsed.plain is None
    assert parsed.reason


@pytest.mark.clause("BND-6")
def test_redirects_and_the_words_after_them_are_told_apart() -> None:
    plain = parse_command("cat a > b c 2>&1 d").plain
    assert plain is not None
    assert [word.value for word in plain[0].words] == ["cat", "a", "c", "d"]
    assert [(part.operator, part.target.value) for part in plain[0].redirects] == [(">", "b"), (">&", "1")]


@pytest.mark.clause("BND-6", "QLT-4")
@pytest.mark.parametrize("text", ["r\\\nm x", "ls\rx", "[ -f x ]", "ls \x0cx"])
def test_where_two_readers_differ_nothing_is_plain(text: str) -> None:
    parsed = parse_command(text)
    assert parsed.plain is None
    assert parsed.reason


@pytest.mark.clause("BND-6", "QLT-4")
@pytest.mark.parametrize(
    "text", ["c >2>&1", "c >", "c > ;", "c ;& d", "c;\\\n&>f d", "; c", "c | | d", "c && ; d", "c )"]
)
def test_what_bash_refuses_is_not_plain(bash: Bash, text: str) -> None:
    assert bash.calls(text) is None
    assert parse_command(text).plain is None


@pytest.mark.clause("BND-6")
@pytest.mark.parametrize(
    "text",
    ["ls 'x", "ls &&", "if ls; then", "a\0b", "\ud800", "x" * (MAX_COMMAND_BYTES + 1), "$(" * 1300 + "x" + ")" * 1300],
    ids=["quote", "and", "if", "nul", "surrogate", "long", "deep"],
)
def test_what_cannot_be_parsed_says_so(text: str) -> None:
    parsed = parse_command(text)
    assert parsed.error
    assert parsed.reason == parsed.error
    assert parsed.plain is None


@pytest.mark.clause("BND-6", "PRF-8")
@pytest.mark.parametrize(
    "piece", ["(", "$(", "`", "{ ", "<<A ", "if ", "[[", "$((", "a;", "a ", "'", '"', "\\", "${", "a|", "&"]
)
def test_no_short_command_takes_long(piece: str) -> None:
    text = (piece * MAX_COMMAND_BYTES)[:MAX_COMMAND_BYTES]
    started = time.process_time()
    parse_command(text)
    assert time.process_time() - started < 0.5


@pytest.mark.clause("QLT-4")
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs", "Cc")), max_size=20))
@example('it\'s "$x" `y` \\ z!')
@example("")
@example("-")
def test_a_quoted_word_is_read_back_as_itself(value: str) -> None:
    plain = parse_command(f"cmd {quoted(value)}").plain
    assert plain is not None
    assert [word.value for word in plain[0].words] == ["cmd", value]


# What a real bash does: the program `c` notes how it was called, and nothing else can run.

PIECES = st.one_of(
    st.sampled_from(["c", "c ", "c x", "a", "b c", "é", "'a b'", '"a b"', "$((1+2))", "A=", "A=1 ", "--x=y"]),
    st.sampled_from([" ", "  ", "\n", "\t", ";", "&&", "||", "|", " | ", " && ", "\\\n", "#", " # "]),
    st.sampled_from(["'", '"', "\\", "$", "`", "=", "*", "?", "[", "]", "{", "}", "~", "!", "(", ")", "\u00a0"]),
    st.sampled_from([">", " >f ", "2>&1", "<", " >/dev/null", "-", "%", "^", "@", "+", ":", ",", "/", "."]),
)
UNREADABLE = ("No such file or directory", "Is a directory", "Permission denied", "Not a directory")
"""A redirect that fails when it runs: nothing about how the command was read."""


@dataclass(frozen=True)
class Bash:
    """A folder with one program, and what was called in it."""

    folder: Path

    def calls(self, command: str) -> list[list[str]] | None:
        """The argument lists with which ``c`` was called; None when bash complained about the command."""
        log = self.folder / "log"
        log.write_bytes(b"")
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        done = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=work,
            env={"PATH": str(self.folder / "bin"), "LOG": str(log), "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=20,
        )
        if any(reason in done.stderr.decode() for reason in UNREADABLE):
            assume(False)
        if done.stderr:
            return None
        return [
            [piece.decode("utf-8", "surrogateescape") for piece in line.split(b"\0")[:-1]]
            for line in log.read_bytes().split(b"\1\n\0")
            if line
        ]


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Bash:
    folder = tmp_path_factory.mktemp("bash")
    (folder / "bin").mkdir()
    program = folder / "bin" / "c"
    # One write, so that two parts of a pipe don't mix theirs.
    program.write_text('#!/bin/bash\nprintf "%s\\0" c "$@" $\'\\1\\n\' >>"$LOG"\n')
    program.chmod(0o755)
    return Bash(folder)


def expected(commands: list[PlainCommand]) -> list[list[str]]:
    """Which commands run when every one succeeds: what stands behind ``||`` doesn't, nor what is piped to it."""
    runs: list[list[str]] = []
    skipped = False
    for command in commands:
        if command.joined_by not in ("|", "|&"):
            skipped = command.joined_by == "||"
        if not skipped:
            runs.append([word.value or "" for word in command.words])
    return runs


def all_known(commands: list[PlainCommand]) -> bool:
    return all(word.value is not None for command in commands for word in command.words)


@pytest.mark.clause("BND-6", "QLT-4")
@pytest.mark.slow
@given(pieces=st.lists(PIECES, min_size=1, max_size=9))
@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(pieces=["c", " ", "a", "\\", "\n", "b"])
@example(pieces=["c", " >f ", "a", " ", "b"])
@example(pieces=["c", "\u00a0", "a"])
@example(pieces=["c", " && ", "c x", "||", "c ", "a", "&&", "c ", "b"])
def test_a_plain_reading_is_what_bash_does(bash: Bash, pieces: list[str]) -> None:
    command = "".join(pieces)
    parsed = parse_command(command)
    if parsed.plain is None or not all_known(list(parsed.plain)):
        return
    if any(one.words[0].value != "c" for one in parsed.plain):
        return
    targets = [part.target.value for one in parsed.plain for part in one.redirects if not part.harmless]
    if any(target is None or not target.isalpha() for target in targets) or "<" in command:
        return  # a file that isn't there, or a folder, keeps a command from running however it was read
    calls = bash.calls(command)
    assert calls is not None, f"bash refused {command!r}"
    assert sorted(calls) == sorted(expected(list(parsed.plain))), command


@pytest.mark.clause("QLT-4")
@given(st.lists(PIECES, min_size=1, max_size=12).map("".join))
@settings(max_examples=500)
def test_the_strict_reader_accepts_nothing_with_a_dollar_or_backquote_that_is_not_quoted(text: str) -> None:
    try:
        commands = read_plain(text)
    except NotPlain:
        return
    for command in commands:
        for word in command.words:
            assert word.value is not None or not word.plain or word.text[0] not in "-"
            bare = word.text.replace("\\$", "").replace("\\`", "").replace("$((1+2))", "")
            if "'" not in bare:
                assert "`" not in bare
                assert "$" not in bare


@pytest.mark.clause("BND-6")
@given(st.text(max_size=200))
@settings(max_examples=300)
def test_parsing_never_raises(text: str) -> None:
    assert isinstance(parse_command(text), ParsedCommand)


@pytest.mark.clause("QLT-2")
def test_no_character_takes_the_process_down() -> None:
    """The grammar's own scanner read beyond a table for characters above 255, and the whole harness with it."""
    program = (
        "from drawbar.boundary.shell import parse_command\n"
        "for code in range(128, 0x110000, 997):\n"
        "    if not 0xd800 <= code < 0xe000:\n"
        "        for text in (f'a{{{chr(code)}', f'{chr(code)}=1', f'<<{chr(code)}', f'${{{chr(code)}'):\n"
        "            parse_command(text)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
