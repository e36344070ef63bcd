"""The scripted model: a provider on 127.0.0.1 that plays a scenario and checks every request (MDL-11).

In a test::

    async with ScriptedModel([use("bash", {"command": "true"}), say("Done.")]) as server:
        ...  # server.base_url, server.requests

From code that isn't asynchronous: ``with ScriptedModel(...).in_thread() as server``. As a program:
``python -m drawbar.testing.scripted_model SCENARIO``, which prints its base URL.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, cast

from drawbar.contracts.errors import InvalidInput
from drawbar.testing.anthropic_speech import PATH, AnthropicSpeech
from drawbar.testing.cache_accounting import CacheLedger, CacheUsage
from drawbar.testing.chat_speech import ChatSpeech
from drawbar.testing.gemini_speech import GeminiSpeech
from drawbar.testing.http_server import HttpRequest, HttpServer, Responder
from drawbar.testing.playing import Finished, Script, play_body, play_fault_response
from drawbar.testing.responses_speech import ResponsesSpeech
from drawbar.testing.scenario import Pace, Scenario, Turn, load_scenario, reply, say, use
from drawbar.testing.speech import ApiError, Facts, Speech

__all__ = ["Received", "ScriptedModel", "main", "reply", "say", "use"]

SPEECHES: Final[tuple[Speech, ...]] = (AnthropicSpeech(), ChatSpeech(), ResponsesSpeech(), GeminiSpeech())
"""The protocols that it speaks; a request's path tells which."""

Answer = Turn | Callable[["Received"], Turn]
Source = Scenario | Sequence[Answer] | Callable[["Received"], Turn] | Path | str | dict[str, Any]


@dataclass(slots=True)
class Received:
    """One request as the server got it, and what became of it.

    ``parsed`` is None when it was refused before it could be read; ``status`` is the answer's, ``error`` what
    the request was refused for; ``turn`` is the number of the turn it was given, from 0. ``disconnected_at``
    is set when the client left before the end, ``finished_at`` when the answer was sent whole; both, and
    ``received_at``, are monotonic seconds. ``cache`` and ``usage`` are what it was billed.
    """

    headers: dict[str, str]
    body: bytes
    received_at: float
    path: str = PATH
    parsed: dict[str, Any] | None = None
    turn: int | None = None
    status: int | None = None
    error: str | None = None
    cache: CacheUsage | None = None
    usage: dict[str, Any] | None = None
    _responder: Responder | None = field(default=None, repr=False)

    @property
    def disconnected_at(self) -> float | None:
        return self._responder.disconnected_at if self._responder else None

    @property
    def finished_at(self) -> float | None:
        return self._responder.ended_at if self._responder else None


