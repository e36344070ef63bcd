"""What a command sees of home folders: a short list of toolchains and git's settings, read-only (BND-17).

Everything else in every user's home is masked. Credential files inside a listed folder are masked as well.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drawbar.boundary.credentials import credential_paths, system_credential_paths
from drawbar.boundary.git_folders import config_value
from drawbar.boundary.roots import SYSTEM_FOLDERS, SYSTEM_TREES

__all__ = ["LISTED", "HomeView", "home_view"]

LISTED: Final[tuple[str, ...]] = (
    # git's own settings; never its credential files
    *(".gitconfig", ".gitignore", ".gitignore_global", ".gitattributes", ".gitattributes_global"),
    *(".config/git/config", ".config/git/ignore", ".config/git/attributes"),
    # programs that people install for themselves
    *(".local/bin", ".local/lib", ".local/pipx", ".local/share/pipx", ".local/share/uv", ".local/share/mise"),
    *(".local/opt", ".local/share/applications", ".local/share/man", "bin"),
    *(".asdf", ".nix-profile", ".local/state/nix", ".linuxbrew", ".krew/bin", ".pixi", ".proto", ".volta"),
    # languages: versions, installed tools, and the package stores that offline builds need
    *(".cargo", ".rustup"),
    *(".pyenv", ".rye", ".conda", ".local/share/pypoetry", ".local/share/hatch", ".local/share/virtualenvs"),
    *("anaconda3", "miniconda3", "mambaforge", "miniforge3", "micromamba"),
    *(".nvm", ".nodenv", ".fnm", ".local/share/fnm", ".npm-global", ".local/share/pnpm", ".yarn", ".bun", ".deno"),
    *(".rbenv", ".rvm", ".gem", ".rubies", ".bundle", ".local/share/gem"),
    *("go/bin", "go/pkg", "go/sdk", "sdk", ".goenv", ".gvm"),
    *(".sdkman", ".jenv", ".jabba", ".m2", ".gradle", ".ivy2", ".sbt", ".local/share/coursier"),
    *(".ghcup", ".cabal", ".stack", ".opam", ".elan", ".juliaup", ".julia", ".swiftly", ".swiftpm"),
    *(".dotnet", ".nuget/packages", ".mix", ".hex", ".kiex", ".phpenv", ".composer", ".pub-cache", "flutter"),
    *(".platformio/penv", ".platformio/packages", ".local/share/zig", ".zvm", ".wasmer/bin", ".wasmtime/bin"),
)
"""Below a home folder, visible read-only when it exists."""

_PASSWD: Final = Path("/etc/passwd")
_FIRST_PERSON: Final = 1000
_NOBODY: Final = 65534
_HOME_PARENTS: Final = ("/home", "/root", "/data/home", "/export/home", "/var/home")
_MOST_INCLUDES: Final = 32
_LONGEST_CONFIG: Final = 256 * 1024

_SHARED: Final = (Path("/home/linuxbrew/.linuxbrew"),)
"""Toolchains that all users of a machine share, though they lie where homes do."""

_TOOLCHAINS: Final = (
    *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_ROOT", "PYENV_ROOT", "NVM_DIR", "VOLTA_HOME", "FNM_DIR", "PNPM_HOME"),
    *("BUN_INSTALL", "CARGO_HOME", "RUSTUP_HOME", "GOROOT", "JAVA_HOME", "M2_HOME", "GRADLE_HOME", "SDKMAN_DIR"),
    *("ANDROID_HOME", "ANDROID_SDK_ROOT", "DOTNET_ROOT", "RBENV_ROOT", "GEM_HOME", "ASDF_DIR", "ASDF_DATA_DIR"),
    *("MISE_DATA_DIR", "OPAM_SWITCH_PREFIX", "GHCUP_INSTALL_BASE_PREFIX", "HOMEBREW_PREFIX"),
)
"""Variables that say where a toolchain is, each of which commands get to see as well."""
_WHOLE: Final = ("pyvenv.cfg", "conda-meta")
"""What marks an environment whose parts need each other."""
_BESIDE_PROGRAMS: Final = ("lib", "lib64", "libexec", "share", "include")

_CREDENTIAL_VARIABLES: Final = (
    *("GOOGLE_APPLICATION_CREDENTIALS", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "KUBECONFIG", "NETRC"),
    *("DOCKER_CONFIG", "NPM_CONFIG_USERCONFIG", "PGPASSFILE", "VAULT_TOKEN_PATH", "CLOUDSDK_CONFIG", "GNUPGHOME"),
    *("PIP_CONFIG_FILE", "AZURE_CONFIG_DIR", "OCI_CLI_CONFIG_FILE", "PASSWORD_STORE_DIR", "REGISTRY_AUTH_FILE"),
)
"""Variables that name a credential store which may lie anywhere."""

_UNLISTED_CREDENTIALS: Final = (
    *(".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties", ".gradle/init.gradle"),
    *(".sbt/.credentials", ".sbt/1.0/credentials.sbt", ".ivy2/.credentials", ".hex/hex.config", ".yarn/.yarnrc"),
    *(".julia/servers", ".bun/.npmrc", ".local/share/pnpm/rc", ".conda/tokens", ".composer/auth.json"),
    *(".sbt/credentials", ".npm-global/etc/npmrc", ".swiftpm/configuration", ".platformio/appstate.json"),
    *(".nvm/.npmrc", ".local/share/hatch/auth", ".opam/plugins/opam-publish"),
    *(".dotnet/corefx/cryptography", ".yarn/.yarnrc.yml", ".ivy2/credentials"),
)
"""Credential files inside listed folders, besides those that the native tools refuse everywhere."""


@dataclass(frozen=True, slots=True)
class HomeView:
    """Home folders to mask, what stays readable below them, and credential files and folders to mask.

    ``home`` is the person's own home, canonical, or None when there is none that can be masked.
    """

    home: Path | None
    masked: tuple[Path, ...]
    readable: tuple[Path, ...]
    credentials: tuple[Path, ...]


def home_view(environ: Mapping[str, str], *, masked: Sequence[Path] = ()) -> HomeView:
    """Look at the machine's homes as they are now.

    Args:
        environ: the harness's environment: ``HOME``, ``PATH``, the variables that say where toolchains are, and those
            that name credential stores.
        masked: what else is masked, so that a toolchain in it must be shown.
    """
    own = _own_home(environ)
    homes = _people_homes()
    if own is not None:
        homes.add(own)
    closed = {folder for folder in homes | {Path(parent) for parent in _HOME_PARENTS} if os.path.isdir(folder)}
    listed = [] if own is None else [*(own / name for name in LISTED), *_named_by_git(own)]
    shown = (*listed, *_SHARED, *_programs(environ, [*masked, *([own] if own is not None else [])], homes))
    credentials = tuple(dict.fromkeys(_credentials(environ, homes)))
    # The more specific path wins, so nothing below a store may be shown, whatever names it.
    stores = {form for path in credentials for form in (path, Path(os.path.realpath(path)))}
    readable = dict.fromkeys(
        path
        for path in shown
        if os.path.lexists(path)
        and stores.isdisjoint((path, *path.parents))
        and stores.isdisjoint(((real := Path(os.path.realpath(path))), *real.parents))
    )
    return HomeView(
        home=own,
        masked=tuple(sorted(closed)),
        readable=tuple(readable),
        credentials=credentials,
    )


def _own_home(environ: Mapping[str, str]) -> Path | None:
    """``$HOME``, canonical, when it is a folder that can be masked."""
    named = environ.get("HOME", "")
    home = Path(os.path.realpath(named)) if os.path.isabs(named) else None
    return home if home is not None and os.path.isdir(home) and _maskable(home) else None


def _maskable(home: Path) -> bool:
    """Whether masking ``home`` hides a person's files and not the system."""
    if str(home) in SYSTEM_FOLDERS - {"/root"} or home == Path("/"):
        return False
    return not any(home.is_relative_to(tree) for tree in SYSTEM_TREES)


