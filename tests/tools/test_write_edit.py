"""``write`` and ``edit``: only what was said changes, onto the version the model knows (QLT-10, BND-7)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from tests.tools.kit import SECRET, Workshop

from drawbar.contracts.tool import ToolCall

BUGS = Path(__file__).parent.parent / "fixtures" / "bugs"


@pytest.mark.clause("ENG-6", "BND-7")
async def test_a_new_file_with_missing_folders(workshop: Workshop) -> None:
    bench = workshop.bench()
    result = await bench.call("write", path="a/b/c.txt", content="one\ntwo\n")
    assert result.joined == "Created a/b/c.txt: 2 lines, 8 bytes."
    assert (bench.root / "a/b/c.txt").read_bytes() == b"one\ntwo\n"


@pytest.mark.clause("QLT-10")
async def test_an_existing_file_that_was_never_read_is_not_overwritten(workshop: Workshop) -> None:
    bench = workshop.bench(files={"a.txt": "theirs\n"})
    result = await bench.call("write", path="a.txt", content="mine\n")
    assert result.is_error
    assert "Read it first" in result.joined
    assert (bench.root / "a.txt").read_text() == "theirs\n"
    await bench.call("read", path="a.txt")
    result = await bench.call("write", path="a.txt", content="mine\n")
    assert result.joined == "Replaced a.txt: 1 line, 5 bytes."
    assert result.details == {"diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-theirs\n+mine\n", "firstChangedLine": 1}


@pytest.mark.clause("QLT-10")
@pytest.mark.bug("EDT-06")
async def test_a_write_from_an_old_read_is_refused_with_what_is_there_now(workshop: Workshop) -> None:
    bench = workshop.bench(files={"file.txt": "alpha\nbeta\ngamma\n"})
    await bench.call("read", path="file.txt")
    with (bench.root / "file.txt").open("a") as file:
        file.write("delta\n")
    result = await bench.call("write", path="file.txt", content="alpha\nBETA\ngamma\n")
    assert result.is_error
    assert "alpha\nbeta\ngamma\ndelta\n" in result.joined
    assert (bench.root / "file.txt").read_text() == "alpha\nbeta\ngamma\ndelta\n"
    assert bench.events("file.changed") == []
    # What was shown whole counts as read, so the next one is based on it.
    result = await bench.call("write", path="file.txt", content="alpha\nBETA\ngamma\ndelta\n")
    assert not result.is_error


@pytest.mark.clause("QLT-10")
@pytest.mark.bug("EDT-06")
async def test_an_edit_from_an_old_read_is_refused_with_the_place_as_it_is_now(workshop: Workshop) -> None:
    bench = workshop.bench(files={"a.py": "".join(f"x{n} = {n}\n" for n in range(500))})
    await bench.call("read", path="a.py")
    await bench.call("bash", command="sed -i 's/^x400 = 400$/x400 = 4_00/' a.py")
    edits = [{"oldText": "x401 = 401\n", "newText": "x401 = 0\n"}]
    result = await bench.call("edit", path="a.py", edits=edits)
    assert result.is_error
    assert "x400 = 4_00\nx401 = 401\n" in result.joined
    assert "x7 = 7\n" not in result.joined
    assert "x401 = 401\n" in (bench.root / "a.py").read_text()
    assert not (await bench.call("edit", path="a.py", edits=edits)).is_error
    assert "x400 = 4_00\nx401 = 0\n" in (bench.root / "a.py").read_text()


@pytest.mark.clause("QLT-10")
async def test_a_file_that_is_gone_and_one_that_came_meanwhile(workshop: Workshop) -> None:
    bench = workshop.bench(files={"a.txt": "a\n"})
    await bench.call("read", path="a.txt")
    (bench.root / "a.txt").unlink()
    assert "not there any more" in await bench.text("write", path="a.txt", content="b\n")
    assert not (await bench.call("write", path="a.txt", content="b\n")).is_error


@pytest.mark.clause("QLT-10")
async def test_a_chain_of_changes_needs_no_reading_in_between(workshop: Workshop) -> None:
    bench = workshop.bench()
    assert not (await bench.call("write", path="a.txt", content="one\ntwo\n")).is_error
    assert not (await bench.call("edit", path="a.txt", edits=[{"oldText": "one", "newText": "1"}])).is_error
    assert not (await bench.call("write", path="a.txt", content="three\n")).is_error
    assert [event.change for event in bench.events("file.changed")] == ["created", "modified", "modified"]
    changes = bench.events("file.changed")
    assert [change.before for change in changes[1:]] == [change.after for change in changes[:-1]]


async def test_writing_what_is_there_changes_nothing(workshop: Workshop) -> None:
    bench = workshop.bench(files={"a.txt": "a\n"})
    await bench.call("read", path="a.txt")
    before = (bench.root / "a.txt").stat()
    assert "nothing was written" in await bench.text("write", path="a.txt", content="a\n")
    assert (bench.root / "a.txt").stat().st_ino == before.st_ino
    assert bench.events("file.changed") == []


@pytest.mark.clause("QLT-10", "ENG-6")
@pytest.mark.bug("EDT-01", "EDT-02", "EDT-03")
@pytest.mark.parametrize("bug", ["EDT-01", "EDT-02", "EDT-03"])
async def test_reported_line_end_failures(workshop: Workshop, bug: str) -> None:
    folder = BUGS / bug
    edit = json.loads((folder / "edit.json").read_text())
    bench = workshop.bench(files={"file.txt": (folder / "file.txt").read_bytes()})
    await bench.call("read", path="file.txt")
    result = await bench.call("edit", path="file.txt", edits=[{"oldText": edit["old"], "newText": edit["new"]}])
    assert not result.is_error, result.joined
    assert (bench.root / "file.txt").read_bytes() == (folder / "after.txt").read_bytes()


@pytest.mark.clause("QLT-10")
@pytest.mark.bug("EDT-09")
async def test_a_failed_edit_leaves_the_file_to_the_byte(workshop: Workshop) -> None:
    bench = workshop.bench(files={"file.txt": b"one\r\ntwo\r\nthree\r\n"})
    result = await bench.call(
        "edit",
        path="file.txt",
        edits=[{"oldText": "two\n", "newText": "TWO\n"}, {"oldText": "four", "newText": "4"}],
    )
    assert result.is_error
    assert "edit 2 of 2" in result.joined
    assert (bench.root / "file.txt").read_bytes() == b"one\r\ntwo\r\nthree\r\n"
    assert bench.events("file.changed") == []
    await bench.call("edit", path="file.txt", edits=[{"oldText": "two\n", "newText": "TWO\n"}])
    assert (bench.root / "file.txt").read_bytes() == b"one\r\nTWO\r\nthree\r\n"


@pytest.mark.clause("QLT-10", "CON-25")
async def test_the_reported_diff_applies_to_what_was_there(workshop: Workshop) -> None:
    old = "".join(f"line {n}\n" for n in range(40))
    bench = workshop.bench(files={"a.txt": old})
    result = await bench.call(
        "edit",
        path="a.txt",
        edits=[{"oldText": "line 3\n", "newText": "line three\n"}, {"oldText": "line 30\n", "newText": ""}],
    )
    assert result.joined == "Edited a.txt: 2 replacements, from line 4 on."
    assert result.details is not None
    (bench.folder / "copy.txt").write_text(old)
    patch = ["patch", "-s", "copy.txt"]
    await asyncio.to_thread(
        subprocess.run, patch, input=result.details["diff"], text=True, cwd=bench.folder, check=True
    )
    assert (bench.folder / "copy.txt").read_text() == (bench.root / "a.txt").read_text()
    (changed,) = bench.events("file.changed")
    assert changed.before == hashlib.sha256(old.encode()).hexdigest()
    assert changed.after == hashlib.sha256((bench.root / "a.txt").read_bytes()).hexdigest()


@pytest.mark.clause("QLT-10", "CON-38")
async def test_a_stand_in_for_a_secret_is_never_written_over_the_secret(workshop: Workshop) -> None:
    env = f"NAME=demo\nKEY={SECRET}\n"
    bench = workshop.bench(files={".env": env})
    seen = await bench.text("read", path=".env")
    assert seen == "NAME=demo\nKEY=[redacted:planted]\n"
    result = await bench.call("write", path=".env", content=seen.replace("demo", "live"))
    assert result.is_error
    edits = [{"oldText": "NAME=demo", "newText": "KEY=[redacted:planted]"}]
    assert (await bench.call("edit", path=".env", edits=edits)).is_error
    assert (bench.root / ".env").read_text() == env
    edits = [{"oldText": "NAME=demo", "newText": "NAME=live"}]
    assert not (await bench.call("edit", path=".env", edits=edits)).is_error
    assert (bench.root / ".env").read_text() == env.replace("demo", "live")


@pytest.mark.clause("ENG-6")
async def test_edit_says_what_to_do_where_there_is_nothing_to_edit(workshop: Workshop) -> None:
    bench = workshop.bench(files={"src/a.py": "x", "b.bin": b"\x7fELF\0\0"})
    edits = [{"oldText": "x", "newText": "y"}]
    assert "src/a.py" in await bench.text("edit", path="src/A.py", edits=edits)
    assert (await bench.call("edit", path="src", edits=edits)).is_error
    assert (await bench.call("edit", path="b.bin", edits=[{"oldText": "ELF", "newText": "x"}])).is_error
    assert (await bench.call("edit", path="src/a.py", edits=[])).is_error
    assert (bench.root / "b.bin").read_bytes() == b"\x7fELF\0\0"


@pytest.mark.clause("ENG-6", "ARC-3")
@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a.txt", "edits": [{"oldText": "a", "newText": "b", "all": True}]},
        {"path": "a.txt", "edits": [{"old": "a", "new": "b"}]},
        {"path": "a.txt", "edits": {"oldText": "a", "newText": "b"}},
        {"path": "a.txt", "oldText": "a", "newText": "b"},
        {"file_path": "a.txt", "edits": []},
    ],
)
async def test_arguments_are_strict(workshop: Workshop, arguments: dict[str, object]) -> None:
    bench = workshop.bench(files={"a.txt": "a"})
    (done,) = await bench.execute(ToolCall("c0", "edit", arguments))
    assert done.refused
    assert (bench.root / "a.txt").read_text() == "a"


@pytest.mark.clause("QLT-8", "QLT-12")
async def test_a_stop_during_a_write_leaves_disk_and_record_in_step(workshop: Workshop) -> None:
    bench = workshop.bench()
    for pause in (0.0, 0.001, 0.003, 0.01):
        name = f"f{pause}"
        call = ToolCall(f"c{len(bench.history)}", "write", {"path": name, "content": "x" * 100_000})
        task = asyncio.create_task(bench.execute(call))
        await asyncio.sleep(pause)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        written = (bench.root / name).exists()
        recorded = any(event.path == name for event in bench.events("file.changed"))
        assert written == recorded
        assert [path for path in bench.root.iterdir() if path.name.startswith(".")] == []


@pytest.mark.clause("BND-7")
async def test_git_folders_and_links_to_the_outside_are_refused(workshop: Workshop) -> None:
    bench = workshop.bench(files={".git/config": "[core]\n"})
    outside = workshop.folder / "outside.txt"
    outside.write_text("safe")
    (bench.root / "link").symlink_to(outside)
    await bench.call("read", path=".git/config")
    assert (await bench.call("write", path=".git/config", content="x")).is_error
    assert (await bench.call("write", path="link", content="x")).is_error
    assert (await bench.call("write", path="../new.txt", content="x")).is_error
    assert outside.read_text() == "safe"
    assert (bench.root / ".git/config").read_text() == "[core]\n"
