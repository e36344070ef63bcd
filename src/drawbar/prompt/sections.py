"""The named parts of a prompt and the order in which they stand (PRM-2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drawbar.contracts.codec import Record
from drawbar.contracts.errors import InvalidInput

__all__ = ["APPLICATION_ORDER", "DYNAMIC", "HEADINGS", "ORDERS", "Section", "arranged", "named"]

APPLICATION_ORDER: Final = 20

ORDERS: Final[dict[str, int]] = {
    "identity": 10,
    "system": 25,
    "continuation": 26,
    "role": 30,
    "guardrails": 40,
    "memory": 45,
    "environment": 50,
    "tools": 60,
    "subagents": 64,
    "scripts": 66,
    "skills": 68,
    "project": 70,
    "plan": 80,
}
"""Every other name is a section of the embedding application, order 20."""

DYNAMIC: Final = frozenset({"continuation", "plan"})
"""These change within a conversation, so they travel in the history and never in the system prompt (PRM-1)."""

HEADINGS: Final[dict[str, str]] = {
    "role": "Your role",
    "guardrails": "Guardrails",
    "memory": "Memory",
    "environment": "Environment",
    "tools": "Using the tools",
    "subagents": "Subagents",
    "scripts": "Scripts",
    "skills": "Skills",
    "project": "Project instructions",
}


class Section(Record):
    """One part: ``text`` stands under the heading of its name, if that has one."""

    name: str
    order: int
    text: str
    dynamic: bool = False


def named(name: str, text: str) -> Section:
    """A section with the order and kind that its name has."""
    return Section(name=name, order=ORDERS.get(name, APPLICATION_ORDER), text=text, dynamic=name in DYNAMIC)


def arranged(sections: Iterable[Section]) -> list[Section]:
    """The sections in their order; those of one order stay as they were given; empty ones are left out.

    Raises:
        InvalidInput: two sections have the same name, or one has an order or a kind that isn't its name's.
    """
    found: dict[str, Section] = {}
    for section in sections:
        if section.name in found:
            raise InvalidInput(f"prompt: two sections are called {section.name}", field="sections")
        order = ORDERS.get(section.name, APPLICATION_ORDER)
        if section.order != order:
            raise InvalidInput(
                f"prompt: section {section.name} has order {section.order}, its place is {order}", field="sections"
            )
        if section.dynamic != (section.name in DYNAMIC):
            raise InvalidInput(
                f"prompt: section {section.name} can't be {'dynamic' if section.dynamic else 'stable'}",
                field="sections",
            )
        found[section.name] = section
    filled = (section for section in found.values() if section.text.strip())
    return sorted(filled, key=lambda section: section.order)
