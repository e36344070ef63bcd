"""What the history tests build with and check against: small files, Pi's own reading, a provider's strictness."""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drawbar.contracts.codec import encode

Record = dict[str, Any]
STAMP = "2026-01-05T10:00:00.000Z"
HEADER: Record = {"type": "session", "version": 3, "id": "demo", "timestamp": STAMP, "cwd": "/home/user/project"}
BUGS = Path(__file__).resolve().parent.parent / "fixtures" / "bugs"


class HeldClock:
    """A clock that moves one millisecond a look."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        self.now += 1
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


CLOCK = HeldClock()


def entry(kind: str, entry_id: str, parent: str | None, **fields: Any) -> Record:
    return {"type": kind, "id": entry_id, "parentId": parent, "timestamp": STAMP, **fields}


def said(entry_id: str, parent: str | None, role: str, text: str, **fields: Any) -> Record:
    return entry(
        "message", entry_id, parent, message={"role": role, "content": [{"type": "text", "text": text}], **fields}
    )


def called(entry_id: str, parent: str | None, *calls: tuple[str, str], stop: str = "toolUse") -> Record:
    content = [{"type": "toolCall", "id": call, "name": name, "arguments": {}} for call, name in calls]
    return entry("message", entry_id, parent, message={"role": "assistant", "content": content, "stopReason": stop})


def answered(entry_id: str, parent: str | None, call: str, text: str, name: str = "bash") -> Record:
    return said(entry_id, parent, "toolResult", text, toolCallId=call, toolName=name, isError=False)


def chain(count: int) -> list[Record]:
    """``count`` messages m0, m1, … in one line, user and assistant in turn."""
    return [
        said(f"m{at}", f"m{at - 1}" if at else None, "assistant" if at % 2 else "user", f"text {at}")
        for at in range(count)
    ]


def lines_of(records: Iterable[Mapping[str, Any]], header: Mapping[str, Any] | None = HEADER) -> bytes:
    return b"".join(encode(record) + b"\n" for record in ([header] if header else []) + list(records))


def write(path: Path, records: Iterable[Mapping[str, Any]], header: Mapping[str, Any] | None = HEADER) -> Path:
    path.write_bytes(lines_of(records, header))
    return path


def texts(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    found: list[str] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found.append("".join(block.get("text", f"<{block['type']}>") for block in blocks))
    return found


def in_child(work: Callable[[], object], *, limit: Callable[[], None] | None = None) -> int:
    """Run ``work`` in a forked process; returns its exit code, negative for the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            if limit is not None:
                limit()
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill(pid: int) -> int:
    """End a child that this test started, at once; returns its exit code."""
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class PiReading:
    """How Pi itself reads a file of version 3: the yardstick for what is written here.

    Lines that don't parse are skipped, the first that does must be a header, the last entry with an id wins
    it, the branch is walked from the last entry by ``parentId``.
    """

    def __init__(self, path: Path) -> None:
        parsed: list[Any] = []
        for line in path.read_bytes().decode("utf-8", "replace").strip().split("\n"):
            try:
                parsed.append(json.loads(line, parse_constant=_refuse))
            except ValueError:
                continue
        assert parsed, "Pi finds nothing in it"
        assert parsed[0]["type"] == "session"
        assert isinstance(parsed[0]["id"], str), "Pi rejects it"
        self.header: Record = parsed[0]
        self.entries: list[Record] = [record for record in parsed if record.get("type") != "session"]
        by_id = {record["id"]: record for record in self.entries}
        path_up: list[Record] = []
        at = self.entries[-1] if self.entries else None
        while at is not None:
            assert len(path_up) <= len(self.entries), "Pi would walk in circles"
            path_up.append(at)
            at = by_id.get(at["parentId"]) if at["parentId"] else None
        self.branch = path_up[::-1]

    @property
    def branch_ids(self) -> list[str]:
        return [record["id"] for record in self.branch]

    def context_ids(self) -> list[str]:
        """Ids of the entries that reach the model, the last compaction standing for what it summarised."""
        kinds = [record.get("type") for record in self.branch]
        seen, summary = self.branch, []
        if "compaction" in kinds:
            cut = len(kinds) - 1 - kinds[::-1].index("compaction")
            wanted = self.branch[cut].get("firstKeptEntryId")
            ids = self.branch_ids[:cut]
            first = ids.index(wanted) if wanted in ids else cut
            seen, summary = self.branch[first:], [self.branch_ids[cut]]
        edits = {it["targetId"]: it["replacement"] for it in self.branch if it.get("type") == "context_edit"}
        return summary + [it["id"] for it in seen if _reaches_model(it) and edits.get(it["id"], 1) is not None]


def _reaches_model(record: Record) -> bool:
    match record.get("type"):
        case "message":
            message = record["message"]
            return message["role"] != "system" and not message.get("excludeFromContext")
        case "branch_summary":
            return bool(record["summary"])
        case kind:
            return kind == "custom_message"


def _refuse(name: str) -> Any:
    raise ValueError(name)


def check_conversation(messages: Sequence[Mapping[str, Any]]) -> None:
    """Refuse what a strict provider refuses: pairing, ids, arguments, Unicode, empty blocks, the opening."""
    json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    waiting: list[tuple[str, str]] = []
    used: set[str] = set()
    for at, message in enumerate(messages):
        role, content = message["role"], message["content"]
        assert role in ("user", "assistant", "toolResult"), role
        assert at or role == "user", "the first message is the user's"
        if role == "toolResult":
            assert waiting, "a result without its call"
            assert (message["toolCallId"], message["toolName"]) == waiting.pop(0), "results follow in call order"
            assert isinstance(message["isError"], bool)
        else:
            assert not waiting, f"open calls {waiting} before a {role} message"
            assert content, "an empty message"
        for block in [] if isinstance(content, str) else content:
            _check_block(role, block)
            if block["type"] == "toolCall":
                call = block["id"].partition("|")[0]
                assert call, "an empty call id"
                assert call not in used, "a call id used twice"
                used.add(call)
                waiting.append((block["id"], block["name"]))
    assert not waiting, f"calls without results at the end: {waiting}"


def _check_block(role: str, block: Mapping[str, Any]) -> None:
    kind = block["type"]
    if kind == "text":
        assert block["text"].strip(), "an empty text block"
    elif kind == "image":
        assert role != "assistant"
        assert block["data"]
        assert block["mimeType"]
        assert len(block["data"]) <= 5 * 2**20
    elif kind == "toolCall":
        assert role == "assistant"
        assert isinstance(block["name"], str)
        assert block["name"].strip()
        assert isinstance(block["arguments"], dict)
    else:
        assert role == "assistant", f"a {kind} block in a {role} message"
