"""MCP over HTTP on a real server with the SDK's client: answers, progress, cancellation, keys, limits, sessions."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.e2e.test_rest_server import wait_until
from tests.support.cases import for_each
from tests.support.report_world import QUESTION as REPORT_QUESTION
from tests.support.report_world import ReportModel, Web, World, some_pages
from tests.unit.presentation.rest.fake_platform import FakeServices, platform_of

from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.domain.callers.api_key_label import api_key_label
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.ports.rate_limiter import IRateLimiter, RateLimit, RateLimits
from modules.llm_platform.infrastructure.limits.memory_rate_limiter import MemoryRateLimiter
from modules.llm_platform.presentation.rest import mcp_routes
from modules.llm_platform.presentation.rest.server import make_server
from modules.llm_platform.testing import MemoryResearchStore
from shared.config import Settings

TIMEOUT_S = 60.0
MARK = "zqxvmark"
KEY = "0123456789abcdef"
OTHER_KEY = "fedcba9876543210"
KEYS = f"alice:{KEY},bob:{OTHER_KEY}"
QUESTION = {"query": "What is Python asyncio?"}
ERAS = ("auto", "legacy")  # without a session, and with a handshake and a session
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@asynccontextmanager
async def running(
    services: FakeServices,
    rate_limiter: IRateLimiter | None = None,
    parts: Mapping[str, Any] = MappingProxyType({}),
    **values: Any,
) -> AsyncIterator[str]:
    """Yield the /mcp URL of a server. `parts` replace services of the platform."""
    limits = {"RATE_LIMIT_BURST": 5} if rate_limiter else {}  # with an operator's limit, loopback is limited too
    settings = Settings(_env_file=None, LLM_PLATFORM_PORT=0, **{"DRAIN_TIMEOUT_S": 0.0, **limits, **values})
    server = make_server(dataclasses.replace(platform_of(services, rate_limiter=rate_limiter), **parts), settings)
    task = asyncio.create_task(server.serve())
    await wait_until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, TIMEOUT_S)


@asynccontextmanager
async def connected(url: str, mode: Any, key: str = "") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ERAS)
async def test_tools_answer_over_http(mode: str) -> None:
    """Tools are listed and answer with the same structured result as POST /research."""
    services = FakeServices()
    async with running(services) as url, connected(url, mode) as client:
        tools = await client.list_tools()
        result = await client.call_tool("research", QUESTION)
    assert [tool.name for tool in tools.tools] == [
        "search",
        "fetch",
        "research",
        "verify",
        "start_research",
        "get_research",
    ]
    assert result.structured_content["synthesis"] == services.answer
    assert result.structured_content["metadata"]["request_id"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_cancelled_call_stops_the_research(mode: str) -> None:
    """A client cancels a research run with a notification in a session, or by closing the response without a session."""
    services = FakeServices()
    services.gate.clear()
    async with running(services) as url, connected(url, mode) as client:
        call = asyncio.create_task(client.call_tool("research", QUESTION))
        await wait_until(lambda: services.requests)
        call.cancel()
        await wait_until(lambda: services.cancelled == 1)
        await asyncio.wait({call})


async def test_a_client_that_leaves_stops_the_research() -> None:
    """A closed connection stops the research also in a session."""
    services = FakeServices()
    services.gate.clear()
    async with running(services) as url, httpx2.AsyncClient(headers=HEADERS) as http:
        opened = await http.post(url, json=INITIALIZE)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-06-18"}
        await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        body = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "research", "arguments": QUESTION},
        }
        async with http.stream("POST", url, json=body, headers=session):
            await wait_until(lambda: services.requests)
        await wait_until(lambda: services.cancelled == 1)


async def test_a_session_of_another_process_is_answered_without_one() -> None:
    """A request with a session id of another process is answered without a session, so replicas and restarts need no
    shared state.
    """
    async with running(FakeServices()) as url, httpx2.AsyncClient(headers=HEADERS) as http:
        session = {"Mcp-Session-Id": "of-another-replica", "Mcp-Protocol-Version": "2025-06-18"}
        body = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "search", "arguments": {"query": "q"}},
        }
        response = await http.post(url, json=body, headers=session)
    assert response.status_code == 200
    message = json.loads(response.text.partition("data: ")[2].splitlines()[0])
    assert message["result"]["structuredContent"]["provider"] == "fake"


async def test_an_ended_session_is_gone() -> None:
    """A request in an ended session returns 404, as the protocol requires.

    Only the caller that opened a session can end it.
    """
    async with running(FakeServices(), LLM_PLATFORM_API_KEYS=KEYS) as url, httpx2.AsyncClient(headers=HEADERS) as http:
        mine, theirs = {"X-API-Key": KEY}, {"X-API-Key": OTHER_KEY}
        opened = await http.post(url, json=INITIALIZE, headers=mine)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-06-18"}
        ping = {"jsonrpc": "2.0", "id": 3, "method": "ping"}
        await http.delete(url, headers=session | theirs)
        before = await http.post(url, json=ping, headers=session | mine)
        await http.delete(url, headers=session | mine)
        after = await http.post(url, json=ping, headers=session | mine)
    assert (before.status_code, after.status_code) == (200, 404)


async def test_more_sessions_than_allowed_are_answered_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that opens many sessions does not block others."""
    monkeypatch.setattr(mcp_routes, "MAX_SESSIONS", 1)
    async with running(FakeServices()) as url, connected(url, "legacy"), connected(url, "legacy") as second:
        result = await second.call_tool("search", {"query": "q"})
    assert not result.is_error


