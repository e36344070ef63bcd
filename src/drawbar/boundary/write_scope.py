"""The operating system's scope around native writes: a confined thread, else a confined process, else none (BND-7).

Which of them is used is settled once, by what the machine has: Landlock confines a short-lived thread; where it
is missing a helper runs under bubblewrap; where neither works nothing is written, unless the person switched the
sandbox off, and then the descriptor rules hold alone (QLT-2).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from drawbar.boundary.landlock import WriteRules, landlock_version
from drawbar.boundary.native_files import (
    WriteOutcome,
    WriteRefused,
    parent_of,
    refusal_of,
    refuse_untouchable,
    write_target,
)
from drawbar.boundary.paths import RootGone, open_root
from drawbar.boundary.swap import Conflict
from drawbar.contracts.boundary import PinnedRoot, Target
from drawbar.contracts.errors import DrawbarError, SandboxUnavailable

__all__ = ["Confinement", "WriteJob", "WriteScope"]

Confinement = Literal["landlock", "helper", "none"]
BUBBLEWRAP: Final = "/usr/bin/bwrap"
HELPER_LIMIT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One file to write; the fields are those of :func:`drawbar.boundary.native_files.write_target`."""

    target: Target
    data: bytes
    expected_sha256: str | None
    create: bool = True
    overwrite: bool = False


End = WriteOutcome | DrawbarError
Settled = Callable[[WriteJob, End], None]


