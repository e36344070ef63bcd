"""The job tools on real parts: what the model sees, what the record says, and what is bounded (BND-14, QLT-12)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sandbox.conftest import why_no_sandbox
from tests.sandbox.kit import alive, tag
from tests.tools.kit import SECRET, Bench, Workshop

from drawbar.contracts.tool import ToolCall
from drawbar.tools.job_record import END_BYTES, JobRecord

pytestmark = pytest.mark.skipif(why_no_sandbox() is not None, reason="no sandbox can be had here")


async def ended(bench: Bench, job: str = "j1") -> str:
    """What the job's answers show, up to the one that says that it ended."""
    shown = ""
    for _ in range(60):
        shown += await bench.text("job_output", job=job, wait=1)
        if "ended" in shown:
            return shown
    raise AssertionError("the job did not end")


@pytest.mark.clause("BND-14", "ENG-6")
async def test_from_start_to_end(workshop: Workshop) -> None:
    bench = workshop.bench(files={"go.sh": "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 3\n"})
    begun = await bench.call("bash", command="bash go.sh", background=True)
    assert not begun.is_error
    assert "job j1" in begun.joined
    assert "one" in begun.joined, "what it says at once is shown at once"
    assert "[no new output]" in await bench.text("job_output", job="j1")
    assert await bench.text("bash", command="touch go; echo beside") == "beside"
    last = await ended(bench)
    assert "two" in last
    assert "one" not in last, "only what is new"
    assert "exit code 3" in last
    assert "one\ntwo" in await bench.text("job_output", job="j1", since=0)
    assert (await bench.text("job_output", job="j1", tail=1)).startswith("two\n")


@pytest.mark.clause("BND-14", "CON-9")
async def test_the_record_shows_when_and_how_it_ended(workshop: Workshop) -> None:
    bench = workshop.bench()
    await bench.call("bash", command="echo out; exit 4", background=True)
    await ended(bench)
    (notice,) = bench.events("extension.notice")
    assert notice.code == "job_ended"
    assert notice.details["exit_code"] == 4
    assert notice.details["job"] == "j1"
    assert notice.details["call_id"] == "c0"
    (artifact,) = bench.events("artifact.added")
    assert (bench.folder / artifact.path).read_text() == "out\n"
    assert (bench.folder / artifact.path).stat().st_mode & 0o777 == 0o600
    assert bench.types().count("tool.completed") >= 2


@pytest.mark.clause("BND-14", "RUN-10", "QLT-12")
async def test_the_end_of_the_run_ends_and_records_it(workshop: Workshop) -> None:
    bench = workshop.bench()
    sleeper = tag()
    await bench.call("bash", command=f"trap '' TERM; sleep {sleeper}; sleep {sleeper}", background=True)
    await bench.runner.close()
    assert alive(sleeper) == []
    (notice,) = bench.events("extension.notice")
    assert notice.details["cause"] == "aborted"


@pytest.mark.clause("BND-14", "ENG-6")
async def test_stopping_and_names_that_are_wrong(workshop: Workshop) -> None:
    bench = workshop.bench()
    none = await bench.call("job_stop", job="j1")
    assert none.is_error
    assert "background: true" in none.joined
    sleeper = tag()
    await bench.call("bash", command=f"echo up; sleep {sleeper}", background=True)
    stopped = await bench.text("job_stop", job="j1")
    assert "stopped" in stopped
    assert alive(sleeper) == []
    assert "had already ended" in await bench.text("job_stop", job="j1")
    wrong = await bench.call("job_output", job="j7")
    assert wrong.is_error
    assert "j1 ended" in wrong.joined, "the answer names the jobs there are"
    both = await bench.call("job_output", job="j1", since=0, tail=3)
    assert both.is_error


@pytest.mark.clause("BND-14", "BND-9")
async def test_outside_is_no_place_for_a_job(workshop: Workshop) -> None:
    bench = workshop.bench()
    result = await bench.call("bash", command="touch ran", background=True, scope="outside")
    assert result.is_error
    assert "background" in result.joined
    assert not (bench.root / "ran").exists()