@for_each(
    "arguments",
    [
        {"query": "q\x00"},
        {"query": ["q"] * 1000},
        {"query": {"a": 1}},
        {"query": "q", "count": 1e308},
        {"query": "q", "count": "9" * 5000},
        {"query": "q", "sources": "[" * 5000},
        {"query": "q", "domains": ["a b"] * 50},
        {"query": "q", "\u202e" * 100: 1},
        {"query": None},
    ],
)
async def test_hostile_arguments_are_tool_errors(arguments: dict[str, Any]) -> None:
    """Each invalid argument is a short tool error that a model can read.

    It does not contain the value, and no provider is called.
    """
    services = FakeServices()
    async with running(services) as url, connected(url, "auto") as client:
        result = await client.call_tool("search", arguments)
    assert result.is_error
    assert result.content[0].text.startswith("invalid_request: ")
    assert len(result.content[0].text) < 2000
    assert services.requests == []


@pytest.mark.parametrize("mode", ERAS)
async def test_keys_are_those_of_the_other_routes(mode: str) -> None:
    """A call without a valid key is refused. A call with a key belongs to its caller."""
    services = FakeServices()
    async with running(services, LLM_PLATFORM_API_KEYS=KEYS) as url:
        async with httpx2.AsyncClient(headers=HEADERS) as http:
            refused = await http.post(url, json=INITIALIZE)
        async with connected(url, mode, KEY) as client:
            await client.call_tool("research", QUESTION)
        async with connected(url, mode, OTHER_KEY) as client:
            await client.call_tool("research", QUESTION)
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
    assert services.owners == ["label:alice", "label:bob"]


async def test_a_session_belongs_to_its_caller() -> None:
    """A caller cannot use the session of another caller, so a cancellation from outside has no effect."""
    services = FakeServices()
    services.gate.clear()
    async with running(services, LLM_PLATFORM_API_KEYS=KEYS) as url, httpx2.AsyncClient(headers=HEADERS) as http:
        mine, theirs = {"X-API-Key": KEY}, {"X-API-Key": OTHER_KEY}
        opened = await http.post(url, json=INITIALIZE, headers=mine)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-06-18"}
        await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session | mine)
        body = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "research", "arguments": QUESTION},
        }
        call = asyncio.create_task(http.post(url, json=body, headers=session | mine, timeout=TIMEOUT_S))
        await wait_until(lambda: services.requests)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
        await http.post(url, json=cancel, headers=session | theirs)
        services.gate.set()
        answered = await call
    assert services.cancelled == 0
    assert services.answer in answered.text


