"""``read``: stretches, footers, versions, and what it says where there is no text to show (ENG-6, QLT-10)."""

from __future__ import annotations

import hashlib
import os
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tools.kit import Workshop

from drawbar.tools.files import chunks_of, excerpt

NUMBERED = "".join(f"line {number}\n" for number in range(1, 5001))


@pytest.mark.clause("ENG-6")
async def test_a_small_file_is_shown_as_it_is(workshop: Workshop) -> None:
    bench = workshop.bench(files={"a.py": "one\r\ntwo\n\tthree"})
    assert await bench.text("read", path="a.py") == "one\r\ntwo\n\tthree"


@pytest.mark.clause("ENG-6")
async def test_a_long_file_is_shown_from_its_head_with_how_to_go_on(workshop: Workshop) -> None:
    bench = workshop.bench(files={"a.txt": NUMBERED})
    text = await bench.text("read", path="a.txt")
    assert text.startswith("line 1\nline 2\n")
    assert text.endswith("line 2000\n\n[a.txt: lines 1-2,000 of 5,000 shown; use offset=2001 to go on]")
    text = await bench.text("read", path="a.txt", offset=4999)
    assert text == "line 4999\nline 5000\n"
    text = await bench.text("read", path="a.txt", offset=10, limit=2)
    assert text == "line 10\nline 11\n\n[a.txt: lines 10-11 of 5,000 shown; use offset=12 to go on]"


@pytest.mark.clause("ENG-6")
async def test_following_the_footers_shows_every_line_once(workshop: Workshop) -> None:
    lines = [f"{number} " + "x" * (number % 700) for number in range(600)]
    bench = workshop.bench(files={"a.txt": "\n".join(lines)})
    seen: list[str] = []
    offset = 1
    while offset:
        text = await bench.text("read", path="a.txt", offset=offset)
        body, _, footer = text.partition("\n\n[a.txt: ")
        assert len(text.encode()) < 51 * 1024
        seen += body.split("\n")
        offset = int(footer.rpartition("offset=")[2].split()[0]) if footer else 0
    assert seen == lines


@pytest.mark.clause("ENG-6")
async def test_an_offset_past_the_end_says_how_long_the_file_is(workshop: Workshop) -> None:
    bench = workshop.bench(files={"a.txt": "one\ntwo\n"})
    result = await bench.call("read", path="a.txt", offset=3)
    assert result.is_error
    assert "2 lines" in result.joined


@pytest.mark.clause("ENG-6", "QLT-12")
async def test_one_line_of_twelve_megabytes(workshop: Workshop) -> None:
    bench = workshop.bench(files={"min.js": b"a" * (12 << 20), "then.js": b"x" * 60_000 + b"\nlast\n"})
    tracemalloc.start()
    text = await bench.text("read", path="min.js")
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
    assert text.startswith("a" * 2000 + "\n\n[min.js: line 1 is 12.0 MB long")
    text = await bench.text("read", path="then.js")
    assert "use offset=2 to go on after it" in text
    assert await bench.text("read", path="then.js", offset=2) == "last\n"


@pytest.mark.bug("EDT-03")
async def test_a_byte_order_mark_is_not_shown(workshop: Workshop) -> None:
    bench = workshop.bench(files={"a.cs": b"\xef\xbb\xbfusing System;\r\nclass A {}\r\n"})
    assert await bench.text("read", path="a.cs") == "using System;\r\nclass A {}\r\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 20, ["PNG image", "28 bytes", "can't be shown"]),
        (b"GIF89a" + b"\0" * 20, ["GIF image"]),
        (b"\x7fELF\x02\x01" + b"\0" * 2000, ["ELF", "2.0 KB"]),
        (b"PK\x03\x04" + b"\0" * 30, ["ZIP archive"]),
        (b"\x00\x01\x02" * 50, ["binary file", "150 bytes"]),
        (bytes(range(128, 256)) * 4, ["binary file"]),
        ("\ufeffwide".encode("utf-16-le") + b"x", ["UTF-16 text", "iconv"]),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", ["PDF"]),
    ],
)
@pytest.mark.clause("ENG-6")
async def test_what_is_no_text_is_named_and_never_shown(workshop: Workshop, data: bytes, words: list[str]) -> None:
    bench = workshop.bench(files={"f.png": data})
    result = await bench.call("read", path="f.png")
    assert result.is_error
    assert all(word in result.joined for word in words)
    assert "\ufffd" not in result.joined


