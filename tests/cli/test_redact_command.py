"""``drawbar redact``: bytes in, bytes out, no secret, nothing lost, nothing late (CLI-6, CON-32)."""

from __future__ import annotations

import base64
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.redaction.planting import unhurried

from drawbar.stores.redaction import ByteRedactor, SecretRedactor, learn_bytes

DRAWBAR = [sys.executable, "-m", "drawbar.surfaces.cli.main", "redact"]
KNOWN = b"zq7Not4Real0001"
ODD = b"\xffq8\xfeNot4Real\x80"
ANTHROPIC = b"sk-ant-api03-" + b"Zq8" * 20
RESERVED = "\U0010ff80\U0010ffff\U0010ffe9".encode()
"""Characters that stand for bytes inside the redactor; in a stream they are characters like any other."""


def redactor() -> SecretRedactor:
    found = SecretRedactor()
    assert learn_bytes(found, KNOWN, "known")
    assert learn_bytes(found, ODD, "known")
    return found


def passed(pieces: list[bytes]) -> bytes:
    stream = ByteRedactor(redactor())
    return b"".join([*map(stream.feed, pieces), stream.end()])


def redact(data: bytes, *argv: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*DRAWBAR, *argv], input=data, capture_output=True, env={**os.environ, **env}, cwd=cwd, timeout=60, check=False
    )


streams = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.sampled_from([KNOWN, ODD, ANTHROPIC, RESERVED, KNOWN[:9], ANTHROPIC[:15]]),
        st.sampled_from([b"\r\n", b"\xf0\x9f\x98", b"\xed\xa0\x80"]),
        st.text(max_size=8).map(str.encode),
        st.sampled_from([KNOWN, ODD]).map(base64.b64encode),
    ),
    max_size=12,
).map(b"".join)  # fmt: skip


@pytest.mark.clause("CLI-6", "CON-32")
@unhurried
@given(streams, st.data())
def test_no_cut_changes_what_comes_out(data: bytes, draw: st.DataObject) -> None:
    at = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    pieces = [data[i:j] for i, j in zip([0, *at], [*at, len(data)], strict=True)]
    shown = passed(pieces)
    assert shown == passed([data])
    assert KNOWN not in shown
    assert ODD not in shown
    assert ANTHROPIC not in shown


@pytest.mark.clause("CLI-6", "CON-32")
@unhurried
@given(st.text(max_size=60), st.data())
def test_text_comes_out_as_the_whole_text_redacted(text: str, draw: st.DataObject) -> None:
    """Where all is text, the stream says what every other use of the redactor says."""
    text = text + draw.draw(st.sampled_from(["", KNOWN.decode(), ANTHROPIC.decode() + " "])) + text
    if any(char >= "\U0010ff80" for char in text):
        return
    assert passed([text.encode()]).decode() == redactor().text(text)


@pytest.mark.clause("CLI-6", "CON-32")
@unhurried
@given(streams)
def test_what_is_no_secret_is_not_touched(data: bytes) -> None:
    """A redactor that knows nothing and meets no format gives back every byte, well-formed or not."""
    stream = ByteRedactor(SecretRedactor())
    shown = b"".join([*(stream.feed(data[at : at + 1]) for at in range(len(data))), stream.end()])
    assert shown == data or b"[redacted:" in shown


@pytest.mark.clause("CLI-6", "CON-32")
@pytest.mark.parametrize(
    "secret",
    [
        *(KNOWN, ODD, ANTHROPIC, base64.b64encode(KNOWN), base64.b64encode(ODD), ODD.hex().encode()),
        *(b"%FFq8%FENot4Real%80", b"%ffq8%feNot4Real%80"),
    ],
)
def test_a_secret_over_any_border_never_appears(secret: bytes) -> None:
    data = b"\xfe before " + secret + b" after \r\n\xff"
    for at in range(len(data) + 1):
        stream = ByteRedactor(redactor())
        shown = stream.feed(data[:at])
        assert secret not in shown
        shown += stream.feed(data[at:]) + stream.end()
        assert secret not in shown
        assert b"[redacted:" in shown
        assert shown.startswith(b"\xfe before ")
        assert shown.endswith(b" after \r\n\xff")


