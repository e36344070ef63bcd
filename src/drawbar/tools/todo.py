"""``todo_write``: the model's list of what is left, kept as an event that the latest one replaces (CON-21)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from drawbar.contracts.boundary import Verdict
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.events.progress import MAX_TODO_ITEMS, TodoItem, TodoUpdated
from drawbar.contracts.tool import ToolContext, ToolResult, ToolSpec
from drawbar.tools.truncation import count

__all__ = ["TodoTool", "TodoWriteInput"]

ITEM_CHARS: Final = 500


class TodoEntry(Request):
    text: Annotated[str, Meta(min_length=1, max_length=ITEM_CHARS, description="What is to be done.")]
    status: Literal["pending", "in_progress", "completed"]


class TodoWriteInput(Request):
    items: Annotated[list[TodoEntry], Meta(max_length=MAX_TODO_ITEMS, description="The whole list, in order.")]


class TodoTool:
    """Writes the list; nothing outside the harness changes."""

    spec = ToolSpec(
        name="todo_write",
        description=(
            f"Keep a list of the steps of a larger task, at most {MAX_TODO_ITEMS}. Each call gives the whole list and "
            "replaces the one before; an empty list clears it."
        ),
        input=TodoWriteInput,
        kind="internal",
        plan_mode_safe=True,
        guidance=(
            "Use todo_write for work of several steps, with one item in_progress at a time; mark an item completed as "
            "soon as it is done and never before. Leave it out for small tasks.",
        ),
    )

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        given: TodoWriteInput = verdict.input
        items = [TodoItem(text=entry.text, status=entry.status) for entry in given.items]
        context.emit(TodoUpdated(items=items))
        if not items:
            return ToolResult.text("The list is empty now.")
        done = sum(item.status == "completed" for item in items)
        current = next((item.text for item in items if item.status == "in_progress"), None)
        return ToolResult.text(
            f"Saved: {count(len(items), 'item')}, {done} completed." + (f" In progress: {current}" if current else "")
        )
