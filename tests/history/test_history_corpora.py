"""Histories that Pi and its relatives wrote, read in place: every fact that a reader must get right."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.history.kit import CLOCK, PiReading, check_conversation

from drawbar.contracts.errors import InvalidInput
from drawbar.stores.history import (
    HistoryFile,
    fork_history,
    inspect_history,
    list_histories,
    read_history,
    repair_messages,
)

SHARED = Path(__file__).resolve().parents[3] / "shared"
CORPORA = Path(os.environ.get("DRAWBAR_CORPORA", SHARED / "corpora"))
SAMPLES = SHARED / "reference" / "pi-samples"


def corpus_files() -> list[Any]:
    index = CORPORA / "index.jsonl"
    if not index.is_file():
        return [pytest.param(None, {}, marks=pytest.mark.skip(reason="no corpora lie beside this checkout"))]
    kept = [json.loads(line) for line in index.read_text(encoding="utf-8").splitlines()]
    return [
        pytest.param(CORPORA / file["file"], file["facts"], id=f"{one['id']}-{Path(file['file']).stem}")
        for one in kept
        if one["kind"] == "pi-sessions"
        for file in one["files"]
    ]


def sample_files() -> list[Any]:
    files = sorted(path for path in SAMPLES.glob("*.jsonl") if "rpc" not in path.name)
    if not files:
        return [pytest.param(None, marks=pytest.mark.skip(reason="no samples lie beside this checkout"))]
    return [pytest.param(path, id=path.stem) for path in files]


def blocks(entries: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for message in messages(entries):
        content = message.get("content")
        yield from (block for block in content if isinstance(block, dict)) if isinstance(content, list) else ()


def messages(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = [it["message"] for it in entries if it.get("type") == "message"]
    return [message for message in kept if isinstance(message, dict)]


def counted(values: Iterator[Any]) -> dict[str, int]:
    return dict(Counter(map(str, values)))


@pytest.mark.clause("SES-1", "SES-2", "CLI-7")
@pytest.mark.parametrize(("path", "facts"), corpus_files())
def test_every_fact_of_a_kept_history_is_read_right(path: Path, facts: dict[str, Any]) -> None:
    found = inspect_history(path)
    entries = found["entries"]
    header = found["header"] or {}
    assert {name: header.get(name) for name in facts["header"] or {}} == (facts["header"] or {})
    assert (found["header"] is None) == (facts["header"] is None)
    assert len(entries) == facts["entries"]
    assert counted(it.get("type") for it in entries) == facts["entry_types"]
    said = messages(entries)
    assert counted(message.get("role") for message in said) == facts["message_roles"]
    assert counted(block.get("type") for block in blocks(entries)) == facts["content_block_types"]
    called = (block.get("name") for block in blocks(entries) if block.get("type") == "toolCall")
    assert counted(called) == facts["tool_calls"]
    assert sum(isinstance(message.get("content"), str) for message in said) == facts["content_given_as_text"]
    results = [message for message in said if message.get("role") == "toolResult"]
    assert sum(bool(message.get("isError")) for message in results) == facts["tool_results_in_error"]
    replies = [message for message in said if message.get("role") == "assistant"]
    assert counted(f"{it.get('provider')}/{it.get('model')}" for it in replies) == facts["models"]
    assert counted(message.get("stopReason") for message in replies) == facts["stop_reasons"]
    assert sum(block.get("type") == "image" for block in blocks(entries)) == facts["images"]
    assert [it.get("name") for it in entries if it.get("type") == "session_info"] == facts["session_names"]
    customs = (it.get("customType") for it in entries if it.get("type") in ("custom", "custom_message"))
    assert counted(customs) == facts["custom_types"]
    skipped = [it["line"] for it in found["repairs"] if it["kind"] in ("torn", "corrupt")]
    assert skipped == facts["lines_not_json"]
    assert usage_sums(said) == facts["usage_sums"]


def usage_sums(said: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sums: Counter[str] = Counter()
    for usage in (message.get("usage") for message in said):
        for name in ("input", "output", "cacheRead", "cacheWrite"):
            if isinstance(usage, dict) and isinstance(usage.get(name), int | float):
                sums[name] += usage[name]
    return dict(sums)


@pytest.mark.clause("SES-1", "SES-2")
@pytest.mark.parametrize(("path", "facts"), corpus_files())
def test_the_branch_of_a_kept_history_holds_the_path_that_its_ids_tell(path: Path, facts: dict[str, Any]) -> None:
    """What the file's own parents tell is the end of the branch; what a damaged link cut off comes before."""
    view = read_history(path)
    branch = view.branch
    if facts["header"] is None:
        return  # another program's format, whose parents have another name
    if not facts["tree"]:
        assert len(branch) == facts["entries"], "version 1: one line of entries"
        return
    assert view.leaf == facts["last_entry_id"]
    told = facts["path_from_last_entry_to_root"]
    assert branch[-told["length"]] == told["stops_at"]
    on_path = list(view.branch_entries())[-told["length"] :]
    assert counted(it["message"].get("role") for it in on_path if it["type"] == "message") == told["message_roles"]
    cut_off = bool(facts["parents_not_in_file"]) and not told["stops_at_a_root"]
    assert any(repair.kind == "missing-parent" for repair in view.repairs) == bool(facts["parents_not_in_file"])
    assert (len(branch) > told["length"]) == cut_off


@pytest.mark.clause("QLT-7", "SES-1")
@pytest.mark.parametrize(("path", "facts"), corpus_files())
def test_a_kept_history_makes_a_conversation_a_provider_takes_and_can_go_on(
    path: Path, facts: dict[str, Any], tmp_path: Path
) -> None:
    before = path.read_bytes()
    view = read_history(path)
    repaired, _ = repair_messages(view.messages())
    check_conversation(repaired)
    with fork_history(path, tmp_path, clock=CLOCK) as fork:
        assert repair_messages(fork.messages())[0] == repaired
        added = fork.append_message({"role": "user", "content": "go on"})
    assert PiReading(fork.path).branch_ids[-1] == added
    if view.version != 3 or facts["header"] is None:
        with pytest.raises(InvalidInput):
            HistoryFile.open(path, clock=CLOCK)
    assert path.read_bytes() == before


@pytest.mark.clause("SES-4")
def test_kept_histories_are_listed() -> None:
    if not CORPORA.is_dir():
        pytest.skip("no corpora lie beside this checkout")
    for folder in sorted((CORPORA / "pi-sessions").iterdir()):
        foreign = folder.name == "tau-session-temp"
        assert len(list_histories(folder)) == (0 if foreign else len(list(folder.glob("*.jsonl"))))


@pytest.mark.clause("SES-1")
@pytest.mark.parametrize("path", sample_files())
def test_what_pi_wrote_reads_as_pi_reads_it(path: Path, tmp_path: Path) -> None:
    pi = PiReading(path)
    view = read_history(path)
    assert (view.version, view.header) == (3, pi.header)
    assert list(view.entries) == pi.entries
    assert view.branch == pi.branch_ids
    assert [repair for repair in view.repairs if repair.kind != "missing-result"] == []
    assert len(view.messages()) == len(pi.context_ids())
    repaired, _ = repair_messages(view.messages())
    check_conversation(repaired)
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    with HistoryFile.open(copy, clock=CLOCK) as history:
        added = history.append_message({"role": "user", "content": "go on"})
    assert PiReading(copy).branch_ids == [*pi.branch_ids, added]
    assert copy.read_bytes().startswith(path.read_bytes())
