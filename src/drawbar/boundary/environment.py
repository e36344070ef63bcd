"""The environment of a command: an allow-list with secrets dropped, and tools pointed at private caches (BND-10)."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from drawbar.contracts.capability import Scope

__all__ = ["CACHE_VARIABLE", "command_environment"]

CACHE_VARIABLE: Final = "XDG_CACHE_HOME"

_ALLOWED: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ", "SHELL", "HOSTNAME"),
        *("CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLUMNS", "LINES", "SOURCE_DATE_EPOCH"),
        # where toolchains are; values are folders, versions and flags
        *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "PYENV_ROOT", "PYENV_VERSION", "PYTHONPATH"),
        *("NVM_DIR", "NVM_BIN", "VOLTA_HOME", "FNM_DIR", "FNM_MULTISHELL_PATH", "PNPM_HOME", "BUN_INSTALL", "NODE_ENV"),
        *("NODE_PATH", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "GOPATH", "GOROOT", "GOBIN"),
        *("GOFLAGS", "GOTOOLCHAIN", "GO111MODULE", "JAVA_HOME", "MAVEN_OPTS", "M2_HOME", "GRADLE_OPTS", "SDKMAN_DIR"),
        *("ANDROID_HOME", "ANDROID_SDK_ROOT", "DOTNET_ROOT", "RBENV_ROOT", "RBENV_VERSION", "GEM_HOME", "GEM_PATH"),
        *("RUBYLIB", "ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "OPAM_SWITCH_PREFIX", "GHCUP_INSTALL_BASE_PREFIX"),
        *("HOMEBREW_PREFIX", "HOMEBREW_CELLAR", "HOMEBREW_REPOSITORY", "NIX_PROFILES", "NIX_PATH", "NIX_SSL_CERT_FILE"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS"),
        *("PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH"),
        *("DJANGO_SETTINGS_MODULE", "FLASK_APP", "RAILS_ENV", "RACK_ENV", "MIX_ENV", "APP_ENV", "DEBUG"),
    }
)
_ALLOWED_UNCONFINED: Final = frozenset({"TMPDIR", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "XDG_SESSION_TYPE"})
_SECRET: Final = re.compile(
    r"(?:^|_)(?:TOKEN|KEY|APIKEY|SECRET|SECRETS|PASSWORD|PASSWD|PASS|PASSPHRASE|CREDENTIAL|CREDENTIALS|AUTH|COOKIE|DSN)"
    r"(?:_|\d*$)",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_URL_PASSWORD: Final = re.compile(r"://[^/@\s:]*:[^/@\s]+@")
_NO_BACKGROUND: Final = ("gc.autoDetach", "maintenance.autoDetach")
"""A collection that git detaches would be ended with the call, and leave half a pack behind."""
_NO_SERVER_INFO: Final = ("repack.updateServerInfo",)
"""A repack would write to ``.git/info``, for servers that speak plain HTTP, and complain that it can't."""
_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def command_environment(
    environ: Mapping[str, str], scope: Scope, *, marker: str = "", home: Path | None = None
) -> tuple[tuple[str, str], ...]:
    """What a command of ``scope`` gets to see of the harness's environment, sorted by name.

    Args:
        environ: the harness's own environment.
        scope: in ``outside`` the machine's temporary folder and display stay as they are, the rest is the same.
        marker: ``NAME=value`` that every process of a call carries (BND-16).
        home: the masked home folder that holds the private cache; None when there is none, and then the private
            temporary folder is the home.
    """
    from drawbar.stores.redaction.environment import known_from_environment

    allowed = _ALLOWED | _ALLOWED_UNCONFINED if scope == "outside" else _ALLOWED
    # The value of a secret may be in an innocent variable too, as in CFLAGS=-DTOKEN=….
    known = [value for value, _ in known_from_environment(environ)]
    env = {
        name: value
        for name, value in environ.items()
        if (name in allowed or name.startswith("LC_"))
        and not _secret(name, value)
        and not any(secret in value for secret in known)
        and not _holds_a_secret(value)
    }
    env["PATH"] = _search_path(env.get("PATH", ""))
    env["GIT_TERMINAL_PROMPT"] = "0"
    env["GIT_EDITOR"] = "true"
    env["GIT_PAGER"] = env["PAGER"] = "cat"
    env.update(_git_settings(_NO_BACKGROUND if scope == "outside" else (*_NO_BACKGROUND, *_NO_SERVER_INFO)))
    if scope != "outside":
        env.update(_confined(Path("/tmp") if home is None else home))
        if scope == "read-only":
            env["GIT_OPTIONAL_LOCKS"] = "0"
    name, _, value = marker.partition("=")
    if _NAME.fullmatch(name):
        env[name] = value
    return tuple(sorted(env.items()))


def _confined(home: Path) -> dict[str, str]:
    """Private temporary and cache folders, for tools that would otherwise write elsewhere in the home."""
    cache = home / ".cache"
    env = {
        "HOME": str(home),
        "TMPDIR": "/tmp",
        CACHE_VARIABLE: str(cache),
        "npm_config_cache": str(cache / "npm"),
        "npm_config_store_dir": str(cache / "pnpm-store"),
        "npm_config_update_notifier": "false",
        "YARN_CACHE_FOLDER": str(cache / "yarn"),
        "UV_LINK_MODE": "copy",
        "GRADLE_USER_HOME": str(cache / "gradle"),
        "DOTNET_CLI_HOME": str(cache / "dotnet"),
        "MPLCONFIGDIR": str(cache / "matplotlib"),
        "IPYTHONDIR": str(cache / "ipython"),
    }
    shared = home / ".gradle" / "caches"
    if os.path.isdir(shared):
        env["GRADLE_RO_DEP_CACHE"] = str(shared)
    return env


def _git_settings(off: Sequence[str]) -> dict[str, str]:
    """Git settings to switch off, over whatever the configuration files say."""
    env = {"GIT_CONFIG_COUNT": str(len(off))}
    for number, key in enumerate(off):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": "false"}
    return env


def _secret(name: str, value: str) -> bool:
    return _SECRET.search(name) is not None or _URL_PASSWORD.search(value) is not None


@functools.lru_cache(maxsize=256)
def _holds_a_secret(value: str) -> bool:
    """Whether a value shows the form of a key or token, whoever named the variable."""
    from drawbar.stores.redaction.format_scan import format_scanner

    return bool(format_scanner().scan(value, base=0, edge=-1, final=True).spans)


def _search_path(path: str) -> str:
    """Absolute entries only: a relative one would run programs from whatever folder the command is in."""
    return ":".join(entry for entry in path.split(":") if os.path.isabs(entry)) or _DEFAULT_PATH
