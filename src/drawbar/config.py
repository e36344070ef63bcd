"""Settings from files, by precedence: caller, environment, trusted project, user, default (CON-36).

A project's own file is repository content. Until a person has trusted that exact content it may only
narrow: a stricter approval mode, the sandbox on, more paths that must not be read, fewer network hosts.
"""

from __future__ import annotations

import hashlib
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from drawbar.contracts.codec import as_object, loads
from drawbar.contracts.errors import InvalidInput
from drawbar.contracts.run import ApprovalMode
from drawbar.contracts.settings import Settings

if TYPE_CHECKING:
    from drawbar.tools.mcp.settings import ServerSettings

__all__ = ["Settings", "load_servers", "load_settings"]

PROJECT_FOLDER = Path(".drawbar")
PROJECT_FILE = PROJECT_FOLDER / "config.toml"
_KEYS = {"account", "model", "effort", "approval", "sandbox", "deny_read", "network"}
_NARROWING = {"approval", "sandbox", "deny_read", "network"}
_MAX_BYTES = 1024 * 1024


def load_settings(config: Path, data: Path, root: Path | None) -> Settings:
    """Read the user's file and, below ``root``, the project's.

    Args:
        config: the config folder.
        data: the data root, whose ``trust.json`` names trusted project files by content hash.
        root: the workspace root, or None.

    Raises:
        InvalidInput: a file that can't be read or holds a wrong value, naming file and key. A project's
            broken file is an error too: ignoring what should have narrowed would widen.
    """
    user = _read(config / "config.toml")
    settings = Settings(
        account=user.get("account"),
        model=user.get("model"),
        effort=user.get("effort"),
        approval=user.get("approval"),
        sandbox=user.get("sandbox"),
        deny_read=tuple(user.get("deny_read", ())),
        network=tuple(user.get("network", ())),
    )
    if root is None or not (root / PROJECT_FILE).is_file():
        return settings
    path = root / PROJECT_FILE
    project = _read(path)
    notices: list[str] = []
    if not _trusted(data, path):
        dropped = sorted(set(project) - _NARROWING)
        if project.get("sandbox") == "off":
            dropped.append("sandbox")
            del project["sandbox"]
        if "network" in project:
            project["network"], widens = _narrowed(settings.network, project["network"])
            dropped += ["network"] if widens else []
        if dropped:
            notices.append(
                f"{PROJECT_FILE} of this project isn't trusted, so it may only narrow; ignored: "
                f"{', '.join(sorted(dropped))}"
            )
        project = {key: value for key, value in project.items() if key in _NARROWING}
    return replace(
        settings,
        account=project.get("account", settings.account),
        model=project.get("model", settings.model),
        effort=project.get("effort", settings.effort),
        project_approval=project.get("approval"),
        sandbox=project.get("sandbox", settings.sandbox),
        deny_read=(*settings.deny_read, *project.get("deny_read", ())),
        network=tuple(project.get("network", settings.network)),
        notices=tuple(notices),
    )


def load_servers(config: Path, data: Path, root: Path | None) -> tuple[list[ServerSettings], list[str]]:
    """The MCP servers of the user's ``mcp.toml``, and of the project's once a person trusts that content (PRO-3).

    Args:
        config, data, root: as for :func:`load_settings`.

    Returns:
        The servers by file and order, a name of the user's going before the project's; and what was ignored, in words.

    Raises:
        InvalidInput: the user's file or a trusted one is wrong or can't be read, naming file, server and key; or
            others may write the user's.
    """
    user = config / "mcp.toml"
    project = None if root is None else root / PROJECT_FOLDER / "mcp.toml"
    if not user.exists() and (project is None or not project.exists()):
        return [], []
    from drawbar.stores.regular_file import read_regular
    from drawbar.tools.mcp.settings import parse_servers

    servers: list[ServerSettings] = []
    notices: list[str] = []
    if user.exists():
        if user.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise InvalidInput(
                f"{user} can be written by others, who could have their programs started; run: chmod 600 {user}",
                path=str(user),
            )
        servers = parse_servers(read_regular(user), where=str(user))
    if project is None or not project.is_file():
        return servers, notices
    raw = read_regular(project)
    name = PROJECT_FOLDER / "mcp.toml"
    if not _trusted(data, project, raw):
        return servers, [f"{name} of this project isn't trusted, so no server that it names is started"]
    taken = {server.name for server in servers}
    for server in parse_servers(raw, where=str(name)):
        if server.name in taken:
            notices.append(f"{name}: the server {server.name} is left out: your own mcp.toml has one of that name")
        else:
            servers.append(server)
    return servers, notices


def _narrowed(user: Sequence[str], project: Sequence[str]) -> tuple[list[str], bool]:
    """The hosts that both list, and whether the project lists one that the user doesn't."""
    from drawbar.boundary.hosts import AllowList, common_entries

    listed = AllowList(user)
    return list(common_entries(user, project)), not all(listed.covers(entry) for entry in project)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}", path=str(path)) from error
    if len(raw) > _MAX_BYTES:
        raise InvalidInput(f"{path} is larger than 1 MiB; that is no settings file", path=str(path))
    try:
        values = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}", path=str(path)) from error
    _check(path, values)
    return values


def _check(path: Path, values: Mapping[str, Any]) -> None:
    unknown = sorted(set(values) - _KEYS)
    if unknown:
        raise InvalidInput(
            f"{path}: unknown setting {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}", field=unknown[0]
        )
    for key in ("account", "model", "effort"):
        if key in values and not (isinstance(values[key], str) and values[key]):
            raise InvalidInput(f"{path}: {key} must be a non-empty string", field=key)
    if "approval" in values and values["approval"] not in get_args(ApprovalMode):
        raise InvalidInput(f"{path}: approval must be one of {', '.join(get_args(ApprovalMode))}", field="approval")
    if "sandbox" in values and values["sandbox"] not in ("on", "off"):
        raise InvalidInput(f'{path}: sandbox must be "on" or "off"', field="sandbox")
    for key, what in (("deny_read", "patterns"), ("network", "hosts")):
        listed: Any = values.get(key, [])
        if not isinstance(listed, list) or not all(isinstance(item, str) and item for item in listed):  # pyright: ignore[reportUnknownVariableType]
            raise InvalidInput(f"{path}: {key} must be a list of non-empty {what}", field=key)
    _check_hosts(path, values.get("network", []))


def _check_hosts(path: Path, hosts: Sequence[str]) -> None:
    if not hosts:
        return
    from drawbar.boundary.hosts import AllowList, HostRefused

    try:
        AllowList(hosts)
    except HostRefused as error:
        raise InvalidInput(f"{path}: network: {error}", field="network") from error


def _trusted(data: Path, path: Path, content: bytes | None = None) -> bool:
    """Whether a person recorded trust in exactly this content (QLT-3); a damaged trust file trusts nothing."""
    try:
        files = as_object((as_object(loads((data / "trust.json").read_bytes())) or {}).get("files")) or {}
        return files.get(str(path)) == hashlib.sha256(path.read_bytes() if content is None else content).hexdigest()
    except (OSError, ValueError):
        return False
