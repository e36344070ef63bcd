"""Which settings of a repository name no program and lead nowhere else: what a command may leave in one (BND-11).

A list of what is harmless, since git grows settings that run programs faster than a list of those could.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from drawbar.boundary.git_config import Entry

__all__ = ["carried", "harmless", "safe_url"]

_PLAIN: Final[dict[str, frozenset[str]]] = {
    section: frozenset(keys.split())
    for section, keys in {
        "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf "
        "eol safecrlf sharedrepository compression loosecompression abbrev quotepath untrackedcache preloadindex "
        "splitindex sparsecheckout sparsecheckoutcone commentchar whitespace longpaths protectntfs protecthfs "
        "checkstat "
        "trustctime fscache bigfilethreshold fsync fsyncmethod fsyncobjectfiles multipackindex commitgraph "
        "packedgitlimit packedgitwindowsize deltabasecachelimit warnambiguousrefs hidedotfiles "
        "createobject restrictinheritedhandles",
        "user": "name email useconfigonly",
        "author": "name email",
        "committer": "name email",
        "init": "defaultbranch",
        "pull": "rebase ff",
        "push": "default followtags autosetupremote recursesubmodules",
        "fetch": "prune prunetags parallel writecommitgraph recursesubmodules fsckobjects unpacklimit",
        "checkout": "defaultremote guess workers",
        "clone": "defaultremotename rejectshallow",
        "merge": "ff conflictstyle renames renamelimit directoryrenames log stat branchdesc",
        "diff": "renames algorithm context renamelimit mnemonicprefix noprefix submodule colormoved wserrorhighlight "
        "indentheuristic interhunkcontext relative statgraphwidth",
        "commit": "gpgsign verbose cleanup status",
        "tag": "gpgsign forcesignannotated sort",
        "rebase": "autosquash autostash updaterefs stat missingcommitscheck abbreviatecommands",
        "rerere": "enabled autoupdate",
        "gc": "auto autodetach autopacklimit pruneexpire reflogexpire reflogexpireunreachable worktreepruneexpire "
        "packrefs aggressivedepth aggressivewindow cruftpacks writecommitgraph rerereresolved rerereunresolved",
        "maintenance": "auto strategy autodetach",
        "pack": "threads window depth windowmemory usebitmaps usesparse writebitmaphashcache compression indexversion "
        "allowpackreuse writereverseindex",
        "repack": "writebitmaps usedeltabaseoffset packkeptobjects",
        "index": "version threads sparse skiphash recordendofindexentries",
        "feature": "manyfiles experimental",
        "log": "date decorate follow abbrevcommit",
        "status": "short branch showuntrackedfiles relativepaths renames submodulesummary",
        "i18n": "commitencoding logoutputencoding",
        "extensions": "worktreeconfig objectformat refstorage preciousobjects noop partialclone compatobjectformat "
        "relativeworktrees",
        "submodule": "active recurse fetchjobs propagatebranches stickyrecursivecloning",
        "receive": "denycurrentbranch denynonfastforwards denydeletes denydeletecurrent autogc updateserverinfo "
        "fsckobjects unpacklimit advertiseatomic advertisepushoptions shallowupdate",
        "transfer": "fsckobjects unpacklimit hiderefs",
        "uploadpack": "allowfilter allowanysha1inwant allowreachablesha1inwant allowtipsha1inwant hiderefs "
        "allowrefinwant",
        "protocol": "version",
        "http": "postbuffer version lowspeedlimit lowspeedtime maxrequests",
        "stash": "showpatch showstat showincludeuntracked",
        "blame": "date coloring showroot blankboundary",
        "worktree": "guessremote userelativepaths",
        "lfs": "repositoryformatversion",
        "remote": "pushdefault",
    }.items()
}
"""``section.key``, whatever its value."""

_NAMED: Final[dict[str, frozenset[str]]] = {
    section: frozenset(keys.split())
    for section, keys in {
        "branch": "merge rebase description vscode-merge-base gh-merge-base github-pr-owner-number",
        "remote": "tagopt prune prunetags mirror skipdefaultupdate skipfetchall promisor partialclonefilter "
        "followremotehead gh-resolved",
        "submodule": "active branch ignore fetchrecursesubmodules shallow",
        "lfs": "access locksverify",
    }.items()
}
"""``section.NAME.key``, whatever its value."""

_BOOLEAN: Final = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1"})
_UPDATES: Final = frozenset({"checkout", "rebase", "merge", "none"})
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*\Z")
_URL: Final = re.compile(r"(?:https?|ssh|git|file)://[^\s-]\S*\Z|(?:[\w.-]+@)?[\w][\w.-]*:(?!:)\S+\Z|\.{0,2}/\S*\Z")


def harmless(entry: Entry, *, base: Path, root: Path) -> bool:
    """Whether a setting that a command left may stay.

    Args:
        entry: the setting.
        base: the git folder that it belongs to.
        root: the workspace root, outside of which no setting may send git.
    """
    name, value = entry.key, entry.value or ""
    if entry.section in ("color", "advice", "column"):
        return True
    if entry.subsection is None:
        if name in _PLAIN.get(entry.section, ()):
            return True
        special = _SPECIAL.get((entry.section, name))
        return special is not None and special(value, base, root)
    if entry.section == "protocol":
        return (entry.subsection, name) == ("file", "allow")
    if name in _NAMED.get(entry.section, ()):
        return True
    named = _SPECIAL_NAMED.get((entry.section, name))
    return named is not None and named(value)


def carried(entry: Entry) -> bool:
    """Whether a setting that a command made for itself belongs into the person's own configuration as well.

    What ordinary git work records there: upstreams, new remotes, submodules, sparse checkouts. Identities, aliases
    and preferences stay with the session's commands.
    """
    if entry.subsection is None:
        return (entry.section, entry.key) in _CARRIED
    if entry.section == "branch":
        return entry.key in ("remote", "merge", "rebase", "pushremote", "description") and _carries_value(entry)
    if entry.section == "remote":
        return entry.key in ("url", "fetch") and _carries_value(entry)
    if entry.section == "submodule":
        return entry.key in ("url", "active", "update", "branch") and _carries_value(entry)
    return False


def safe_url(value: str) -> bool:
    """Whether git fetches from ``value`` without a helper that the value names, and takes it for no option."""
    return bool(_URL.match(value)) and "::" not in value and not value.startswith("-")


_CARRIED: Final = frozenset(
    {
        *(("core", "sparsecheckout"), ("core", "sparsecheckoutcone"), ("index", "sparse")),
        *(("extensions", "worktreeconfig"), ("submodule", "active")),
    }
)


def _carries_value(entry: Entry) -> bool:
    check = _SPECIAL_NAMED.get((entry.section, entry.key))
    return check is None or check(entry.value or "")


def _is_boolean(value: str, _base: Path, _root: Path) -> bool:
    return value.lower() in _BOOLEAN


def _stays_inside(value: str, base: Path, root: Path) -> bool:
    real = Path(os.path.realpath(base / value))
    return bool(value) and real.is_relative_to(root)


def _nothing(value: str, _base: Path, _root: Path) -> bool:
    return value in ("", "/dev/null")


def _remote_name(value: str) -> bool:
    return value == "." or bool(_NAME.match(value))


def _tracking(value: str) -> bool:
    """A refspec that writes nothing but remote-tracking branches, tags and a mirror's own refs."""
    return bool(re.fullmatch(r"\+?refs/[^\s:]*:refs/[^\s:]*", value) or re.fullmatch(r"\^refs/[^\s:]*", value))


_SPECIAL: Final[dict[tuple[str, str], Callable[[str, Path, Path], bool]]] = {
    ("core", "fsmonitor"): _is_boolean,
    ("core", "worktree"): _stays_inside,
    ("core", "hookspath"): _nothing,
    ("core", "editor"): lambda value, _base, _root: value in ("true", ":"),
    ("credential", "helper"): lambda value, _base, _root: value == "",
}

_SPECIAL_NAMED: Final[dict[tuple[str, str], Callable[[str], bool]]] = {
    ("branch", "remote"): _remote_name,
    ("branch", "pushremote"): _remote_name,
    ("remote", "url"): safe_url,
    ("remote", "pushurl"): safe_url,
    ("remote", "fetch"): _tracking,
    ("submodule", "url"): safe_url,
    ("submodule", "update"): lambda value: value in _UPDATES,
}
