"""What redaction costs per event and per streamed piece: ``python benchmarks/redaction.py [--json]`` (PRF-3, PRF-9).

Prints microseconds, the best of several rounds, as a table and as JSON.
"""

from __future__ import annotations

import json
import random
import string
import sys
import time
from collections.abc import Callable

from drawbar.contracts.codec import encode
from drawbar.contracts.events.tool import ToolCompleted
from drawbar.stores.redaction import SecretRedactor, redact_payload

SECRETS = 20
BYTES = 600
LIMIT_US = 3.0
"""CON-33: for a clean event of 600 bytes."""

_PROSE = (
    "def main(argv):\n    parser = build(argv)\n    for item in parser.items:\n        print(item.name, item.value)\n"
    "# the quick brown fox, and tasks are listed: 12 passed, 3 skipped in 4.56 s\n"
)


def microseconds(action: Callable[[], object], rounds: int = 15, calls: int = 2000) -> float:
    """The best mean time of ``action`` over ``rounds``."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            action()
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


def sample(size: int = BYTES, planted: str = "") -> ToolCompleted:
    """A tool's result whose encoding has ``size`` bytes."""
    text, preview = _PROSE * (size // len(_PROSE) + 1), planted
    while len(encode(_result(preview))) < size:
        preview = text[: len(preview) - len(planted) + 1] + planted
    return _result(preview)


def _result(preview: str) -> ToolCompleted:
    return ToolCompleted(call_id="toolu_01AbCdEf", cause="ok", exit_code=0, duration_ms=12, preview=preview)


def redactor(secrets: int = SECRETS) -> SecretRedactor:
    """One that knows ``secrets`` random values."""
    draw = random.Random(7)
    letters = string.ascii_letters + string.digits
    return SecretRedactor(("".join(draw.choices(letters, k=40)), f"account-{number}") for number in range(secrets))


def measure() -> dict[str, float]:
    """Every figure by name, in microseconds."""
    subject = redactor()
    clean, tainted = sample(), sample(planted=" key ghp_" + "a1B2" * 9)
    clean_bytes, tainted_bytes = encode(clean), encode(tainted)

    def with_secret() -> bytes:
        assert not subject.clean(tainted_bytes)
        return encode(redact_payload(tainted, subject))

    pieces = [clean.preview[at : at + 8] for at in range(0, 512, 8)]

    def streamed() -> str:
        stream = subject.stream()
        return "".join([*map(stream.feed, pieces), stream.end()])

    def coalesced() -> str:
        stream = subject.stream()
        return stream.feed(clean.preview[:512]) + stream.end()

    with_secret()
    return {
        "clean event, first look": microseconds(lambda: subject.clean(clean_bytes)),
        "clean event, field walk": microseconds(lambda: redact_payload(clean, subject)),
        "event with a secret, whole pass": microseconds(with_secret, calls=500),
        "stream, a piece of 8 characters": microseconds(streamed, calls=50) / (len(pieces) + 1),
        "stream, 512 characters at once": microseconds(coalesced, calls=500),
    }


def main() -> None:
    figures = measure()
    if "--json" not in sys.argv:
        for name, value in figures.items():
            print(f"{name:<36}{value:8.2f} µs")
        print(f"{'bound for a clean event (CON-33)':<36}{LIMIT_US:8.2f} µs")
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
