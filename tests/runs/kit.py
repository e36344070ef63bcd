"""What the tests of whole runs share: a harness at a scripted model, and ways to look at what a run left."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drawbar
from drawbar.contracts.events.base import Event
from drawbar.contracts.run import RunInput, RunRecord
from drawbar.stores.history import HistoryFile, read_history
from drawbar.testing.scripted_model import ScriptedModel, Source

KEY = "test-credential-3f9a1c77b2e84d06"


@dataclass
class Bench:
    """An open harness, its scripted model, and the folder that runs work in."""

    harness: drawbar.Harness
    server: ScriptedModel
    project: Path
    data: Path

    async def start(self, text: str = "Do it.", **fields: Any) -> str:
        """Start a run and give its id; sandboxed, and asking nobody unless a field says otherwise."""
        ask_handler = fields.pop("ask_handler", None)
        settings: dict[str, Any] = {"cwd": str(self.project), "approval": "auto-workspace", **fields}
        started = await self.harness.sessions.run(RunInput(text=text, **settings), ask_handler=ask_handler)
        return started.run_id

    async def finish(self, run_id: str) -> list[Event]:
        """Every event of the run, to its end; the record has settled by then."""
        events = [event async for event in self.harness.runs.follow(run_id)]
        live = self.harness.runs.live.get(run_id)
        if live is not None:
            await live.settled.wait()
        return events

    async def run(self, text: str = "Do it.", **fields: Any) -> tuple[RunRecord, list[Event]]:
        run_id = await self.start(text, **fields)
        events = await self.finish(run_id)
        return self.harness.runs.get(run_id), events

    async def until(self, run_id: str, found: Callable[[Event], bool]) -> Event:
        """The first event for which ``found`` holds."""
        async for event in self.harness.runs.follow(run_id):
            if found(event):
                return event
        raise AssertionError("the run ended first")

    def messages(self, record: RunRecord) -> list[dict[str, Any]]:
        """The messages of the run's history, as entries hold them."""
        assert record.native_history is not None
        view = read_history(Path(record.native_history))
        return [entry["message"] for entry in view.entries if entry.get("type") == "message"]


@asynccontextmanager
async def bench(
    tmp_path: Path,
    source: Source,
    *,
    environ: dict[str, str] | None = None,
    data: Path | None = None,
    project: Path | None = None,
) -> AsyncIterator[Bench]:
    """Open a harness below ``tmp_path`` whose only account is a scripted model that plays ``source``."""
    root = data or tmp_path / "data"
    work = project or tmp_path / "project"
    work.mkdir(exist_ok=True)
    async with ScriptedModel(source) as server:
        environment = environment_for(server, root, tmp_path) | (environ or {})
        async with drawbar.open(root, environ=environment) as harness:
            yield Bench(harness, server, work, root)


def environment_for(server: ScriptedModel, root: Path, tmp_path: Path) -> dict[str, str]:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/root"),
        "LANG": "C.UTF-8",
        "XDG_RUNTIME_DIR": str(runtime),
        "DRAWBAR_HOME": str(root),
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": server.base_url,
    }


def payload(event: Event) -> dict[str, Any]:
    return json.loads(bytes(event.payload))


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


def of(events: list[Event], kind: str) -> list[dict[str, Any]]:
    return [payload(event) for event in events if event.type == kind]


def marked_processes(run_id: str) -> list[int]:
    """Processes that were started for a call of ``run_id`` and live still."""
    found: list[int] = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{name}/environ").read_bytes()
            command = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if run_id.encode() in environment or run_id.encode() in command:
            found.append(int(name))
    return found


def gone_within(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


__all__ = [
    "KEY",
    "Bench",
    "HistoryFile",
    "bench",
    "environment_for",
    "gone_within",
    "marked_processes",
    "of",
    "payload",
    "types",
]
