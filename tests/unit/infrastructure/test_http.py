"""The client of an upstream, and the words that we introduce ourselves with."""

from __future__ import annotations

import asyncio
from importlib import metadata

import httpx2
import pytest
from tests.loopback_upstream import json_reply, serving, silence

from modules.llm_platform.domain.exceptions import WebSearchConfigError, WebSearchConnectionError
from modules.llm_platform.infrastructure.http.client import Upstream, make_client, user_agent
from modules.llm_platform.infrastructure.http.errors import (
    STATUS_RULES,
    TRANSPORT_ERRORS,
    WEB_SEARCH_ERRORS,
    retry_after_s,
    rule_of,
)
from modules.llm_platform.testing.patience import CLOSES_WITHIN_S, becomes


async def test_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the environment would go round what the operator configured."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with serving(json_reply({"a": 1})) as server, make_client(server.url) as client:
        upstream = Upstream("Test", server.url, setting="TEST_URL", timeout=5, client=client)
        assert upstream.object_in(await upstream.get("/x?y=1")) == {"a": 1}
    assert server.requests[0].path == "/x?y=1"


async def test_a_configured_proxy_is_used() -> None:
    """UPSTREAM_PROXY stands between: the whole address goes to it."""
    async with serving(json_reply({"a": 1})) as proxy, make_client("http://search.invalid", proxy=proxy.url) as client:
        upstream = Upstream("Test", "http://search.invalid", setting="TEST_URL", timeout=5, client=client)
        assert upstream.object_in(await upstream.get("/x")) == {"a": 1}
    assert proxy.requests[0].path == "http://search.invalid/x"
    assert proxy.requests[0].headers["host"] == "search.invalid"


async def test_a_client_of_its_own() -> None:
    """Without a client an upstream makes a pooled one, for users who build an adapter by hand."""
    async with serving(json_reply({"a": 1})) as server:
        upstream = Upstream("Test", server.url, setting="TEST_URL", timeout=5)
        assert (await upstream.post_json("/x", {"q": "é"})).status == 200
        assert (await upstream.post_form("/x", {"q": "é &="})).status == 200
        await upstream._client.aclose()
    assert (server.requests[0].json, server.requests[1].form) == ({"q": "é"}, {"q": "é &="})


async def test_cookies_are_not_kept() -> None:
    """An upstream cannot mark us."""
    async with serving(json_reply({}, "Set-Cookie: who=me")) as server, make_client(server.url) as client:
        upstream = Upstream("Test", server.url, setting="TEST_URL", timeout=5, client=client)
        for _ in range(2):
            await upstream.get("/")
    assert "cookie" not in server.requests[1].headers


def test_our_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version where it is known; never the words that bot detection refuses."""
    assert user_agent() == f"llm-platform/{metadata.version('llm-platform')}"

    def unknown(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", unknown)
    assert user_agent.__wrapped__() == "llm-platform"


def _all_below(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind}.union(*(_all_below(below) for below in kind.__subclasses__()))


@pytest.mark.parametrize("kind", sorted(_all_below(httpx2.HTTPError), key=lambda kind: kind.__name__))
def test_every_error_of_the_library_has_its_rule(kind: type[Exception]) -> None:
    """Nothing that httpx2 raises for an exchange escapes as itself."""
    if not issubclass(kind, httpx2.HTTPStatusError):  # we never ask for that one
        assert issubclass(kind, TRANSPORT_ERRORS)
        assert rule_of(kind("words")).kind in WEB_SEARCH_ERRORS.__slots__


def test_every_rule_has_an_error() -> None:
    """Each kind in the table is a class of the family, and every class of the family bears its own status."""
    for rule in STATUS_RULES.values():
        assert WEB_SEARCH_ERRORS.of(rule.kind).status_code in (502, 503)


@pytest.mark.parametrize(
    ("value", "wait"),
    [("0", 0.0), ("1.5", 1.5), (" 7 ", 7.0), ("٣", None), ("", None), ("Wed, 99 Foo 2026", None), ("1" * 400, None)],
)
def test_retry_after(value: str, wait: float | None) -> None:
    """Plain numbers of seconds; anything else that is no date is unknown."""
    assert retry_after_s({"retry-after": value}) == wait


async def test_a_given_client_follows_no_redirect_either() -> None:
    """A question goes to the address that was configured, whatever the client would do on its own."""

    def elsewhere(request: httpx2.Request) -> httpx2.Response:
        moved = request.url.host == "search.test"
        return httpx2.Response(302, headers={"Location": "https://evil.test/"}) if moved else httpx2.Response(200, json={})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(elsewhere), follow_redirects=True) as client:
        upstream = Upstream("Test", "https://search.test", setting="TEST_URL", timeout=5, client=client)
        with pytest.raises(WebSearchConfigError, match=r"redirects.*TEST_URL"):
            upstream.object_in(await upstream.get("/x"))


async def test_a_client_of_its_own_leaves_nothing_open() -> None:
    """Nobody closes it, so it keeps no connection when an exchange is over."""
    async with serving(json_reply({"a": 1})) as server:
        upstream = Upstream("Test", server.url, setting="TEST_URL", timeout=5)
        for _ in range(2):
            assert upstream.object_in(await upstream.get("/x")) == {"a": 1}
        assert server.connections == 2


async def test_a_failure_below_http_is_a_lost_connection() -> None:
    """A transport may let an error of the operating system through: it is one of ours all the same."""

    def broken(_: httpx2.Request) -> httpx2.Response:
        raise OSError("no such luck")

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(broken)) as client:
        upstream = Upstream("Test", "https://search.test", setting="TEST_URL", timeout=5, client=client)
        with pytest.raises(WebSearchConnectionError, match="broke off"):
            await upstream.get("/x")


async def test_a_server_sees_ordinary_requests() -> None:
    """With and without a body, one after another on one connection."""
    async with serving(json_reply({"ok": True})) as upstream, make_client(upstream.url) as client:
        for content in (b"q=1", b"", b"q=" + b"x" * 200_000):
            assert (await client.post("/search", content=content)).json() == {"ok": True}
        assert (await client.get("/search")).json() == {"ok": True}
    assert [len(request.body) for request in upstream.requests] == [3, 0, 200_002, 0]
    assert upstream.connections == 1


async def test_cancelling_closes_the_connection() -> None:
    """A cancelled request leaves nothing open."""
    async with serving(silence) as upstream, make_client(upstream.url) as client:
        asking = asyncio.create_task(client.post("/search", content=b"q=1"))
        while not upstream.busy:
            await asyncio.sleep(0.005)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await becomes(lambda: not upstream.busy, CLOSES_WITHIN_S)


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    """The pool learns of it before the next request: no request is lost to a dead one."""
    served, closed = 0, 0

    async def one_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served, closed
        served += 1
        await reader.readuntil(b"q=1")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.close()  # without having said so in a header, as servers do after a while of silence
        closed += 1

    server = await asyncio.start_server(one_answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, make_client(f"http://127.0.0.1:{port}") as client:
        for number in range(1, 4):
            assert (await client.post("/search", content=b"q=1")).json() == {}
            assert await becomes(lambda: closed == number, CLOSES_WITHIN_S)  # noqa: B023  it is awaited here
            await asyncio.sleep(0.06)
    assert served == 3


async def test_an_idle_connection_that_is_open_is_used_again() -> None:
    """A quiet connection is not taken for a dead one."""
    async with serving(json_reply({})) as upstream, make_client(upstream.url) as client:
        for _ in range(3):
            await client.post("/search", content=b"q=1")
            await asyncio.sleep(0.03)
    assert upstream.connections == 1
