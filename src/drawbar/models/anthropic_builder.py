"""One conversation kept encoded, and requests joined from its pieces (MDL-13, PRM-3, PRM-4, QLT-7).

What lies before the last two user turns never changes again: it is one growing buffer with a running digest,
so a further turn costs its own encoding and the copying of bytes. Only the last turns are kept apart, because
the cache markers move over them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from drawbar.contracts.model import EncodedRequest, Message, RequestSettings
from drawbar.models.anthropic_encode import Images, assistant_blocks, tool_result, user_blocks
from drawbar.models.anthropic_head import Head, encode_head
from drawbar.models.encoding import encode_json
from drawbar.models.wire_ids import WireIds

__all__ = ["MAX_REQUEST_BYTES", "AnthropicBuilder"]

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
MAX_IMAGES: Final = 100
MAX_NEWS: Final = 20
ROOM: Final = 0.75
"""Share of a limit down to which old images are left out, so that it doesn't happen at every request."""

CACHE_MARK: Final = b',"cache_control":{"type":"ephemeral"}}'
_END: Final = b"]}"
_GO_ON: Final = encode_json({"type": "text", "text": "[Continue.]"})


@dataclass(slots=True)
class _Turn:
    """What the provider sees as one message: blocks of consecutive messages of one side."""

    role: str
    blocks: list[bytes] = field(default_factory=list[bytes])

    def encoded(self, *, marked: bool = False) -> bytes:
        blocks = self.blocks
        if marked:
            blocks = [*blocks[:-1], blocks[-1][:-1] + CACHE_MARK]
        return b'{"role":"%s","content":[%s]}' % (self.role.encode(), b",".join(blocks))


