"""The API of Perplexity, without its packages (tests/services/test_clients.py runs those)."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from tests.unit.presentation.rest.fake_platform import HIT, REF, FakeServices, app_client

from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.exceptions import ResearchTimeoutError, WebSearchConnectionError
from shared.exceptions import AppException

CHAT = "/perplexity/chat/completions"
QUESTION = {"model": "sonar", "messages": [{"role": "user", "content": "What is asyncio?"}]}


def chunks(response: httpx2.Response) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


async def test_marker_n_is_citation_n_minus_1(client: httpx2.AsyncClient) -> None:
    answer = (await client.post(CHAT, json=QUESTION)).json()
    assert answer["choices"][0]["message"]["content"].endswith("[1]")
    assert answer["citations"] == [REF.url]
    assert answer["search_results"][0] == {
        "title": REF.title, "url": REF.url, "source": "web", "snippet": HIT.snippet, "date": None,
    }
    assert answer["usage"]["total_tokens"] == 0
    assert answer["llm_platform"]["metadata"]["synthesizer"] == "fake"


async def test_first_chunk_has_the_sources_and_the_last_the_usage(client: httpx2.AsyncClient) -> None:
    response = await client.post(CHAT, json={**QUESTION, "stream": True})
    first, *texts, last = chunks(response)
    assert first["citations"] == [REF.url]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(each["choices"][0]["delta"]["content"] for each in texts) == "An event loop runs tasks. [1]"
    assert last["choices"][0]["finish_reason"] == "stop"
    assert "usage" in last
    assert {each["object"] for each in (first, *texts, last)} == {"chat.completion.chunk"}


async def test_error_in_a_stream_is_an_error_event(client: httpx2.AsyncClient, services: FakeServices) -> None:
    services.error_after_first_event = WebSearchConnectionError("SearXNG is away: start it")
    response = await client.post(CHAT, json={**QUESTION, "stream": True})
    assert response.status_code == 200
    *_, error = chunks(response)
    assert error["error"]["message"] == "SearXNG is away: start it"
    assert "event: error\n" in response.text


@pytest.mark.parametrize(
    ("model", "depth"), [("sonar", "shallow"), ("sonar-pro", "deep"), ("sonar-deep-research", "report")]
)
async def test_model_selects_the_depth(client: httpx2.AsyncClient, services: FakeServices, model: str, depth: str) -> None:
    assert (await client.post(CHAT, json={**QUESTION, "model": model})).status_code == 200
    assert services.requests[0].depth == depth


async def test_filters_and_system_message_reach_the_research(client: httpx2.AsyncClient, services: FakeServices) -> None:
    body = {
        **QUESTION,
        "messages": [{"role": "system", "content": "Be brief."}, *QUESTION["messages"]],
        "search_mode": "academic",
        "search_domain_filter": ["python.org", "-example.com"],
        "search_recency_filter": "hour",
        "search_language_filter": ["de"],
        "temperature": 0.2,
    }
    response = await client.post(CHAT, json=body)
    [request] = services.requests
    assert (request.sources, request.domains) == (("academic",), ("python.org", "-example.com"))
    assert (request.time_range, request.language, request.instructions) == ("day", "de", "Be brief.")
    assert response.headers["x-ignored-fields"] == "search_recency_filter, temperature"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("response_format", {"type": "json_schema", "json_schema": {"schema": {}}}),
        ("disable_search", True),
        ("tools", [{"type": "function"}]),
        ("search_after_date_filter", "1/1/2026"),
        ("messages", [{"role": "assistant", "content": "Hello"}]),
        ("messages", [{"role": "user", "content": "x" * 501}]),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]),
        ("model", "gpt-4"),
        ("search_mode", "sec"),
    ],
)
async def test_field_that_cannot_be_served_is_refused_by_name(
    client: httpx2.AsyncClient, services: FakeServices, field: str, value: object
) -> None:
    response = await client.post(CHAT, json={**QUESTION, field: value})
    assert response.status_code == 422
    assert field in response.json()["error"]["param"]
    assert services.requests == []


@pytest.mark.parametrize(
    ("languages", "language", "ignored"),
    [(["de"], "de", None), (["de", "en"], None, "search_language_filter"), ([], None, None)],
)
async def test_several_languages_are_none_of_an_answer(
    client: httpx2.AsyncClient, services: FakeServices, languages: list[str], language: str | None, ignored: str | None
) -> None:
    """The first of them would be a guess: the header says that the filter was not served."""
    response = await client.post(CHAT, json={**QUESTION, "search_language_filter": languages})
    assert services.requests[0].language == language
    assert response.headers.get("x-ignored-fields") == ignored


@pytest.mark.parametrize(("cost_usd", "total"), [(0.25, 0.25), (None, None)])
async def test_related_questions_are_part_of_the_usage(
    services: FakeServices, cost_usd: float | None, total: float | None
) -> None:
    """Their tokens and cost are added; with an unknown cost no total is given, rather than one that is too low."""
    services.planning = Spending(calls=1, prompt_tokens=30, completion_tokens=4, cost_usd=cost_usd)
    async with app_client(services) as client:
        alone = (await client.post(CHAT, json=QUESTION)).json()["usage"]
        usage = (await client.post(CHAT, json={**QUESTION, "return_related_questions": True})).json()["usage"]
    assert alone["cost"]["total_cost"] == 0.0
    added = {name: usage[name] - alone[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    assert added == {"prompt_tokens": 30, "completion_tokens": 4, "total_tokens": 34}
    assert usage.get("cost", {}).get("total_cost") == total


async def test_related_questions_come_on_request(client: httpx2.AsyncClient) -> None:
    answer = (await client.post(CHAT, json={**QUESTION, "return_related_questions": True})).json()
    assert answer["related_questions"] == ["How?"]


@pytest.mark.parametrize("error", [WebSearchConnectionError("SearXNG is away: start it"), ResearchTimeoutError()])
async def test_error_beside_related_questions_is_the_error_of_the_answer(
    client: httpx2.AsyncClient, services: FakeServices, error: AppException
) -> None:
    """And no 500, whichever of the two tasks failed."""
    services.error = error
    response = await client.post(CHAT, json={**QUESTION, "return_related_questions": True})
    assert (response.status_code, response.json()["error"]["code"]) == (error.status_code, error.code)


async def test_search_has_the_results_of_all_queries(client: httpx2.AsyncClient, services: FakeServices) -> None:
    response = await client.post("/perplexity/search", json={"query": ["asyncio", "tasks"], "max_results": 3})
    assert response.json()["results"] == [{"title": HIT.title, "url": HIT.url, "snippet": HIT.snippet, "date": None}]
    assert services.requests[0].count == 3
