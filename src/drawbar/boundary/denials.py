"""What the sandbox denied, told to the model in words that say what to do instead.

The system's own messages ("Read-only file system") look like a broken machine and invite retries.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from drawbar.boundary.root_mounts import holding
from drawbar.contracts.boundary import PinnedRoot

if TYPE_CHECKING:
    from drawbar.boundary.root_scan import Scanned

__all__ = ["explain", "explain_closed", "explain_links", "explain_owner", "explain_read_only"]

_READ_ONLY: Final = re.compile(r"Read-only file system|EROFS|Errno 30\b|os error 30\b")
_NO_NETWORK: Final = re.compile(
    r"Network is unreachable|Could not resolve host|Temporary failure in name resolution|ENOTFOUND|EAI_AGAIN"
    r"|ENETUNREACH|Name or service not known|Failed to resolve|dns error|no such host",
)
_GIT: Final = re.compile(
    r"could not lock config file|\.git/config[^\n]*(?:Read-only|Device or resource busy)"
    r"|could not write config file|unable to set up tracking"
    r"|\.git/hooks[^\n]*(?:Read-only|Device or resource busy)",
)
_HOME: Final = re.compile(r"(?:/home/[^\s:'\"]+|/root/[^\s:'\"]*|~/[^\s:'\"]+)[^\n]*(?:Permission denied|EACCES)")
_TRACE: Final = re.compile(r"ptrace[^\n]*Operation not permitted|Could not attach to process|PTRACE_TRACEME")
_DENIED_PATH: Final = re.compile(
    r"['\"‘]?((?:/|\.{0,2}/|[\w.@+-])[^\s'\"’:]*)['\"’]?: (?:Read-only file system|os error 30)"
)
_GIT_MEETS_MASK: Final = re.compile(
    r"error: (?:open\(\"(?P<opened>[^\"\n]+)\"\)|(?P<kind>[^\n:]+)): (?:unsupported file type|Permission denied"
    r"|can only add regular files)|unable to unlink old '(?P<old>[^'\n]+)': Device or resource busy"
)
_LOOKED_AT: Final = 16 * 1024


def explain(stderr: str) -> str | None:
    """One sentence about the first denial that ``stderr`` shows; None when nothing looks like the sandbox's doing."""
    text = stderr[-_LOOKED_AT:]
    if _GIT.search(text):
        return (
            "The sandbox keeps .git/hooks read-only, and .git/config where git could not write it, so that no program "
            "can be planted there; commit, branch, rebase and tag work. What was to be set there was not set: pass "
            "settings with git -c for one command, or ask the person to run that command."
        )
    if _READ_ONLY.search(text):
        return (
            "The sandbox allows writes only below the workspace root and in the temporary folder (/tmp). "
            "Write there instead; retrying elsewhere won't work."
        )
    if _NO_NETWORK.search(text):
        return (
            "The sandbox has no network but the hosts that are listed or named in the call's `hosts`, and those only "
            "for programs that heed HTTPS_PROXY. Work with what is installed, or name the hosts; retrying won't help."
        )
    if _TRACE.search(text):
        return "The sandbox allows no tracing or debugging of processes (ptrace)."
    if _HOME.search(text):
        return "The sandbox hides home folders but for toolchains and git's settings."
    return None


def explain_links(text: str, root: PinnedRoot, cwd: Path) -> str | None:
    """Name the real place of a denied path that a symlink in the workspace leads out to (SBX-04)."""
    for match in _DENIED_PATH.finditer(text[-_LOOKED_AT:]):
        named = Path(os.path.normpath(cwd / match[1]))
        if not named.is_relative_to(root.path):
            continue
        real = Path(os.path.realpath(named))
        if real.is_relative_to(root.path):
            continue
        folder = real if real.is_dir() else real.parent
        return (
            f"{match[1]} leads through a symlink to {real}, outside the workspace root {root.path}. "
            f"To work there, a run must be started in it (--cwd {folder}); retrying won't help."
        )
    return None


def explain_read_only(text: str, root: PinnedRoot, cwd: Path, scanned: Scanned) -> str | None:
    """Name what lies below the root and yet takes no writes: hard links and mounts that lead outside (BND-12)."""
    for match in _DENIED_PATH.finditer(text[-_LOOKED_AT:]):
        named = Path(os.path.normpath(cwd / match[1]))
        mount = holding(scanned.mounted, named)
        if mount is not None:
            return (
                f"{mount.place} shows {mount.source}, which lies outside the workspace root {root.path}, and is "
                "read-only. Write elsewhere below the root; retrying won't help."
            )
        if named in scanned.read_only:
            return (
                f"{match[1]} is a hard link to a file outside the workspace and read-only for commands. The edit and "
                "write tools give it a copy of its own; retrying won't help."
            )
        folder = next((path for path in scanned.read_only if named.is_relative_to(path)), None)
        if folder is not None:
            return (
                f"{folder} holds too many hard links to files outside the workspace to protect each, and is read-only. "
                "Replacing it by a copy (cp -a, without links) makes it writable."
            )
    return None


def explain_closed(text: str, root: PinnedRoot, scanned: Scanned) -> str | None:
    """Git meets a tracked file that ``deny_read`` closes: it shows as changed, and git can neither read nor replace it.

    Nothing of it is recorded or lost; commands that name other paths work.
    """
    for match in _GIT_MEETS_MASK.finditer(text[-_LOOKED_AT:]):
        name = match["opened"] or match["kind"] or match["old"]
        if root.path / name in scanned.denied:
            return (
                f"{name} is closed by deny_read, so git sees a changed file that it can neither read nor replace. "
                f"Leave it out: git add -A -- ':!{name}', git stash push -- PATH, git commit PATH, git restore PATH."
            )
    return None


def explain_owner(text: str, root: PinnedRoot) -> str | None:
    """Root's commands run without root's powers, so another user's workspace takes no writes from them."""
    if os.geteuid() != 0 or "Permission denied" not in text[-_LOOKED_AT:]:
        return None
    try:
        owner = os.stat(root.path).st_uid
    except OSError:
        return None
    if owner == 0:
        return None
    return (
        f"The workspace belongs to user {owner}, and commands run as root but without root's powers over other "
        "users' files. Change its owner (chown -R root), or start the harness as that user."
    )