class _ImageBudget:
    """Leaves out the oldest images once a request would hold too many or too much of them."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.skipped = 0

    def admit(self, size: int) -> bool:
        self.sizes.append(size)
        return len(self.sizes) > self.skipped

    def restart(self, skipped: int) -> None:
        self.sizes = []
        self.skipped = skipped

    def copy(self) -> _ImageBudget:
        """One to ask without counting here."""
        other = _ImageBudget()
        other.sizes, other.skipped = list(self.sizes), self.skipped
        return other


class AnthropicBuilder:
    """A :class:`~drawbar.contracts.model.RequestBuilder` for Anthropic Messages.

    Args:
        settings: of the conversation.

    Raises:
        InvalidInput: for settings that no request could be made from.
    """

    def __init__(self, settings: RequestSettings) -> None:
        self._head: Head = encode_head(settings)
        self._images = _ImageBudget()
        self._notes: list[str] = []
        self._source: list[Message] = []
        self._start()

    def _start(self) -> None:
        from drawbar.stores.history import MessageRepairer

        self._repairer = MessageRepairer()
        self._told = 0
        self._ids = WireIds()
        self._settled = bytearray()
        self._settled_turns = 0
        self._turns: list[_Turn] = []
        self._calls_tools = False
        self._begin_digest()

    def extend(self, messages: Sequence[Message]) -> None:
        """Add messages that were appended to the history, in order; only these are encoded."""
        for message in messages:
            self._source.append(message)
            self._add(message)
        self._settle()

    def reset(self, messages: Sequence[Message]) -> None:
        """Start over from a whole branch."""
        self._source = []
        self._images.restart(0)
        self._start()
        self.extend(messages)

    def build(self) -> EncodedRequest:
        """The request for the conversation as it stands; cheap enough to call for every attempt."""
        request = self._assemble()
        skipped = self._images_to_skip(request.size)
        if skipped <= self._images.skipped:
            return request
        self._encode_again(skipped)
        # The same content was mended again; what was told of it at first holds.
        self._notes = [*request.repairs, f"left out the {skipped} oldest images, which no longer fit"]
        return self._assemble()

    # -- encoding ---------------------------------------------------------------------------------

    def _add(self, message: Message) -> None:
        for repaired in self._repairer.feed(message):
            self._encode_into(self._turns, repaired, self._images, self._ids)

    def _encode_into(self, turns: list[_Turn], message: Message, images: Images, ids: WireIds) -> None:
        role = message["role"]
        if role == "user":
            self._append(turns, "user", user_blocks(message["content"], images, self._note))
        elif role == "assistant":
            self._append(turns, "assistant", assistant_blocks(message, ids.of_call, self._note))
        else:
            if not self._calls_tools:
                self._need_tools()
            wire_id = ids.of_result(message["toolCallId"])
            self._append(turns, "user", [tool_result(message, wire_id, images, self._note)])

    @staticmethod
    def _append(turns: list[_Turn], role: str, blocks: list[bytes]) -> None:
        if not blocks:
            return
        if turns and turns[-1].role == role:
            turns[-1].blocks.extend(blocks)
        else:
            turns.append(_Turn(role, blocks))

    def _need_tools(self) -> None:
        """A request that speaks of tool calls must define tools; one without gets a stand-in nobody can call."""
        self._calls_tools = True
        if self._head.stand_in is not None:
            self._begin_digest()
            self._digest.update(self._settled)

    def _encode_again(self, skip_images: int) -> None:
        source, self._source = self._source, []
        self._images.restart(skip_images)
        self._start()
        self.extend(source)

    def _note(self, what: str) -> None:
        self._notes.append(what)

    # -- joining ----------------------------------------------------------------------------------

    @property
    def _opening_bytes(self) -> bytes:
        stand_in = self._head.stand_in if self._calls_tools else None
        return self._head.encoded if stand_in is None else stand_in

    def _begin_digest(self) -> None:
        self._digest = hashlib.sha256(self._opening_bytes)

    def _settle(self) -> None:
        """Move the turns before the last two user turns into the buffer that never changes."""
        keep_from = _marked(self._turns)[0] if self._turns else 0
        for turn in self._turns[:keep_from]:
            piece = turn.encoded() + b","
            self._settled += piece
            self._digest.update(piece)
            self._settled_turns += 1
        del self._turns[:keep_from]

    def _assemble(self) -> EncodedRequest:
        turns = self._with_closing()
        marked = _marked(turns)
        tail = b",".join(turn.encoded(marked=at in marked) for at, turn in enumerate(turns)) + _END
        digest = self._digest.copy()
        digest.update(tail)
        return EncodedRequest(
            body=(self._opening_bytes, bytes(self._settled), tail),
            messages=self._settled_turns + len(turns),
            digests={
                "system": self._head.system_sha256,
                "tools": self._head.tools_sha256,
                "last_message": hashlib.sha256(turns[-1].encoded()).hexdigest(),
                "body": digest.hexdigest(),
            },
            repairs=self._news(),
        )

    def _with_closing(self) -> list[_Turn]:
        """The open turns with what this one request needs besides: answers to open calls, something to answer.

        None of it enters the conversation: once the history goes on, the real continuation takes its place.
        """
        turns = self._turns
        pending = self._repairer.pending()
        if not pending and turns and turns[-1].role == "user":
            return turns
        turns = [*turns[:-1], _Turn(turns[-1].role, list(turns[-1].blocks))] if turns else []
        images, ids = self._images.copy(), self._ids.copy()
        for message in pending:
            self._encode_into(turns, message, images, ids)
        if not turns or turns[-1].role != "user":
            self._note("asked to continue, because there was no user message to answer")
            turns.append(_Turn("user", [_GO_ON]))
        return turns

    def _news(self) -> tuple[str, ...]:
        """What was mended since the last request, each once; what waits for results is told while it waits."""
        reports = self._repairer.reports()
        news = list(dict.fromkeys([*reports[self._told :], *self._notes]))
        self._notes = []
        if not self._repairer.pending():
            self._told = len(reports)
        if len(news) > MAX_NEWS:
            news[MAX_NEWS - 1 :] = [f"and {len(news) - MAX_NEWS + 1} more repairs"]
        return tuple(news)

    def _images_to_skip(self, size: int) -> int:
        """How many of the oldest images must go so that the request stays within the provider's limits."""
        sizes, skipped = self._images.sizes, self._images.skipped
        over = size - MAX_REQUEST_BYTES
        too_many = len(sizes) - skipped - MAX_IMAGES
        if over <= 0 and too_many <= 0:
            return skipped
        excess = size - MAX_REQUEST_BYTES * ROOM if over > 0 else 0
        surplus = len(sizes) - skipped - MAX_IMAGES * ROOM if too_many > 0 else 0
        while skipped < len(sizes) and (excess > 0 or surplus > 0):
            excess -= sizes[skipped]
            surplus -= 1
            skipped += 1
        return skipped


def _marked(turns: Sequence[_Turn]) -> tuple[int, ...]:
    """Where the cache markers go: the ends of the last two user turns (PRM-4).

    Those are where the last request ended and where this one does: the first is found whatever number of
    blocks the reply between them has, the second is written for the next request.
    """
    users = [at for at, turn in enumerate(turns) if turn.role == "user"]
    return tuple(users[-2:])
