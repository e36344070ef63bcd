"""Histories to try things on: sound trees as Pi writes them, and ways to break a file."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.history.kit import Record, answered, called, entry, said

KINDS = ("user", "assistant", "calls", "custom_message", "custom", "label", "session_info", "branch_summary")
RARE = ("compaction", "context_edit", "bash", "hidden_bash", "system", "unknown", "failed", "empty_summary")

JUNK = [b"null", b"[]", b'"x"', b"{}", b'{"type":7}', b"NaN", b"{" * 3000, b'{"a":' * 3000 + b"1" + b"}" * 3000]


@st.composite
def sound_trees(draw: st.DrawFn, *, most: int = 24) -> list[Record]:
    """Entries of a history without any damage; each one's visible text names it as ``«id»``."""
    records: list[Record] = []
    ids: list[str] = []
    for at in range(draw(st.integers(0, most))):
        own = f"e{at}"
        parent = ids[-1] if ids else None
        if ids and draw(st.integers(0, 4)) == 0:
            parent = draw(st.sampled_from(ids))
        kind = draw(st.sampled_from(KINDS if draw(st.integers(0, 2)) else RARE))
        new = _records(draw, kind, own, parent, ids)
        records += new
        ids += [record["id"] for record in new]
    return records


def _records(draw: st.DrawFn, kind: str, own: str, parent: str | None, ids: list[str]) -> list[Record]:
    text = f"«{own}»"
    some = st.sampled_from([*ids, own, "nobody"])
    match kind:
        case "user" | "assistant":
            return [said(own, parent, kind, text)]
        case "calls":
            count = draw(st.integers(1, 3))
            calls = [(f"{own}-c{at}", "bash") for at in range(count)]
            turn = called(own, parent, *calls)
            turn["message"]["content"].insert(0, {"type": "text", "text": text})
            records = [turn]
            for at in draw(st.permutations(range(count)))[: draw(st.integers(0, count))]:
                result = f"{own}r{at}"
                records.append(answered(result, records[-1]["id"], f"{own}-c{at}", f"«{result}»"))
            return records
        case "custom_message":
            return [entry(kind, own, parent, customType="note", content=text, display=False)]
        case "label":
            return [entry(kind, own, parent, targetId=draw(some), label=draw(st.sampled_from(["a", ""])))]
        case "session_info":
            return [entry(kind, own, parent, name=text)]
        case "branch_summary":
            return [entry(kind, own, parent, fromId=draw(some), summary=text)]
        case "empty_summary":
            return [entry("branch_summary", own, parent, fromId="root", summary="")]
        case "compaction":
            return [entry(kind, own, parent, summary=text, firstKeptEntryId=draw(some), tokensBefore=1)]
        case "context_edit":
            replacement = draw(st.sampled_from([None, {"content": [{"type": "text", "text": "«edited»"}]}]))
            return [entry(kind, own, parent, targetId=draw(some), replacement=replacement)]
        case "bash" | "hidden_bash":
            message: dict[str, Any] = {"role": "bashExecution", "command": text, "output": "", "exitCode": 0}
            if kind == "hidden_bash":
                message["excludeFromContext"] = True
            return [entry("message", own, parent, message=message)]
        case "system":
            return [entry("message", own, parent, message={"role": "system", "content": text})]
        case "failed":
            return [said(own, parent, "assistant", text, stopReason=draw(st.sampled_from(["error", "aborted"])))]
        case _:
            return [entry(kind, own, parent, anything=[text, {"deep": None}])]


@st.composite
def damages(draw: st.DrawFn, data: bytes) -> bytes:
    """``data`` after a few of the things that happen to files."""
    for _ in range(draw(st.integers(1, 4))):
        data = _damage(draw, data)
    return data


def _damage(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.split(b"\n")
    line = draw(st.integers(0, len(lines) - 1))
    at = draw(st.integers(0, len(data)))
    end = min(len(data), at + draw(st.integers(0, 40)))
    match draw(st.integers(0, 10)):
        case 0:
            del lines[line]
        case 1:
            lines.insert(line, lines[line])
        case 2:
            other = draw(st.integers(0, len(lines) - 1))
            lines[line], lines[other] = lines[other], lines[line]
        case 3:
            lines[line] = lines[line][: draw(st.integers(0, len(lines[line])))]
        case 4:
            return data[:at]
        case 5:
            return data[:at] + draw(st.binary(max_size=8)) + data[end:]
        case 6:
            return data[:at] + b"\0" * draw(st.integers(1, 60)) + data[end:]
        case 7:
            joined = lines[line : line + 2]
            lines[line : line + 2] = [b"".join(joined)]
        case 8:
            name = draw(st.sampled_from([b"e0", b"e1", b"e2", b"e3", b"e9", b"nobody"]))
            other_name = draw(st.sampled_from([b"e0", b"e1", b"e2", b"e3", b"e9", b""]))
            lines[line] = lines[line].replace(b'"' + name + b'"', b'"' + other_name + b'"')
        case 9:
            old, new = draw(
                st.sampled_from(
                    [
                        (b'"role":"user"', b'"role":"wizard"'),
                        (b'"parentId"', b'"parent_id"'),
                        (b'"id"', b'"ID"'),
                        (b'"arguments":{}', b'"arguments":"{\\"a\\": 1}"'),
                        (b'"arguments":{}', b'"arguments":[1]'),
                        (b'"content":[', b'"content":[null,7,"x",{"type":"image"},'),
                        (b'"content":', b'"content":null,"was":'),
                        ("«".encode(), b"\\ud83d"),
                        ("»".encode(), b"\xff"),
                        (b"-c", b""),
                        (b'"text":', b'"text":{},"was":'),
                        (b'"message":{', b'"message":7,"was":{'),
                        (b'"toolCallId":"', b'"toolCallId":"x'),
                        (b'"name":"bash"', b'"name":null'),
                    ]
                )
            )
            lines[line] = lines[line].replace(old, new)
        case _:
            lines.insert(
                line, draw(st.sampled_from([b"null", b"[]", b'"x"', b"{}", b'{"type":7}', b"NaN", b"{" * 3000]))
            )
    return b"\n".join(lines)
