"""The harness's side of these tests as a program of its own, so that any user can be the one who runs it.

Reads one JSON object a line and answers each with one: ``open`` a workspace, ``run`` a command in its sandbox, run one
``outside`` as the person would, ``close`` what was opened.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from drawbar.boundary.bubblewrap import Bubblewrap
from drawbar.boundary.roots import pin_root
from drawbar.boundary.runner import SandboxRunner
from drawbar.contracts.boundary import CommandRequest, Policy
from drawbar.contracts.errors import DrawbarError


class Side:
    """What was opened, by number."""

    def __init__(self) -> None:
        self._backend = Bubblewrap()
        self._runners: dict[int, SandboxRunner] = {}

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        what = asked.pop("what")
        try:
            return await getattr(self, f"do_{what}")(**asked)
        except DrawbarError as error:
            return {"refused": str(error)}

    async def do_trial(self) -> dict[str, Any]:
        trial = await self._backend.trial()
        return {"ok": trial.ok, "cause": trial.cause}

    async def do_open(self, root: str, data: str, keep: bool, environ: dict[str, str]) -> dict[str, Any]:
        hidden = Path(data)
        hidden.mkdir(parents=True, exist_ok=True)
        pinned = pin_root(Path(root), hidden=[hidden], home=Path(environ["HOME"]))
        policy = Policy(root=pinned, tools=frozenset({"bash"}), scopes=("read-only", "workspace"), hidden=(hidden,))
        runner = SandboxRunner(
            policy,
            backend=self._backend,
            private_tmp=hidden / "private",
            environ=environ,
            marker="DRAWBAR_CALL=r_test",
            keep=keep,
        )
        number = len(self._runners)
        self._runners[number] = runner
        return {"box": number, "root": str(pinned.path)}

    async def do_run(self, box: int, argv: list[str], scope: str, limit_s: float, stdin: str | None) -> dict[str, Any]:
        request = CommandRequest(
            argv=tuple(argv),
            scope=scope,
            limit_s=limit_s,
            stdin=None if stdin is None else stdin.encode(),  # pyright: ignore[reportArgumentType]
        )
        result = await self._runners[box].run(request)
        return {
            "cause": result.cause,
            "exit_code": result.exit_code,
            "output": result.output,
            "denial": result.denial,
        }

    async def do_outside(self, argv: list[str], cwd: str, environ: dict[str, str]) -> dict[str, Any]:
        done = subprocess.run(
            argv, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False,
        )  # fmt: skip
        return {"exit_code": done.returncode, "output": done.stdout.decode("utf-8", "replace")}

    async def do_close(self, box: int) -> dict[str, Any]:
        await self._runners[box].close()
        return {}


async def main() -> None:
    side = Side()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await side.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
