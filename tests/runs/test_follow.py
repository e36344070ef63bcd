"""Followers read the file, from any place, and see nothing that is not on disk."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from drawbar.contracts.errors import DrawbarError
from drawbar.runs.follow import Wake, follow_lines


def line(seq: int, kind: str = "extension.notice", payload: str = "{}") -> bytes:
    return f'{{"seq":{seq},"at":"","type":"{kind}","payload":{payload},"chain":""}}\n'.encode()


async def collect(path: Path, from_seq: int = 0, wake: Wake | None = None, over: bool = True) -> list[int]:
    return [e.seq async for e, _ in follow_lines(path, from_seq=from_seq, ended=lambda: over, wake=wake)]


@pytest.mark.clause("API-2")
async def test_a_settled_log_is_read_from_any_seq_to_its_seal(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_bytes(b"".join(line(i) for i in range(5)) + line(5, "completed") + line(6))
    assert await collect(log) == [0, 1, 2, 3, 4, 5]
    assert await collect(log, from_seq=4) == [4, 5]


@pytest.mark.clause("API-2", "CON-12")
async def test_the_bytes_relayed_are_the_bytes_written(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    written = [line(0), line(1, payload='{"z": 1,  "a":2}'), line(2, "failed")]
    log.write_bytes(b"".join(written))
    got = [raw + b"\n" async for _, raw in follow_lines(log, from_seq=0, ended=lambda: True, wake=None)]
    assert got == written


@pytest.mark.clause("API-2", "CON-12")
@pytest.mark.parametrize("woken", [True, False])
async def test_lines_arrive_as_they_are_written_and_never_before_their_end(tmp_path: Path, woken: bool) -> None:
    log = tmp_path / "events.jsonl"
    log.write_bytes(b"")
    wake = Wake() if woken else None
    got: list[tuple[int, float]] = []

    async def follow() -> None:
        async for event, _ in follow_lines(log, from_seq=0, ended=lambda: False, wake=wake):
            got.append((event.seq, time.monotonic()))

    task = asyncio.create_task(follow())
    await asyncio.sleep(0.05)
    fd = os.open(log, os.O_WRONLY | os.O_APPEND)
    first = line(0)
    os.write(fd, first[:10])
    await asyncio.sleep(0.1)
    assert got == []
    written = time.monotonic()
    os.write(fd, first[10:])
    if wake:
        wake.notify()
    while not got:
        await asyncio.sleep(0.001)
    assert got[0][1] - written < 0.2
    os.write(fd, line(1, "status.changed", '{"from":"running","to":"interrupted"}'))
    if wake:
        wake.notify()
    await asyncio.wait_for(task, 5)
    assert [seq for seq, _ in got] == [0, 1]
    os.close(fd)


@pytest.mark.clause("QLT-5", "API-2")
async def test_damage_in_the_middle_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_bytes(line(0) + b"\x00" * 50 + b"\n" + b"{half\n" + b"\xff\xfe\n" + line(3) + b'{"seq":4,"torn')
    assert await collect(log) == [0, 3]


@pytest.mark.clause("CON-15", "API-2")
async def test_a_line_of_many_megabytes_costs_its_size_once(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    big = '{"message":"' + "x" * (32 * 1024 * 1024) + '"}'
    log.write_bytes(line(0, payload=big) + line(1, "completed"))
    began = time.monotonic()
    assert await collect(log) == [0, 1]
    assert time.monotonic() - began < 10


@pytest.mark.clause("QLT-5", "API-2")
async def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "events.jsonl")
    with pytest.raises(DrawbarError, match=r"events\.jsonl"):
        await asyncio.wait_for(collect(tmp_path / "events.jsonl"), 5)
