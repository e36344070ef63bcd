"""Each file of a run's folder has one writer in the code; another needs a decision first (CON-26, CON-39)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.stores.support import answer_of, python
from tests.stores.writers import SOMEWHERE, writers_in

import drawbar

SOURCE = Path(drawbar.__file__).parent

OWNERS: dict[str, set[str]] = {
    "run.json": {"stores.runs"},
    "owner.json": {"stores.runs"},
    "subagents.json": {"stores.runs"},
    "capabilities.json": {"stores.runs"},
    "events.jsonl": {"stores.event_log"},
    "late.jsonl": {"stores.late_log"},
    "artifacts/": {"stores.event_log", "stores.artifacts"},
    "context.json": {"prompt.compiler"},
    "caller.json": {"sessions.service"},
    "mcp-context.json": {"tools.mcp"},
}
"""Who may write what; a new entry goes with a page in docs/decisions/."""

WHOLE_FOLDERS = {"stores.run_folders"}
"""Who makes and publishes run folders as a whole."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.clause("CON-26", "CON-39", "ARC-1")
def test_no_module_writes_a_file_of_a_run_that_another_owns() -> None:
    strangers: list[str] = []
    seen: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = module_of(path)
        for file, line in sorted(writers_in(path.read_text(encoding="utf-8"))):
            seen.setdefault(file, set()).add(module)
            allowed = WHOLE_FOLDERS if file == SOMEWHERE else OWNERS[file]
            if not any(module == owner or module.startswith(f"{owner}.") for owner in allowed):
                strangers.append(f"{module}:{line} writes {file}; its owner is {', '.join(sorted(allowed))}")
    assert not strangers, "\n".join(strangers)
    for file in ("run.json", "owner.json", "capabilities.json", "events.jsonl", "late.jsonl", "artifacts/"):
        assert seen.get(file), f"the walk no longer sees who writes {file}"


@pytest.mark.clause("CON-26")
@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("(folder / 'run.json').write_text('x')", "run.json"),
        ("write_atomic(folder / RUN_FILE, b'')", "run.json"),
        ("def f(a):\n  p = a / 'late.jsonl'\n  q = p\n  with q.open('ab') as out: out.write(b'')", "late.jsonl"),
        ("def f(a):\n  open(f'{a}/context.json', 'w')", "context.json"),
        ("def f(a):\n  os.open(a / 'events.jsonl', os.O_RDWR)", "events.jsonl"),
        ("def f(a, b):\n  os.replace(b, a / 'runs' / 'x' / 'owner.json')", "owner.json"),
        ("def f(layout, r):\n  (layout.run(r) / 'notes.txt').write_bytes(b'')", SOMEWHERE),
        ("def f(store, r):\n  folder = store.folder(r)\n  shutil.rmtree(folder)", SOMEWHERE),
        ("async def f(a):\n  if (p := a / 'artifacts' / 'x'):\n    p.mkdir()", "artifacts/"),
    ],
)
def test_the_walk_sees_a_new_writer(source: str, file: str) -> None:
    assert {found for found, _ in writers_in(source)} == {file}


@pytest.mark.clause("CON-26")
@pytest.mark.parametrize(
    "source",
    [
        "(folder / 'run.json').read_text()",
        "open(folder / 'events.jsonl', 'rb')",
        "def f(a):\n  p = a / 'events.jsonl'\n  p.open('rb')",
        "write_atomic(folder / 'other.json', b'')",
        "def f(layout, r):\n  return layout.run(r) / 'run.json'",
    ],
)
def test_reading_is_no_writing(source: str) -> None:
    assert writers_in(source) == set()


@pytest.mark.clause("CON-26")
def test_what_a_run_really_writes_comes_from_the_owners(tmp_path: Path) -> None:
    """The same, seen by the interpreter: whatever is opened for writing, renamed or removed, and by which module."""
    code = """
        import json, os, sys
        seen = set()

        def hook(event, args):
            if event == "open" and not (isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
                return
            if event not in ("open", "os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir"):
                return
            for path in args[: 2 if event == "os.rename" else 1]:
                if isinstance(path, (str, os.PathLike)) and "/runs/" in str(path):
                    frame = sys._getframe(1)
                    while frame and not frame.f_globals.get("__name__", "").startswith("drawbar.stores."):
                        frame = frame.f_back
                    while frame and frame.f_globals["__name__"] in ("drawbar.stores.atomic", "drawbar.stores.locks"):
                        frame = frame.f_back
                    seen.add((os.path.basename(str(path)), frame.f_globals["__name__"] if frame else "?"))

        from pathlib import Path
        from drawbar.contracts.capability import CapabilitySet
        from drawbar.contracts.clock import SystemClock
        from drawbar.contracts.events.lifecycle import Completed, StatusChanged
        from drawbar.contracts.ids import new_id
        from drawbar.contracts.run import RunRecord
        from drawbar.stores.layout import Layout
        from drawbar.stores.redaction import SecretRedactor
        from drawbar.stores.runs import RunStore
        layout = Layout.resolve({}, Path(sys.argv[1]))
        layout.open()
        sys.addaudithook(hook)
        store = RunStore(layout, redactor=SecretRedactor(), clock=SystemClock())
        record = RunRecord(id=new_id("run"))
        log = store.create(record, CapabilitySet())
        log.append(StatusChanged(to="running"))
        log.close()
        with open(log.path, "ab") as file:
            file.write(b"torn")
        seen.clear()
        log = store.take_over(record.id)
        log.append(Completed())
        log.append(Completed())
        store.patch(record.id, {"status": "completed"})
        store.settle_marker(record.id)
        log.close()
        print(json.dumps(sorted(seen)))
    """
    seen = json.loads(answer_of(python(code, str(tmp_path / "root"))))
    assert seen
    names = {f"drawbar.{owner}" for owners in OWNERS.values() for owner in owners} | {"drawbar.stores.chained_file"}
    assert {module for _, module in seen} <= names
    owned = {name: module for name, module in seen if name in OWNERS}
    assert owned["late.jsonl"] == "drawbar.stores.late_log"
    assert owned["events.jsonl"] == "drawbar.stores.chained_file"
    assert {module for name, module in seen if "run.json" in name} == {"drawbar.stores.runs"}
    assert {module for name, module in seen if "owner.json" in name} == {"drawbar.stores.runs"}