async def test_a_stored_report_belongs_to_the_keys_that_asked_for_it() -> None:
    """Another key can neither list nor read a stored report. A key that asks for the same report becomes an owner too."""
    store = MemoryResearchStore()
    world = World(Web(some_pages()), ReportModel(), store)
    parts = {"research": world.service(), "store": StoreService(store)}
    report = {"query": REPORT_QUESTION, "depth": "report"}

    async def read(client: Client, uri: str) -> str:
        try:
            return (await client.read_resource(uri)).contents[0].text
        except MCPError as error:
            return str(error.error.data["code"])

    async with (
        running(FakeServices(), parts=parts, LLM_PLATFORM_API_KEYS=KEYS) as url,
        connected(url, "auto", KEY) as alice,
        connected(url, "auto", OTHER_KEY) as bob,
    ):
        await alice.call_tool("research", report)
        (listed,) = (await alice.list_resources()).resources
        assert (await read(alice, listed.uri)).startswith(f"# {REPORT_QUESTION}\n")
        assert (await bob.list_resources()).resources == []
        assert await read(bob, listed.uri) == await read(bob, f"{listed.uri}x") == "topic_not_found"
        await bob.call_tool("research", {**report, "urls": [next(iter(world.web.pages))]})
        await alice.call_tool("research", {**report, "language": "de"})
        texts = [await read(client, (await client.list_resources()).resources[0].uri) for client in (alice, bob)]
        assert texts[0] != texts[1]
        calls = world.calls()["write"]
        await bob.call_tool("research", {**report, "language": "de"})
        assert (world.calls()["write"], await read(bob, listed.uri)) == (calls, texts[0])


async def test_limits_count_calls_only() -> None:
    """Handshake messages are not counted. A call above the limit is a tool error with the waiting time."""
    limiter = MemoryRateLimiter(RateLimits(RateLimit("client", 1, 86_400, burst=1)))
    async with running(FakeServices(), limiter) as url, connected(url, "legacy") as client:
        await client.list_tools()
        first = await client.call_tool("search", {"query": "q"})
        second = await client.call_tool("search", {"query": "q"})
    assert not first.is_error
    assert second.is_error
    assert second.content[0].text.startswith("rate_limited: ")


async def test_limits_count_resources() -> None:
    """Reading a report resource is rate limited like a tool call."""
    limiter = MemoryRateLimiter(RateLimits(RateLimit("client", 1, 86_400, burst=1)))
    parts = {"store": StoreService(MemoryResearchStore())}
    async with running(FakeServices(), limiter, parts) as url, connected(url, "legacy") as client:
        assert (await client.list_resources()).resources == []
        for refused in (client.list_resources, lambda: client.read_resource("llm-platform://reports/none")):
            with pytest.raises(MCPError) as caught:
                await refused()
            assert caught.value.error.data["code"] == "rate_limited"


class LabelledServices(FakeServices):
    """Records the API key label of each search, as a per-key budget does."""

    def __init__(self) -> None:
        super().__init__()
        self.labels: list[str] = []

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.labels.append(api_key_label())
        return await super().search(request)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_counts_for_the_key_of_its_caller(mode: str) -> None:
    """A call counts for the budget of its caller's key only, also in a session, which runs in a separate task."""
    services = LabelledServices()
    async with running(services, LLM_PLATFORM_API_KEYS=KEYS) as url:
        for key in (KEY, OTHER_KEY, KEY):
            async with connected(url, mode, key) as client:
                for _ in range(2):
                    await client.call_tool("search", {"query": "q"})
    assert services.labels == ["alice", "alice", "bob", "bob", "alice", "alice"]


