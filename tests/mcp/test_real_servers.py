"""The protocol's own reference servers, over standard input and output and over HTTP (PRO-3)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.kit import connected, names, words
from tests.mcp.test_hostile import pool_of, use

from drawbar.stores.credentials import CredentialRef
from drawbar.tools.mcp.connection import ServerFault
from drawbar.tools.mcp.settings import ServerSettings


@pytest.mark.slow
@pytest.mark.clause("PRO-3")
async def test_the_file_server(tmp_path: Path, npm_servers: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha\n")
    settings = ServerSettings("files", "t", (str(npm_servers / "mcp-server-filesystem"), str(tmp_path)))
    async with connected(settings, tmp_path) as one:
        assert "read_text_file" in names(await one.list_tools())
        assert words(await one.call("read_text_file", {"path": str(tmp_path / "a.txt")})) == "alpha\n"
        refused = await one.call("read_text_file", {"path": "/etc/passwd"})
        assert refused.is_error


@pytest.mark.slow
@pytest.mark.clause("PRO-3")
async def test_the_server_of_everything_with_pictures_links_and_resources(tmp_path: Path, npm_servers: Path) -> None:
    settings = ServerSettings("all", "t", (str(npm_servers / "mcp-server-everything"),), timeout_s=20.0)
    pool = await pool_of(settings, tmp_path, tmp_path / "lists")
    at = {tool.spec.name: number for number, tool in enumerate(pool.tools())}
    assert (await use(pool, at=at["mcp__all__echo"], message="hi")).joined == "Echo: hi"
    picture = await use(pool, at=at["mcp__all__get-tiny-image"])
    assert [block["mimeType"] for block in picture.content if block["type"] == "image"] == ["image/png"]
    assert "a link: " in (await use(pool, at=at["mcp__all__get-resource-links"])).joined
    summed = await use(pool, at=at["mcp__all__get-sum"], a=2, b=3)
    assert "5" in summed.joined
    await pool.close()


@asynccontextmanager
async def over_http(*, token: str = "") -> AsyncIterator[str]:
    """A server of the library's own over streamable HTTP; the address."""
    import uvicorn
    from mcp.server.mcpserver import MCPServer

    served = MCPServer("t")

    @served.tool()
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    inner = served.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and token and dict(scope["headers"]).get(b"authorization") != token.encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await inner(scope, receive, send)

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(guarded, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
        )
        task = asyncio.create_task(server.serve(sockets=[bound]))
        while not server.started:
            await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
        server.should_exit = True
        await task


@pytest.mark.clause("PRO-3")
async def test_streamable_http_with_a_header_by_reference(tmp_path: Path) -> None:
    async with over_http(token="Bearer s3cret") as url:
        reference = CredentialRef("env", name="THE_TOKEN")
        settings = ServerSettings("far", "t", url=url, headers=(("Authorization", reference),), timeout_s=10.0)
        async with connected(settings, tmp_path, THE_TOKEN="Bearer s3cret") as one:
            assert names(await one.list_tools()) == ["add"]
            assert words(await one.call("add", {"a": 2, "b": 3})) == "5"
        async with connected(ServerSettings("far", "t", url=url), tmp_path) as one:
            with pytest.raises(ServerFault, match="wants a login"):
                await one.list_tools()


@pytest.mark.clause("PRO-3", "QLT-12")
async def test_an_address_where_nobody_is_or_that_never_answers(tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
        async with connected(ServerSettings("gone", "t", url=url), tmp_path) as one:
            with pytest.raises(ServerFault):
                await asyncio.wait_for(one.list_tools(), 5)
        bound.listen()
        async with connected(ServerSettings("mute", "t", url=url), tmp_path) as one:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(one.list_tools(), 1)
