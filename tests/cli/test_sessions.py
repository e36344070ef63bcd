"""``drawbar sessions inspect``: any history can be looked into, nothing in it is changed (CLI-7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_shell import drawbar

HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-11-30T12:00:00.000Z", "cwd": "/x"}


def entry(id: str, parent: str | None, text: str = "hi") -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}
    return {
        "type": "message",
        "id": id,
        "parentId": parent,
        "timestamp": "2026-11-30T12:00:01.000Z",
        "message": message,
    }


def write(path: Path, *lines: dict[str, Any] | bytes) -> Path:
    path.write_bytes(b"".join(x if isinstance(x, bytes) else json.dumps(x).encode() + b"\n" for x in lines))
    return path


@pytest.mark.clause("CLI-7")
def test_a_sound_history(tmp_path: Path) -> None:
    entries = [entry("aaaaaaaa", None), entry("bbbbbbbb", "aaaaaaaa"), entry("cccccccc", "aaaaaaaa")]
    path = write(tmp_path / "h.jsonl", HEADER, *entries)
    before = path.read_bytes()
    done = drawbar("sessions", "inspect", str(path), "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "header": HEADER,
        "entries": entries,
        "branch": ["aaaaaaaa", "cccccccc"],
        "leaf": "cccccccc",
        "repairs": [],
    }
    assert path.read_bytes() == before


@pytest.mark.clause("CLI-7", "QLT-5")
def test_a_damaged_history_opens_with_its_repairs(tmp_path: Path) -> None:
    path = write(
        tmp_path / "h.jsonl",
        HEADER,
        entry("aaaaaaaa", None),
        b"{broken\n",
        entry("bbbbbbbb", "aaaaaaaa"),
        b'{"type":"mes',
    )
    done = drawbar("sessions", "inspect", str(path), "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["branch"] == ["aaaaaaaa", "bbbbbbbb"]
    assert [(r["kind"], r["line"]) for r in found["repairs"]] == [("corrupt", 3), ("torn", 5)]
    assert set(found["repairs"][0]) == {"kind", "line", "offset", "bytes"}


@pytest.mark.clause("CLI-7")
@pytest.mark.parametrize("content", [b"", b"\n\n", b"\x00" * 4096, b"not json at all", b"[]\n{}\n7\n"])
def test_any_content_opens(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "h.jsonl", content)
    done = drawbar("sessions", "inspect", str(path), "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert set(found) == {"header", "entries", "branch", "leaf", "repairs"}
    assert drawbar("sessions", "inspect", str(path)).returncode == 0


@pytest.mark.clause("CLI-7")
def test_text_that_is_no_unicode_is_printed_as_it_was_read(tmp_path: Path) -> None:
    broken = json.dumps(entry("aaaaaaaa", None, "half \ud83d of it"))
    path = write(tmp_path / "h.jsonl", HEADER, broken.encode() + b"\n")
    found = json.loads(drawbar("sessions", "inspect", str(path), "--json").stdout)
    assert found["entries"][0]["message"]["content"][0]["text"] == "half \ud83d of it"


@pytest.mark.clause("CLI-7")
def test_for_people_it_is_a_summary_in_safe_text(tmp_path: Path) -> None:
    path = write(tmp_path / "h.jsonl", {**HEADER, "cwd": "/x\x1b[2J"}, entry("aaaaaaaa", None), b"{broken\n")
    lines = drawbar("sessions", "inspect", str(path)).stdout.decode().splitlines()
    assert "entries  1" in lines
    assert "branch   1 entries to aaaaaaaa" in lines
    assert "folder   /x\\x1b[2J" in lines
    assert any(line.startswith("repair   corrupt: line 3") for line in lines)


@pytest.mark.clause("CLI-7", "QLT-7")
def test_the_next_request_of_a_damaged_history_is_valid(tmp_path: Path) -> None:
    call = {"type": "toolCall", "id": "toolu_1", "name": "bash", "arguments": {"command": "ls"}}
    message = {"role": "assistant", "content": [call], "stopReason": "toolUse", "timestamp": 1}
    asked = {**entry("bbbbbbbb", "aaaaaaaa"), "message": message}
    path = write(tmp_path / "h.jsonl", HEADER, entry("aaaaaaaa", None), asked, entry("cccccccc", "bbbbbbbb", "go on"))
    done = drawbar("sessions", "inspect", str(path), "--request", "anthropic-messages", "--json")
    found = json.loads(done.stdout)
    assert [repair["kind"] for repair in found["repairs"]] == ["missing-result"]
    user, assistant, result = found["request"]["messages"]
    assert (user["role"], assistant["role"], result["role"]) == ("user", "assistant", "user")
    assert assistant["content"][0]["id"] == result["content"][0]["tool_use_id"]
    assert result["content"][-1]["text"] == "go on"


def test_a_protocol_that_is_not_spoken_is_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "h.jsonl", HEADER)
    done = drawbar("sessions", "inspect", str(path), "--request", "telepathy", "--json")
    assert done.returncode == 2
    assert "telepathy" in json.loads(done.stderr)["error"]["message"]
    assert drawbar("sessions", "inspect", str(path), "--request", "anthropic-messages").returncode == 2


@pytest.mark.parametrize("what", ["missing", "folder"])
def test_what_is_no_file_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path if what == "folder" else tmp_path / "none.jsonl"
    done = drawbar("sessions", "inspect", str(path), "--json")
    assert done.returncode == 2
    assert str(path) in json.loads(done.stderr)["error"]["message"]