class ScriptedModel:
    """A model server for one scenario.

    Args:
        source: a scenario, its turns (or functions from the request to a turn), one function that answers
            everything, or a scenario file.

    Attributes:
        requests: everything received, in order.
    """

    def __init__(self, source: Source) -> None:
        self._script = _script(source)
        self._server = HttpServer(self._handle)
        self._cache = CacheLedger()
        self._numbers = itertools.count(1)
        self.requests: list[Received] = []

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def totals(self) -> CacheUsage:
        """Input tokens of all billed requests together."""
        billed = [request.cache for request in self.requests if request.cache]
        return CacheUsage(
            uncached=sum(one.uncached for one in billed),
            read=sum(one.read for one in billed),
            written=sum(one.written for one in billed),
        )

    @property
    def errors(self) -> list[str]:
        """What requests were refused for, in order; scripted faults are not among them."""
        return [request.error for request in self.requests if request.error]

    async def start(self, port: int = 0) -> None:
        """Listen on 127.0.0.1; port 0 takes a free one."""
        await self._server.start(port)

    async def close(self) -> None:
        await self._server.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @contextmanager
    def in_thread(self) -> Generator[Self]:
        """Serve from a thread with a loop of its own while the context lasts."""
        ready, stop = threading.Event(), asyncio.Event()
        loop = asyncio.new_event_loop()
        failed: list[Exception] = []

        async def serve() -> None:
            try:
                async with self:
                    ready.set()
                    await stop.wait()
            except Exception as error:
                # Told to the thread that waits for the server; there is nobody here to raise it to.
                failed.append(error)
            finally:
                ready.set()

        thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="scripted-model", daemon=True)
        thread.start()
        ready.wait()
        try:
            if failed:
                raise failed[0]
            yield self
        finally:
            if thread.is_alive():
                loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()

    # -- one request ------------------------------------------------------------------------------

    async def _handle(self, request: HttpRequest, responder: Responder) -> None:
        number = next(self._numbers)
        path = request.path.partition("?")[0]
        received = Received(request.headers, request.body, request.received_at, path=path, _responder=responder)
        self.requests.append(received)
        speech = next((one for one in SPEECHES if one.takes(path)), SPEECHES[0])
        try:
            if request.method != "POST" or not speech.takes(path):
                raise ApiError(f"{request.method} {path}: not found", status=404, kind="not_found_error")
            received.parsed = speech.check(request.path, request.headers, request.body)
            facts = speech.facts(request.path, received.parsed)
            received.turn, turn = self._script.next(facts, received)
        except ApiError as error:
            received.status, received.error = error.status, str(error)
            body = speech.error_body(error.kind, str(error), number, error.status)
            await responder.whole(error.status, _json(speech, number), body)
            return
        await self._play(turn, received, responder, number, speech, facts)

    async def _play(
        self, turn: Turn, received: Received, responder: Responder, number: int, speech: Speech, facts: Facts
    ) -> None:
        pace = turn.pace or self._script.pace
        received.status = 200
        try:
            if turn.fault:
                status = await play_fault_response(turn.fault, turn.headers, responder, number, speech)
                if status is not None:
                    received.status = status
                    return
            received.cache = self._cache.account(facts.model, speech.units(received.parsed or {}))
            rendered = speech.render(
                turn, facts=facts, number=number, cache=received.cache, chunk_chars=pace.chunk_chars
            )
            received.usage = rendered.usage
            headers = {**speech.headers(number), **(turn.headers or {})}
            if not facts.streams:
                await responder.whole(200, {"content-type": "application/json", **headers}, rendered.message)
                return
            await responder.start(200, {"content-type": "text/event-stream; charset=utf-8", **headers})
            await play_body(rendered.events, pace, turn.fault, responder, speech)
            await responder.end()
        except Finished:
            return


def _script(source: Source) -> Script[Received]:
    if isinstance(source, Path | str | dict):
        source = load_scenario(cast("Path | str | dict[str, Any]", source))
    if isinstance(source, Scenario):
        return Script(source.turns, source.on_missing_expectation, source.at_end, source.pace or Pace())
    if callable(source):
        return Script([source], "error", "repeat", Pace())
    return Script(list(source), "error", "error", Pace())


def _json(speech: Speech, number: int) -> dict[str, str]:
    return {"content-type": "application/json", **speech.headers(number)}


def main(argv: Sequence[str] | None = None) -> int:
    """Serve a scenario file until interrupted; the first line of output is the base URL."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m drawbar.testing.scripted_model", description=main.__doc__)
    parser.add_argument("scenario", type=Path, help="a scenario file (docs/scripted-model.md)")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    options = parser.parse_args(argv)
    if not 0 <= options.port <= 65535:
        parser.error(f"--port {options.port}: ports are 0 to 65535")
    try:
        model = ScriptedModel(options.scenario)
    except OSError as error:
        return _refuse(f"{options.scenario}: {error.strerror}")
    except (InvalidInput, ValueError) as error:
        return _refuse(f"{options.scenario}: {error}")

    async def serve() -> None:
        await model.start(options.port)
        sys.stdout.write(model.base_url + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()

    try:
        asyncio.run(serve())
    except OSError as error:
        return _refuse(f"port {options.port}: {error.strerror}")
    except KeyboardInterrupt:
        return 130
    return 0


def _refuse(message: str) -> int:
    sys.stderr.write(f"scripted model: {message}\n")
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
