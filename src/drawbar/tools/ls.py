"""``ls``: the entries of one folder, dotfiles included, folders with a slash (ENG-6)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Annotated, Final

from drawbar.contracts.boundary import PathUse, Verdict
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.tool import ToolContext, ToolResult, ToolSpec
from drawbar.tools.files import in_thread, is_folder, missing_message
from drawbar.tools.names import given_path, shown
from drawbar.tools.truncation import count, head

__all__ = ["LsInput", "LsTool"]

DEFAULT_LIMIT: Final = 500


class LsInput(Request):
    path: Annotated[str, Meta(min_length=1, description="The folder; the working directory if left out.")] = "."
    limit: Annotated[int, Meta(ge=1, description=f"Entries at most ({DEFAULT_LIMIT} if left out).")] | None = None


class LsTool:
    """Lists the folder that the gate opened."""

    spec = ToolSpec(
        name="ls",
        description="List a folder's entries by name, dotfiles included; a folder's name ends in `/`.",
        input=LsInput,
        kind="read",
        plan_mode_safe=True,
        paths=lambda given: (PathUse("path", given_path(given.path), "list"),),
        parallel=True,
    )

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        given: LsInput = verdict.input
        target = verdict.targets[0]
        name = shown(target.use.path)
        if target.fd is None:
            return ToolResult.error(missing_message(target, context.root.path))
        if not is_folder(target.fd):
            return ToolResult.error(f"{name} is a file, not a folder. Use read to see it.")
        limit = given.limit or DEFAULT_LIMIT
        try:
            names, total = await in_thread(target.fd, lambda fd: _entries(fd, limit))
        except OSError as error:
            return ToolResult.error(f"{name} could not be listed: {error.strerror}.")
        if not total:
            return ToolResult.text(f"[{name} is empty]")
        cut = head("".join(f"{entry}\n" for entry in names))
        if cut.lines == total:
            return ToolResult.text(cut.text)
        more = f" Use a limit above {limit:,}, or find with a pattern." if cut.whole else " Use find with a pattern."
        return ToolResult.text(f"{cut.text}\n[{cut.lines:,} of {count(total, 'entry', 'entries')} shown.{more}]")


def _entries(folder: int, limit: int) -> tuple[list[str], int]:
    """The first ``limit`` entries by name, and how many there are; never more than that in memory."""
    total = 0

    def sortable(entries: Iterable[os.DirEntry[str]]) -> Iterator[tuple[str, str]]:
        nonlocal total
        for entry in entries:
            total += 1
            yield entry.name.casefold(), entry.name + ("/" if entry.is_dir() else "")

    with os.scandir(folder) as entries:
        chosen = nsmallest(limit, sortable(entries))
    return [shown(name) for _key, name in chosen], total