def _people_homes() -> set[Path]:
    """The home folders of people and of root; system accounts' folders hold programs that commands need."""
    found: set[Path] = set()
    try:
        lines = _PASSWD.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return found
    for line in lines:
        fields = line.split(":")
        if len(fields) < 6 or not fields[2].isdigit() or not os.path.isabs(fields[5]):
            continue
        uid = int(fields[2])
        if uid == 0 or (uid >= _FIRST_PERSON and uid != _NOBODY):
            found.add(Path(os.path.realpath(fields[5])))
    return {home for home in found if _maskable(home)}


def _named_by_git(home: Path) -> Iterable[Path]:
    """What git's own configuration names in the home folder: settings that it includes, ignore and attributes files.

    Only plain files below the home are shown, and only where the sandbox keeps them read-only; never a credential
    store, which stays masked whatever names it.
    """
    waiting = [home / ".gitconfig", home / ".config/git/config"]
    seen: set[Path] = set()
    while waiting and len(seen) < _MOST_INCLUDES:
        config = waiting.pop()
        if config in seen:
            continue
        seen.add(config)
        for value, include in _git_values(config):
            path = Path(os.path.normpath((config.parent if include else home) / _expanded(value, home)))
            if path.is_relative_to(home) and Path(os.path.realpath(path)).is_relative_to(home) and path.is_file():
                if include:
                    waiting.append(path)
                yield path


