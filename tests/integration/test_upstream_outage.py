"""An outage of a search service over HTTP: its cost, how fast callers learn of it, and the recovery."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.clock import Clock
from tests.support.loopback_upstream import Exchange, Handler, json_reply, reply, serving

from modules.llm_platform import WebSearchRequest
from modules.llm_platform.container import Container
from modules.llm_platform.domain.exceptions import WebSearchConnectionError, WebSearchError
from modules.llm_platform.infrastructure.limits.upstream_limits import (
    CIRCUIT_COOLDOWN_S,
    FAILURES_TO_OPEN,
    CircuitBreaker,
)
from modules.llm_platform.infrastructure.limits.upstream_states import make_upstream_states
from shared.config import Settings

REQUESTS = 100
AT_ONCE = 300  # more than a service receives
MOST_AT_ONCE = 250
PATIENCE_S = 120.0
FOUND = json_reply(
    {"results": [{"title": "a", "url": "https://docs.test/a", "content": "b"}], "unresponsive_engines": []}
)


class Service:
    """A SearXNG that works or fails as the test decides."""

    def __init__(self) -> None:
        self.handler: Handler = FOUND

    async def __call__(self, exchange: Exchange) -> None:
        await self.handler(exchange)


async def hang_up(exchange: Exchange) -> None:
    exchange.writer.close()
    raise ConnectionResetError


def search(number: int) -> WebSearchRequest:
    return WebSearchRequest(query=f"question number {number}")


@asynccontextmanager
async def searching(
    url: str, clock: Clock, failures_to_open: int = FAILURES_TO_OPEN, **settings: Any
) -> AsyncIterator[Container]:
    """Build a container that searches the service, and close it even if the test fails.

    Its timeouts suit a busy machine.
    """
    container = Container(settings=Settings(SEARXNG_URL=url, SEARXNG_TIMEOUT_S=PATIENCE_S, **settings))
    (state,) = make_upstream_states(["searxng"]).values()
    circuit = CircuitBreaker("searxng", failures_to_open=failures_to_open, clock=clock)
    container.search_upstreams.override({"searxng": replace(state, circuit=circuit)})
    try:
        yield container
    finally:
        await container.resources().aclose()


@for_each("handler", [reply(500), reply(503), hang_up])
@for_each("at_once", [True, False])
async def test_an_outage_costs_at_most_a_tenth_more_calls(handler: Handler, at_once: bool) -> None:
    """100 different searches during an outage send at most 110 requests before the circuit opens."""
    async with serving(handler) as upstream, searching(upstream.url, Clock(), failures_to_open=1_000_000) as container:
        provider = container.web_search_provider()
        searches = [provider.search(search(number)) for number in range(REQUESTS)]
        if at_once:
            errors = await asyncio.gather(*searches, return_exceptions=True)
        else:
            errors = [(await asyncio.gather(search, return_exceptions=True))[0] for search in searches]
        assert all(isinstance(error, (WebSearchError, WebSearchConnectionError)) for error in errors)
        assert REQUESTS <= len(upstream.requests) <= 1.1 * REQUESTS


async def test_a_circuit_opens_and_closes_again() -> None:
    """After repeated failures no request is sent.

    After the cooldown one probe is sent, and its success closes the circuit.
    """
    service, clock = Service(), Clock()
    async with serving(service) as upstream, searching(upstream.url, clock) as container:
        provider = container.web_search_provider()
        service.handler = reply(503)
        for number in range(REQUESTS):
            with pytest.raises((WebSearchError, WebSearchConnectionError)) as caught:
                await provider.search(search(number))
        assert len(upstream.requests) == FAILURES_TO_OPEN
        assert caught.value.retry_after_s == pytest.approx(CIRCUIT_COOLDOWN_S)
        assert (await container.health().check()).components["searxng"].status == "unhealthy"

        service.handler = FOUND
        clock.now += CIRCUIT_COOLDOWN_S
        before = len(upstream.requests)
        outcomes = await asyncio.gather(
            *(provider.search(search(number)) for number in range(20)), return_exceptions=True
        )
        assert len(upstream.requests) - before == 1
        assert sum(isinstance(outcome, WebSearchConnectionError) for outcome in outcomes) == 19
        assert all([(await provider.search(search(number))).results for number in range(20)])


async def test_identical_questions_at_once_are_one_request() -> None:
    """500 concurrent callers cost one request."""
    async with serving(FOUND) as upstream, searching(upstream.url, Clock()) as container:
        provider = container.web_search_provider()
        answers = await asyncio.gather(*(provider.search(search(1)) for _ in range(500)))
        assert len(upstream.requests) == 1
        assert all(answer.results for answer in answers)


async def test_calls_outside_of_reports_are_bounded() -> None:
    """A service gets at most 250 searches at once, and the others follow."""
    most = 0
    is_full = asyncio.Event()

    async def busy(exchange: Exchange) -> None:
        nonlocal most
        most = max(most, upstream.busy)
        if upstream.busy >= MOST_AT_ONCE:
            is_full.set()
        await is_full.wait()
        await FOUND(exchange)

    async with serving(busy) as upstream, searching(upstream.url, Clock()) as container:
        provider = container.web_search_provider()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(provider.search(search(number)) for number in range(AT_ONCE)))
        assert len(upstream.requests) == AT_ONCE
        assert most == MOST_AT_ONCE


async def test_old_results_bridge_an_outage() -> None:
    """If the cached response has expired and the service is down, the old results are returned with a note in
    `degraded`.
    """
    service = Service()
    async with serving(service) as upstream, searching(upstream.url, Clock(), CACHE_TTL_S=0.001) as container:
        provider = container.web_search_provider()
        fresh = await provider.search(search(1))
        await asyncio.sleep(0.01)
        service.handler = reply(500)
        stale = await provider.search(search(1))
        assert stale.results == fresh.results
        assert stale.cached
        assert stale.degraded[0].component == "searxng"
        assert "min old" in stale.degraded[0].reason