class WriteScope:
    """Carries out batches of native writes below one root.

    Args:
        root: the pinned root, the only place that is writable within the scope.
        sandbox: the policy's; only ``off`` allows writing without a scope.
        confinement: use this one; None takes the first that the machine has.
        bubblewrap: absolute path of the program for the helper.
    """

    def __init__(
        self,
        root: PinnedRoot,
        *,
        sandbox: Literal["on", "off"] = "on",
        confinement: Confinement | None = None,
        bubblewrap: str = BUBBLEWRAP,
    ) -> None:
        self._root = root
        self._bubblewrap = bubblewrap
        self._confinement: Confinement | None = confinement or self._choose(sandbox)
        if self._confinement == "none" and sandbox == "on":
            self._confinement = None
        self._rules: WriteRules | None = None

    @property
    def confinement(self) -> Confinement | None:
        """What holds the writes; None when nothing can, and so nothing is written."""
        return self._confinement

    def _choose(self, sandbox: Literal["on", "off"]) -> Confinement | None:
        if sandbox == "off":
            return "none"
        if landlock_version() > 0:
            return "landlock"
        return "helper" if os.access(self._bubblewrap, os.X_OK) else None

    async def write(self, jobs: Sequence[WriteJob], *, settled: Settled | None = None) -> list[WriteOutcome]:
        """Carry out ``jobs`` in order, up to the first that fails.

        Args:
            jobs: on targets that the gate opened and that stay open until this returns.
            settled: told of each job's end, also when the caller was cancelled meanwhile: a write that has begun
                is finished, never cut in the middle, and what it changed must not go unrecorded.

        Raises:
            SandboxUnavailable: when nothing here can confine a write.
            StaleFile, WriteRefused, StorageFailed: what stopped a job; the ones before it are done.
        """
        if self._confinement is None:
            raise SandboxUnavailable(
                "native writes can't be confined here: the kernel has no Landlock and bubblewrap isn't installed; "
                "nothing was written. Install bubblewrap, or switch the sandbox off for this project"
            )
        work = self._in_process(jobs) if self._confinement == "helper" else self._in_thread(jobs)
        done = await _uncut(work, jobs, settled)
        failed = next((end for end in done if isinstance(end, DrawbarError)), None)
        if failed is not None:
            raise failed
        return [end for end in done if isinstance(end, WriteOutcome)]

    async def write_one(self, job: WriteJob, *, settled: Settled | None = None) -> WriteOutcome:
        """As :meth:`write`, for one file."""
        return (await self.write([job], settled=settled))[0]

    def close(self) -> None:
        """Give the scope's descriptors back."""
        if self._rules is not None:
            self._rules.close()
            self._rules = None

    # In a thread of its own

    async def _in_thread(self, jobs: Sequence[WriteJob]) -> list[End]:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[list[End]] = loop.create_future()

        def work() -> None:
            try:
                done = self._confined(jobs)
            except BaseException as error:
                loop.call_soon_threadsafe(ended.set_exception, error)
            else:
                loop.call_soon_threadsafe(ended.set_result, done)

        # Landlock can't be taken off again, so the thread ends with the batch.
        threading.Thread(target=work, name="drawbar-write").start()
        return await ended

    def _confined(self, jobs: Sequence[WriteJob]) -> list[End]:
        if self._confinement == "landlock":
            try:
                self._landlock().confine_this_thread()
            except (OSError, RootGone) as error:
                raise SandboxUnavailable(
                    f"the write scope could not be set up ({error}); nothing was written"
                ) from error
        done: list[End] = []
        for job in jobs:
            try:
                done.append(
                    write_target(
                        job.target,
                        job.data,
                        root=self._root,
                        expected_sha256=job.expected_sha256,
                        create=job.create,
                        overwrite=job.overwrite,
                    )
                )
            except DrawbarError as error:
                done.append(error)
                break
        return done

    def _landlock(self) -> WriteRules:
        if self._rules is None:
            root_fd = open_root(self._root)
            try:
                self._rules = WriteRules([root_fd])
            finally:
                os.close(root_fd)
        return self._rules

    # In a process of its own

    async def _in_process(self, jobs: Sequence[WriteJob]) -> list[End]:
        header: dict[str, Any] = {"root": str(self._root.path), "identity": [self._root.device, self._root.inode]}
        header["jobs"] = [_for_helper(job, self._root) for job in jobs]
        line = json.dumps(header).encode() + b"\n"
        process = await asyncio.create_subprocess_exec(
            *self._helper_argv(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(HELPER_LIMIT_S):
                out, err = await process.communicate(b"".join((line, *(job.data for job in jobs))))
            results: list[dict[str, Any]] = json.loads(out)
        except (TimeoutError, ValueError) as error:
            if process.returncode is None:
                process.kill()
                await process.wait()
            raise SandboxUnavailable(
                "the write helper failed, so whether the file was written is unknown; read it before writing again"
            ) from error
        if len(results) == 0:
            raise SandboxUnavailable(f"the write helper did nothing: {err.decode(errors='replace')[:200]}")
        return [self._end_of(result, job) for result, job in zip(results, jobs, strict=False)]

    def _helper_argv(self) -> list[str]:
        root = str(self._root.path)
        helper = os.path.join(os.path.dirname(os.path.abspath(__file__)), "write_helper.py")
        # The root exists and its path holds no symlink, so no mount point is ever created.
        scope = ["--ro-bind", "/", "/", "--bind", root, root, "--dev", "/dev", "--proc", "/proc", "--chdir", root]
        limits = ["--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--new-session"]
        return [self._bubblewrap, *scope, *limits, "--", sys.executable, "-I", "-S", helper]

    def _end_of(self, result: dict[str, Any], job: WriteJob) -> End:
        if "conflict" in result:
            return refusal_of(Conflict(result["conflict"], result["kept"]), job.target, self._root)
        if "root_gone" in result:
            return refusal_of(RootGone("the workspace root isn't the one that was pinned"), job.target, self._root)
        if "errno" in result:
            return refusal_of(OSError(result["errno"], result["error"]), job.target, self._root)
        before, after = result["before"], result["after"]
        if before == after:
            return WriteOutcome(before, after, "unchanged")
        return WriteOutcome(before, after, "created" if before is None else "modified")


def _for_helper(job: WriteJob, root: PinnedRoot) -> dict[str, Any]:
    target = job.target
    if target.parent_fd is None or target.relative is None:
        raise WriteRefused("this path wasn't opened for writing", path=target.use.path)
    refuse_untouchable(target, root)
    folder = os.fstat(target.parent_fd)
    return {
        "parent": os.fsdecode(parent_of(target)),
        "identity": [folder.st_dev, folder.st_ino],
        "missing": list(target.missing),
        "name": target.name,
        "length": len(job.data),
        "expected": job.expected_sha256,
        "create": job.create,
        "overwrite": job.overwrite,
    }


async def _uncut(work: Coroutine[Any, Any, list[End]], jobs: Sequence[WriteJob], settled: Settled | None) -> list[End]:
    """The result of ``work``, which runs to its end even if the caller is cancelled; the cancellation comes after."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    done = task.result()
    if settled is not None:
        for job, end in zip(jobs, done, strict=False):
            settled(job, end)
    if cancelled:
        raise asyncio.CancelledError
    return done
