"""Finds, in source text, the calls that write into a run's folder, and what they write there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

FILES = {
    "RUN_FILE": "run.json",
    "EVENTS_FILE": "events.jsonl",
    "LATE_FILE": "late.jsonl",
    "OWNER_FILE": "owner.json",
    "SUBAGENTS_FILE": "subagents.json",
    "CONTEXT_FILE": "context.json",
    "CALLER_FILE": "caller.json",
    "CAPABILITIES_FILE": "capabilities.json",
    "MCP_CONTEXT_FILE": "mcp-context.json",
    "ARTIFACTS_FOLDER": "artifacts/",
}
SOMEWHERE = "somewhere in a run folder"
FOLDERS = {"run", "folder", "existing"}
"""Methods of the layout and the store that give a run's folder."""

FUNCTIONS = {
    "write_atomic", "update_json", "private_folder", "open_locked", "append_late", "set_fragment_aside", "copytree",
    "copyfile", "copy", "copy2", "move", "rmtree", "mkstemp", "NamedTemporaryFile",
}  # fmt: skip
METHODS = {
    "write_text", "write_bytes", "touch", "unlink", "rename", "replace", "mkdir", "rmdir", "symlink_to", "hardlink_to",
    "chmod", "truncate", "ftruncate", "remove", "makedirs", "link", "symlink",
}  # fmt: skip
FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"}


def writers_in(source: str) -> set[tuple[str, int]]:
    """``(file, line)`` of every call in ``source`` that can write a file of a run's folder."""
    tree = ast.parse(source)
    found: set[tuple[str, int]] = set()
    for scope in [
        tree,
        *(node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))),
    ]:
        names = _names(scope)
        for call in (node for node in _within(scope) if isinstance(node, ast.Call) and _writes(node)):
            targets = {target for part in _parts(call) for target in _targets(part, names)}
            if len(targets) > 1:
                targets.discard(SOMEWHERE)
            found |= {(target, call.lineno) for target in targets}
    return found


def _within(scope: ast.AST) -> Iterator[ast.AST]:
    """What belongs to ``scope`` itself, not to a function inside it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _within(child)


def _names(scope: ast.AST) -> dict[str, set[str]]:
    """The local variables that hold a path into a run's folder, followed through assignments to a standstill."""
    names: dict[str, set[str]] = {}
    while True:
        before = sum(map(len, names.values()))
        for node in _within(scope):
            for target, value in _assignments(node):
                if isinstance(target, ast.Name):
                    names.setdefault(target.id, set()).update(_targets(value, names))
        if sum(map(len, names.values())) == before:
            return names


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.With):
        yield from ((item.optional_vars, item.context_expr) for item in node.items if item.optional_vars is not None)
    elif isinstance(node, ast.For):
        yield node.target, node.iter


def _targets(expression: ast.AST, names: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(expression):
        if isinstance(node, ast.Name):
            found |= {FILES[node.id]} if node.id in FILES else names.get(node.id, set())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts = node.value.split("/")
            found |= {
                file for file in FILES.values() if file in parts or (file == "artifacts/" and "artifacts" in parts)
            }
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FOLDERS:
            found.add(SOMEWHERE)
    return found


def _writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "open":
        texts = [n.value for part in ast.walk(call) for n in [part] if isinstance(n, ast.Constant)]
        modes = [text for text in texts if isinstance(text, str) and 0 < len(text) <= 3 and set(text) <= set("rwxab+t")]
        flags = {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)} & FLAGS
        return bool(flags) or any(set(mode) & set("wxa+") for mode in modes)
    return name in FUNCTIONS or (isinstance(call.func, ast.Attribute) and name in METHODS)


def _parts(call: ast.Call) -> list[ast.AST]:
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return [*owner, *call.args, *(keyword.value for keyword in call.keywords)]
