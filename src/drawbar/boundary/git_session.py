"""What a run does about git around its commands: mounts, the session's settings, the look afterwards (BND-11)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drawbar.boundary.git_mounts import git_mounts, prepare_git, remove_redirects
from drawbar.boundary.git_private import PrivateSettings
from drawbar.boundary.git_table import GitMounts
from drawbar.boundary.git_watch import GitWatch
from drawbar.boundary.process import Check
from drawbar.contracts.boundary import PinnedRoot
from drawbar.contracts.capability import Scope

__all__ = ["GitSession", "in_words"]

_SETTINGS: Final = "git-settings"
_SHOWN: Final = 4


class GitSession:
    """Keeps a workspace's git folders for one run.

    Args:
        root: the pinned root.
        private_tmp: the session's private folder; what crashes must not lose is kept beside it.
    """

    def __init__(self, root: PinnedRoot, private_tmp: Path) -> None:
        self._root = root
        self._watch = GitWatch(root, private_tmp.parent)
        self._settings = PrivateSettings(private_tmp / _SETTINGS)
        self._looks: set[asyncio.Task[None]] = set()
        self._unsaid: list[str] = []

    def begin(self) -> None:
        """Look beside the model's request at how the person left things."""
        self._watch.begin()
        if git_mounts(self._root).settings:
            self._settings.attacher.start()

    async def before(self) -> list[str]:
        """A command that may write is about to start; what a crashed run had left and was undone now."""
        unsaid, self._unsaid = self._unsaid, []
        return unsaid + await self._watch.before()

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

    async def after(self, mounts: GitMounts) -> list[str]:
        """The command has ended: carry over what is ordinary, undo what git would run or follow.

        Returns:
            What the person and the model should know, one sentence each.
        """
        said = [f"{path} would send git to another folder; it was removed" for path in remove_redirects(mounts)]
        said += self._settings.carry_over()
        # Mounts aren't trusted: a rename of the person's own takes one away under a running command.
        return said + await self._watch.after()

    def after_job(self, mounts: GitMounts) -> None:
        """A background job has ended: as :meth:`after`; what there is to say is said with the next command."""

        async def look() -> None:
            self._unsaid += await self.after(mounts)

        task = asyncio.ensure_future(look())
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    async def close(self) -> None:
        """Finish the looks after jobs, end one beside a turn."""
        if self._looks:
            await asyncio.wait(self._looks)
        await self._watch.close()
        self._settings.attacher.close()


def in_words(said: Sequence[str]) -> str:
    """What was found and done after a command, for its result; never cut within a sentence."""
    shown = "; ".join(said[:_SHOWN])
    more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    return f"After the command: {shown}{more}."
