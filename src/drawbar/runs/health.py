"""What ``drawbar doctor`` looks at: sandbox, git, accounts, the data root; each finding with its cure (CLI-4)."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from drawbar.contracts.errors import DrawbarError, IncompatibleRoot, InvalidInput
from drawbar.contracts.methods import Check
from drawbar.runs.machine import engines, find_program, is_of_the_repository, kernel

if TYPE_CHECKING:
    from drawbar.contracts.boundary import SandboxBackend
    from drawbar.stores.accounts import Accounts
    from drawbar.stores.layout import Layout
    from drawbar.stores.runs import RunStore

__all__ = ["examine"]

LOW_SPACE = 200 * 1024 * 1024
GIT_LIMIT_S = 5.0


async def examine(
    layout: Layout,
    accounts: Accounts,
    backend: SandboxBackend,
    settings: Callable[[], object],
    store: RunStore | None = None,
    fault: DrawbarError | None = None,
) -> AsyncIterator[Check]:
    """All findings, in the order a person would mend them; also where the root can't be opened.

    Args:
        layout: the three folders.
        accounts: those of the environment.
        backend: is tried with a real command.
        settings: reads the user's settings; raises for a file that can't be read or is wrong.
        store: of the open root, None where it isn't open.
        fault: why it couldn't be opened.
    """
    yield await _sandbox(backend)
    async for check in kernel():
        yield check
    yield _search("ripgrep", "rg", "ripgrep")
    yield _search("fd", "fdfind", "fd-find", "fd")
    yield await _git()
    async for check in engines():
        yield check
    yield _accounts(accounts)
    yield _settings(settings)
    yield Check(name="folders", ok=True, message=f"data {layout.data}, state {layout.state}, config {layout.config}")
    yield _root(layout, fault)
    if store is not None:
        yield _modes(layout)
        yield _space(layout)
        yield _index(layout)
        yield _active(store)


async def _sandbox(backend: SandboxBackend) -> Check:
    trial = await backend.trial()
    if trial.ok:
        return Check(name="sandbox", ok=True, message=f"{trial.backend} {trial.version or ''} works".strip())
    return Check(name="sandbox", ok=False, message=trial.cause or "the sandbox doesn't work", cure=trial.cure)


def _search(name: str, program: str, package: str, *others: str) -> Check:
    for candidate in (program, *others):
        if shutil.which(candidate):
            return Check(name=name, ok=True, message=f"{candidate} found")
    return Check(
        name=name,
        ok=True,
        message="not found; a slower built-in search does the same for common patterns",
        cure=f"install the package {package}",
    )


async def _git() -> Check:
    cure = "install git; without it a workspace is just its folder"
    git = find_program("git")
    if git is None:
        return Check(name="git", ok=False, message="git isn't installed", cure=cure)
    if is_of_the_repository(git):
        return Check(name="git", ok=True, message=f"{git} lies in this repository, so it wasn't asked")
    try:
        process = await asyncio.create_subprocess_exec(
            git, "--version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return Check(name="git", ok=False, message="git isn't installed", cure=cure)
    try:
        output, _ = await asyncio.wait_for(process.communicate(), GIT_LIMIT_S)
    except TimeoutError:
        process.kill()
        return Check(name="git", ok=False, message="git doesn't answer", cure=cure)
    return Check(name="git", ok=True, message=output.decode(errors="replace").strip())


def _accounts(accounts: Accounts) -> Check:
    try:
        known = accounts.list()
    except InvalidInput as error:
        return Check(name="accounts", ok=False, message=error.message, cure="mend that file")
    wrong = [account for account in known if not _web_address(account.base_url)]
    if wrong:
        setting = "ANTHROPIC_BASE_URL" if wrong[0].id == "anthropic" else "its base_url"
        return Check(
            name="accounts",
            ok=False,
            message=f"{wrong[0].id}: {_shown_address(wrong[0].base_url)!r} is no web address",
            cure=f"set {setting} to one such as https://api.example.org, or leave it out",
        )
    if known:
        named = ", ".join(f"{account.id} ({_shown_address(account.base_url)})" for account in known)
        return Check(name="accounts", ok=True, message=named)
    return Check(
        name="accounts",
        ok=False,
        message="no model account",
        cure="set ANTHROPIC_API_KEY or another provider's, or try the embedded scripted model with `drawbar demo`",
    )


def _web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and not any(char.isspace() or not char.isprintable() for char in url)
        )
    except ValueError:
        return False


def _shown_address(url: str) -> str:
    """Without user and password, which some gateways take in the address."""
    scheme, separator, rest = url.rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def _settings(read: Callable[[], object]) -> Check:
    try:
        read()
    except DrawbarError as error:
        named = error.facts.get("field")
        cure = f"mend {named} in that file" if named else "mend that file, or move it away"
        return Check(name="settings", ok=False, message=error.message, cure=cure)
    return Check(name="settings", ok=True, message="config.toml is sound, or not there")


def _root(layout: Layout, fault: DrawbarError | None) -> Check:
    if fault is not None:
        incompatible = isinstance(fault, IncompatibleRoot)
        return Check(
            name="data root", ok=False, message=fault.message, cure=None if incompatible else _cure(layout.data)
        )
    if not os.path.lexists(layout.data):
        above = next(folder for folder in layout.data.parents if os.path.exists(folder))
        if not os.access(above, os.W_OK | os.X_OK):
            message = f"{layout.data} isn't there, and {above} can't be written"
            return Check(name="data root", ok=False, message=message, cure="name another root with DRAWBAR_HOME")
        return Check(name="data root", ok=True, message=f"{layout.data} isn't there yet; the first run makes it")
    for folder in (layout.data, layout.runs, layout.active, layout.state):
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            return Check(
                name="data root", ok=False, message=f"{folder} can't be read and written", cure=_cure(layout.data)
            )
    return Check(name="data root", ok=True, message=str(layout.data))


def _cure(folder: Path) -> str:
    try:
        foreign = folder.stat().st_uid != os.geteuid()
    except OSError:
        foreign = False
    if foreign:
        return f"make it yours (chown -R {os.geteuid()} {folder}), or name another root with DRAWBAR_HOME"
    return "make it a folder that you can write (chmod u+rwx), or name another root with DRAWBAR_HOME"


def _modes(layout: Layout) -> Check:
    loose = [str(path) for path in (layout.data, layout.state, layout.config) if _others_may(path)]
    if loose:
        return Check(
            name="privacy",
            ok=False,
            message=f"other users can open {', '.join(loose)}",
            cure=f"chmod 700 {' '.join(loose)}",
        )
    return Check(name="privacy", ok=True, message="the data root is yours alone")


def _others_may(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & 0o077)


def _space(layout: Layout) -> Check:
    free = shutil.disk_usage(layout.data).free
    message = f"{free // (1024 * 1024)} MiB free"
    if free < LOW_SPACE:
        return Check(name="disk", ok=False, message=message, cure="free some space: a run that can't be saved stops")
    return Check(name="disk", ok=True, message=message)


def _index(layout: Layout) -> Check:
    if not layout.index_file.exists():
        return Check(name="index", ok=True, message="not made yet")
    try:
        connection = sqlite3.connect(f"file:{layout.index_file}?mode=ro", uri=True)
        try:
            answer = connection.execute("pragma quick_check").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.Error as error:
        answer = str(error)
    if answer == "ok":
        return Check(name="index", ok=True, message="sound")
    return Check(name="index", ok=False, message=f"damaged: {answer}", cure="run `drawbar reindex`")


def _active(store: RunStore) -> Check:
    stuck: list[str] = []
    live = 0
    for run_id in store.active():
        try:
            alive = store.owner_alive(run_id)
        except DrawbarError:
            alive = False
        if alive:
            live += 1
        else:
            stuck.append(run_id)
    if stuck:
        return Check(
            name="runs",
            ok=False,
            message=f"could not settle {', '.join(stuck)}",
            cure="see `drawbar runs inspect` on its folder; a full or read-only disk is the usual cause",
        )
    return Check(name="runs", ok=True, message=f"{live} live")
