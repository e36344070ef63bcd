"""What a run does about git around its commands: mounts, the session's settings, the look afterwards (BND-11)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from drawbar.boundary.git_mounts import git_mounts, prepare_git, remove_redirects
from drawbar.boundary.git_private import PrivateSettings
from drawbar.boundary.git_table import GitMounts
from drawbar.boundary.git_watch import GitWatch
from drawbar.boundary.process import Check
from drawbar.contracts.boundary import PinnedRoot
from drawbar.contracts.capability import Scope
from drawbar.contracts.errors import StorageFailed

__all__ = ["GitSession", "in_words"]

_SETTINGS: Final = "git-settings"
_SHOWN: Final = 4
_PATIENCE_S: Final = 0.005
"""How long a result waits for the look after its command: enough for a small tree. Where the last one took longer it
isn't waited for at all."""


class GitSession:
    """Keeps a workspace's git folders for one run.

    Args:
        root: the pinned root.
        private_tmp: the session's private folder; what crashes must not lose is kept beside it.
        notice: told, with a code, of each thing that was found and undone, whether or not a result says it.
    """

    def __init__(
        self, root: PinnedRoot, private_tmp: Path, notice: Callable[[str, str], None] = lambda _code, _text: None
    ) -> None:
        self._root = root
        self._notice = notice
        self._watch = GitWatch(root, private_tmp.parent, private_tmp / _SETTINGS)
        self._settings = PrivateSettings(private_tmp / _SETTINGS)
        self._looks: set[asyncio.Task[None]] = set()
        self._unsaid: list[str] = []
        self._took_s = 0.0

    def begin(self) -> None:
        """Look beside the model's request at how the person left things."""
        self._watch.begin()
        if git_mounts(self._root).settings:
            self._settings.attacher.start()

    async def before(self) -> list[str]:
        """A command that may write is about to start; what was found since the last result.

        Raises:
            WorkspaceRefused: the tree can't be looked through in time.
        """
        await self.settled()
        recovered = await self._watch.before()
        self._record("git_changed_back", recovered)
        unsaid, self._unsaid = self._unsaid, []
        return unsaid + recovered

    async def settled(self) -> None:
        """Wait until what ended commands left has been looked at; what is still running is not waited for."""
        if self._looks:
            await asyncio.wait(self._looks)

    def mounts(self, scope: Scope) -> GitMounts:
        """The root's git folders as they are now, completed first where a command may write."""
        mounts = git_mounts(self._root)
        if scope != "workspace":
            return mounts
        if mounts.missing:
            prepare_git(mounts)
            mounts = git_mounts(self._root)
        if mounts.settings and self._settings.prepare(mounts.settings):
            mounts.writable.append(self._settings.folder)
        return mounts

    def attached(self, check: Check) -> Check:
        """``check``, and then the session's settings are put in place in the sandbox that passed it."""

        def look(init: int) -> str | None:
            why_not = check(init)
            if why_not is None:
                self._settings.attach(init)
            return why_not

        return look

    async def after(self, mounts: GitMounts, *, wait: bool = False) -> list[str]:
        """The command has ended: carry over what is ordinary, undo what git would run or follow.

        The look goes on beside the model's next request where a tree is large; the next command, and the end of the
        run, wait for it.

        Args:
            mounts: what it was given.
            wait: wait to the end for what there is to say.

        Returns:
            What the person and the model should know, one sentence each; what comes too late is said with the next
            command.
        """
        look = self.after_job(mounts)
        if wait or self._took_s <= _PATIENCE_S:
            await asyncio.wait((look,), timeout=None if wait else _PATIENCE_S)
        if not look.done():
            return []
        said, self._unsaid = self._unsaid, []
        return said

    def after_job(self, mounts: GitMounts) -> asyncio.Task[None]:
        """A background job has ended: as :meth:`after`; what there is to say is said with the next command."""
        task = asyncio.ensure_future(self._look(mounts))
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)
        return task

    async def _look(self, mounts: GitMounts) -> None:
        began = time.monotonic()
        said = [f"{path} would send git to another folder; it was removed" for path in remove_redirects(mounts)]
        said += self._settings.carry_over()
        # Mounts aren't trusted: a rename of the person's own takes one away under a running command.
        said += await self._watch.after()
        self._took_s = time.monotonic() - began
        self._record("git_changed_back", said)
        owed = [] if self._watch.owed is None else [f"{self._watch.owed}: look at new .git folders before you run git"]
        self._record("git_not_looked", owed)
        self._unsaid += said + owed

    def _record(self, code: str, said: Sequence[str]) -> None:
        # A disk that refuses the record is the run's own affair, and what was undone stays undone.
        with contextlib.suppress(StorageFailed):
            for sentence in said:
                self._notice(code, sentence)

    async def close(self) -> None:
        """Finish the looks after commands and jobs, end one beside a turn."""
        await self.settled()
        await self._watch.close()
        self._settings.attacher.close()


def in_words(said: Sequence[str]) -> str:
    """What was found and done after a command, for its result; never cut within a sentence."""
    shown = "; ".join(said[:_SHOWN])
    more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return f"After the command: {shown}{more}."