@pytest.mark.clause("CLI-6")
def test_the_command_keeps_every_other_byte(tmp_path: Path) -> None:
    (tmp_path / "known").write_bytes(b"\n" + KNOWN + b"\r\n" + ODD + b"\n\nabc\n")
    data = b"\x00\xff\xfe\r\na " + KNOWN + b"\r\n\r" + ODD + b" " + RESERVED + b" no end"
    done = redact(data, "--known", "known", cwd=tmp_path)
    assert done.returncode == 0
    mark = b"[redacted:known]"
    assert done.stdout == b"\x00\xff\xfe\r\na " + mark + b"\r\n\r" + mark + b" " + RESERVED + b" no end"
    assert b"line 5" in done.stderr
    assert b"abc" not in done.stderr


@pytest.mark.clause("CLI-6", "CON-31")
def test_it_knows_the_environment_and_the_public_kinds() -> None:
    done = redact(b"x " + KNOWN + b" y " + ANTHROPIC, SOME_API_KEY=KNOWN.decode())
    assert done.stdout == b"x [redacted:env-some-api-key] y [redacted:anthropic-api-key]"


@pytest.mark.clause("CLI-6")
@pytest.mark.parametrize("name", ["missing", ".", "big"])
def test_a_file_of_secrets_that_cannot_be_read_is_bad_usage(name: str, tmp_path: Path) -> None:
    """Going on without it would let the very secrets through that it names."""
    with (tmp_path / "big").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    done = redact(KNOWN, "--known", name, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"--known" in done.stderr


@pytest.mark.clause("CLI-6")
def test_what_is_certain_comes_at_once() -> None:
    with subprocess.Popen(DRAWBAR, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in (b"one\n", b"two \xff\n", b"a question? "):
            os.write(process.stdin.fileno(), line)
            assert select.select([process.stdout], [], [], 20)[0], f"{line!r} was held back"
            assert os.read(process.stdout.fileno(), 100) == line
        os.write(process.stdin.fileno(), b"sk-ant-api")
        assert not select.select([process.stdout], [], [], 0.3)[0]
        process.stdin.close()
        assert process.stdout.read() == b"sk-ant-api"


@pytest.mark.clause("CLI-6")
def test_a_line_without_end_takes_no_memory() -> None:
    """100 MB in one line, under a limit that holds the program and little more."""
    limited = f"ulimit -v 600000; head -c 100000000 /dev/zero | tr '\\0' k | {' '.join(DRAWBAR)} | wc -c"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == (b"100000000", b"")


@pytest.mark.clause("CLI-6")
def test_nobody_reads_any_more() -> None:
    done = subprocess.run(
        ["bash", "-c", f"yes | {' '.join(DRAWBAR)} | head -n 1; echo ${{PIPESTATUS[1]}}"],
        capture_output=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == (b"y\n1\n", b"")


@pytest.mark.clause("CLI-6")
def test_a_full_disk_and_a_closed_input_are_said() -> None:
    for shell, code, said in ((">/dev/full", 1, b"No space left"), ("<&-", 2, b"standard input is closed")):
        done = subprocess.run(
            ["bash", "-c", f"{' '.join(DRAWBAR)} {shell}"], input=b"x y\n", capture_output=True, timeout=60
        )
        assert done.returncode == code
        assert said in done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.clause("CLI-6")
def test_ctrl_c_ends_it_without_a_word() -> None:
    with subprocess.Popen(DRAWBAR, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        os.write(process.stdin.fileno(), b"ready\nsk-ant-api")
        assert os.read(process.stdout.fileno(), 100) == b"ready\n"
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (130, b"", b"")
        assert time.monotonic() - began < 10
