"""``find``: files and folders by name, by fd or without it, in the read-only scope (ENG-6)."""

from __future__ import annotations

from typing import Annotated, Any, Final

from drawbar.contracts.boundary import PathUse, Verdict
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.tool import ToolContext, ToolResult, ToolSpec
from drawbar.tools.files import is_folder, missing_message
from drawbar.tools.names import given_path, shown
from drawbar.tools.search.sandboxed import SearchPrograms, search
from drawbar.tools.truncation import MAX_BYTES, head

__all__ = ["FindInput", "FindTool"]

DEFAULT_LIMIT: Final = 1000
LIMIT_MAX: Final = 100_000
LIMIT_S: Final = 60.0


class FindInput(Request):
    pattern: Annotated[str, Meta(min_length=1, description="A glob: `*.py`, `src/**/test_*.py`, `*.{js,ts}`, `docs/`.")]
    path: Annotated[str, Meta(min_length=1, description="The folder; the working directory if left out.")] = "."
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description=f"Results at most ({DEFAULT_LIMIT:,} if left out).")] = (
        DEFAULT_LIMIT
    )


class FindTool:
    """Finds names below the folder that the gate opened.

    Args:
        programs: which search programs may be used.
    """

    spec = ToolSpec(
        name="find",
        description=(
            "Find files and folders by a glob, sorted by path and relative to the folder searched. A pattern without "
            "`/` is compared with names at any depth, one with `/` with the whole relative path; one that ends in `/` "
            "finds folders only. Skips what .gitignore names, and .git."
        ),
        input=FindInput,
        kind="read",
        plan_mode_safe=True,
        paths=lambda given: (PathUse("path", given_path(given.path), "list"),),
        parallel=True,
        limit_s=LIMIT_S,
    )

    def __init__(self, programs: SearchPrograms) -> None:
        self._programs = programs

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        given: FindInput = verdict.input
        target = verdict.targets[0]
        name = shown(target.use.path)
        if target.fd is None:
            return ToolResult.error(missing_message(target, context.root.path))
        if not is_folder(target.fd):
            return ToolResult.error(f"{name} is a file, not a folder. Name the folder to search in path.")
        pattern = given_path(given.pattern).removeprefix("./")
        if pattern.startswith("/") or ".." in pattern.split("/"):
            return ToolResult.error(
                f"The pattern {given.pattern} leads out of {name}: patterns are relative and go down only. "
                "Name the folder to search in path."
            )
        if not pattern.strip("/"):
            return ToolResult.error("The pattern names nothing. Use `*` for everything.")
        job = {"kind": "find", "pattern": pattern, "limit": given.limit}
        answer = await search(job, target, context, self._programs, names=("fd", "fdfind"), limit_s=LIMIT_S)
        if isinstance(answer, ToolResult):
            return answer
        if "error" in answer:
            return ToolResult.error(_explained(answer, name, given))
        if not answer["paths"]:
            return ToolResult.text(f"[nothing in {name} is called {given.pattern}]")
        cut = head("".join(f"{shown(path)}\n" for path in answer["paths"]), limit=MAX_BYTES - 512, lines=1990)
        if cut.whole and not answer["more"]:
            return ToolResult.text(cut.text)
        return ToolResult.text(
            f"{cut.text}\n[the first {cut.lines:,} are shown, there are more: use a narrower pattern or path"
            f"{', or a higher limit' if cut.whole and len(answer['paths']) == given.limit else ''}]"
        )


def _explained(answer: dict[str, Any], name: str, given: FindInput) -> str:
    if answer["error"] == "glob":
        return f"The pattern {given.pattern} was refused: it has {answer['message']}."
    if answer["error"] == "memory":
        return f"The search in {name} needed too much memory. Name a smaller folder in path."
    return f"{name} could not be searched: it was replaced meanwhile or can't be seen in the sandbox."
