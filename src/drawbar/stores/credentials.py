"""Where an account's credential is kept, and how it is fetched when a run needs it (MDL-1).

A reference, never the value, stands in the accounts file: an environment variable, a file, a command, or an
entry of the system's keyring.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from drawbar.contracts.errors import AccountUnavailable, InvalidInput
from drawbar.stores.regular_file import read_regular

__all__ = ["CredentialRef", "fetch_credential"]

COMMAND_LIMIT_S: Final = 30.0
MAX_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class CredentialRef:
    """A reference to a credential.

    Args:
        kind: ``none`` for a server that wants no key.
        name: the variable, or ``SERVICE/NAME`` in the keyring.
        path: of the file that holds it.
        argv: the command that prints it; no shell reads it.
    """

    kind: Literal["env", "file", "command", "keyring", "none"]
    name: str = ""
    path: Path | None = None
    argv: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.kind:
            case "env":
                return f"the variable {self.name}"
            case "file":
                return f"the file {self.path}"
            case "command":
                return f"the command `{self.argv[0]}`"
            case "keyring":
                return f"the keyring entry {self.name}"
            case "none":
                return "no credential"


def fetch_credential(ref: CredentialRef, environ: Mapping[str, str], *, account: str) -> str:
    """The credential itself, without surrounding white space; the caller registers it for redaction.

    Args:
        ref: where it is.
        environ: where variables are looked up, and what a command gets.
        account: for the message.

    Raises:
        AccountUnavailable: it can't be had; the message says from where, and never quotes what was found.
    """
    match ref.kind:
        case "none":
            return ""
        case "env":
            found = environ.get(ref.name, "")
        case "file":
            found = _from_file(ref, account)
        case "command":
            found = _from_command(ref, environ, account)
        case "keyring":
            found = _from_keyring(ref, account)
    found = found.strip()
    if not found:
        raise AccountUnavailable(f"account {account!r}: {ref} holds no credential; put one there", account=account)
    return found


def _from_file(ref: CredentialRef, account: str) -> str:
    assert ref.path is not None
    path = Path(os.path.expanduser(ref.path))
    try:
        raw = read_regular(path)
    except (FileNotFoundError, InvalidInput) as error:
        raise AccountUnavailable(f"account {account!r}: {path} can't be read ({error})", account=account) from error
    return _text(raw, ref, account)


def _from_command(ref: CredentialRef, environ: Mapping[str, str], account: str) -> str:
    try:
        done = subprocess.run(
            ref.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            timeout=COMMAND_LIMIT_S,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        what = f"{ref} gave no answer within {COMMAND_LIMIT_S:g} s"
        raise AccountUnavailable(f"account {account!r}: {what}; try it by hand", account=account) from error
    except OSError as error:
        what = f"{ref} can't be started ({error.strerror})"
        raise AccountUnavailable(f"account {account!r}: {what}", account=account) from error
    if done.returncode != 0:
        what = f"{ref} ended with exit code {done.returncode}"
        raise AccountUnavailable(f"account {account!r}: {what}; try it by hand", account=account)
    return _text(done.stdout, ref, account)


def _from_keyring(ref: CredentialRef, account: str) -> str:
    service, _, name = ref.name.rpartition("/")
    try:
        import keyring  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise AccountUnavailable(
            f"account {account!r}: {ref} needs the package `keyring`: install drawbar[keyring], or keep the key in a "
            "file or behind a command",
            account=account,
        ) from error
    try:
        found: object = keyring.get_password(service, name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    except Exception as error:
        # A back end of the keyring may raise anything of its own.
        raise AccountUnavailable(f"account {account!r}: {ref} can't be read ({error})", account=account) from error
    return found if isinstance(found, str) else ""  # pyright: ignore[reportUnknownVariableType]


def _text(raw: bytes, ref: CredentialRef, account: str) -> str:
    try:
        return raw[:MAX_BYTES].decode()
    except UnicodeDecodeError as error:
        raise AccountUnavailable(f"account {account!r}: {ref} gives no text", account=account) from error
