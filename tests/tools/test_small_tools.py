"""``todo_write`` and ``get_capabilities`` (CON-21, BND-2, BND-16)."""

from __future__ import annotations

import json

import pytest
from tests.tools.kit import SECRET, Workshop

from drawbar.contracts.events.progress import todo_of
from drawbar.stores.event_reader import read_events


@pytest.mark.clause("CON-21", "ENG-6")
async def test_each_list_replaces_the_one_before(workshop: Workshop) -> None:
    bench = workshop.bench(approval="read-only")
    first = [{"text": "look", "status": "completed"}, {"text": "mend", "status": "in_progress"}]
    assert await bench.text("todo_write", items=first) == "Saved: 2 items, 1 completed. In progress: mend"
    await bench.call("todo_write", items=[{"text": f"key {SECRET}", "status": "pending"}])
    items = todo_of(read_events(bench.folder / "events.jsonl"))
    assert [(item.text, item.status) for item in items] == [("key [redacted:planted]", "pending")]
    assert await bench.text("todo_write", items=[]) == "The list is empty now."
    assert todo_of(read_events(bench.folder / "events.jsonl")) == []
    types = bench.types()
    assert types.index("tool.started") < types.index("todo.updated") < types.index("tool.completed")


@pytest.mark.clause("CON-21")
@pytest.mark.parametrize(
    "items",
    [
        [{"text": "x", "status": "pending"}] * 51,
        [{"text": "", "status": "pending"}],
        [{"text": "x" * 501, "status": "pending"}],
        [{"text": "x", "status": "done"}],
        [{"text": "x"}],
        [{"text": "x", "status": "pending", "id": 1}],
        "x",
    ],
)
async def test_a_list_that_does_not_fit_is_refused_and_changes_nothing(workshop: Workshop, items: object) -> None:
    bench = workshop.bench()
    assert (await bench.call("todo_write", items=items)).is_error
    assert "todo.updated" not in bench.types()


@pytest.mark.clause("BND-2", "BND-16")
async def test_the_model_sees_its_own_set(workshop: Workshop) -> None:
    bench = workshop.bench(approval="auto-workspace")
    shown = json.loads(await bench.text("get_capabilities"))
    frozen = bench.context.capabilities.normalised()
    assert shown["capabilities"]["tools"] == list(frozen.tools)
    assert shown["capabilities"]["scopes"] == ["read-only", "workspace"]
    assert shown["network"] == "off"
    assert shown["approval"] == "auto-workspace"
    assert shown["sandbox"] == "on"
    assert shown["workspace_root"] == str(bench.context.root.path)
    assert str(bench.folder) not in json.dumps(shown)
