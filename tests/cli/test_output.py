"""Writing to the terminal: in order, never holding up whoever writes, in the encoding and size that is there."""

from __future__ import annotations

import io
import os
import pty
import struct
import sys
import termios
import threading
import time
from fcntl import ioctl

import pytest

from drawbar.surfaces.cli.output import GLYPHS, GLYPHS_ASCII, Output, look_of


def pipe() -> tuple[int, io.TextIOWrapper]:
    reader, writer = os.pipe()
    return reader, os.fdopen(writer, "w", encoding="utf-8")


@pytest.mark.clause("CON-12")
def test_a_reader_that_stops_reading_holds_up_nothing() -> None:
    reader, stream = pipe()
    out = Output(stream)
    began = time.monotonic()
    for n in range(2000):
        out.text(f"{n}\n" + "x" * 1000)
    assert time.monotonic() - began < 2, "a full pipe blocked the writer"
    assert not out.drain(0.05)
    got: list[bytes] = []

    def read() -> None:
        while data := os.read(reader, 65536):
            got.append(data)

    reading = threading.Thread(target=read)
    reading.start()
    out.close()
    stream.close()
    reading.join()
    os.close(reader)
    numbers = b"".join(got).replace(b"x", b"").decode().split()
    assert numbers == [str(n) for n in range(2000)]


@pytest.mark.clause("CLI-1")
def test_a_reader_that_is_gone_is_noticed() -> None:
    reader, stream = pipe()
    os.close(reader)
    out = Output(stream)
    out.text("hello")
    assert out.drain(5)
    assert out.broken.is_set()
    out.text("more")
    out.close()
    with pytest.raises(BrokenPipeError):
        stream.close()


@pytest.mark.clause("CLI-5")
def test_what_an_encoding_lacks_is_written_as_a_code() -> None:
    raw = io.BytesIO()
    out = Output(io.TextIOWrapper(raw, encoding="latin-1"))
    out.text("café 漢\ud800\n")
    out.close()
    assert raw.getvalue() == b"caf\xe9 \\u6f22\\ud800\n"


@pytest.mark.clause("CLI-5")
def test_what_a_stream_can_show() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    look = look_of(file, {})
    assert (look.tty, look.colour, look.glyphs, look.width) == (False, False, GLYPHS, 120)
    assert look_of(io.TextIOWrapper(io.BytesIO(), encoding="latin-1"), {}).glyphs == GLYPHS_ASCII
    assert look_of(file, {"COLUMNS": "33"}).width == 33
    assert look_of(file, {"COLUMNS": "wide"}).width == 120


@pytest.mark.clause("CLI-5")
def test_what_a_terminal_can_show() -> None:
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 57, 0, 0))
    with os.fdopen(slave, "w", encoding="utf-8") as stream:
        plain = look_of(stream, {"TERM": "xterm"})
        assert (plain.tty, plain.colour, plain.draws, plain.width) == (True, True, True, 57)
        ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 44, 0, 0))
        assert plain.width == 44, "a resize is seen"
        assert plain.paint("x", "red") == "\x1b[31mx\x1b[0m"
        assert look_of(stream, {"NO_COLOR": "1"}).paint("x", "red") == "x"
        assert look_of(stream, {"NO_COLOR": "1"}).tty
        assert look_of(stream, {"NO_COLOR": ""}).colour, "an empty NO_COLOR asks for nothing"
        dumb = look_of(stream, {"TERM": "dumb"})
        assert (dumb.tty, dumb.colour, dumb.draws) == (True, False, False)
    os.close(master)


def test_nothing_written_starts_no_thread() -> None:
    before = threading.active_count()
    out = Output(sys.__stdout__)  # type: ignore[arg-type]
    assert out.drain()
    out.close()
    assert threading.active_count() == before
