"""The client of an upstream."""

from __future__ import annotations

import asyncio
import inspect
import ssl
import time
from importlib import metadata
from itertools import product

import httpx2
import pytest
from tests.support.cases import for_each
from tests.support.loopback_upstream import json_reply, serving

from modules.llm_platform.domain.exceptions import WebSearchConfigError, WebSearchConnectionError
from modules.llm_platform.infrastructure.http.client import (
    Reply,
    Upstream,
    get_default_tls,
    get_user_agent,
    make_client,
    read_body,
)
from modules.llm_platform.infrastructure.http.errors import (
    STATUS_RULES,
    TRANSPORT_ERRORS,
    WEB_SEARCH_ERRORS,
    find_rule,
    retry_after_s,
)
from modules.llm_platform.testing.waiting import CLOSE_TIMEOUT_S, becomes_true


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the configured proxy counts."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with serving(json_reply({"a": 1})) as server, make_client(server.url) as client:
        upstream = Upstream("Test", server.url, setting="TEST_URL", timeout=5, client=client)
        assert upstream.json_object(await upstream.get("/x?y=1", sent_kind=None)) == {"a": 1}
    assert server.requests[0].path == "/x?y=1"


@for_each(
    ("proxy", "url"), product(("http://127.0.0.1:9", "http://p.invalid:80"), ("http://s.invalid", "https://s.invalid"))
)
async def test_an_unreachable_proxy_is_named(proxy: str, url: str) -> None:
    """The upstream was not asked, and its address may be right."""
    async with make_client(url, proxy=proxy) as client:
        with pytest.raises(WebSearchConnectionError, match="UPSTREAM_PROXY"):
            await Upstream("Search", url, setting="SEARCH_URL", timeout=5, client=client).get("/", sent_kind=None)


async def test_a_configured_proxy_is_used() -> None:
    """It gets the complete address."""
    async with serving(json_reply({"a": 1})) as proxy, make_client("http://search.invalid", proxy=proxy.url) as client:
        upstream = Upstream("Test", "http://search.invalid", setting="TEST_URL", timeout=5, client=client)
        assert upstream.json_object(await upstream.get("/x", sent_kind=None)) == {"a": 1}
    assert proxy.requests[0].path == "http://search.invalid/x"
    assert proxy.requests[0].headers["host"] == "search.invalid"


async def test_an_upstream_without_a_client_creates_one() -> None:
    """For users who build an adapter themselves."""
    async with serving(json_reply({"a": 1})) as server:
        upstream = Upstream("Test", server.url, setting="TEST_URL", timeout=5)
        assert (await upstream.post_json("/x", {"q": "é"}, sent_kind=None)).status == 200
        assert (await upstream.post_form("/x", {"q": "é &="}, sent_kind=None)).status == 200
        await upstream._client.aclose()
    assert (server.requests[0].json, server.requests[1].form) == ({"q": "é"}, {"q": "é &="})


