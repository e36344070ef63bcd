"""``write``: a whole file, new or in place of the version that the model last read (BND-7, QLT-10)."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Annotated, Any, Final

from drawbar.boundary.native_files import StaleFile, WriteOutcome, WriteRefused, read_target
from drawbar.boundary.write_scope import WriteJob, WriteScope
from drawbar.contracts.boundary import PathUse, PinnedRoot, Target, Verdict
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.errors import DrawbarError, SandboxUnavailable
from drawbar.contracts.tool import FileChange, ToolContext, ToolResult, ToolSpec
from drawbar.tools.diffs import DIFFED_BYTES, change_details, on_disk
from drawbar.tools.files import in_thread
from drawbar.tools.names import given_path, shown
from drawbar.tools.placeholders import new_placeholder
from drawbar.tools.truncation import MAX_BYTES, MAX_LINES, count, head, size

__all__ = ["WriteInput", "WriteTool", "changed", "put", "stale_result"]

COMPARED_BYTES: Final = 32 << 20


class WriteInput(Request):
    path: Annotated[str, Meta(min_length=1, description="The file, relative to the working directory or absolute.")]
    content: Annotated[str, Meta(description="All that the file will hold.")]


class WriteTool:
    """Writes within the operating system's write scope, onto the version that the model knows."""

    spec = ToolSpec(
        name="write",
        description=(
            "Write a whole file; missing folders are made. An existing file must have been read before, and is only "
            "replaced if it hasn't changed since."
        ),
        input=WriteInput,
        kind="write",
        paths=lambda given: (PathUse("path", given_path(given.path), "write"),),
        guidance=("Use write for new files and for rewriting one completely; use edit for everything else.",),
    )

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        given: WriteInput = verdict.input
        target = verdict.targets[0]
        name = shown(target.use.path)
        known = context.read_versions.get(str(target.path))
        if target.fd is not None and known is None:
            return ToolResult.error(
                f"{name} exists and you have not read it. Read it first, then write it again, or change a part of it "
                "with edit."
            )
        if target.fd is not None:
            before = await in_thread(target.fd, lambda fd: _beginning(target, fd, COMPARED_BYTES))
            if lost := new_placeholder(given.content, before):
                return ToolResult.error(
                    f"content holds {lost}, which stands for a secret that you are not shown; writing it would replace "
                    f"the real one in {name}. Change the other parts of the file with edit."
                )
        data = given.content.encode()
        try:
            outcome = await put(target, data, known, context)
        except StaleFile as error:
            return stale_result(error, target, context)
        except (WriteRefused, SandboxUnavailable) as error:
            return ToolResult.error(f"{error.message}.")
        lines = count(data.count(b"\n") + (not data.endswith(b"\n") and bool(data)), "line")
        if outcome.change == "unchanged":
            return ToolResult.text(f"{name} already held exactly this; nothing was written.")
        said = "Created" if outcome.change == "created" else "Replaced"
        return await changed(f"{said} {name}: {lines}, {size(len(data))}.", outcome, target, context)


async def put(target: Target, data: bytes, expected_sha256: str | None, context: ToolContext) -> WriteOutcome:
    """Write ``data`` in a write scope of its own, and note the version that the model knows from now on.

    A write that has begun is finished even when the call is stopped: its outcome stands (QLT-8).

    Raises:
        StaleFile, WriteRefused, StorageFailed, SandboxUnavailable: nothing was written.
    """
    ended: list[WriteOutcome] = []

    def settled(_job: WriteJob, end: WriteOutcome | DrawbarError) -> None:
        if isinstance(end, WriteOutcome):
            ended.append(end)

    scope = WriteScope(context.root, sandbox="off" if context.facts.get("sandbox") == "off" else "on")
    try:
        outcome = await scope.write_one(WriteJob(target, data, expected_sha256), settled=settled)
    except asyncio.CancelledError:
        if not ended:
            raise
        outcome = ended[0]
    finally:
        scope.close()
    context.read_versions[str(target.path)] = outcome.after
    return outcome


async def changed(
    text: str, outcome: WriteOutcome, target: Target, context: ToolContext, before: bytes | None = None
) -> ToolResult:
    """The result of a change, with its diff as the disk shows it.

    Args:
        before: what the file held; read from the descriptor that the gate opened if left out.
    """
    assert target.relative is not None
    assert outcome.change != "unchanged"
    change = FileChange(path=target.relative, change=outcome.change, before=outcome.before, after=outcome.after)
    details: dict[str, Any] | None = None
    if target.fd is not None:
        # A stop that comes now costs the diff, never the record of the change.
        with contextlib.suppress(asyncio.CancelledError, OSError):
            details = await in_thread(target.fd, lambda fd: _details(target, fd, context.root, before))
    return ToolResult.text(text, changes=[change], details=details)


def _details(target: Target, fd: int, root: PinnedRoot, before: bytes | None) -> dict[str, Any] | None:
    after = on_disk(target, root)
    if after is None:
        return None
    if before is None:
        before = _beginning(target, fd, DIFFED_BYTES)
    return change_details(before, after, shown(target.relative or target.name))


def _beginning(target: Target, fd: int, limit: int) -> bytes:
    return read_target(replace(target, fd=fd, parent_fd=None), limit=limit).data


def stale_result(error: StaleFile, target: Target, context: ToolContext) -> ToolResult:
    """A refused write, with what is there now; shown whole it counts as read (EDT-06)."""
    key = str(target.path)
    context.read_versions.pop(key, None)
    if error.current is None or error.sha256 is None:
        return ToolResult.error(f"{error.message}.")
    cut = head(error.current.decode("utf-8", "replace"), lines=MAX_LINES - 20, limit=MAX_BYTES - 1024)
    if cut.whole and len(error.current) == error.size:
        context.read_versions[key] = error.sha256
        return ToolResult.error(f"{error.message}. It holds now:\n\n{cut.text}")
    return ToolResult.error(
        f"{error.message}. It holds {size(error.size)} now, beginning with the lines below. Read the rest before you "
        f"write it again.\n\n{cut.text}"
    )
