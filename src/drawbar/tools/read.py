"""``read``: a stretch of a text file, from a line on, with a footer that says how to go on (ENG-6)."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Final

from drawbar.boundary.native_files import MAX_HASHED_BYTES
from drawbar.boundary.text_files import UndecodableText, read_text
from drawbar.contracts.boundary import PathUse, Target, Verdict
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.tool import ToolContext, ToolResult, ToolSpec
from drawbar.tools.files import Excerpt, chunks_of, excerpt, in_thread, is_folder, missing_message
from drawbar.tools.filetypes import IMAGES, kind_of
from drawbar.tools.names import given_path, shown
from drawbar.tools.truncation import MAX_BYTES, MAX_LINES, count, head, size

__all__ = ["ReadInput", "ReadTool", "page"]

LONG_LINE_CHARS: Final = 2000
WIDE_BYTES: Final = 16 << 20


class ReadInput(Request):
    path: Annotated[str, Meta(min_length=1, description="The file, relative to the working directory or absolute.")]
    offset: Annotated[int, Meta(ge=1, description="The line to start from, counted from 1.")] | None = None
    limit: Annotated[int, Meta(ge=1, description="How many lines at most.")] | None = None


class ReadTool:
    """Reads what the gate opened and notes which version the model saw (QLT-10)."""

    spec = ToolSpec(
        name="read",
        description=(
            f"Read a text file. Gives at most {MAX_LINES:,} lines or {MAX_BYTES // 1024} KB from `offset` on; "
            "the last line says how to go on. The text is exactly what the file holds, so it can be used in edit."
        ),
        input=ReadInput,
        kind="read",
        plan_mode_safe=True,
        paths=lambda given: (PathUse("path", given_path(given.path), "read"),),
        parallel=True,
        guidance=(
            "Read a file before you edit or overwrite it, and read enough of it to be sure; use `offset` and "
            "`limit` for long files.",
            "Prefer read over bash with cat, head, tail or sed for looking at files.",
        ),
    )

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        given: ReadInput = verdict.input
        target = verdict.targets[0]
        name = shown(target.use.path)
        if target.fd is None:
            return ToolResult.error(missing_message(target, context.root.path))
        if is_folder(target.fd):
            return ToolResult.error(f"{name} is a folder. Use ls to list it, or find and grep to search in it.")
        length = os.fstat(target.fd).st_size
        if length > MAX_HASHED_BYTES:
            return ToolResult.error(f"{name} is {size(length)}, too large for read. Use bash with sed -n or tail.")
        first = given.offset or 1
        try:
            found, kind = await in_thread(target.fd, lambda fd: _looked_at(fd, first))
        except OSError as error:
            return ToolResult.error(f"{name} could not be read: {error.strerror}.")
        if kind is not None:
            return ToolResult.error(_no_text(name, kind, found.size))
        context.read_versions[str(target.path)] = found.sha256
        if found.size == 0:
            return ToolResult.text(f"[{name} is empty]")
        if first > found.total_lines:
            return ToolResult.error(
                f"{name} has {count(found.total_lines, 'line')}; offset {first} is past its end. "
                f"Use an offset from 1 to {found.total_lines}."
            )
        return ToolResult.text(page(found, target, first, given.limit))


def _looked_at(fd: int, first: int) -> tuple[Excerpt, str | None]:
    """An excerpt, and the kind of file where it is no text; UTF-16 and UTF-32 are text of another coding."""
    found = excerpt(chunks_of(fd), first)
    kind = kind_of(found.head)
    if kind is None or not kind.startswith("UTF-") or found.size > WIDE_BYTES:
        return found, kind
    try:
        text = read_text(b"".join(chunks_of(fd))).text
    except UndecodableText:
        return found, kind
    plain = excerpt([text.encode()] if text else [], first)
    return replace(plain, size=found.size, sha256=found.sha256), None


def page(found: Excerpt, target: Target, first: int, limit: int | None = None) -> str:
    """The text of one excerpt with its footer.

    Args:
        found: the excerpt, starting with line ``first``.
        target: the file, for hints that name it.
        first: its first line's number.
        limit: lines wanted at most.
    """
    name = shown(target.use.path)
    notes: list[str] = []
    text = found.data.decode("utf-8", "replace")
    if len(found.data) > MAX_BYTES:
        # The window may end inside a character; what is cut here is never shown.
        text = found.data[: found.data.rfind(b"\n") + 1 or None].decode("utf-8", "replace")
    if found.line_bytes > MAX_BYTES:
        body = text[:LONG_LINE_CHARS]
        notes.append(
            f"line {first:,} is {size(found.line_bytes)} long, too long to show: these are its first "
            f"{LONG_LINE_CHARS:,} characters. To see more of it use bash: sed -n '{first}p' FILE | cut -c 2001-4000"
        )
        last = first
        if last < found.total_lines:
            notes.append(f"use offset={last + 1} to go on after it")
        return f"{body}\n\n[{name}: {'; '.join(notes)}]"
    cut = head(text, lines=min(limit or MAX_LINES, MAX_LINES))
    last = first + cut.lines - 1
    if last < found.total_lines:
        notes.append(f"lines {first:,}-{last:,} of {found.total_lines:,} shown; use offset={last + 1} to go on")
    if "\ufffd" in cut.text and "\ufffd".encode() not in found.data:
        notes.append("bytes that are no UTF-8 are shown as \ufffd; an edit of other text keeps them as they are")
    if not notes:
        return cut.text
    separator = "\n" if cut.text.endswith("\n") else "\n\n"
    return f"{cut.text}{separator}[{name}: {'; '.join(notes)}]"


def _no_text(name: str, kind: str, length: int) -> str:
    if kind in IMAGES:
        return f"{name} is a {kind} of {size(length)}. Images can't be shown to you yet: read has no support for them."
    if kind.startswith("UTF-"):
        code = kind.split()[0]
        return f"{name} is {kind} of {size(length)}. Use bash to see it: iconv -f {code} -t UTF-8 FILE"
    return (
        f"{name} is no text: it is a {kind} of {size(length)}. Use bash with a program that knows the format "
        "(file, strings, unzip -l, xxd | head) to look into it."
    )