async def test_certificate_authorities_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many services are called over TLS: loading them takes longer than a search costs otherwise."""
    made: list[ssl.SSLContext] = []

    def create(**options: object) -> ssl.SSLContext:
        made.append(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        return made[-1]

    monkeypatch.setattr(httpx2, "create_ssl_context", create)
    get_default_tls.cache_clear()
    try:
        async with make_client("https://a.invalid"), make_client("https://b.invalid"):
            assert len(made) == 1
    finally:
        get_default_tls.cache_clear()


async def test_json_is_sent_as_compact_utf8() -> None:
    """Half of a surrogate pair, which UTF-8 cannot hold, is replaced."""
    async with serving(json_reply({})) as server, make_client(server.url) as client:
        upstream = Upstream("Test", server.url, setting="TEST_URL", timeout=5, client=client)
        await upstream.post_json("/x", {"q": "é\ud83d", "n": [1, 2]}, sent_kind=None)
    assert server.requests[0].body == '{"q":"é?","n":[1,2]}'.encode()


@for_each("status", [200, 302, 404, 500])
async def test_a_sent_request_returns_a_response_of_any_status_unread(status: int) -> None:
    """The body is not read, and the upstream's timeout replaces the client's."""
    timeouts = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        timeouts.append(request.extensions["timeout"])
        return httpx2.Response(status, headers={"Location": "/y"}, stream=httpx2.ByteStream(b"body"))

    transport = httpx2.MockTransport(respond)
    async with httpx2.AsyncClient(transport=transport, timeout=1, follow_redirects=True) as client:
        upstream = Upstream("Test", "http://a.test", setting="TEST_URL", timeout=5, client=client)
        requests = (upstream.build_request(method, "http://a.test/x", b"", ()) for method in ("GET", "POST"))
        responses = [await upstream.send(request, sent_kind=None) for request in requests]
        assert [(response.status_code, response.is_closed) for response in responses] == [(status, False)] * 2
        assert [await read_body(response, limit) for response, limit in zip(responses, (3, 4), strict=True)] == [
            None,
            b"body",
        ]
        assert all(response.is_closed for response in responses)
    assert [response.request.method for response in responses] == ["GET", "POST"]
    assert timeouts == [dict.fromkeys(("connect", "read", "write", "pool"), 5)] * 2


async def test_a_built_request_keeps_the_headers_of_the_upstream() -> None:
    """Headers of another library are added, and replace none: credentials of the address remain those that are sent."""
    upstream = Upstream("Test", "http://me:pw@a.test", setting="TEST_URL", timeout=5)
    request = upstream.build_request("GET", "http://a.test/x", b"", (("Authorization", "Bearer k"), ("api-key", "k")))
    assert request.headers["authorization"] == "Basic bWU6cHc="
    assert request.headers["api-key"] == "k"


def test_an_unusable_address_is_a_transport_error_of_a_built_request() -> None:
    """The caller translates it like the others."""
    with pytest.raises(TRANSPORT_ERRORS):
        Upstream("Test", "nothing://here", setting="TEST_URL", timeout=5).build_request(
            "GET", "nothing://here/x", b"", ()
        )


async def test_cookies_are_not_stored() -> None:
    """An upstream cannot track requests."""
    async with serving(json_reply({}, "Set-Cookie: who=me")) as server, make_client(server.url) as client:
        upstream = Upstream("Test", server.url, setting="TEST_URL", timeout=5, client=client)
        for _ in range(2):
            await upstream.get("/", sent_kind=None)
    assert "cookie" not in server.requests[1].headers


def test_the_user_agent_has_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is known."""
    assert get_user_agent() == f"llm-platform/{metadata.version('llm-platform')}"

    def unknown(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", unknown)
    assert get_user_agent.__wrapped__() == "llm-platform"


def _all_below(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind}.union(*(_all_below(below) for below in kind.__subclasses__()))


@for_each("kind", sorted(_all_below(httpx2.HTTPError), key=lambda kind: kind.__name__))
def test_every_transport_error_has_a_rule(kind: type[Exception]) -> None:
    """No exception of httpx2 is raised as itself."""
    if not issubclass(kind, httpx2.HTTPStatusError):  # we never ask for that one
        assert issubclass(kind, TRANSPORT_ERRORS)
        assert find_rule(kind("words")).kind in WEB_SEARCH_ERRORS.__slots__


def test_every_rule_has_an_error_class() -> None:
    """With a status of 502 or 503."""
    for rule in STATUS_RULES.values():
        assert WEB_SEARCH_ERRORS.of(rule.kind).status_code in (502, 503)


@for_each(
    ("value", "wait"),
    [("0", 0.0), ("1.5", 1.5), (" 7 ", 7.0), ("٣", None), ("", None), ("Wed, 99 Foo 2026", None), ("1" * 400, None)],
)
def test_retry_after_is_read_as_seconds(value: str, wait: float | None) -> None:
    """An invalid value is None."""
    assert retry_after_s({"retry-after": value}) == wait


@for_each(
    "declared",
    ["text/html; charset=GBK", "text/html;charset='GBK'", "Text/HTML; Charset=GBK", "TEXT/HTML;CHARSET = GBK"],
)
def test_a_content_type_is_read_in_any_case(declared: str) -> None:
    """RFC 9110 8.3 compares the names of types and parameters without it."""
    sent = Reply(200, httpx2.Headers({"Content-Type": declared}), b"Bad gateway")
    assert (sent.charset(), sent.is_html) == ("GBK", True)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles"])
@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"])
def test_a_date_is_in_utc(form: str, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In all three forms of HTTP, whatever the time zone of this machine."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        wait = retry_after_s({"retry-after": time.strftime(form, time.gmtime(time.time() + 600))})
    finally:
        monkeypatch.undo()
        time.tzset()
    assert wait is not None
    assert 0 < wait <= 600


async def test_a_given_client_follows_no_redirect() -> None:
    """Even if it is configured to follow them."""

    def elsewhere(request: httpx2.Request) -> httpx2.Response:
        moved = request.url.host == "search.test"
        return (
            httpx2.Response(302, headers={"Location": "https://evil.test/"}) if moved else httpx2.Response(200, json={})
        )

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(elsewhere), follow_redirects=True) as client:
        upstream = Upstream("Test", "https://search.test", setting="TEST_URL", timeout=5, client=client)
        with pytest.raises(WebSearchConfigError, match=r"redirects.*TEST_URL"):
            upstream.json_object(await upstream.get("/x", sent_kind=None))


async def test_a_created_client_keeps_no_connection() -> None:
    """Nobody closes it."""
    async with serving(json_reply({"a": 1})) as server:
        upstream = Upstream("Test", server.url, setting="TEST_URL", timeout=5)
        for _ in range(2):
            assert upstream.json_object(await upstream.get("/x", sent_kind=None)) == {"a": 1}
        assert server.connections == 2


async def test_an_oserror_is_a_connection_error() -> None:
    """A transport may not wrap it."""

    def broken(_: httpx2.Request) -> httpx2.Response:
        raise OSError("no such luck")

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(broken)) as client:
        upstream = Upstream("Test", "https://search.test", setting="TEST_URL", timeout=5, client=client)
        with pytest.raises(WebSearchConnectionError, match="closed the connection"):
            await upstream.get("/x", sent_kind=None)


