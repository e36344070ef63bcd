"""What recording an event costs: validate, redact, chain, persist, relay (PRF-3).

usage: benchmarks/events.py [--json]

CPU time of this process, the best of several rounds. Listeners are a socket that another process reads. The bare
parts (encode, strict decode, hash, write, without any of the rules) are the measure that any machine has.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from drawbar.contracts.clock import SystemClock
from drawbar.contracts.codec import decoder, encode
from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.lifecycle import Started, StatusChanged
from drawbar.contracts.events.message import MessageDelta
from drawbar.contracts.events.tool import ToolCompleted
from drawbar.contracts.events.usage import RequestUsage, Usage, UsageUpdated
from drawbar.stores.event_log import EventLog, Listener
from drawbar.stores.event_reader import read_events
from drawbar.stores.redaction import SecretRedactor
from drawbar.stores.verify import verify_run

RUN = "r_01jd00000000000000000000aa"
EVENTS = 20_000
ROUNDS = 5
DELTA_CHARACTERS = 512

RATE_LIMIT = 35_000
"""PRF-3: events per second on one core."""
DELTA_LIMIT_US = 20.0
"""PRF-3: per coalesced delta."""
READ_LIMIT_S = 0.5
"""PRF-4: a run of 100,000 events, opened to its end."""

DRAIN = "import socket, sys\ns = socket.socket(fileno=0)\nwhile s.recv(1 << 20): pass"
_WORDS = ["def", "return", "the", "value", "path", "import", "test", "if", "error", "(self)", "=", "->", "None"]


def prose(characters: int, seed: int = 7) -> str:
    """Text like a model's, different for each ``seed``."""
    draw = random.Random(seed)
    text = ""
    while len(text) < characters:
        text += draw.choice(_WORDS) + " "
    return text[:characters]


def mixture() -> list[Payload]:
    """The events of a turn, most of them deltas; 16 different ones."""
    deltas = [MessageDelta(message_id="m_1", block=0, kind="text", text=prose(40 * n, n)) for n in range(1, 13)]
    return [
        *deltas,
        MessageDelta(message_id="m_1", block=1, kind="tool_input", text='{"command": "pytest -q tests'),
        ToolCompleted(call_id="toolu_01", cause="ok", exit_code=0, duration_ms=12, preview=prose(400), entry_id="e1"),
        UsageUpdated(totals=Usage(input_tokens=10, output_tokens=5), requests=1, request=RequestUsage(request=1)),
        ToolCompleted(call_id="toolu_02", cause="error", exit_code=1, duration_ms=3, preview=prose(900), entry_id="e2"),
    ]


@contextmanager
def drained() -> Iterator[socket.socket]:
    """A socket whose other end another process reads."""
    mine, other = socket.socketpair()
    reader = subprocess.Popen([sys.executable, "-c", DRAIN], stdin=other.fileno())
    other.close()
    try:
        yield mine
    finally:
        mine.close()
        reader.wait()


@contextmanager
def opened(relay: Listener | None) -> Iterator[EventLog]:
    with tempfile.TemporaryDirectory(prefix="drawbar-bench-") as folder:
        redactor = SecretRedactor((f"{number:02d}" + "s3cr3t" * 6, f"account-{number}") for number in range(20))
        log = EventLog.create(Path(folder), RUN, redactor=redactor, clock=SystemClock(), relay=relay)
        log.append(Started(run_id=RUN))
        log.append(StatusChanged(to="running"))
        yield log
        log.close()


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def appended(payloads: list[Payload], per_turn: int) -> float:
    """CPU microseconds an event, ``per_turn`` of them in each turn of the event loop."""
    with drained() as out:

        def relay(batch: list[bytes]) -> None:
            out.sendall(b"".join(batch))

        async def work(log: EventLog) -> None:
            count = len(payloads)
            for start in range(0, EVENTS, per_turn):
                for number in range(start, start + per_turn):
                    log.append(payloads[number % count])
                await asyncio.sleep(0)

        with opened(relay) as log:
            log.append(payloads[0])
            return cpu(lambda: asyncio.run(work(log))) / EVENTS * 1e6


def bare(payloads: list[Payload]) -> float:
    """CPU microseconds an event for the parts alone."""
    decoders = {type(payload): decoder(type(payload)) for payload in payloads}
    with tempfile.TemporaryDirectory(prefix="drawbar-bench-") as folder:
        fd = os.open(Path(folder, "f"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)

        def work() -> None:
            chain = b"0" * 64
            for number in range(EVENTS):
                payload = payloads[number % len(payloads)]
                body = encode(payload)
                decoders[type(payload)].decode(body)
                chain = hashlib.sha256(chain + body).hexdigest().encode()
                os.write(fd, body + chain + b"\n")

        try:
            return cpu(work) / EVENTS * 1e6
        finally:
            os.close(fd)


def durable(rounds: int = 200) -> float:
    """Milliseconds until a person's answer is on the disk and relayed."""
    from drawbar.contracts.events.human import ApprovalResolved

    async def work(log: EventLog) -> float:
        start = time.perf_counter()
        for number in range(rounds):
            await log.append_durable(ApprovalResolved(approval_id=f"a_{number}", decision="once", by="person"))
        return (time.perf_counter() - start) / rounds * 1e3

    with opened(lambda _batch: None) as log:
        return asyncio.run(work(log))


def reading() -> tuple[float, float]:
    """CPU seconds to read a log of 100,000 events to its end, and to verify it."""
    with tempfile.TemporaryDirectory(prefix="drawbar-bench-") as name:
        log = EventLog.create(Path(name), RUN, redactor=SecretRedactor(), clock=SystemClock())
        payloads = mixture()
        for number in range(100_000):
            log.append(payloads[number % len(payloads)])
        log.close()
        return cpu(lambda: sum(1 for _ in read_events(log.path))), cpu(lambda: verify_run(Path(name)))


def measure() -> dict[str, float]:
    """Every figure by name."""
    mixed = mixture()
    delta: list[Payload] = [
        MessageDelta(message_id="m_1", block=0, kind="text", text=prose(DELTA_CHARACTERS, seed)) for seed in range(16)
    ]
    best = dict.fromkeys(("parts", "batched", "single", "delta"), float("inf"))
    for _ in range(ROUNDS):
        best["parts"] = min(best["parts"], bare(mixed))
        best["batched"] = min(best["batched"], appended(mixed, 32))
        best["single"] = min(best["single"], appended(mixed, 1))
        best["delta"] = min(best["delta"], appended(delta, 1))
    read_s, verify_s = reading()
    return {
        "events_per_s": 1e6 / best["batched"],
        "event_us": best["batched"],
        "event_alone_in_its_turn_us": best["single"],
        "coalesced_delta_us": best["delta"],
        "bare_parts_us": best["parts"],
        "event_over_bare_ratio": best["batched"] / best["parts"],
        "durable_answer_ms": durable(),
        "read_100000_s": read_s,
        "verify_100000_s": verify_s,
    }


def main() -> int:
    """Print the figures; exit 1 when a limit is passed."""
    figures = measure()
    limits = {"coalesced_delta_us": DELTA_LIMIT_US, "read_100000_s": READ_LIMIT_S}
    if "--json" not in sys.argv:
        for name, value in figures.items():
            bound = f"  (at most {limits[name]:g})" if name in limits else ""
            bound = f"  (at least {RATE_LIMIT})" if name == "events_per_s" else bound
            print(f"{name:28} {value:12.3f}{bound}")
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))
    return int(figures["events_per_s"] < RATE_LIMIT or any(figures[name] > limit for name, limit in limits.items()))


if __name__ == "__main__":
    sys.exit(main())
