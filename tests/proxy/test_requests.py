"""What the proxy forwards, and that nothing rides along past the decision (BND-13)."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.proxy.kit import Names, Proxied, Server, proxied, public, reply, serving

pytestmark = pytest.mark.clause("BND-13")


def get(server: Server, path: str = "/", *fields: str, version: str = "1.1") -> bytes:
    lines = [f"GET http://127.0.0.1:{server.port}{path} HTTP/{version}", f"Host: 127.0.0.1:{server.port}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_a_listed_host_is_reached_by_plain_http_and_by_tunnel_alike() -> None:
    async with serving(reply(b"hello")) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        assert (await proxy.ask(get(server))).endswith(b"\r\n\r\nhello")
        tunnel = f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
        through = await proxy.ask(tunnel, more=[b"GET /t HTTP/1.0\r\n\r\n"])
        assert through.startswith(b"HTTP/1.1 200 ")
        assert through.endswith(b"hello")
        assert [(event.host, event.port, event.allowed, event.rule) for event in proxy.events] == [
            ("127.0.0.1", server.port, True, f"127.0.0.1:{server.port}")
        ]
        proxy.ledger.end_call("c_1")
        assert sum(event.count for event in proxy.events) == 2


@pytest.mark.parametrize("kind", ["plain", "tunnel"])
async def test_what_is_not_listed_is_refused_in_words_before_anything_is_looked_up(kind: str) -> None:
    names = Names({"other.test": [public()]})
    async with proxied("example.com", names=names) as proxy:
        raw = {
            "plain": b"GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n",
            "tunnel": b"CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n",
        }[kind]
        answer = await proxy.ask(raw)
    assert status(answer) == 403
    assert b"other.test" in answer.split(b"\r\n")[0], "the status line is all that many programs show"
    assert b'name "other.test" in the call\'s hosts' in answer
    assert names.asked == []
    [event] = proxy.events
    assert (event.call_id, event.host, event.allowed, event.rule, event.reason) == (
        *("c_1", "other.test", False, None, "not listed"),
    )


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", 400),
        (b"GET https://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400),
        (b"GET ftp://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\nHost: example.com\r\n\r\n", 400),
        (b"TRACE http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 405),
        (b"CONNECT example.com HTTP/1.1\r\nHost: example.com\r\n\r\n", 400),
        (b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\nhello", 400),
        (b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET http://user:pass@example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400),
        (b"GET http://example.com#@other.test/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 400),
        (b"GET http://example.com/ HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"garbage\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (
            b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
            501,
        ),
    ],
)
async def test_what_a_proxy_has_no_business_with_is_refused(raw: bytes, code: int) -> None:
    async with proxied("example.com", "other.test", names=Names()) as proxy:
        answer = await proxy.ask(raw)
        assert status(answer) == code
        assert b"drawbar: " in answer
        assert not any(event.allowed for event in proxy.events)


@pytest.mark.parametrize(
    "text",
    [
        "0x7f.1:80",
        "2130706433:80",
        "127.1:80",
        "[::ffff:127.0.0.1]:80",
        "example.com%00:80",
        "a@127.0.0.1:80",
        "[::1]x:80",
    ],
)
async def test_a_host_in_disguise_is_refused_and_recorded(text: str) -> None:
    async with proxied("127.0.0.1:80", "example.com") as proxy:
        answer = await proxy.ask(f"CONNECT {text} HTTP/1.1\r\nHost: {text}\r\n\r\n".encode())
        assert status(answer) == 400
        [event] = proxy.events
        assert not event.allowed
        assert "no host name" in (event.reason or "")


@pytest.mark.parametrize(
    "host",
    [
        "Host: other.test",
        "Host: example.com:8080",
        "Host: example.com\r\nHost: other.test",
        "Host: example.com\r\nHost: example.com",
        "Host: ",
        "Host: a b",
        "Host: example.com.other.test",
        "Host : example.com",
    ],
)
async def test_the_host_field_must_agree_with_the_target(host: str) -> None:
    names = Names({"example.com": [public()], "other.test": [public()]})
    for line in ("GET http://example.com/", "CONNECT example.com:443"):
        async with proxied("example.com", names=names) as proxy:
            answer = await proxy.ask(f"{line} HTTP/1.1\r\n{host}\r\n\r\n".encode())
            assert status(answer) == 400
            assert proxy.events == []
    assert names.asked == []


async def test_fields_between_neighbours_and_of_relays_do_not_go_on() -> None:
    fields = [
        *("Proxy-Authorization: Basic c2VjcmV0", "Proxy-Connection: keep-alive", "Connection: keep-alive, X-Private"),
        *("X-Private: 1", "Keep-Alive: 5", "TE: trailers", "Upgrade: h2c", "HTTP2-Settings: AAAA", "Via: 1.1 evil"),
        *(
            "Forwarded: host=evil.test",
            "X-Forwarded-Host: evil.test",
            "X-Forwarded-For: 10.0.0.1",
            "X-Real-IP: 10.0.0.1",
        ),
        *("X-Original-URL: /admin", "X-Rewrite-URL: /admin", "X-Kept: yes", "Cookie: a=b"),
    ]
    async with serving(
        reply(b"ok", "200 OK", "Proxy-Authenticate: Basic", "Connection: X-Own", "X-Own: 1", "ETag: x")
    ) as server:
        async with proxied(f"127.0.0.1:{server.port}") as proxy:
            answer = await proxy.ask(get(server, "/path?q=1", *fields))
        head = server.heard[0].decode()
    assert head.splitlines()[0] == "GET /path?q=1 HTTP/1.1"
    sent = {line.partition(":")[0].lower() for line in head.splitlines()[1:] if line}
    assert sent == {"host", "x-kept", "cookie", "connection"}
    assert "Connection: close" in head
    returned = {line.partition(b":")[0].lower() for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]}
    assert returned == {b"content-length", b"etag", b"connection"}


async def test_a_second_request_on_the_connection_goes_nowhere() -> None:
    """Kept alive, pipelined or hidden in what follows a body: one connection carries one request."""
    async with serving(reply(b"first")) as server:
        async with proxied(f"127.0.0.1:{server.port}") as proxy:
            answer = await proxy.ask(get(server, "/1", "Connection: keep-alive") + get(server, "/2") * 3)
        assert answer.count(b"HTTP/1.1") == 1
        assert b"Connection: close" in answer
    assert server.all_heard.count(b"GET ") == 1
    assert server.connections == 1


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: internal.test\r\n\r\n"


def post(server: Server, fields: list[bytes], body: bytes, end: bytes = b"\r\n") -> bytes:
    first = [f"POST http://127.0.0.1:{server.port}/ HTTP/1.1".encode(), f"Host: 127.0.0.1:{server.port}".encode()]
    return end.join([*first, *fields]) + end + end + body


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ([b"Content-Length: 5", b"Transfer-Encoding: chunked"], b"0\r\n\r\n" + SMUGGLED),
        ([b"Transfer-Encoding: chunked", b"Content-Length: 60"], b"0\r\n\r\n" + SMUGGLED),
        ([b"Content-Length: 0", b"Content-Length: 50"], SMUGGLED),
        ([b"Content-Length: 0, 50"], SMUGGLED),
        ([b"Content-Length: +5"], SMUGGLED),
        ([b"Content-Length: -1"], SMUGGLED),
        ([b"Content-Length: 0x10"], SMUGGLED),
        ([b"Content-Length: 1_0"], SMUGGLED),
        ([b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"], b"0\r\n\r\n" + SMUGGLED),
        ([b"Transfer-Encoding: identity"], SMUGGLED),
        ([b"Transfer-Encoding: xchunked"], SMUGGLED),
        ([b"Transfer-Encoding: gzip, chunked"], b"0\r\n\r\n" + SMUGGLED),
        ([b"Transfer-Encoding\t: chunked"], b"0\r\n\r\n" + SMUGGLED),
        ([b"Transfer-Encoding : chunked"], b"0\r\n\r\n" + SMUGGLED),
        ([b"X: y\nTransfer-Encoding: chunked"], b"0\r\n\r\n" + SMUGGLED),
        ([b"X: y\rTransfer-Encoding: chunked"], b"0\r\n\r\n" + SMUGGLED),
        ([b"X: y\r\n Transfer-Encoding: chunked"], b"0\r\n\r\n" + SMUGGLED),
        ([b"Transfer-Encoding:\r\n chunked"], b"0\r\n\r\n" + SMUGGLED),
        ([b" Transfer-Encoding: chunked"], b"0\r\n\r\n" + SMUGGLED),
        ([b"X: \0", b"Content-Length: 0"], SMUGGLED),
        ([b"Transfer-Encoding: chunked"], b"5;a=\n\r\nhello\r\n0\r\n\r\n"),
        ([b"Transfer-Encoding: chunked"], b"5\nhello\r\n0\r\n\r\n" + SMUGGLED),
        ([b"Transfer-Encoding: chunked"], b"5\r\nhelloXX0\r\n\r\n" + SMUGGLED),
        ([b"Transfer-Encoding: chunked"], b"-5\r\nhello\r\n0\r\n\r\n" + SMUGGLED),
        ([b"Transfer-Encoding: chunked"], b"0x5\r\nhello\r\n0\r\n\r\n" + SMUGGLED),
        ([b"Transfer-Encoding: chunked"], b"FFFFFFFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n" + SMUGGLED),
    ],
)
async def test_no_second_request_is_smuggled_in(fields: list[bytes], body: bytes) -> None:
    async with serving(reply(b"ok")) as server:
        async with proxied(f"127.0.0.1:{server.port}") as proxy:
            answer = await proxy.ask(post(server, fields, body), end=True)
        assert status(answer) in (400, 501, 200)
    assert b"smuggled" not in server.all_heard
    assert server.all_heard.count(b"HTTP/1.1") <= 1


@pytest.mark.parametrize("end", [b"\n", b"\r"])
async def test_a_head_with_bare_line_ends_is_refused(end: bytes) -> None:
    async with serving(reply(b"ok")) as server:
        async with proxied(f"127.0.0.1:{server.port}") as proxy:
            answer = await proxy.ask(post(server, [b"Content-Length: 0"], b"", end) + SMUGGLED, end=True)
        assert status(answer) == 400
    assert server.connections == 0


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                b"Content-Length: 4",
                b"Content-Length: 64",
                b"Transfer-Encoding: chunked",
                b"TE: chunked",
                b"X: y",
                b" folded",
                b"Connection: Transfer-Encoding",
                b"Connection: close, Content-Length",
                b"Expect: 100-continue",
                b"Trailer: Host",
            ]
        ),
        max_size=4,
    ),
    st.lists(
        st.sampled_from(
            [b"4\r\nbody\r\n", b"0\r\n\r\n", b"0\r\nHost: evil\r\n\r\n", SMUGGLED, b"\r\n", b"\n", b"x", b"4\n"]
        ),
        max_size=4,
    ),
)
def test_however_a_body_is_framed_the_server_hears_one_request(fields: list[bytes], body: list[bytes]) -> None:
    """The server reads strictly by what arrives there: what the proxy sent must be one whole request or nothing."""

    async def go() -> None:
        import h11

        raw = bytearray()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            side = h11.Connection(h11.SERVER)
            while side.their_state not in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR):
                if side.next_event() is h11.NEED_DATA:
                    data = await reader.read(65536)
                    raw.extend(data)
                    if not data:
                        return  # given up by the proxy in the middle
                    side.receive_data(data)
            writer.write(reply(b"ok"))
            await writer.drain()
            writer.write_eof()
            raw.extend(rest := await reader.read(-1))
            assert rest == b""
            assert side.trailing_data[0] == b""

        async with serving(listen) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
            await proxy.ask(post(server, fields, b"".join(body)), end=True)
        # What stands in a body that is framed as one is the body's own.
        assert b"Host: evil" not in bytes(raw).partition(b"\r\n\r\n")[0]
        assert raw.count(b"POST / HTTP/1.1\r\nHost: 127.0.0.1") <= 1

    asyncio.run(go())


async def test_bodies_of_either_framing_arrive_whole_and_trailers_do_not() -> None:
    payload = bytes(range(256)) * 2000

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h11

        side, body = h11.Connection(h11.SERVER), bytearray()
        while True:
            event = side.next_event()
            if event is h11.NEED_DATA:
                side.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Data):
                body.extend(event.data)
            elif isinstance(event, h11.EndOfMessage):
                assert event.headers == []
                break
        digest = hashlib.sha256(body).hexdigest().encode()
        chunks = b"%x\r\n%s\r\n0\r\nX-Trailer: 1\r\n\r\n" % (len(digest), digest)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\n" + chunks)
        await writer.drain()

    expected = hashlib.sha256(payload).hexdigest().encode()
    async with serving(echo) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        plain = await proxy.ask(post(server, [b"Content-Length: %d" % len(payload)], payload))
        chunked = b"%x\r\n%s\r\n0\r\nHost: evil\r\n\r\n" % (len(payload), payload)
        other = await proxy.ask(post(server, [b"Transfer-Encoding: chunked", b"Trailer: Host"], chunked))
        waiting = await proxy.ask(post(server, [b"Content-Length: 3", b"Expect: 100-continue"], b"abc"))
        old = await proxy.ask(get(server, version="1.0"))
    for answer in (plain, other):
        assert expected in answer
        assert b"Trailer" not in answer
        assert b"Content-Length" not in answer
    assert waiting.startswith(b"HTTP/1.1 100 ")
    assert old.endswith(hashlib.sha256(b"").hexdigest().encode()), "HTTP/1.0 knows no chunks"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nraw",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000_000 + b"\r\n\r\n",
    ],
)
async def test_a_reply_that_is_no_http_becomes_a_plain_refusal(answer: bytes) -> None:
    async with serving(answer) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        assert status(await proxy.ask(get(server))) == 502


async def test_a_reply_cut_short_is_never_given_as_whole() -> None:
    async with (
        serving(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel") as server,
        proxied(f"127.0.0.1:{server.port}") as proxy,
    ):
        answer = await proxy.ask(get(server))
    assert not answer.endswith(b"0\r\n\r\n")


async def test_a_server_may_reply_and_hang_up_before_the_body_is_through() -> None:
    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply(b"too large", "413 Content Too Large"))
        await writer.drain()

    async with serving(hasty) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        answer = await proxy.ask(post(server, [b"Content-Length: 5000000"], b"x" * 100_000))
    assert status(answer) == 413


async def test_heads_are_bounded_in_size_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drawbar.boundary.proxy.heads.HEAD_LIMIT_S", 0.3)
    async with proxied("example.com") as proxy:
        assert status(await proxy.ask(b"GET http://example.com/ HTTP/1.1\r\nX: " + b"y" * 200_000)) == 431
        assert status(await proxy.ask(b"GET http://example.com/ HTTP/1.1\r\n")) == 408
        assert await proxy.ask(b"", end=True) == b""
        assert status(await proxy.ask(b"GET http", end=True)) == 400


async def test_a_head_that_comes_in_pieces_is_put_together() -> None:
    async with serving(reply(b"ok")) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
        raw = get(server)
        answer = await proxy.ask(raw[:5], more=[raw[5:30], raw[30:-1], raw[-1:]])
        assert status(answer) == 200


class TestTunnels:
    def connect(self, server: Server) -> bytes:
        return f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()

    async def opened(self, proxy: Proxied, server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(self.connect(server))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        return reader, writer

    async def test_bytes_go_both_ways_and_each_side_may_end_first(self) -> None:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            body = await reader.read(-1)
            writer.write(b"end:" + body)
            await writer.drain()

        payload = bytes(range(256)) * 4000
        async with serving(echo) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
            reader, writer = await self.opened(proxy, server)
            writer.write(payload)
            writer.write_eof()
            assert await asyncio.wait_for(reader.read(-1), 20) == b"end:" + payload
            writer.close()

    async def test_a_slow_reader_slows_the_sender(self) -> None:
        sent = 0

        async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
                sent += 65536

        async with serving(flood) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
            reader, writer = await self.opened(proxy, server)
            before = -1
            while sent != before:
                before = sent
                await asyncio.sleep(0.3)
            assert sent < 32 << 20, "what nobody reads is not gathered in memory"
            writer.transport.abort()
            assert reader

    async def test_a_silent_tunnel_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("drawbar.boundary.proxy.relay.relay.__kwdefaults__", {"idle_s": 0.3})

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(-1)

        async with serving(silent) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
            reader, writer = await self.opened(proxy, server)
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reader.readexactly(1), 5)
            writer.close()

    async def test_what_came_with_the_head_belongs_to_the_tunnel(self) -> None:
        async with serving(reply(b"ok")) as server, proxied(f"127.0.0.1:{server.port}") as proxy:
            answer = await proxy.ask(self.connect(server) + b"GET /early HTTP/1.0\r\n\r\n")
            assert answer.endswith(b"ok")
        assert server.heard[0].startswith(b"GET /early")
