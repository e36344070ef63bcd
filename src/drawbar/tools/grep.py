"""``grep``: lines that match a pattern, by ripgrep or without it, in the read-only scope (ENG-6)."""

from __future__ import annotations

from typing import Annotated, Any, Final

from drawbar.contracts.boundary import PathUse, Verdict
from drawbar.contracts.codec import Meta, Request
from drawbar.contracts.tool import ToolContext, ToolResult, ToolSpec
from drawbar.tools.files import is_folder, missing_message
from drawbar.tools.names import given_path, shown
from drawbar.tools.search.sandboxed import SearchPrograms, search
from drawbar.tools.truncation import MAX_BYTES, MAX_LINES, head

__all__ = ["GrepInput", "GrepTool"]

DEFAULT_LIMIT: Final = 100
CONTEXT_MAX: Final = 100
LINE_CHARS: Final = 500
LIMIT_S: Final = 60.0


class GrepInput(Request, rename={"ignore_case": "ignoreCase"}):
    pattern: Annotated[str, Meta(min_length=1, description="A regular expression, matched line by line.")]
    path: Annotated[str, Meta(min_length=1, description="The file or folder; the working directory if left out.")] = "."
    glob: (
        Annotated[str, Meta(min_length=1, description="Only files like this: `*.py`, `src/**/*.ts`, `!*.md`.")] | None
    ) = None
    ignore_case: Annotated[bool, Meta(description="Match letters of either case.")] = False
    literal: Annotated[bool, Meta(description="Take the pattern as plain text.")] = False
    context: Annotated[int, Meta(ge=0, le=CONTEXT_MAX, description="Lines to show around each match.")] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_LINES, description=f"Matches at most ({DEFAULT_LIMIT} if left out).")] = (
        DEFAULT_LIMIT
    )


class GrepTool:
    """Searches what the gate opened.

    Args:
        programs: which search programs may be used.
    """

    spec = ToolSpec(
        name="grep",
        description=(
            "Search file contents with a regular expression. Gives `path:line: text` for each match, paths relative "
            "to the folder searched. Skips what .gitignore names, .git, and binary files."
        ),
        input=GrepInput,
        kind="read",
        plan_mode_safe=True,
        paths=lambda given: (PathUse("path", given_path(given.path), "read"),),
        parallel=True,
        limit_s=LIMIT_S,
        guidance=(
            "grep patterns: . [a-z] [^a] \\d \\w \\s ^ $ \\b ( ) | * + ? {n,m}; a brace that is no count is a literal "
            "brace. Use `literal` for plain text and `glob` to name the files.",
        ),
    )

    def __init__(self, programs: SearchPrograms) -> None:
        self._programs = programs

    async def run(self, verdict: Verdict, context: ToolContext) -> ToolResult:
        given: GrepInput = verdict.input
        target = verdict.targets[0]
        if target.fd is None:
            return ToolResult.error(missing_message(target, context.root.path))
        job = {
            "kind": "grep",
            "pattern": given.pattern,
            "glob": given.glob,
            "ignore_case": given.ignore_case,
            "literal": given.literal,
            "context": given.context,
            "limit": given.limit,
        }
        folder = is_folder(target.fd)
        answer = await search(job, target, context, self._programs, names=("rg",), limit_s=LIMIT_S)
        if isinstance(answer, ToolResult):
            return answer
        name = shown(target.use.path)
        if "error" in answer:
            return ToolResult.error(_explained(answer, name, given))
        if not answer["matches"]:
            return ToolResult.text(f"[no line matches in {name}]")
        return ToolResult.text(_listing(answer, given, None if folder else target.path.name))


def _explained(answer: dict[str, Any], name: str, given: GrepInput) -> str:
    said = " ".join(str(answer.get("message", "")).split())
    match answer["error"]:
        case "pattern":
            return (
                f"The pattern was refused: {said}. Use the common syntax (. [] \\d \\w \\s ^ $ \\b () | * + ? {{n,m}}) "
                "or `literal`."
            )
        case "glob":
            return f"The glob {given.glob} was refused: it has {said}."
        case "binary":
            return f"{name} is a binary file, which grep doesn't search. Use bash with strings or grep -a."
        case "memory":
            return f"The search in {name} needed too much memory. Name a smaller folder in path, or use glob."
        case _:
            return f"{name} could not be searched: it was replaced meanwhile or can't be seen in the sandbox ({said})."


def _listing(answer: dict[str, Any], given: GrepInput, only: str | None) -> str:
    lines: list[str] = []
    long_lines = False
    for path, hits in answer["files"]:
        name = shown(only or path)
        last = 0
        for number, matched, text, was_cut in hits:
            if given.context and lines and number != last + 1:
                lines.append("--")
            last = number
            mark = ":" if matched else "-"
            lines.append(f"{name}{mark}{number}{mark} {text}{'…' if was_cut else ''}")
            long_lines = long_lines or was_cut
    notes: list[str] = []
    cut = head("".join(f"{line}\n" for line in lines), limit=MAX_BYTES - 512, lines=MAX_LINES - 3)
    if answer["more"]:
        shown_matches = f"{answer['matches']:,} matches shown, there are more"
        notes.append(f"{shown_matches}: use a higher limit, or a narrower pattern, path or glob")
    if not cut.whole:
        notes.append(f"only the first {cut.lines:,} of {len(lines):,} lines fit: use a narrower pattern, path or glob")
    if long_lines:
        notes.append(f"lines over {LINE_CHARS} characters are cut (…): use read to see them whole")
    return f"{cut.text}\n[{'; '.join(notes)}]" if notes else cut.text
