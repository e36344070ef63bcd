"""The scenario file of the scripted model: turns, replies, pace, faults (MDL-11).

A scenario is JSON; ``docs/scripted-model.md`` describes it for people. Everything here is strict: a word
that isn't known is refused by name, so that a misspelt fault can't make a test pass.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from drawbar.contracts import codec
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.errors import InvalidInput

__all__ = ["Block", "Expect", "Fault", "Pace", "Scenario", "Turn", "load_scenario", "reply", "say", "use"]

Count = Annotated[int, Meta(ge=0)]
Millis = Annotated[float, Meta(ge=0)]


class Block(Request):
    """One block of a reply; exactly one of ``text``, ``thinking``, ``redacted``, ``tool`` and ``raw`` is set.

    ``arguments`` are a tool call's, sent as JSON; ``arguments_text`` is sent as it is, for arguments that are
    cut or no JSON at all. ``id`` is the call's, made up when it is left out. ``signature`` goes with
    ``thinking``. ``raw`` is any block the protocol knows, sent whole.
    """

    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    redacted: str | None = None
    tool: str | None = None
    id: str | None = None
    arguments: Any = None
    arguments_text: str | None = None
    raw: dict[str, Any] | None = None


class Expect(Request):
    """What a request must hold for its turn to be played.

    ``text`` is looked for in the last message (its texts and tool results), ``system`` in the system prompt;
    ``tool`` is the name of a tool that must be offered.
    """

    text: str | None = None
    system: str | None = None
    tool: str | None = None


class Pace(Request):
    """How a reply is sent: text in pieces of ``chunk_chars``, ``first_ms`` before the first event, ``each_ms``
    between pieces. With ``chunk_bytes`` the stream is cut into pieces of that many bytes, wherever they fall."""

    chunk_chars: Annotated[int, Meta(ge=1)] = 24
    chunk_bytes: Annotated[int, Meta(ge=1)] | None = None
    first_ms: Millis = 0
    each_ms: Millis = 0


class Fault(Request):
    """What goes wrong.

    ``status``: an error response of ``status``. ``rate_limit``: 429, with ``retry_after_s`` if set.
    ``overloaded``: 529. ``overloaded_stream``: an error event inside a 200, after ``after_events``.
    ``cut``: the connection closes after ``after_events`` or ``after_bytes`` (with a TCP reset if ``reset``).
    ``malformed``: an event that is no JSON after ``after_events``. ``silence``: nothing more after
    ``after_events``. ``hang``: nothing at all, not even headers. ``drip``: one byte at a time. Silence and
    hang last ``seconds``, or until the client leaves.
    """

    kind: Literal[
        "status", "rate_limit", "overloaded", "overloaded_stream", "cut", "malformed", "silence", "hang", "drip"
    ]
    status: Annotated[int, Meta(ge=300, le=599)] = 500
    error_type: str | None = None
    message: str | None = None
    body: str | None = None
    retry_after_s: Annotated[float, Meta(ge=0)] | None = None
    after_events: Count | None = None
    after_bytes: Count | None = None
    reset: bool = False
    seconds: Annotated[float, Meta(ge=0)] | None = None


class Turn(Request):
    """The answer to one request.

    ``stop_reason`` follows from the reply when it is left out. ``usage`` replaces single counters of the
    computed ones; None takes one out. ``headers`` are added to the response.
    """

    reply: list[Block] = []
    expect: Expect | None = None
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None
    pace: Pace | None = None
    fault: Fault | None = None
    headers: dict[str, str] | None = None


class Scenario(Request):
    """Turns in order, one a request.

    ``on_missing_expectation``: ``error`` answers a request that doesn't fit its turn with an error that says
    what was expected; ``skip`` goes on to the first later turn that fits. ``at_end``: ``error`` for a request
    after the last turn, or ``repeat`` the last one.
    """

    turns: list[Turn]
    on_missing_expectation: Literal["error", "skip"] = "error"
    at_end: Literal["error", "repeat"] = "error"
    pace: Pace | None = None


def load_scenario(source: Path | str | bytes | dict[str, Any]) -> Scenario:
    """A scenario from a file, JSON text as bytes, or parsed JSON.

    Raises:
        InvalidInput: naming what doesn't fit.
    """
    if isinstance(source, dict):
        scenario = codec.convert(source, Scenario, what="scenario")
    else:
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        scenario = codec.decode(data, Scenario, what="scenario")
    for at, turn in enumerate(scenario.turns):
        for block in turn.reply:
            _check(block, at)
    return scenario


def say(text: str, **rest: Any) -> Turn:
    """A turn that answers with ``text``."""
    return reply(Block(text=text), **rest)


def use(tool: str, arguments: Any = None, **rest: Any) -> Turn:
    """A turn that calls one tool."""
    return reply(Block(tool=tool, arguments={} if arguments is None else arguments), **rest)


def reply(*blocks: Block, **rest: Any) -> Turn:
    """A turn of ``blocks``; ``rest`` are further fields of :class:`Turn`."""
    return Turn(reply=list(blocks), **rest)


def _check(block: Block, turn: int) -> None:
    kinds = [name for name in ("text", "thinking", "redacted", "tool", "raw") if getattr(block, name) is not None]
    if len(kinds) != 1:
        raise InvalidInput(
            f"scenario: turns[{turn}].reply: a block is exactly one of text, thinking, redacted, tool and raw; "
            f"this one is {' and '.join(kinds) or 'none'}"
        )
