"""``bash``: what the model gets of a command, whatever the command does (ENG-6, QLT-12, BND-18)."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from pathlib import Path

import pytest
from tests.tools.kit import SECRET, Workshop

from drawbar.stores.artifacts import RunArtifacts
from drawbar.stores.redaction import SecretRedactor
from drawbar.tools.bash import plain_output
from drawbar.tools.outputs import FullOutput


@pytest.mark.clause("ENG-6")
async def test_output_streams_come_together_and_success_says_no_more(workshop: Workshop) -> None:
    bench = workshop.bench()
    result = await bench.call("bash", command="echo out; echo err >&2; echo out again")
    assert result.joined == "out\nerr\nout again"
    assert (result.is_error, result.exit_code, result.cause) == (False, 0, "ok")
    assert (await bench.text("bash", command="true")) == "[no output]"


@pytest.mark.clause("ENG-6")
async def test_a_failure_shows_its_exit_code(workshop: Workshop) -> None:
    bench = workshop.bench()
    result = await bench.call("bash", command="echo no; exit 3")
    assert result.joined == "no\n\n[exit code 3]"
    assert (result.is_error, result.exit_code, result.cause) == (True, 3, "error")
    assert "ended by signal 9" in await bench.text("bash", command="kill -9 $$")
    (first, _second) = bench.events("tool.completed")
    assert (first.exit_code, first.cause) == (3, "error")


@pytest.mark.clause("ENG-6", "QLT-11")
async def test_each_command_starts_anew_in_the_working_directory_without_input(workshop: Workshop) -> None:
    bench = workshop.bench(files={"sub/x": "1"})
    assert await bench.text("bash", command="cd sub; X=1; pwd") == f"{bench.root}/sub"
    assert (
        await bench.text("bash", command='pwd; echo "[$X]"; cat; tty')
        == f"{bench.root}\n[]\nnot a tty\n\n[exit code 1]"
    )


@pytest.mark.clause("ENG-6", "QLT-12")
async def test_long_output_shows_its_beginning_and_above_all_its_end_and_is_kept_whole(workshop: Workshop) -> None:
    bench = workshop.bench()
    result = await bench.call("bash", command="seq 1 200000")
    text = result.joined
    assert len(text.encode()) <= 50 * 1024
    assert len(text.splitlines()) <= 2000
    assert text.startswith("1\n2\n3\n")
    assert "\n199999\n200000\n" in text
    assert "left out …]" in text
    assert "1.2 MB of output" in text
    assert result.artifact is not None
    kept = bench.folder / result.artifact
    assert kept.read_text() == "".join(f"{number}\n" for number in range(1, 200001))
    assert oct(kept.stat().st_mode & 0o777) == "0o600"
    (added,) = bench.events("artifact.added")
    (completed,) = bench.events("tool.completed")
    assert added.path == completed.artifact == result.artifact


@pytest.mark.clause("ENG-6")
async def test_many_short_lines_within_the_byte_bound_are_cut_and_kept_too(workshop: Workshop) -> None:
    bench = workshop.bench()
    result = await bench.call("bash", command="yes | head -n 5000")
    assert len(result.joined.splitlines()) <= 2000
    assert result.artifact is not None
    assert (bench.folder / result.artifact).read_text() == "y\n" * 5000


@pytest.mark.clause("QLT-20", "CON-31")
async def test_the_kept_output_is_redacted_like_the_result(workshop: Workshop) -> None:
    bench = workshop.bench()
    result = await bench.call("bash", command=f"seq 1 100000; echo key={SECRET}; seq 1 100000; printf '\\xff'")
    assert result.artifact is not None
    kept = (bench.folder / result.artifact).read_text("utf-8")
    assert SECRET not in kept
    assert "key=[redacted:planted]" in kept
    for path in bench.folder.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes()


@pytest.mark.clause("QLT-20", "RUN-10")
async def test_a_stop_leaves_no_secret_and_no_half_output_behind(workshop: Workshop) -> None:
    bench = workshop.bench()
    command = f"seq 1 50000; echo key={SECRET}; seq 1 50000; sleep 60"
    task = asyncio.create_task(bench.call("bash", command=command))
    seen: list[Path] = []
    for _ in range(100):
        await asyncio.sleep(0.02)
        seen = [path for path in bench.folder.rglob("*") if path.is_file()]
        assert all(SECRET.encode() not in path.read_bytes() for path in seen)
        if sum(path.stat().st_size for path in seen) > 600_000:
            break
    assert any(path.parent.name == "artifacts" for path in seen)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list((bench.folder / "artifacts").iterdir()) == []


@pytest.mark.clause("QLT-12")
async def test_an_output_that_can_not_be_kept_costs_the_artifact_not_the_result(workshop: Workshop) -> None:
    bench = workshop.bench()
    (bench.folder / "artifacts").write_text("no folder")
    result = await bench.call("bash", command="seq 1 200000")
    assert (result.is_error, result.artifact) == (False, None)
    assert "\n200000\n" in result.joined


@pytest.mark.clause("QLT-12")
def test_what_is_kept_of_an_output_has_a_cap(tmp_path: Path) -> None:
    artifacts = RunArtifacts(tmp_path, lambda _event: None)
    faults: list[Exception] = []
    full = FullOutput(artifacts, "a/b.log", "c1", SecretRedactor([]), faults.append, cap_bytes=100_000)
    for _ in range(30):
        full.feed("é" * 5000)
    kept = full.keep()
    assert kept == "artifacts/a-b.log"
    assert (tmp_path / kept).stat().st_size == 100_000
    full.discard()
    assert (tmp_path / kept).exists()
    assert faults == []


@pytest.mark.clause("BND-18", "QLT-12")
@pytest.mark.bug("PRC-04")
async def test_a_command_over_its_limit_is_ended_and_the_reply_goes_on(workshop: Workshop) -> None:
    bench = workshop.bench()
    began = time.monotonic()
    result = await bench.call("bash", command="echo begun; sleep 60 & sleep 60", timeout=0.5)
    assert time.monotonic() - began < 6
    assert result.cause == "timeout"
    assert result.joined.startswith("begun\n\n[timed out after 0.5 s")
    assert "timeout" in result.joined
    assert await bench.text("bash", command="echo next") == "next"


@pytest.mark.clause("BND-18")
@pytest.mark.parametrize("timeout", [0, -1, 1681, 1e9, "60", True])
async def test_a_limit_out_of_bounds_is_refused(workshop: Workshop, timeout: object) -> None:
    bench = workshop.bench()
    result = await bench.call("bash", command="touch ran", timeout=timeout)
    assert result.is_error
    assert "timeout" in result.joined
    assert not (bench.root / "ran").exists()


@pytest.mark.clause("BND-18")
def test_the_limits_are_ten_minutes_and_twenty_eight() -> None:
    from drawbar.tools.bash import BashTool

    assert (BashTool.spec.limit_s, BashTool.spec.limit_max_s) == (600, 1680)


@pytest.mark.clause("QLT-12")
@pytest.mark.bug("PRC-01", "PRC-03")
@pytest.mark.parametrize(
    "command",
    [
        "sleep 45 & echo done",
        "nohup sleep 45 >/dev/null 2>&1 & echo done",
        "(trap '' TERM INT HUP; sleep 45) & echo done",
        "setsid sleep 45 & echo done",
    ],
)
async def test_what_a_command_leaves_running_neither_delays_nor_outlives_it(workshop: Workshop, command: str) -> None:
    bench = workshop.bench()
    began = time.monotonic()
    text = await bench.text("bash", command=command)
    assert time.monotonic() - began < 6
    assert text.startswith("done")


@pytest.mark.clause("QLT-12", "RUN-10")
async def test_a_stop_ends_the_command_and_all_it_started(workshop: Workshop) -> None:
    bench = workshop.bench()
    task = asyncio.create_task(bench.call("bash", command="(sleep 60; touch late) & sleep 60"))
    await asyncio.sleep(1)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 2.5
    ((_call, result),) = bench.history
    assert (result.cause, result.is_error) == ("aborted", True)
    assert bench.events("tool.completed")[0].cause == "aborted"


@pytest.mark.clause("QLT-12")
@pytest.mark.bug("PRC-08")
async def test_bytes_that_are_no_text_are_replaced(workshop: Workshop) -> None:
    bench = workshop.bench()
    result = await bench.call("bash", command=r"printf 'ok start\n\xff\xfe latin \xe9 \xf0( nul:\0 end\n'")
    assert result.joined == "ok start\n\ufffd\ufffd latin \ufffd \ufffd( nul: end"
    (bench.folder / "events.jsonl").read_bytes().decode("utf-8")


@pytest.mark.slow
@pytest.mark.clause("QLT-12")
@pytest.mark.bug("PRC-06")
async def test_a_flood_costs_bounded_memory_and_both_ends_are_kept(workshop: Workshop) -> None:
    bench = workshop.bench()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = await bench.text(
        "bash", command="echo FIRST-LINE; head -c 1G /dev/zero | tr '\\0' 'y'; echo; echo LAST-LINE"
    )
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) / 1024 < 64
    assert text.startswith("FIRST-LINE")
    assert "LAST-LINE" in text
    assert "1.0 GB" in text


@pytest.mark.clause("ENG-6")
async def test_live_output_arrives_while_the_command_runs(workshop: Workshop) -> None:
    bench = workshop.bench()
    task = asyncio.create_task(bench.call("bash", command="echo early; sleep 1.5; echo late"))
    await asyncio.sleep(0.9)
    assert [delta.text for delta in bench.events("tool.delta")] == ["early\n"]
    await task
    assert "".join(delta.text for delta in bench.events("tool.delta")) == "early\nlate\n"


@pytest.mark.clause("BND-9")
async def test_the_scope_that_was_asked_for_is_the_one_that_holds(workshop: Workshop) -> None:
    bench = workshop.bench()
    assert (await bench.call("bash", command="touch x", scope="read-only")).is_error
    assert not (bench.root / "x").exists()
    assert not (await bench.call("bash", command="touch x", scope="workspace")).is_error
    assert (await bench.call("bash", command="touch y", scope="outside")).is_error
    assert [event.scope for event in bench.events("tool.started")] == ["read-only", "workspace"]
    assert not (bench.root / "y").exists()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[31mred\x1b[0m\n", "red\n"),
        ("\x1b]0;title\x07text", "text"),
        ("10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
        ("a\tb\x08c\x00", "a\tbc"),
        ("plain", "plain"),
    ],
)
def test_what_a_terminal_would_act_on_is_left_out(raw: str, text: str) -> None:
    assert plain_output(raw) == text


@pytest.mark.clause("CON-34")
async def test_the_command_runs_only_once_its_start_is_recorded(workshop: Workshop) -> None:
    bench = workshop.bench()
    log = bench.folder / "events.jsonl"
    assert os.access(log, os.R_OK)
    await bench.call("bash", command="echo hello")
    types = bench.types()
    assert types.index("tool.started") < types.index("tool.delta") < types.index("tool.completed")
