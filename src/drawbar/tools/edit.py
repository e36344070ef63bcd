"""``edit``: exact replacements in one file, all found in what is there and put in place at once (ENG-6, QLT-10)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Final

from drawbar.boundary.edits import EditFailed, EditOutcome, edit_bytes
from drawbar.boundary.native_files import FileBytes, FileUnreadable, StaleFile, WriteRefused, read_target
from drawbar.contracts.boundary import PathUse, Target, Verdict
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.errors import SandboxUnavailable
from drawbar.contracts.tool import ToolContext, ToolResult, ToolSpec
from drawbar.tools.files import in_thread, missing_message
from drawbar.tools.filetypes import HEAD_BYTES, kind_of
from drawbar.tools.names import given_path, shown
from drawbar.tools.placeholders import new_placeholder
from drawbar.tools.truncation import clip, count, head, size
from drawbar.tools.write import changed, put, stale_result

__all__ = ["EditInput", "EditTool", "Replacement"]

MAX_BYTES: Final = 32 << 20
EDITS_MAX: Final = 100
AROUND_LINES: Final = 40
EXCERPT_BYTES: Final = 16 * 1024


class Replacement(Request, rename={"old_text": "oldText", "new_text": "newText"}):
    old_text: Annotated[str, Meta(min_length=1, description="Text of the file, found in it exactly once.")]
    new_text: Annotated[str, Meta(description="What takes its place.")]


class EditInput(Request):
    path: Annotated[str, Meta(min_length=1, description="The file, relative to the working directory or absolute.")]
    edits: Annotated[
        list[Replacement],
        Meta(
            min_length=1,
            max_length=EDITS_MAX,
            description="Replacements, each found in the file as it is now; they must not overlap.",
        ),
    ]


class EditTool:
    """Changes what an edit says and no other byte, onto the version that the model knows."""

    spec = ToolSpec(
        name="edit",
        description=(
            "Change parts of a file by replacing exact text. Each oldText must be in the file exactly once; several "
            "replacements go in one call. Line ends and white space at line ends need not match. Everything else in "
            "the file stays as it is."
        ),
        input=EditInput,
        kind="write",
        paths=lambda given: (PathUse("path", given_path(given.path), "write"),),
        guidance=(
            "Copy oldText from what read showed, with enough lines around it to be found once, and no more. Put all "
            "changes of one file in one edit call.",
        ),
    )

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        given: EditInput = verdict.input
        target = verdict.targets[0]
        name = shown(target.use.path)
        if target.fd is None:
            return ToolResult.error(missing_message(target, context.root.path) + " Use write to make a new file.")
        try:
            there = await in_thread(
                target.fd, lambda fd: read_target(replace(target, fd=fd, parent_fd=None), limit=MAX_BYTES)
            )
        except FileUnreadable as error:
            return ToolResult.error(f"{error.message}.")
        if there.truncated:
            return ToolResult.error(f"{name} is {size(there.size)}, too large for edit. Change it with bash.")
        kind = kind_of(there.data[:HEAD_BYTES])
        if kind is not None and not kind.startswith("UTF-"):
            return ToolResult.error(f"{name} is no text: it is a {kind} of {size(there.size)}. Change it with bash.")
        known = context.read_versions.get(str(target.path))
        if known is not None and known != there.sha256:
            return _stale(given, there, target, context)
        pairs = [(edit.old_text, edit.new_text) for edit in given.edits]
        lost = next((found for _old, new in pairs if (found := new_placeholder(new, there.data))), None)
        if lost is not None:
            return ToolResult.error(
                f"newText holds {lost}, which stands for a secret that you are not shown; written into {name} it would "
                "replace the real one. Leave that part of the file out of the edit."
            )
        try:
            outcome = await asyncio.to_thread(edit_bytes, there.data, pairs, path=name)
            written = await put(target, outcome.data, there.sha256, context)
        except EditFailed as error:
            return ToolResult.error(f"{clip(error.message, 4000)}. Nothing was changed.")
        except StaleFile as error:
            return stale_result(error, target, context)
        except (WriteRefused, SandboxUnavailable) as error:
            return ToolResult.error(f"{error.message}.")
        return await changed(_said(name, outcome), written, target, context, there.data)


def _said(name: str, outcome: EditOutcome) -> str:
    text = f"Edited {name}: {count(outcome.replaced, 'replacement')}, from line {outcome.first_changed_line:,} on."
    if outcome.tolerant:
        text += f" {count(outcome.tolerant, 'oldText')} fitted only but for white space or typographic characters."
    return text


def _stale(given: EditInput, there: FileBytes, target: Target, context: ToolContext) -> ToolResult:
    """The file isn't what the model read: show the places that it meant as they are now (EDT-06)."""
    name = shown(target.use.path)
    text = there.data.decode("utf-8", "replace")
    context.read_versions[str(target.path)] = there.sha256
    return ToolResult.error(
        f"{name} has changed since you read it; nothing was changed. This is what is there now, look whether your edit "
        f"still fits and send it again:\n\n{_around(text, [edit.old_text for edit in given.edits])}"
    )


def _around(text: str, wanted: list[str]) -> str:
    """The lines around the places that the edits meant, or the beginning where none is found."""
    lines = text.split("\n")
    keep: set[int] = set()
    for old in wanted:
        first = old.strip().split("\n", 1)[0].strip()
        for number, line in enumerate(lines):
            if first and first in line:
                keep.update(range(max(0, number - AROUND_LINES // 2), number + old.count("\n") + AROUND_LINES // 2))
                break
    shown_lines = sorted(number for number in keep or range(2 * AROUND_LINES) if number < len(lines))
    parts: list[str] = []
    before = -1
    for number in shown_lines:
        if number != before + 1:
            parts.append(f"[… lines {before + 2:,}-{number:,} left out …]")
        parts.append(lines[number])
        before = number
    if before < len(lines) - 1:
        parts.append(f"[… lines {before + 2:,}-{len(lines):,} left out …]")
    return head("\n".join(parts), limit=EXCERPT_BYTES).text
