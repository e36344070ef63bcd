"""What one model request costs this process, by length of the history and by text delta (PRF-10, MDL-13).

usage: benchmarks/model_request.py [--json]

The scripted model runs in a process of its own, so only the client's CPU is counted. The same bytes sent and read
with the bare HTTP client are the measure that any machine has.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drawbar.contracts.clock import SystemClock
from drawbar.contracts.codec import Request
from drawbar.contracts.model import Account, RequestSettings
from drawbar.contracts.tool import ToolSpec
from drawbar.models.anthropic import AnthropicProvider

SHORT, LONG = 1, 400
DELTAS = 2000
ROUNDS = 5
REQUESTS = 15

DELTA_LIMIT_US = 28.0
"""PRF-10: what the cheapest peer pays for a text delta."""
GROWTH_LIMIT_US = 10.0
"""PRF-1: what a turn may cost more for each turn before it."""


class Command(Request):
    command: str


SETTINGS = RequestSettings(
    model="scripted",
    system="You carry out work. " * 200,
    tools=(ToolSpec(name="bash", description="Run a command.", input=Command, kind="execute"),),
)


@contextmanager
def served(turn: dict[str, Any]) -> Iterator[str]:
    """The base URL of a scripted model that always answers with ``turn``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scenario.json")
        path.write_text(json.dumps({"turns": [turn], "at_end": "repeat"}), encoding="utf-8")
        command = [sys.executable, "-m", "drawbar.testing.scripted_model", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                yield server.stdout.readline().strip()
            finally:
                server.terminate()


class Conversation:
    """A tool-using conversation of a given length that goes on turn by turn."""

    def __init__(self, provider: AnthropicProvider, turns: int) -> None:
        self._provider = provider
        self._builder = provider.builder(SETTINGS)
        self._builder.extend([{"role": "user", "content": "Begin."}])
        self._turns = 0
        for _ in range(turns):
            self.extend()

    def extend(self) -> None:
        at = self._turns = self._turns + 1
        call = {"type": "toolCall", "id": f"call_{at}", "name": "bash", "arguments": {"command": f"echo {at}"}}
        content = [{"type": "text", "text": f"{at}\n" * 20}]
        self._builder.extend(
            [
                {"role": "assistant", "content": [call], "api": "anthropic-messages", "stopReason": "toolUse"},
                {"role": "toolResult", "toolCallId": f"call_{at}", "content": content, "isError": False},
            ]
        )

    def body(self) -> bytes:
        return b"".join(self._builder.build().body)

    async def turn(self) -> None:
        """What a turn costs the model layer: encode what is new, join, send, read the reply."""
        self.extend()
        async with self._provider.stream(self._builder.build()) as events:
            async for _ in events:
                pass


async def best(action: Callable[[], Awaitable[None]], times: int) -> float:
    """CPU seconds of one ``action``: the best of several rounds of ``times``."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(times):
            await action()
        rounds.append((time.process_time() - begun) / times)
    return min(rounds)


async def measure(url: str, turns: int, times: int) -> tuple[float, float]:
    """CPU seconds of a turn through the client, and of the same bytes through the bare HTTP client."""
    import httpx2

    provider = AnthropicProvider(Account("bench", "anthropic-messages", url, "key"), clock=SystemClock())
    conversation = Conversation(provider, turns)
    body = conversation.body()
    headers = {"x-api-key": "key", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    async with httpx2.AsyncClient(timeout=30, trust_env=False) as client:

        async def bare() -> None:
            async with client.stream("POST", url + "/v1/messages", headers=headers, content=body) as response:
                async for _ in response.aiter_bytes():
                    pass

        await bare()
        await conversation.turn()
        figures = await best(conversation.turn, times), await best(bare, times)
    await provider.close()
    return figures


def main() -> int:
    with served({"reply": [{"tool": "bash", "arguments": {"command": "true"}}]}) as url:
        short, _ = asyncio.run(measure(url, SHORT, REQUESTS))
        long, bare_long = asyncio.run(measure(url, LONG, REQUESTS))
    with served({"reply": [{"text": "word " * DELTAS}], "pace": {"chunk_chars": 5}}) as url:
        stream, bare_stream = asyncio.run(measure(url, SHORT, 1))
    figures = {
        f"turn_{SHORT}_ms": short * 1e3,
        f"turn_{LONG}_ms": long * 1e3,
        "growth_us_per_turn": (long - short) / (LONG - SHORT) * 1e6,
        "delta_us": stream / DELTAS * 1e6,
        f"turn_{LONG}_over_bare_http_ratio": long / bare_long,
        "delta_over_bare_http_ratio": stream / bare_stream,
    }
    for name, value in figures.items():
        print(f"{name:32} {value:8.2f}")
    if "--json" in sys.argv[1:]:
        print(json.dumps({name: round(value, 3) for name, value in figures.items()}))
    return int(figures["delta_us"] > DELTA_LIMIT_US or figures["growth_us_per_turn"] > GROWTH_LIMIT_US)


if __name__ == "__main__":
    sys.exit(main())
