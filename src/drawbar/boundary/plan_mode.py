"""What plan mode lets through: tools that are marked safe, and commands that only look (PLAN-2).

The sandbox's read-only scope is what holds a command. The list of commands here is for a better answer: the model
hears at once, and by name, what would have failed a moment later with an odd message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from drawbar.boundary.case import Case, Refusal
from drawbar.boundary.shell import SimpleCommand, parse_command
from drawbar.boundary.shown import shown
from drawbar.contracts.tool import ToolSpec

__all__ = ["changing_command", "check_plan_mode"]

_TEMPORARY: Final = re.compile(r"(/tmp/|/var/tmp/|/dev/shm/|\$\{?TMPDIR\b)(?!.*\.\.)")
"""Where a command of the read-only scope may write, since that is thrown away."""
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BEFORE: Final = _names(
    "env nohup nice ionice timeout time stdbuf setsid command builtin exec xargs sudo doas busybox unbuffer"
)
"""Programs that run the command after their own options."""
_FILES: Final = _names(
    "rm rmdir mv cp ln mkdir touch chmod chown chgrp truncate dd tee install shred unlink patch rsync mkfifo mknod "
    "setfacl chattr"
)
"""Programs that change files: refused unless every file they name is temporary."""
_COPIES: Final = _names("cp ln install rsync")
"""Of those, the ones that change the last file they name alone."""
_ALWAYS: Final = _names(
    """
    su sudoedit pkexec reboot shutdown halt poweroff systemctl service crontab at batch kill pkill killall mount umount
    mkfs fdisk parted useradd userdel usermod groupadd passwd chpasswd visudo iptables nft sysctl
    apt apt-get aptitude dpkg yum dnf rpm pacman zypper apk brew port snap flatpak nix-env gem cpan luarocks
    curl wget ssh scp sftp ftp telnet nc ncat netcat socat docker podman kubectl helm terraform ansible-playbook
    vi vim nvim emacs nano ed pico
    """
)
_SUBCOMMANDS: Final[dict[str, frozenset[str]]] = {
    "git": _names(
        "add am apply bisect checkout cherry-pick clean clone commit fetch filter-branch filter-repo gc init "
        "maintenance merge mv pull push read-tree rebase replace reset restore revert rm send-email switch "
        "update-index update-ref"
    ),
    "gh": _names("auth release secret workflow"),
    "npm": _names("install i ci add uninstall remove rm update upgrade link publish init create dedupe prune rebuild"),
    "pnpm": _names("install i add remove rm update up link publish init create dlx prune rebuild"),
    "yarn": _names("install add remove upgrade up link publish init create dlx"),
    "bun": _names("install i add remove update link publish init create"),
    "pip": _names("install uninstall download wheel"),
    "pip3": _names("install uninstall download wheel"),
    "uv": _names("add remove sync lock publish init venv"),
    "poetry": _names("add remove install update lock publish init new"),
    "cargo": _names("add remove install uninstall update publish init new fix clean"),
    "go": _names("get install generate clean fix"),
    "bundle": _names("install update add remove"),
    "composer": _names("install update require remove"),
    "dotnet": _names("add remove new restore publish clean"),
    "make": _names("install uninstall clean distclean"),
}
_OPTIONS: Final[dict[str, Callable[[str], bool]]] = {
    "sed": lambda word: word.startswith("--in-place") or re.match(r"-[a-zA-Z]*i", word) is not None,
    "perl": lambda word: re.match(r"-[a-zA-Z]*i", word) is not None,
    "find": lambda word: word == "-delete",
    "sort": lambda word: word.startswith(("-o", "--output")),
    "ruff": lambda word: word == "--fix",
    "eslint": lambda word: word == "--fix",
    "prettier": lambda word: word in ("--write", "-w"),
}
_DEEPEST: Final = 4


def check_plan_mode(case: Case, spec: ToolSpec) -> None:
    """Refuse what plan mode doesn't allow.

    Args:
        case: typed, with its scope chosen.
        spec: of its tool.

    Raises:
        Refusal: with code ``plan_mode``.
    """
    if spec.kind == "execute":
        assert case.command is not None
        found = changing_command(case.command)
        if found is not None:
            name = shown(found, one_line=True)
            message = f"plan mode only looks, so `{name}` isn't run; put the step into the plan instead"
            raise Refusal("plan_mode", "plan:command", message)
    elif spec.kind == "write" or not spec.plan_mode_safe:
        raise Refusal("plan_mode", "plan", f"plan mode only looks, so `{spec.name}` isn't available in it")


def changing_command(command: str) -> str | None:
    """The first program in a command line that is known to change something, as it is called; None for none.

    What can't be parsed isn't refused here: the read-only scope holds it.
    """
    return next((name for one in parse_command(command).commands if (name := _changes(one))), None)


def _changes(command: SimpleCommand) -> str | None:
    words = list(command.words)
    for _ in range(_DEEPEST):
        if not words:
            return None
        name = _plain(words[0]).rpartition("/")[2]
        if name not in _BEFORE:
            return _found(name, words[1:])
        words = _after_options(words[1:])
    return None


def _found(name: str, words: Sequence[str]) -> str | None:
    plain = [_plain(word) for word in words]
    if name in _ALWAYS:
        return name
    if name in _FILES and not _only_temporary(name, plain):
        return name
    test = _OPTIONS.get(name)
    option = next((word for word in plain if test is not None and test(word)), None)
    if option is not None:
        return f"{name} {option}"
    subcommands = _SUBCOMMANDS.get(name, frozenset())
    first = next((word for word in plain if not word.startswith("-")), "")
    return f"{name} {first}" if first in subcommands else None


def _only_temporary(name: str, words: Sequence[str]) -> bool:
    files = [word for word in words if not word.startswith("-")]
    changed = files[-1:] if name in _COPIES else files
    return bool(changed) and all(_TEMPORARY.match(file) for file in changed)


def _after_options(words: Sequence[str]) -> list[str]:
    """The command that a program is given to run: what follows its options, numbers and assignments."""
    rest = list(words)
    while rest and (rest[0].startswith("-") or rest[0][:1].isdigit() or _ASSIGNMENT.match(rest[0])):
        rest.pop(0)
    return rest


def _plain(word: str) -> str:
    return word.replace("'", "").replace('"', "").replace("\\", "")
