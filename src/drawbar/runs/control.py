"""The control socket: one per owning process, JSON-RPC 2.0, one object a line (RUN-9).

It carries commands (interrupt, approve), never event bodies; those are read from the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from drawbar.contracts.codec import as_object, encode, loads
from drawbar.contracts.errors import DrawbarError, InvalidInput, NotPermitted, OwnerUnreachable, ProviderError
from drawbar.runs.peers import Peer, peer_of, same_user

__all__ = ["ControlServer", "call_owner", "socket_folder"]

Handler = Callable[[Mapping[str, Any], Peer], Awaitable[Any]]
REQUEST_LIMIT = 256 * 1024
CALL_LIMIT_S = 10.0
LONGEST_FOLDER = 90
"""Bytes; a socket's address has room for 107, the name of the socket included."""


def socket_folder(data: Path, environ: Mapping[str, str]) -> Path:
    """``$XDG_RUNTIME_DIR/drawbar/<hash>``, else a 0700 folder of the user's under ``/tmp``.

    The hash is of the data root's real path, so that two roots never share a folder. A runtime folder too deep
    for a socket's address is passed over. Nothing is made.
    """
    name = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:16]
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        folder = Path(runtime) / "drawbar" / name
        if len(os.fsencode(folder)) <= LONGEST_FOLDER:
            return folder
    return Path(f"/tmp/drawbar-{os.geteuid()}") / name


def _private(folder: Path) -> None:
    """Make ``folder`` and check each level is ours alone: ``/tmp`` is everybody's."""
    for level in (folder.parent, folder):
        with contextlib.suppress(FileExistsError):
            level.mkdir(mode=0o700, parents=level is folder.parent)
        found = os.lstat(level)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise NotPermitted(
                f"{level} must be a folder of yours that nobody else can open (mode 0700); remove it and try again"
            )


class ControlServer:
    """Serves this process's live runs to the same user's other processes.

    Args:
        folder: from :func:`socket_folder`.
        handlers: method name → coroutine; it gets the parameters and the peer.
    """

    def __init__(self, folder: Path, handlers: Mapping[str, Handler]) -> None:
        self.path = folder / f"{os.getpid()}.sock"
        self._handlers = handlers
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. Raises :class:`NotPermitted` when the folder isn't ours alone."""
        _private(self.path.parent)
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()  # a dead process's, with our pid
        old = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._accept, path=self.path, limit=REQUEST_LIMIT)
        finally:
            os.umask(old)

    async def close(self) -> None:
        """Stop listening and hang up: no connection outlives the server (ARC-5)."""
        if self._server is None:
            return
        self._server.close()
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer), name="drawbar-control")
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        peer = peer_of(sock)
        try:
            same_user(peer)
            while line := await reader.readline():
                writer.write(encode(await self._answer(line, peer)) + b"\n")
                await writer.drain()
        except (ConnectionError, NotPermitted, ValueError):
            return  # an oversized line or another user: hang up without a word
        finally:
            peer.close()
            writer.close()

    async def _answer(self, line: bytes, peer: Peer) -> dict[str, Any]:
        request_id: Any = None
        try:
            request = as_object(loads(line))
            if request is None:
                raise InvalidInput("a request is one JSON object a line")
            request_id = request.get("id")
            handler = self._handlers.get(str(request.get("method")))
            if handler is None:
                return _error(request_id, -32601, "no such method", "invalid_request")
            params = as_object(request.get("params")) or {}
            return {"jsonrpc": "2.0", "id": request_id, "result": await handler(params, peer)}
        except DrawbarError as error:
            return _error(request_id, -32000, error.message, error.code)
        except (ValueError, UnicodeDecodeError):
            return _error(request_id, -32700, "the line is not JSON", "invalid_request")


def _error(request_id: Any, number: int, message: str, code: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": number, "message": message, "data": {"code": code}}}


def remote_error(message: str, code: str) -> DrawbarError:
    """What the owner refused with, as the same error that it would be here."""
    for kind in DrawbarError.__subclasses__():
        if kind.code == code and kind is not ProviderError:
            return kind(message)
    return DrawbarError(message, code=code)


async def call_owner(path: str, method: str, params: Mapping[str, Any]) -> Any:
    """Call another process's control socket.

    Raises:
        OwnerUnreachable: nobody answers there within ten seconds.
        DrawbarError: what the owner said, with its code.
    """
    try:
        async with asyncio.timeout(CALL_LIMIT_S):
            reader, writer = await asyncio.open_unix_connection(path, limit=REQUEST_LIMIT)
            try:
                writer.write(encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + b"\n")
                await writer.drain()
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        raise OwnerUnreachable(
            "the process that owns this run doesn't answer; if it is gone, the next drawbar command settles the run"
        ) from error
    if not line:
        raise OwnerUnreachable("the process that owns this run closed the connection without an answer")
    answer = as_object(loads(line)) or {}
    refusal = as_object(answer.get("error"))
    if refusal is not None:
        facts = as_object(refusal.get("data")) or {}
        raise remote_error(str(refusal.get("message")), str(facts.get("code", "failed")))
    return answer.get("result")
