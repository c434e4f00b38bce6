"""The API of Perplexity, without its packages (tests/services/test_clients.py runs those)."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import httpx2
import pytest
from tests.unit.presentation.rest.fake_platform import HIT, REF, FakeServices, app_client

from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ResearchPlan
from modules.llm_platform.domain.exceptions import LLMConnectionError, ResearchTimeoutError, WebSearchConnectionError
from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS
from shared.exceptions import AppException

CHAT = "/perplexity/chat/completions"
SEARCH = "/perplexity/search"
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
        "title": REF.title,
        "url": REF.url,
        "source": "web",
        "snippet": HIT.snippet,
        "date": None,
    }
    assert answer["usage"]["total_tokens"] == 0
    assert answer["llm_platform"]["metadata"]["synthesizer"] == "fake"


async def test_first_chunk_has_the_sources_and_the_last_the_usage(client: httpx2.AsyncClient) -> None:
    response = await client.post(CHAT, json={**QUESTION, "stream": True})
    first, *texts, last = chunks(response)
    assert first["citations"] == [REF.url]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in texts) == "An event loop runs tasks. [1]"
    assert last["choices"][0]["finish_reason"] == "stop"
    assert "usage" in last
    assert {chunk["object"] for chunk in (first, *texts, last)} == {"chat.completion.chunk"}


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
async def test_model_selects_the_depth(
    client: httpx2.AsyncClient, services: FakeServices, model: str, depth: str
) -> None:
    assert (await client.post(CHAT, json={**QUESTION, "model": model})).status_code == 200
    assert services.requests[0].depth == depth


async def test_filters_and_system_message_reach_the_research(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
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
        ("response_format", {"type": "regex", "regex": {"regex": "a"}}),
        ("response_format", {"type": "json_schema", "json_schema": {"schema": {"type": "string"}}}),
        ("disable_search", True),
        ("search_after_date_filter", "2026-01-01"),
        ("search_before_date_filter", "2/29/2026"),
        ("last_updated_after_filter", "1/1/26"),
        ("last_updated_before_filter", "1/1/2026"),
        ("messages", [{"role": "assistant", "content": "Hello"}]),
        ("messages", [{"role": "user", "content": "x" * (MAX_MESSAGE_CHARS + 1)}]),
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


@pytest.mark.parametrize("path", [CHAT, SEARCH])
@pytest.mark.parametrize(
    ("first", "last", "freshness"),
    [
        ("1/2/2026", "01/31/2026", "2026-01-02..2026-01-31"),
        ("01/02/2026", None, "2026-01-02..today"),
        (None, "1/31/2026", "1970-01-01..2026-01-31"),
    ],
)
async def test_dates_restrict_searches_and_answers(
    client: httpx2.AsyncClient, services: FakeServices, path: str, first: str | None, last: str | None, freshness: str
) -> None:
    """Month before day, as the vendor writes it; one date alone is a limit too."""
    dates = {"search_after_date_filter": first, "search_before_date_filter": last}
    before = date.today()  # noqa: DTZ011  # as the server does
    assert (await client.post(path, json={**QUESTION, "query": "asyncio", **dates})).status_code == 200
    days = {before, date.today()}  # noqa: DTZ011  # it may have changed meanwhile
    assert services.requests[0].freshness in {freshness.replace("today", str(day)) for day in days}


@pytest.mark.parametrize(
    ("dates", "freshness"),
    [
        ({"search_before_date_filter": "1/31/2026"}, "2026-01-02..2026-01-31"),
        ({"search_before_date_filter": "1/31/2026", "search_after_date_filter": "1/1/2026"}, "2026-01-02..2026-01-31"),
        ({"search_before_date_filter": "1/31/2026", "search_after_date_filter": "1/9/2026"}, "2026-01-09..2026-01-31"),
    ],
)
async def test_day_of_an_update_is_one_of_publication(
    client: httpx2.AsyncClient, services: FakeServices, dates: dict[str, str], freshness: str
) -> None:
    """What was published after a day was updated after it. The header says that the field finds not all it asks for."""
    response = await client.post(CHAT, json={**QUESTION, **dates, "last_updated_after_filter": "1/2/2026"})
    assert services.requests[0].freshness == freshness
    assert response.headers["x-ignored-fields"] == "last_updated_after_filter"


async def test_update_after_the_last_publication_is_refused(client: httpx2.AsyncClient) -> None:
    """The days of publication and of the update are then different ones, and only the first is known."""
    dates = {"search_before_date_filter": "1/1/2026", "last_updated_after_filter": "2/1/2026"}
    error = (await client.post(CHAT, json={**QUESTION, **dates})).json()["error"]
    assert error["param"] == "last_updated_after_filter"
    assert "updates after the publication are not known" in error["message"]


async def test_dates_in_the_wrong_order_are_refused_by_name(client: httpx2.AsyncClient) -> None:
    dates = {"search_after_date_filter": "2/1/2026", "search_before_date_filter": "1/1/2026"}
    error = (await client.post(CHAT, json={**QUESTION, **dates})).json()["error"]
    assert error["param"] == "search_before_date_filter"
    assert "must not be before search_after_date_filter" in error["message"]


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


async def test_related_questions_that_fail_cost_no_answer() -> None:
    """If related questions fail, the paid answer is returned without them."""

    class WithoutPlans(FakeServices):
        async def plan(self, request: PlanRequest, *, owner: str = "") -> ResearchPlan:
            raise LLMConnectionError("the model is away")

    services = WithoutPlans()
    async with app_client(services) as client:
        answer = (await client.post(CHAT, json={**QUESTION, "return_related_questions": True})).json()
    assert (answer["choices"][0]["message"]["content"], answer["related_questions"]) == (services.answer, [])


@pytest.mark.parametrize("error", [WebSearchConnectionError("SearXNG is away: start it"), ResearchTimeoutError()])
async def test_error_together_with_related_questions_is_the_error_of_the_answer(
    client: httpx2.AsyncClient, services: FakeServices, error: AppException
) -> None:
    """The error of the answer is returned instead of a 500, whichever task failed first."""
    services.error = error
    response = await client.post(CHAT, json={**QUESTION, "return_related_questions": True})
    assert (response.status_code, response.json()["error"]["type"]) == (error.status_code, error.code)


async def test_search_has_the_results_of_all_queries(client: httpx2.AsyncClient, services: FakeServices) -> None:
    response = await client.post("/perplexity/search", json={"query": ["asyncio", "tasks"], "max_results": 3})
    assert response.json()["results"] == [{"title": HIT.title, "url": HIT.url, "snippet": HIT.snippet, "date": None}]
    assert services.requests[0].count == 3


async def test_code_of_an_error_is_its_status(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """`code` is a number in plain and streamed errors, because validating clients accept nothing else.

    `type` says what is wrong.
    """
    invalid = await client.post(CHAT, json={"model": "sonar", "messages": []})
    assert (invalid.json()["error"]["code"], invalid.json()["error"]["type"]) == (422, "invalid_request")
    services.error = ResearchTimeoutError()
    failed = await client.post(CHAT, json=QUESTION)
    assert (failed.json()["error"]["code"], failed.json()["error"]["type"]) == (503, "timeout")
    services.error, services.error_after_first_event = None, WebSearchConnectionError("SearXNG is away: start it")
    *_, error = chunks(await client.post(CHAT, json={**QUESTION, "stream": True}))
    assert error["error"]["code"] == 503
