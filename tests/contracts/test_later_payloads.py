"""Payloads whose producers come later: the formats are final, and what is unknown stays unknown."""

from __future__ import annotations

import pytest

from drawbar.contracts.codec import decode, encode, loads
from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.events.lifecycle import CompactionEnded, CompactionStarted
from drawbar.contracts.events.progress import Checkpoint, CheckRun, Heartbeat, TodoItem
from drawbar.contracts.events.usage import AccountStatus, Limit


def again(payload: object) -> object:
    """As a reader gets it back."""
    return decode(encode(payload), type(payload), what="payload")


@pytest.mark.clause("CON-18")
def test_a_limit_is_a_providers_reading_with_its_source() -> None:
    reading = AccountStatus(
        account="work",
        limits=[
            Limit(name="tokens", window_s=60, remaining=100, resets_at="2026-11-30T12:00:00.000Z", source="headers")
        ],
    )
    assert again(reading) == reading
    bare = Limit(name="balance", balance=3.5, source="documented-endpoint")
    kept = loads(encode(bare))
    # Nothing is made up: what the provider did not say is not in the line.
    assert kept == {"name": "balance", "balance": 3.5, "source": "documented-endpoint"}
    with pytest.raises(InvalidInput, match="name"):
        decode(b'{"account": "work", "limits": [{"remaining": 1}]}', AccountStatus, what="account.status")


@pytest.mark.clause("CON-20")
def test_compaction_sizes_are_absent_where_unknown() -> None:
    assert again(CompactionStarted(reason="threshold", context_tokens=190_000, context_window=200_000))
    started = decode(b'{"reason": "overflow"}', CompactionStarted, what="compaction.started")
    assert (started.context_tokens, started.context_window) == (None, None)
    ended = decode(b'{"ok": true, "tokens_before": 190000}', CompactionEnded, what="compaction.ended")
    assert (ended.tokens_before, ended.tokens_after) == (190_000, None)
    assert loads(encode(ended))["tokens_after"] is None


@pytest.mark.clause("CON-23")
def test_a_heartbeat_says_every_counter_and_zero_without_a_slice() -> None:
    beat = Heartbeat(steps=3, elapsed_s=31.5, last_tool="bash", running_tools=["bash", "read"], oldest_tool_s=12.0)
    assert again(beat) == beat
    fields = loads(encode(beat))
    for name in ("steps", "elapsed_s", "last_tool", "compactions", "call_budget", "running_tools", "oldest_tool_s"):
        assert name in fields
    assert (fields["slice_calls"], fields["slice_seconds"], fields["slice_tokens"]) == (0, 0.0, 0)


@pytest.mark.clause("CON-24")
def test_a_checkpoint_is_the_harnesss_own_and_older_model_written_ones_are_read() -> None:
    derived = Checkpoint(
        files_changed=["a.py"],
        checks=[CheckRun(command="pytest -q", exit_code=0)],
        todo=[TodoItem(text="write it", status="completed")],
    )
    assert again(derived) == derived
    assert derived.by == "harness"
    old = decode(b'{"by": "model", "text": "I finished half of it.", "mood": "good"}', Checkpoint, what="checkpoint")
    assert (old.by, old.text, old.files_changed) == ("model", "I finished half of it.", [])
