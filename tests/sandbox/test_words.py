"""What a supervisor says is read strictly: a command that took it over gains nothing (BND-10, QLT-12)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawbar.boundary.supervisor import Word, Words, call_script, first_process

pytestmark = pytest.mark.clause("QLT-12", "BND-10")


@given(st.integers(1, 9))
def test_words_arrive_in_any_pieces(size: int) -> None:
    words, said = Words(), b"ready\nleft 7\ndone 0\nsoiled 255\n"
    found = [word for at in range(0, len(said), size) for word in words.feed(said[at : at + size])]
    assert found == [Word("ready"), Word("left", 7), Word("done", 0), Word("soiled", 255)]


@given(st.binary(max_size=300))
def test_nonsense_is_ignored(data: bytes) -> None:
    for word in Words().feed(data):
        assert word.kind in ("ready", "left", "done", "soiled")
        assert 0 <= word.number < 1000


def test_what_is_no_word() -> None:
    words = Words()
    assert words.feed(b"left x\nleft 99999\nleft\nready 1\ndone -1\ngone 1\n\n") == []
    assert words.feed(b"x" * 10**6 + b"\nready\n") == [Word("ready")]


arguments = st.lists(st.binary(min_size=1, max_size=30).filter(lambda b: b"\0" not in b).map(os.fsdecode), min_size=1)


@settings(max_examples=40, deadline=None)
@given(arguments, st.booleans())
def test_a_script_hands_arguments_on_byte_for_byte(argv: list[str], apart: bool) -> None:
    """Read by the machine's own shell: quotes, line ends, and bytes that are no text."""
    program = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    script = call_script([sys.executable, "-I", "-S", "-c", program, *argv], cwd="/", apart=apart)
    done = subprocess.run(
        ["/bin/sh", "-c", "exec 3>&2\n" + os.fsdecode(script) + "exit $status"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"\0".join(map(os.fsencode, argv))


def test_a_script_sets_what_was_asked_and_refuses_a_zero_byte() -> None:
    script = call_script(["sh", "-c", "pwd; echo $A; exit 7"], cwd="/usr", env=[("A", "it's $B")])
    done = subprocess.run(
        ["/bin/sh", "-c", os.fsdecode(script) + "exit $status"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (7, "/usr\nit's $B\n")
    with pytest.raises(ValueError, match="zero byte"):
        call_script(["a\0b"], cwd="/")


def test_the_first_process_is_the_one_that_the_back_end_named() -> None:
    assert first_process(b'{ "child-pid": 4242, "mnt-namespace": 4026532178 }\n{ "exit-code": 0 }\n') == 4242
    for nothing in (b"", b"{ ", b'{ "child-pid": 0 }', b'{ "child-pid": -1 }', b'{ "child-pid": 99999999999 }'):
        assert first_process(nothing) is None
