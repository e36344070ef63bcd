"""The client against a server that behaves as badly as networks do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from tests.models.kit import SETTINGS, provider_at, read, request_for, result, user

from drawbar.contracts.clock import SystemClock
from drawbar.contracts.errors import AccountUnavailable, InvalidInput, ProviderError, UnsupportedFeature
from drawbar.contracts.model import Account, Completed, Delta, EncodedRequest
from drawbar.models import provider_for
from drawbar.models.anthropic import AnthropicProvider
from drawbar.models.http import is_loopback
from drawbar.testing.anthropic_reply import units
from drawbar.testing.http_server import HttpRequest, HttpServer, Responder
from drawbar.testing.scenario import Block, Fault, Pace, Turn
from drawbar.testing.scripted_model import ScriptedModel, reply, say, use

LONG = "Wörter, 🚀 und\u2028mehr\u2029 davon. " * 40


async def failure(provider: AnthropicProvider) -> tuple[list[Delta], ProviderError]:
    deltas: list[Delta] = []
    with pytest.raises(ProviderError) as failed:  # noqa: PT012 - the failure may come at any of these
        async with provider.stream(request_for(provider)) as events:
            async for event in events:
                assert isinstance(event, Delta), "a failed attempt completed"
                deltas.append(event)
    return deltas, failed.value


@pytest.mark.clause("MDL-2", "QLT-14")
async def test_a_tool_using_conversation_over_one_connection() -> None:
    turns = [
        reply(
            Block(thinking="Hm.", signature="c2ln"),
            Block(text="Looking."),
            Block(tool="bash", arguments={"command": "ls"}),
        ),
        say(LONG),
    ]
    async with ScriptedModel(turns) as server, provider_at(server) as provider:
        builder = provider.builder(SETTINGS)
        builder.extend([user("Go.")])
        _, first = await read(provider, builder.build())
        assert [call.name for call in first.calls] == ["bash"]
        builder.extend([first.message, result(first.calls[0].id, "a\nb")])
        deltas, second = await read(provider, builder.build())
        assert "".join(delta.text for delta in deltas) == LONG
        assert second.message["content"] == [{"type": "text", "text": LONG}]
        assert second.headers["request-id"] == "req_0002"
    assert server.errors == []
    assert len({request.headers["host"] for request in server.requests}) == 1
    sent = server.requests[1].parsed
    assert sent is not None
    assert sent["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    assert server.requests[0].headers["x-api-key"] == "sk-test"
    assert server.requests[0].headers["anthropic-version"] == "2023-06-01"


async def test_a_finished_replys_connection_is_used_again() -> None:
    peers: list[int] = []

    async def handle(request: HttpRequest, responder: Responder) -> None:
        peers.append(id(responder._connection))  # pyright: ignore[reportPrivateUsage]
        await server._handle(request, responder)  # pyright: ignore[reportPrivateUsage]

    server = ScriptedModel([say("a"), say("b"), Turn(fault=Fault(kind="overloaded")), say("c")])
    outside = HttpServer(handle)
    await outside.start()
    try:
        async with provider_at(f"http://127.0.0.1:{outside.port}") as provider:
            await read(provider, request_for(provider))
            async with provider.stream(request_for(provider)) as events:
                # A reader that stops at the end, without asking for more, keeps the connection too.
                while not isinstance(await anext(events), Completed):
                    pass
            await failure(provider)
            await read(provider, request_for(provider))
    finally:
        await outside.close()
    assert len(peers) == 4
    assert len(set(peers)) == 1


@pytest.mark.clause("CON-17", "QLT-17")
async def test_cache_figures_of_two_requests_add_up() -> None:
    async with ScriptedModel([use("bash", {"command": "ls"}), say("Done.")]) as server, provider_at(server) as provider:
        first_request = request_for(provider, user("Go."))
        _, first = await read(provider, first_request)
        messages = [user("Go."), first.message, result(first.calls[0].id)]
        _, second = await read(provider, request_for(provider, *messages))
    one, two = first.usage, second.usage
    assert (one.cache_read_tokens, two.cache_read_tokens) == (0, one.cache_write_tokens)
    assert two.input_tokens == 0
    assert two.cache_write_tokens is not None
    assert two.cache_write_tokens > 0


@pytest.mark.clause("PRM-3", "PRM-4")
async def test_every_request_on_the_wire_is_the_one_before_and_new_items() -> None:
    turns: list[Turn] = []
    for at in range(8):
        turns.append(use("bash", {"command": f"echo {at}"}, fault=Fault(kind="cut") if at == 3 else None))
        if at == 3:
            turns.append(reply(Block(thinking="Again.", signature="c2ln"), Block(tool="read", arguments={"path": "a"})))
    async with ScriptedModel([*turns, say("Done.")]) as server, provider_at(server) as provider:
        builder = provider.builder(SETTINGS)
        builder.extend([user("Go.")])
        while True:
            try:
                _, done = await read(provider, builder.build())
            except ProviderError:
                continue
            builder.extend([done.message])
            if not done.calls:
                break
            builder.extend([result(one.id, f"of {one.id}") for one in done.calls])
            if len(server.requests) == 6:
                builder.extend([user("Also look at b.")])
    assert server.errors == []
    seen = [[unit.data for unit in units(request.parsed or {})] for request in server.requests]
    assert all(new[: len(old)] == old for old, new in pairwise(seen))
    figures = [request.cache for request in server.requests if request.cache]
    assert len(figures) == len(seen) == 10
    # Nothing is ever written twice, and nothing of the past is paid in full again.
    assert all(new.read == old.read + old.written and new.uncached == 0 for old, new in pairwise(figures))


# -- framing ------------------------------------------------------------------------------------------


@pytest.mark.clause("MDL-4")
@pytest.mark.bug("PRV-07")
@pytest.mark.parametrize("size", [1, 2, 3, 977])
async def test_any_cut_of_the_stream_gives_the_same_reply(size: int) -> None:
    said = LONG[:200]
    async with ScriptedModel([say(said, pace=Pace(chunk_bytes=size))]) as server, provider_at(server) as provider:
        deltas, done = await read(provider, request_for(provider))
    assert done.message["content"][0]["text"] == said
    assert "".join(delta.text for delta in deltas) == said


@pytest.mark.clause("MDL-7")
async def test_a_slow_drip_longer_than_the_idle_limit_is_read_to_its_end() -> None:
    turn = say("ok", fault=Fault(kind="drip"), pace=Pace(each_ms=1))
    async with ScriptedModel([turn]) as server, provider_at(server, idle_timeout_s=0.3) as provider:
        begun = time.monotonic()
        _, done = await read(provider, request_for(provider))
    assert time.monotonic() - begun > 0.3
    assert done.message["content"] == [{"type": "text", "text": "ok"}]


@pytest.mark.clause("MDL-4")
@pytest.mark.slow
async def test_an_event_of_60_mib_is_read() -> None:
    large = "é" * (30 * 1024 * 1024)
    turn = Turn(reply=[Block(text=large)], pace=Pace(chunk_chars=len(large)))
    async with ScriptedModel([turn]) as server, provider_at(server) as provider:
        _, done = await read(provider, request_for(provider))
    assert done.message["content"][0]["text"] == large


@pytest.mark.clause("MDL-4")
async def test_unknown_events_are_skipped_with_a_count() -> None:
    def answer(_: Any) -> Turn:
        return reply(Block(raw={"type": "invented_block", "x": 1}), Block(text="ok"))

    async with ScriptedModel(answer) as server, provider_at(server) as provider:
        _, done = await read(provider, request_for(provider))
    assert done.message["content"][0]["raw"] == {"type": "invented_block", "x": 1}
    assert done.skipped == 0


# -- failures -----------------------------------------------------------------------------------------


@pytest.mark.clause("QLT-14", "MDL-4")
@pytest.mark.bug("PRV-03", "PRV-10", "PRV-01", "USE-06")
@pytest.mark.parametrize(
    ("fault", "kind", "cause"),
    [
        (Fault(kind="cut"), "transport", "connection"),
        (Fault(kind="cut", after_bytes=700), "transport", "connection"),
        (Fault(kind="cut", reset=True), "transport", "connection"),
        (Fault(kind="malformed"), "transport", "unreadable_event"),
        (Fault(kind="malformed", after_events=4), "transport", "unreadable_event"),
        (Fault(kind="overloaded_stream"), "overloaded", None),
        (Fault(kind="overloaded_stream", error_type="rate_limit_error"), "rate_limit", None),
        (Fault(kind="silence"), "transport", "idle"),
    ],
)
async def test_a_stream_that_fails_in_the_middle_is_a_failed_attempt(
    fault: Fault, kind: str, cause: str | None
) -> None:
    async with ScriptedModel([say(LONG, fault=fault)]) as server, provider_at(server, idle_timeout_s=0.3) as provider:
        _, error = await failure(provider)
    assert (error.kind, error.status, error.facts.get("cause")) == (kind, 200, cause)
    assert error.usage.ok is False
    assert error.usage.cache_write_tokens == server.requests[0].cache.written  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.clause("QLT-14")
@pytest.mark.bug("PRV-03")
async def test_a_reply_that_ends_well_formed_but_early_is_a_failed_attempt() -> None:
    async def handle(_: HttpRequest, responder: Responder) -> None:
        await responder.start(200, {"content-type": "text/event-stream"})
        await responder.send(b'data: {"type":"message_start","message":{"usage":{"input_tokens":3}}}\n\n')
        await responder.send(
            b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\ndata: {"type":"mess'
        )
        await responder.end()

    error = await failure_of(handle)
    assert (error.kind, error.facts["cause"], error.usage.input_tokens) == ("transport", "cut", 3)


@pytest.mark.bug("PRV-03", "PRV-01")
@pytest.mark.parametrize(
    "end", [b"data: {broken\n\n", b'data: {"type":"error","error":{"type":"overloaded_error"}}\n\n']
)
async def test_what_came_before_a_failure_in_one_piece_with_it_is_still_seen(end: bytes) -> None:
    async def handle(_: HttpRequest, responder: Responder) -> None:
        await responder.start(200, {"content-type": "text/event-stream"})
        head = (
            b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"half an ans"}}\n\n'
        )
        await responder.send(head + end)
        await responder.end()

    async with serving(handle) as url, provider_at(url) as provider:
        deltas, _ = await failure(provider)
    assert deltas == [Delta("text", 0, "half an ans")]


async def test_a_last_event_without_its_blank_line_counts() -> None:
    async def handle(_: HttpRequest, responder: Responder) -> None:
        await responder.start(200, {"content-type": "text/event-stream"})
        await responder.send(b'data: {"type":"message_start","message":{}}\r\n\r\ndata: {"type":"message_stop"}')
        await responder.end()

    async with serving(handle) as url, provider_at(url) as provider:
        _, done = await read(provider, request_for(provider))
    assert done.message["content"] == []


@pytest.mark.clause("MDL-5", "MDL-7")
@pytest.mark.parametrize(
    ("fault", "kind", "status", "wait"),
    [
        (Fault(kind="rate_limit", retry_after_s=7), "rate_limit", 429, 7.0),
        (Fault(kind="rate_limit"), "rate_limit", 429, None),
        (Fault(kind="overloaded"), "overloaded", 529, None),
        (Fault(kind="status", status=500), "overloaded", 500, None),
        (Fault(kind="status", status=502, body="<h1>Bad gateway</h1>"), "overloaded", 502, None),
        (Fault(kind="status", status=413, error_type="request_too_large"), "context_overflow", 413, None),
        (Fault(kind="status", status=401, error_type="authentication_error"), "auth", 401, None),
        (Fault(kind="status", status=307), "bad_request", 307, None),
        (
            Fault(kind="status", status=400, error_type="invalid_request_error", message="prompt is too long: 9 > 8"),
            "context_overflow",
            400,
            None,
        ),
    ],
)
async def test_an_error_response_gives_its_kind_and_wait(
    fault: Fault, kind: str, status: int, wait: float | None
) -> None:
    turn = Turn(fault=fault, headers={"location": "/elsewhere"})
    async with ScriptedModel([turn, say("no")]) as server, provider_at(server) as provider:
        _, error = await failure(provider)
    assert (error.kind, error.status, error.retry_after_s, error.usage) == (kind, status, wait, None)
    assert len(server.requests) == 1, "a hidden retry"


@pytest.mark.clause("MDL-7")
async def test_a_server_that_never_answers_fails_after_the_idle_limit() -> None:
    turn = Turn(fault=Fault(kind="hang"))
    async with ScriptedModel([turn]) as server, provider_at(server, idle_timeout_s=0.2) as provider:
        begun = time.monotonic()
        _, error = await failure(provider)
    assert 0.2 <= time.monotonic() - begun < 2
    assert (error.kind, error.status, error.facts["cause"], error.usage) == ("transport", None, "idle", None)
    assert "0.2 s" in error.message


@pytest.mark.clause("MDL-7")
async def test_nobody_listening_is_a_failed_connection() -> None:
    async with ScriptedModel([]) as server:
        url = server.base_url
    async with provider_at(url) as provider:
        _, error = await failure(provider)
    assert (error.kind, error.status, error.facts["cause"]) == ("transport", None, "connect")


@pytest.mark.clause("MDL-7")
async def test_only_connecting_and_silence_are_limited() -> None:
    import httpx2

    seen: list[dict[str, Any]] = []

    class Transport(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            seen.append(dict(request.extensions["timeout"]))
            return httpx2.Response(
                200, content=b'{"type":"message","content":[],"usage":{}}', headers={"content-type": "application/json"}
            )

    async with provider_at("http://127.0.0.1:9", transport=Transport(), idle_timeout_s=300) as provider:
        await read(provider, request_for(provider))
    assert seen == [{"connect": 10.0, "read": 300, "write": 300, "pool": None}]


async def test_a_server_that_does_not_stream_is_understood() -> None:
    body = b'{"type":"message","id":"m","model":"x","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}'
    async with serving(whole(200, "application/json", body)) as url, provider_at(url) as provider:
        deltas, done = await read(provider, request_for(provider))
    assert [delta.text for delta in deltas] == ["hi"]
    assert done.stop_reason == "stop"


@pytest.mark.clause("MDL-5")
@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("application/json", b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', "overloaded"),
        ("application/json", b'{"content":5}', "transport"),
        ("application/json", b"{broken", "transport"),
        ("text/html", b"<html>Please log in</html>", "transport"),
    ],
)
async def test_a_200_that_is_no_reply_is_a_failed_attempt(content_type: str, body: bytes, kind: str) -> None:
    error = await failure_of(whole(200, content_type, body))
    assert (error.kind, error.status) == (kind, 200)


async def test_a_request_over_the_providers_limit_is_an_overflow_and_not_sent() -> None:
    async with ScriptedModel([say("no")]) as server, provider_at(server) as provider:
        huge = EncodedRequest(body=(b"x" * (32 * 1024 * 1024 + 1),), messages=1, digests={})
        with pytest.raises(ProviderError) as failed:
            async with provider.stream(huge):
                pass
    assert failed.value.kind == "context_overflow"
    assert server.requests == []


# -- stopping -----------------------------------------------------------------------------------------


@pytest.mark.clause("MDL-6")
@pytest.mark.parametrize("how", ["leave", "leave unread", "cancel", "cancel before headers", "cancel in silence"])
async def test_stopping_closes_the_connection_within_100_ms(how: str) -> None:
    fault = {"cancel before headers": Fault(kind="hang"), "cancel in silence": Fault(kind="silence", after_events=6)}
    turn = say(LONG * 50, pace=Pace(each_ms=5), fault=fault.get(how))
    stopped_at = 0.0
    async with ScriptedModel([turn]) as server, provider_at(server) as provider:
        started = asyncio.Event()
        spent: list[Any] = []

        async def attempt() -> None:
            async with provider.stream(request_for(provider)) as events:
                try:
                    if how == "leave unread":
                        started.set()
                        return
                    async for _ in events:
                        started.set()
                        if how == "leave":
                            break
                finally:
                    spent.append(events.usage)

        task = asyncio.create_task(attempt())
        if how == "cancel before headers":
            while not server.requests:
                await asyncio.sleep(0.005)
        else:
            await started.wait()
        stopped_at = time.monotonic()
        if how.startswith("cancel"):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            await task
        while server.requests[0].disconnected_at is None:
            assert time.monotonic() - stopped_at < 2
            await asyncio.sleep(0.002)
        seen_at = server.requests[0].disconnected_at
    assert seen_at - stopped_at < 0.1
    if how not in ("cancel before headers", "leave unread"):
        # USE-06: what was billed before the stop is known.
        assert spent[0].cache_write_tokens == server.requests[0].cache.written  # pyright: ignore[reportOptionalMemberAccess]
        assert spent[0].ok is False


@pytest.mark.clause("MDL-6")
async def test_closing_the_provider_closes_idle_connections_and_a_later_request_opens_anew() -> None:
    async with ScriptedModel([say("a"), say("b")]) as server, provider_at(server) as provider:
        await read(provider, request_for(provider))
        await provider.close()
        await read(provider, request_for(provider))


async def test_many_replies_at_once() -> None:
    def answer(received: Any) -> Turn:
        return say(received.parsed["messages"][0]["content"][0]["text"] * 50, pace=Pace(each_ms=1))

    async with ScriptedModel(answer) as server, provider_at(server) as provider:
        replies = await asyncio.gather(*(read(provider, request_for(provider, user(f"n{at} "))) for at in range(30)))
    assert [done.message["content"][0]["text"] for _, done in replies] == [f"n{at} " * 50 for at in range(30)]


# -- accounts -----------------------------------------------------------------------------------------


def account(**fields: Any) -> Account:
    return Account(
        **{"id": "a", "protocol": "anthropic-messages", "base_url": "http://127.0.0.1:9", "secret": "k", **fields}
    )


def test_a_client_is_chosen_by_protocol_and_an_unknown_one_named() -> None:
    assert provider_for(account(), clock=SystemClock()).protocol == "anthropic-messages"
    with pytest.raises(UnsupportedFeature, match="smoke-signals"):
        provider_for(account(protocol="smoke-signals"), clock=SystemClock())


@pytest.mark.parametrize("url", ["", "api.example.com", "ftp://x", "http://", "http://x:notaport"])
def test_a_base_url_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidInput, match="base URL"):
        provider_for(account(base_url=url), clock=SystemClock())


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_a_base_url_may_name_the_version_or_not(suffix: str) -> None:
    async with ScriptedModel([say("ok")]) as server, provider_at(server.base_url + suffix) as provider:
        await read(provider, request_for(provider))
    assert server.requests[0].path == "/v1/messages"


async def test_the_accounts_own_headers_are_sent() -> None:
    async with ScriptedModel([say("ok")]) as server:
        own = account(base_url=server.base_url, headers=(("Anthropic-Beta", "x-1"), ("User-Agent", "mine")))
        provider = AnthropicProvider(own, clock=SystemClock())
        await read(provider, request_for(provider))
        await provider.close()
    headers = server.requests[0].headers
    assert (headers["anthropic-beta"], headers["user-agent"]) == ("x-1", "mine")


async def test_proxies_are_honoured_but_never_stand_before_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedModel([say("direct")]) as server, ScriptedModel([]) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url)
        async with provider_at(server) as provider:
            await read(provider, request_for(provider))
        async with provider_at("http://model.example.invalid") as provider:
            await failure(provider)
        assert len(server.requests) == 1
        assert [request.headers["host"] for request in proxy.requests] == ["model.example.invalid"]


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:80", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:80", True),
        ("http://localhost:80", True),
        ("http://api.localhost", True),
        ("http://127.0.0.1.example.com", False),
        ("https://api.anthropic.com", False),
        ("http://192.168.0.1", False),
    ],
)
def test_which_addresses_are_this_machine(url: str, local: bool) -> None:
    assert is_loopback(url) is local


@pytest.mark.parametrize(
    "fields", [{"secret": "sk-secret\nx: y"}, {"secret": "sk-secrét"}, {"headers": (("x-a", "sk-secret\r\n"),)}]
)
def test_a_credential_that_no_header_carries_is_refused_without_being_shown(fields: dict[str, Any]) -> None:
    with pytest.raises(AccountUnavailable, match="can't be sent") as refused:
        AnthropicProvider(account(**fields), clock=SystemClock())
    assert "sk-secr" not in refused.value.message


async def test_a_credential_with_a_line_end_around_it_is_sent_without_and_an_empty_one_not_at_all() -> None:
    async with ScriptedModel([say("ok"), say("ok")]) as server:
        for own in (account(base_url=server.base_url, secret="k1\n"), account(base_url=server.base_url, secret="")):
            provider = AnthropicProvider(own, clock=SystemClock())
            if own.secret:
                await read(provider, request_for(provider))
            else:
                assert (await failure(provider))[1].kind == "auth"
            await provider.close()
    assert server.requests[0].headers["x-api-key"] == "k1"
    assert "x-api-key" not in server.requests[1].headers


def test_a_secret_is_not_in_a_clients_words() -> None:
    provider = AnthropicProvider(account(secret="sk-very-secret"), clock=SystemClock())
    assert "very-secret" not in repr(provider) + repr(vars(provider)["_http"])
    assert "very-secret" not in repr(account(secret="sk-very-secret"))


# -- servers of one answer ----------------------------------------------------------------------------


class serving:  # noqa: N801 - used as a context
    def __init__(self, handle: Callable[[HttpRequest, Responder], Any]) -> None:
        self._server = HttpServer(handle)

    async def __aenter__(self) -> str:
        await self._server.start()
        return f"http://127.0.0.1:{self._server.port}"

    async def __aexit__(self, *_: object) -> None:
        await self._server.close()


def whole(status: int, content_type: str, body: bytes) -> Callable[[HttpRequest, Responder], Any]:
    async def handle(_: HttpRequest, responder: Responder) -> None:
        await responder.whole(status, {"content-type": content_type}, body)

    return handle


async def failure_of(handle: Callable[[HttpRequest, Responder], Any]) -> ProviderError:
    async with serving(handle) as url, provider_at(url, idle_timeout_s=5) as provider:
        _, error = await failure(provider)
    return error
