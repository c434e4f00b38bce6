"""The API of Tavily, without its packages (tests/services/test_clients.py runs those)."""

from __future__ import annotations

from datetime import date

import httpx2
import pytest
from tests.unit.presentation.rest.fake_platform import HIT, FakeServices, app_client

from modules.llm_platform.domain.dtos.freshness import FIRST_DAY
from modules.llm_platform.domain.exceptions import PageError
from modules.llm_platform.domain.ports.rate_limiter import RateLimit, RateLimits
from modules.llm_platform.infrastructure.limits.memory_rate_limiter import MemoryRateLimiter
from modules.llm_platform.presentation.rest.http.body import MAX_BODY_BYTES_WITHOUT_KEY

SEARCH = "/tavily/search"
TODAY = "today"


async def test_search_has_the_fields_of_the_client(client: httpx2.AsyncClient) -> None:
    answer = (await client.post(SEARCH, json={"query": "asyncio"})).json()
    assert answer.pop("response_time") >= 0
    assert answer.pop("request_id")
    result = {
        "title": HIT.title,
        "url": HIT.url,
        "content": HIT.snippet,
        "raw_content": None,
        "published_date": None,
        "score": 1.0,
    }
    assert answer == {
        "query": "asyncio",
        "follow_up_questions": None,
        "answer": None,
        "images": [],
        "results": [result],
    }


async def test_filters_reach_the_search(client: httpx2.AsyncClient, services: FakeServices) -> None:
    body = {
        "query": "asyncio",
        "topic": "news",
        "max_results": 7,
        "start_date": "2026-01-01",
        "end_date": "2026-01-31",
        "include_domains": ["python.org"],
        "exclude_domains": ["example.com"],
        "country": "austria",
    }
    response = await client.post(SEARCH, json=body)
    [request] = services.requests
    assert (request.sources, request.count, request.freshness) == (("news",), 7, "2026-01-01..2026-01-31")
    assert request.domains == ("python.org", "-example.com")
    assert response.headers["x-ignored-fields"] == "country"


@pytest.mark.parametrize(
    ("dates", "freshness"),
    [
        ({"start_date": "2026-01-01"}, f"2026-01-01..{TODAY}"),
        ({"end_date": "2026-01-31"}, f"{FIRST_DAY}..2026-01-31"),
        ({"start_date": "2026-01-31", "end_date": "2026-01-31"}, "2026-01-31..2026-01-31"),
        ({}, None),
    ],
)
async def test_one_date_is_a_limit_too(
    client: httpx2.AsyncClient, services: FakeServices, dates: dict[str, str], freshness: str | None
) -> None:
    """From a day until today, or until a day: neither is ignored."""
    before = date.today()  # noqa: DTZ011  # as the server does
    assert (await client.post(SEARCH, json={"query": "asyncio", **dates})).status_code == 200
    days = {before, date.today()}  # noqa: DTZ011  # it may have changed meanwhile
    assert services.requests[0].freshness in {freshness and freshness.replace(TODAY, str(day)) for day in days}


async def test_dates_restrict_an_answer_too(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """An answer from other years would look as if it had kept to them."""
    dates = {"start_date": "2026-01-01", "end_date": "2026-01-31"}
    await client.post(SEARCH, json={"query": "asyncio", "include_answer": True, **dates})
    assert services.requests[0].freshness == "2026-01-01..2026-01-31"


@pytest.mark.parametrize("wish", [False, True])
async def test_dates_that_end_before_they_begin_are_refused(client: httpx2.AsyncClient, wish: bool) -> None:
    """By the name of the field that the client sent."""
    dates = {"start_date": "2026-02-01", "end_date": "2026-01-31"}
    response = await client.post(SEARCH, json={"query": "asyncio", "include_answer": wish, **dates})
    assert response.status_code == 400
    assert response.json()["detail"]["error"] == "end_date: must not be before start_date"


@pytest.mark.parametrize(("wish", "depth"), [(True, "shallow"), ("basic", "shallow"), ("advanced", "deep")])
async def test_answer_is_a_research_and_its_markers_are_the_results(
    client: httpx2.AsyncClient, services: FakeServices, wish: object, depth: str
) -> None:
    answer = (await client.post(SEARCH, json={"query": "asyncio", "time_range": "w", "include_answer": wish})).json()
    [request] = services.requests
    assert (request.depth, request.time_range) == (depth, "week")
    assert answer["answer"] == "An event loop runs tasks. [1]"
    assert answer["results"][0]["url"] == HIT.url


async def test_pages_are_read_and_failures_named(client: httpx2.AsyncClient, services: FakeServices) -> None:
    url = "https://example.org/a"
    answer = (await client.post("/tavily/extract", json={"urls": url})).json()
    assert answer["results"][0] == {
        "url": url,
        "raw_content": "An event loop runs tasks.",
        "title": "asyncio",
        "images": [],
    }
    services.error = PageError("The page has no text.")
    answer = (await client.post("/tavily/extract", json={"urls": [url]})).json()
    assert (answer["results"], answer["failed_results"]) == ([], [{"url": url, "error": "The page has no text."}])
    services.error = None
    answer = (await client.post(SEARCH, json={"query": "asyncio", "include_raw_content": True})).json()
    assert answer["results"][0]["raw_content"] == "An event loop runs tasks."


async def test_an_address_is_read_once_however_often_it_is_named(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """Addresses that differ in their fragments are one page. Each spelling has its result."""
    urls = [f"https://example.org/a#{number % 10}" for number in range(20)]
    answer = (await client.post("/tavily/extract", json={"urls": urls})).json()
    assert services.requests == ["https://example.org/a"]
    assert [result["url"] for result in answer["results"]] == urls[:10]


async def test_invalid_field_is_a_400_with_its_name(client: httpx2.AsyncClient) -> None:
    response = await client.post(SEARCH, json={"query": "asyncio", "max_results": 99})
    assert response.status_code == 400
    assert response.json()["detail"]["error"].startswith("max_results: ")


async def test_key_in_the_body_is_accepted_here_alone() -> None:
    async with app_client(LLM_PLATFORM_API_KEYS="long-enough-key") as client:
        body = {"query": "asyncio", "api_key": "long-enough-key"}
        assert (await client.post(SEARCH, json=body)).status_code == 200
        refused = await client.post(SEARCH, json={**body, "api_key": "another-long-key"})
        assert refused.status_code == 401
        assert "detail" in refused.json()
        assert (await client.post("/llm-platform/web-search", json=body)).status_code == 401


async def test_body_without_a_key_in_a_header_is_small() -> None:
    """It is read before the caller is known: above 64 KiB it is refused, and refusals count as wrong keys."""
    body = {"query": "asyncio", "api_key": "long-enough-key", "padding": "x" * MAX_BODY_BYTES_WITHOUT_KEY}
    key = {"X-API-Key": "long-enough-key"}
    limiter = MemoryRateLimiter(RateLimits(RateLimit("client", 1, 86_400, burst=2)))
    async with app_client(LLM_PLATFORM_API_KEYS="long-enough-key", rate_limiter=limiter) as client:
        small = await client.post(SEARCH, json={**body, "padding": "x" * 60_000})
        refused = [await client.post(SEARCH, json=body) for _ in range(3)]
        assert (await client.post(SEARCH, json=body, headers=key)).status_code == 200
    assert small.status_code == 200
    assert [answer.status_code for answer in refused] == [413, 413, 429]
    assert "send the key as" in refused[0].json()["detail"]["error"]