async def test_a_closed_connection_is_not_reused() -> None:
    """No request is lost."""
    served, closed = 0, 0

    async def one_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served, closed
        served += 1
        await reader.readuntil(b"q=1")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.close()  # without a header that announces it, as servers do with idle connections
        closed += 1

    server = await asyncio.start_server(one_answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, make_client(f"http://127.0.0.1:{port}") as client:
        for number in range(1, 4):
            assert (await client.post("/search", content=b"q=1")).json() == {}
            assert await becomes_true(lambda: closed == number, CLOSE_TIMEOUT_S)  # noqa: B023  it is awaited here
            await asyncio.sleep(0.06)
    assert served == 3


async def test_an_idle_connection_is_reused() -> None:
    """The pool does not take it for a closed one."""
    async with serving(json_reply({})) as upstream, make_client(upstream.url) as client:
        for _ in range(3):
            await client.post("/search", content=b"q=1")
            await asyncio.sleep(0.03)
    assert upstream.connections == 1


@for_each("method", ["get", "post_json", "post_form", "send"])
def test_a_request_says_what_it_sends(method: str) -> None:
    """The kind of data for the egress log has no default: an adapter that forgets it is a type error, and fails."""
    kind = inspect.signature(getattr(Upstream, method)).parameters["sent_kind"]
    assert (kind.kind, kind.default) == (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty)