async def test_text_that_is_named_like_an_image_or_not_quite_utf8_is_text(workshop: Workshop) -> None:
    bench = workshop.bench(
        files={"notes.png": "just text\n", "latin.txt": b"caf\xe9 au lait\nplain\n", "BM.txt": "BMW\n"}
    )
    assert await bench.text("read", path="notes.png") == "just text\n"
    assert await bench.text("read", path="BM.txt") == "BMW\n"
    text = await bench.text("read", path="latin.txt")
    assert text.startswith("caf\ufffd au lait\nplain\n")
    assert "no UTF-8" in text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.clause("QLT-10")
async def test_wide_text_is_shown_and_edited_in_its_own_coding(workshop: Workshop, encoding: str) -> None:
    data = "\ufeffone é\r\ntwo\r\n".encode(encoding)
    bench = workshop.bench(files={"a.txt": data})
    assert await bench.text("read", path="a.txt") == "one é\r\ntwo\r\n"
    assert await bench.text("read", path="a.txt", offset=2) == "two\r\n"
    await bench.call("edit", path="a.txt", edits=[{"oldText": "two", "newText": "2"}])
    assert (bench.root / "a.txt").read_bytes() == "\ufeffone é\r\n2\r\n".encode(encoding)


@pytest.mark.clause("ENG-6")
async def test_folders_missing_files_and_near_names(workshop: Workshop) -> None:
    bench = workshop.bench(files={"src/executor.py": "x", "README.md": "x", "empty": ""})
    assert "Use ls" in await bench.text("read", path="src")
    assert "src/executor.py" in await bench.text("read", path="src/exectuor.py")
    assert "README.md" in await bench.text("read", path="readme.md")
    assert "src" in await bench.text("read", path="src/deep/er/x.py")
    assert "find" in await bench.text("read", path="qqqqqqqq.zz")
    assert await bench.text("read", path="empty") == "[empty is empty]"
    assert all(result.is_error for _call, result in bench.history[:-1])


@pytest.mark.clause("QLT-10")
async def test_what_was_read_is_the_version_that_counts(workshop: Workshop) -> None:
    bench = workshop.bench(files={"a.txt": NUMBERED})
    await bench.call("read", path="a.txt", offset=4000)
    key = str(bench.context.root.path / "a.txt")
    assert bench.context.read_versions == {key: hashlib.sha256(NUMBERED.encode()).hexdigest()}


@pytest.mark.clause("ENG-6")
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.sampled_from([b"", b"a", b"bc", b"x" * 70]), max_size=30),
    final=st.booleans(),
    first=st.integers(1, 32),
    keep=st.integers(4, 200),
)
def test_an_excerpt_is_what_splitting_the_whole_file_gives(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    final: bool,
    first: int,
    keep: int,
) -> None:
    data = b"\n".join(lines) + (b"\n" if final and lines else b"")
    path = tmp_path_factory.mktemp("excerpt") / "f"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drawbar.tools.files._CHUNK", 7)
        fd = os.open(path, os.O_RDONLY)
        try:
            found = excerpt(chunks_of(fd), first, keep=keep)
        finally:
            os.close(fd)
    split = data.split(b"\n")
    split = split if split[-1] else split[:-1]
    assert found.total_lines == len(split)
    assert found.size == len(data)
    assert found.sha256 == hashlib.sha256(data).hexdigest()
    rest = data.split(b"\n", first - 1)[first - 1] if data.count(b"\n") >= first - 1 else b""
    assert found.data == rest[:keep]
    assert found.line_bytes == len(rest.split(b"\n", 1)[0])