@pytest.mark.clause("BND-14", "QLT-12")
async def test_a_flood_is_bounded_and_can_be_paged(workshop: Workshop) -> None:
    bench = workshop.bench()
    await bench.call("bash", command="seq 1 200000", background=True)
    await ended(bench)
    shown = await bench.call("job_output", job="j1", tail=5)
    assert shown.joined.startswith("199996\n")
    pieces: list[str] = []
    at = 0
    while True:
        result = await bench.call("job_output", job="j1", since=at)
        assert len(result.joined.encode()) <= 52 * 1024
        assert result.details is not None
        pieces.append(result.joined.split("\n\n[")[0])
        if result.details["next"] <= at or "more: go on" not in result.joined:
            break
        at = result.details["next"]
    assert "\n".join(pieces).split() == [str(n) for n in range(1, 200001)]


@pytest.mark.clause("QLT-20", "BND-14")
async def test_no_secret_reaches_the_disk(workshop: Workshop) -> None:
    halves = f"printf %s '{SECRET[:7]}'; sleep 0.3; echo '{SECRET[7:]}'; sleep 60\n"
    bench = workshop.bench(files={"s.sh": halves})
    await bench.call("bash", command="bash s.sh", background=True)
    await asyncio.sleep(0.8)
    shown = await bench.text("job_output", job="j1", since=0)
    assert SECRET not in shown
    assert shown.startswith("["), "it was there, and something stands in its place"
    assert not shown.startswith("[no new output]")
    await bench.runner.close()
    for path in bench.folder.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


@pytest.mark.clause("BND-14")
async def test_waiting_ends_with_the_first_news(workshop: Workshop) -> None:
    bench = workshop.bench()
    await bench.call("bash", command="sleep 1; echo news; sleep 60", background=True)
    started = time.monotonic()
    assert "news" in await bench.text("job_output", job="j1", wait=20)
    assert time.monotonic() - started < 5
    assert "[no new output]" in await bench.text("job_output", job="j1", wait=0.2)


@pytest.mark.clause("BND-14")
async def test_a_command_that_can_not_be_started_is_said(workshop: Workshop) -> None:
    bench = workshop.bench()
    result = await bench.call("bash", command="no-such-program-at-all", background=True)
    assert "exit code 127" in result.joined
    too_long = await bench.call("bash", command="true " + "x" * 140_000, background=True)
    assert too_long.is_error
    assert "too long" in too_long.joined


@pytest.mark.clause("BND-14", "BND-3")
async def test_interrupting_a_call_leaves_jobs_alone(workshop: Workshop) -> None:
    bench = workshop.bench()
    sleeper = tag()
    await bench.call("bash", command=f"sleep {sleeper}", background=True)
    call = asyncio.create_task(bench.execute(ToolCall("c9", "bash", {"command": "sleep 60"}, "e")))
    await asyncio.sleep(0.4)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert alive(sleeper) != []
    assert "running" in await bench.text("job_output", job="j1")


class _Folder:
    """Stands for the run's artifacts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def path(self, name: str) -> Path:
        self.count += 1
        return self.folder / f"{self.count}-{name}"

    def added(self, path: Path, **_rest: object) -> str:
        return path.name


@pytest.mark.clause("QLT-12", "BND-14")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(max_size=400), max_size=30), st.integers(0, 3000), st.integers(4, 500))
async def test_pages_join_to_the_whole(tmp_path: Path, texts: list[str], cap: int, limit: int) -> None:
    record = JobRecord(_Folder(tmp_path), "x.log", None, cap_bytes=cap)  # pyright: ignore[reportArgumentType]
    for text in texts:
        record.feed(text)
    record.finish()
    whole, at = "", 0
    while at < record.total:
        part = record.read(at, limit)
        assert part.end > at
        assert part.start == at, "all of it fits into file and memory"
        whole += part.text
        at = part.end
    assert len(whole.encode()) == record.total
    assert record.path is not None
    kept = record.path.read_bytes()
    assert len(kept) <= cap
    assert whole.encode().startswith(kept)
    record.discard()


@pytest.mark.clause("QLT-12", "BND-14")
async def test_what_no_file_holds_is_held_at_its_end(tmp_path: Path) -> None:
    record = JobRecord(_Folder(tmp_path), "x.log", None, cap_bytes=10)  # pyright: ignore[reportArgumentType]
    for number in range(100_000):
        record.feed(f"{number}\n")
    part = record.read(0, 100)
    assert part.text == "0\n1\n2\n3\n4\n"
    late = record.read(20, 100)
    assert late.start >= record.total - 2 * END_BYTES, "what is kept no more is skipped, and the part says so"
    record.discard()
