"""Whatever a model, a repository or a tool wrote: no control of theirs reaches a terminal, by any way (CLI-5)."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.conftest import Place
from tests.cli.kit import PLAIN, TERMINAL, Shown, call

from drawbar.contracts.events.base import Payload
from drawbar.contracts.events.human import ApprovalRequested, ApprovalResolved
from drawbar.contracts.events.lifecycle import (
    ExtensionNotice,
    Failed,
    NetworkDecided,
    RetryStarted,
    SandboxChanged,
    Started,
)
from drawbar.contracts.events.message import MessageCompleted, MessageDelta, MessageDropped, MessageSteered
from drawbar.contracts.events.progress import TodoItem, TodoUpdated
from drawbar.contracts.events.tool import FileChanged, ToolRefused
from drawbar.contracts.events.usage import AccountStatus
from drawbar.surfaces.cli.listing import pairs, table
from drawbar.surfaces.cli.text import escaped_json
from drawbar.testing.scenario import say, use

OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\d*[DK]|\r(?=\x1b\[K)")
"""Colours, and taking back a status line."""
BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff")
HOSTILE = "\x1b[2J\x1b]52;c;eA==\x07 \x9b31m \u202eevil\u2066 \x7f \x00 \u2028 \U000e0041 \r\x08end"
FOREIGN = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(HOSTILE)), max_size=40)

pytestmark = [pytest.mark.clause("CLI-5", "SES-18"), pytest.mark.bug("APR-13")]


def obeyed(text: str) -> list[str]:
    """The controls in what was printed, without our own."""
    return [c for c in OURS.sub("", text) if c in BIDI or (unicodedata.category(c) == "Cc" and c not in "\n\t")]


def payloads(text: str) -> list[Payload]:
    """Every event with foreign text, each of its texts being ``text``."""
    arguments: dict[str, Any] = {
        "command": text,
        "path": text,
        text: text,
        "edits": [{"oldText": text, "newText": "x"}],
    }
    return [
        Started(run_id="r_1", model=text, workspace_root=text),
        MessageDelta(message_id="m", block=0, kind="text", text=text),
        MessageCompleted(message_id="n", role="assistant", text=text, entry_id="e"),
        *call("1", text, arguments, preview=text),
        *call("2", "bash", {"command": text}, cause="error", exit_code=1, preview=text),
        *call("3", "edit", arguments),
        *call("4", "write", {"path": text, "content": text}, cause="error", exit_code=None, preview=text),
        ToolRefused(call_id="5", tool=text, arguments=arguments, cause="policy", code=text, message=text),
        FileChanged(call_id="6", path=text, change="created"),
        ExtensionNotice(message=text),
        RetryStarted(attempt=1, cause=text, message=text),
        SandboxChanged(state="off", reason=text),
        NetworkDecided(host=text, port=1, allowed=False),
        AccountStatus(account=text, ok=False, message=text),
        MessageDropped(message_id="d", reason=text),
        MessageSteered(message_id="s", text=text),
        TodoUpdated(items=[TodoItem(text=text, status="in_progress")]),
        ApprovalRequested(approval_id="a", call_id="7", tool=text, arguments=arguments, scope="workspace", reason=text),
        ApprovalResolved(approval_id="a", decision="deny", by=text),
        Failed(error=text, reason=text),
    ]


@settings(max_examples=60, deadline=None)
@given(FOREIGN)
def test_no_event_can_drive_the_terminal(text: str) -> None:
    for look in (PLAIN, TERMINAL):
        shown = Shown(*payloads(text), look=look, pace_s=0.5)
        account = "\n".join(shown.display.account.lines(look))
        assert not obeyed(shown.raw + account)


@given(FOREIGN)
def test_no_table_can_drive_the_terminal(text: str) -> None:
    lines = [*table(TERMINAL, ["A", "B"], [[text, text]]), *pairs(TERMINAL, [("name", text)])]
    assert not obeyed("\n".join(lines))
    assert all("\n" not in line for line in lines)


@given(st.recursive(FOREIGN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FOREIGN, inner, max_size=3)))
def test_json_on_a_terminal_is_the_same_value_without_controls(value: Any) -> None:
    for indent in (None, 1):
        line = json.dumps(value, ensure_ascii=False, indent=indent).encode()
        shown = escaped_json(line)
        assert json.loads(shown) == value
        assert not obeyed(shown.decode())
        assert all(unicodedata.category(c) not in ("Cf", "Co", "Zl", "Zp") for c in shown.decode())


def test_readable_json_is_left_alone() -> None:
    line = json.dumps({"a": "é 漢字 😀 \n\t"}, ensure_ascii=False).encode()
    assert escaped_json(line) is line
    assert escaped_json('"\x9b\u202e\x7f\U000e0041"'.encode()) == rb'"\u009b\u202e\u007f\udb40\udc41"'
    assert escaped_json(b'"\xff"') == '"\ufffd"'.encode()


@pytest.mark.slow
def test_every_command_that_shows_a_run(place: Place) -> None:
    """At a real terminal nothing of it arrives; in a pipe the events are as recorded."""
    place.play([use("bash", {"command": f"echo '{HOSTILE.replace(chr(0), '')}'"}), say(HOSTILE)])
    done = place.drawbar("run", f"say {HOSTILE.replace(chr(0), '')}", "--approval", "auto-workspace")
    assert done.returncode == 0, done
    assert not obeyed(done.stdout.decode())
    run = place.logs[0].parent.name
    commands = [("events", run), ("follow", run), ("follow", run, "--json"), ("show", run), ("show", run, "--json")]
    for words in [*commands, ("list",), ("list", "--json"), ("prompt", run), ("inspect", run), ("verify", run)]:
        with place.at_terminal("runs", *words) as terminal:
            terminal.wait()
            text = terminal.raw.decode().replace("\r\n", "\n")
        assert "evil" in text or words[0] in ("verify", "inspect", "prompt", "list", "show"), words
        assert not obeyed(text), (words, obeyed(text))
    for words in (("events", run), ("follow", run, "--json")):
        assert place.drawbar("runs", *words).stdout == place.logs[0].read_bytes(), words