def _git_values(config: Path) -> Iterable[tuple[str, bool]]:
    """Each path that one configuration file names, and whether it is an included configuration."""
    for key in ("excludesfile", "attributesfile"):
        value = config_value(config, "core", key)
        if value:
            yield value, False
    try:
        if os.path.getsize(config) > _LONGEST_CONFIG:
            return
        text = config.read_text("utf-8", "replace")
    except OSError:
        return
    inside = False
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("["):
            inside = re.match(r"\[include(?:if\s+\"[^\"]*\")?\]", stripped, re.IGNORECASE) is not None
            stripped = stripped.partition("]")[2].strip()
        named = re.match(r"path\s*=\s*(.+)", stripped, re.IGNORECASE) if inside else None
        if named is not None:
            yield re.split(r"\s[#;]", named[1])[0].strip().strip('"'), True


def _expanded(value: str, home: Path) -> str:
    return str(home / value.removeprefix("~/")) if value.startswith("~/") else value


def _programs(environ: Mapping[str, str], masked: Sequence[Path], homes: Collection[Path]) -> Iterable[Path]:
    """Toolchains below the own home or a folder of the machine's data: those of ``PATH``, and those that are named.

    Of another person's home nothing shows, whatever ``PATH`` says.
    """

    def shown(folder: Path) -> bool:
        """Whether it may be shown whole: a home, or what holds one, never is."""
        return any(folder != mask and folder.is_relative_to(mask) for mask in masked) and not any(
            home.is_relative_to(folder) for home in homes
        )

    for entry in environ.get("PATH", "").split(":"):
        folder = Path(os.path.normpath(entry)) if os.path.isabs(entry) else None
        if folder is None or not shown(folder) or not os.path.isdir(folder):
            continue
        whole = folder.parent
        if shown(whole) and any(os.path.exists(whole / mark) for mark in _WHOLE):
            yield whole
            continue
        yield folder
        if folder.name in ("bin", "sbin") and shown(whole):
            yield from (whole / name for name in _BESIDE_PROGRAMS)
    for variable in _TOOLCHAINS:
        named = environ.get(variable, "")
        if os.path.isabs(named) and shown(path := Path(os.path.normpath(named))) and os.path.isdir(path):
            yield path


def _credentials(environ: Mapping[str, str], homes: Iterable[Path]) -> Iterable[Path]:
    """Credential stores that exist, wherever they are: a listed folder or a workspace may hold one."""
    yield from (path for path in system_credential_paths() if _opens(path))
    for variable in _CREDENTIAL_VARIABLES:
        for named in environ.get(variable, "").split(":"):
            if os.path.isabs(named) and os.path.exists(path := Path(os.path.realpath(named))) and len(path.parts) > 2:
                yield path
    for home in homes:
        try:
            present = set(os.listdir(home))
        except OSError:
            continue
        for path in (*credential_paths(home), *(home / name for name in _UNLISTED_CREDENTIALS)):
            if path.parts[len(home.parts)] in present and os.path.lexists(path):
                yield path


def _opens(path: Path) -> bool:
    """Whether this process could read ``path`` at all; what it can't, the command can't either."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return os.access(path, os.R_OK) or (stat.S_ISDIR(mode) and os.access(path, os.X_OK))