async def test_one_caller_cannot_take_all_sessions() -> None:
    """Above the session limit of a client, a handshake is answered without a session.

    Other callers still get a session.
    """
    limiter = MemoryRateLimiter(RateLimits(RateLimit("client", 1, 86_400, burst=2)))
    async with (
        running(FakeServices(), limiter, LLM_PLATFORM_API_KEYS=KEYS) as url,
        httpx2.AsyncClient(headers=HEADERS) as http,
    ):
        alice, bob = {"X-API-Key": KEY}, {"X-API-Key": OTHER_KEY}
        answers = [await http.post(url, json=INITIALIZE, headers=key) for key in (alice, alice, alice, bob)]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert ["mcp-session-id" in answer.headers for answer in answers] == [True, True, False, True]


@for_each(
    "message",
    [{"jsonrpc": "1.0", "method": MARK}, {"jsonrpc": "2.0", "id": {MARK: MARK}, "method": "ping"}, {MARK: MARK}, {}],
)
async def test_an_invalid_message_is_not_echoed(message: dict[str, Any]) -> None:
    """An invalid message is not echoed, because it may contain data meant for another service."""
    async with running(FakeServices()) as url, httpx2.AsyncClient(headers=HEADERS) as http:
        answer = await http.post(url, json=message)
    assert answer.status_code in (400, 422)
    assert MARK not in answer.text


async def test_admission_is_shared_with_the_other_routes() -> None:
    """A research run over MCP uses an admission slot. A run above the limit is a tool error."""
    services = FakeServices()
    services.gate.clear()
    async with running(services, MAX_CONCURRENT_RESEARCHES=1) as url, connected(url, "auto") as client:
        calls = [asyncio.create_task(client.call_tool("research", QUESTION)) for _ in range(3)]
        refused, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        texts = [call.result().content[0].text for call in refused]
        services.gate.set()
        await asyncio.wait(calls)
    assert [text.partition(":")[0] for text in texts] == ["overloaded"]


@for_each(
    ("headers", "status"),
    [
        ({"Host": "attacker.example"}, 421),
        ({"Origin": "https://attacker.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_web_pages_cannot_call(headers: dict[str, str], status: int) -> None:
    """A cross-site page or DNS rebinding cannot call /mcp (GuardMiddleware)."""
    async with running(FakeServices()) as url, httpx2.AsyncClient(headers=HEADERS) as http:
        assert (await http.post(url, json=INITIALIZE, headers=headers)).status_code == status


@for_each(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[]", 422),
        (b'{"id": NaN}', 422),
        (b'"\\ud800"', 422),
        (b"\xff", 422),
        (b"{}", 400),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}', 400),
        (b" " * (2 << 20), 413),
    ],
)
async def test_bad_bodies_are_refused(body: bytes, status: int) -> None:
    """An invalid message returns a 4xx that does not repeat it."""
    async with running(FakeServices()) as url, httpx2.AsyncClient(headers=HEADERS) as http:
        response = await http.post(url, content=body)
    assert response.status_code == status, response.text


async def test_get_is_not_allowed() -> None:
    """GET returns 405 with Allow, because the server sends nothing outside of responses."""
    async with running(FakeServices()) as url, httpx2.AsyncClient() as http:
        response = await http.get(url, headers={"Accept": "text/event-stream"})
    assert (response.status_code, response.headers["allow"]) == (405, "DELETE, POST")


async def test_a_stopping_server_ends_calls() -> None:
    """After the drain timeout a running call ends and the server stops."""
    services = FakeServices()
    services.gate.clear()
    async with running(services) as url:
        client = asyncio.create_task(_call(url))
        await wait_until(lambda: services.requests)
    await asyncio.wait({client}, timeout=TIMEOUT_S)
    assert services.cancelled == 1
    assert client.done()


async def _call(url: str) -> Any:
    try:
        async with connected(url, "auto") as client:
            return await client.call_tool("research", QUESTION)
    except (MCPError, ExceptionGroup, httpx2.HTTPError) as error:
        return error
