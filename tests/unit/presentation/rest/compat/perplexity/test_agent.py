"""Perplexity's Agent API and asynchronous chat: requests to depths, items and events, runs that outlive their request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import HIT, REF, SEARCHED, FakeServices, app_client

from modules.llm_platform.application.research.events import Done, Read, Reset, SourcesNumbered, Started, Token
from modules.llm_platform.domain.dtos.request_dtos import MAX_URLS
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import WebSearchConnectionError
from modules.llm_platform.presentation.rest.compat.perplexity.models import DEPTHS, EFFORTS
from modules.llm_platform.presentation.rest.compat.responses import runs
from modules.llm_platform.testing.waiting import CLOSE_TIMEOUT_S, becomes_true

QUESTION = "What is asyncio?"
RESPONSES = "/perplexity/v1/responses"
ASYNC = "/perplexity/async/chat/completions"
CHAT = {"model": "sonar-pro", "messages": [{"role": "user", "content": QUESTION}]}
KEYS = "alice:a-key-of-alice,bob:a-key-of-bob"
UPDATED_BEFORE = "last_updated_before_filter"
ALICE, BOB = {"Authorization": "Bearer a-key-of-alice"}, {"Authorization": "Bearer a-key-of-bob"}


@pytest.fixture
def services() -> FakeServices:
    services = FakeServices()
    services.searches = (SEARCHED,)
    return services


def agent_events(response: httpx2.Response) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]


async def create(client: httpx2.AsyncClient, **body: Any) -> httpx2.Response:
    sent = {"effort": "medium", "input": QUESTION, **body}
    return await client.post(RESPONSES, json={name: value for name, value in sent.items() if value is not None})


async def ended(client: httpx2.AsyncClient, path: str, **headers: str) -> dict[str, Any]:
    async with asyncio.timeout(CLOSE_TIMEOUT_S):
        while True:
            found = (await client.get(path, headers=headers)).json()
            if found["status"] not in ("queued", "in_progress", "CREATED", "IN_PROGRESS"):
                return dict(found)
            await asyncio.sleep(0.02)


async def test_response_has_sources_and_message(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """[n] in the text is the result with the id n."""
    response = (await create(client, instructions="Be brief.", language_preference="de")).json()
    [found, message] = response["output"]
    assert (found["type"], found["queries"]) == ("search_results", [SEARCHED.query])
    [result] = found["results"]
    assert result == {
        "id": 1,
        "title": REF.title,
        "url": REF.url,
        "source": "web",
        "snippet": HIT.snippet,
        "date": None,
    }
    assert message["content"][0]["text"] == services.answer
    assert message["content"][0]["annotations"][0]["url"] == REF.url
    assert (response["status"], response["model"], response["effort"]) == ("completed", "medium", "medium")
    assert response["usage"]["tool_calls_details"]["search_web"] == {"invocation": 1}
    [request] = services.requests
    assert (request.depth, request.instructions, request.language) == ("deep", "Be brief.", "de")


async def test_stream_has_the_events_of_the_api_in_order(client: httpx2.AsyncClient, services: FakeServices) -> None:
    events = agent_events(await create(client, stream=True))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "reasoning.started",
        "reasoning.search_queries",
        "reasoning.search_results",
        "reasoning.stopped",
        "output_item.added",
        "output_item.done",
        "output_item.added",
        "output_text.delta",
        "output_text.done",
        "output_item.done",
        "completed",
    ]
    assert events[3]["queries"] == [SEARCHED.query]
    assert events[4]["results"][0]["url"] == REF.url
    assert "".join(event.get("delta", "") for event in events) == services.answer
    added = [event for event in events if event["type"] == "response.output_item.added"]
    assert [(event["output_index"], event["item"]["type"]) for event in added] == [
        (0, "search_results"),
        (1, "message"),
    ]
    response = events[-1]["response"]
    assert (await client.get(f"{RESPONSES}/{response['id']}")).json() == response


async def test_pages_that_are_read_are_items_and_events(
    client: httpx2.AsyncClient, services: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that are read during writing are included. Unreadable pages are not."""

    async def reading(request: Any, *, request_id: str, **options: Any) -> AsyncIterator[Any]:
        yield Started(request_id=request_id)
        yield SEARCHED
        yield Read(request_id=request_id, url=HIT.url, status="read", chars=25)
        yield Read(request_id=request_id, url="https://example.org/gone", status="page_error", chars=0)
        yield SourcesNumbered(request_id=request_id, sources=(REF,))
        yield Token(request_id=request_id, text="An event")
        yield Reset(request_id=request_id, reason="interrupted")
        yield SEARCHED
        yield Read(request_id=request_id, url="https://example.org/late", status="read", chars=9)
        yield Token(request_id=request_id, text=services.answer)
        yield Done(request_id=request_id, response=services._research_response(request, request_id))

    transport: Any = client._transport
    monkeypatch.setattr(transport.app.state.server.platform.research, "stream", reading)
    events = agent_events(await create(client, stream=True))
    fetched = [event["urls"] for event in events if event["type"] == "response.reasoning.fetch_url_queries"]
    assert fetched == [[HIT.url], ["https://example.org/late"]]
    contents = [event["contents"] for event in events if event["type"] == "response.reasoning.fetch_url_results"]
    assert contents[0] == [{"url": HIT.url, "title": HIT.title, "snippet": HIT.snippet}]
    assert [event["queries"] for event in events if "queries" in event] == [[SEARCHED.query]]
    response = events[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["search_results", "fetch_url_results", "message"]
    assert [content["url"] for content in response["output"][1]["contents"]] == [HIT.url, "https://example.org/late"]
    [part] = response["output"][2]["content"]
    [annotation] = part["annotations"]
    assert part["text"][annotation["start_index"] : annotation["end_index"]] == "An event loop runs tasks."
    assert (await client.get(f"{RESPONSES}/{response['id']}")).json()["output"][1] == response["output"][1]


@for_each(
    ("body", "depth"),
    [
        *(({"effort": name}, depth) for name, depth in EFFORTS.items()),
        ({"effort": "fast@2026-10-16.0"}, "shallow"),
        ({"effort": None, "preset": "pro-search"}, "deep"),
        ({"effort": "low", "preset": "deep-research"}, "shallow"),
        ({"effort": None, "model": "perplexity/sonar-pro"}, "deep"),
        ({"effort": None, "models": ["openai/gpt-5", "sonar-deep-research"]}, "report"),
        ({"effort": "xhigh", "max_steps": 1}, "shallow"),
        ({"effort": "xhigh", "max_steps": 3}, "deep"),
        ({"effort": "xhigh", "max_steps": 10}, "report"),
        ({"effort": "low", "max_steps": 10}, "shallow"),
        ({"input": "Compare https://example.org/a.", "tools": [{"type": "fetch_url"}]}, "report"),
        ({"input": "Compare https://example.org/a."}, "deep"),
        ({"input": "Compare these.", "tools": [{"type": "fetch_url"}]}, "deep"),
    ],
)
async def test_effort_preset_model_and_steps_select_the_depth(body: dict[str, Any], depth: str) -> None:
    services = FakeServices()
    async with app_client(services) as client:
        response = await create(client, **body)
        assert response.status_code == 200, response.text
        assert services.requests[0].depth == depth


async def test_addresses_of_the_question_are_read(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """With fetch_url alone only these addresses are read. With web_search they are added to the results."""
    question = "Compare https://example.org/a, (https://example.org/b) and https://example.org/a"
    await create(client, input=question, tools=[{"type": "fetch_url"}])
    await create(client, input=question, tools=[{"type": "fetch_url", "max_urls": 1}, {"type": "web_search"}])
    alone, beside = services.requests
    assert (alone.urls, "sources" in alone.model_fields_set) == (
        ("https://example.org/a", "https://example.org/b"),
        False,
    )
    assert (beside.urls, "sources" in beside.model_fields_set) == (("https://example.org/a",), True)


async def test_more_addresses_than_a_report_reads_are_refused(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """The error names the message and the limit. With a `max_urls` within it, the first addresses are read."""
    urls = tuple(f"https://example.org/{number}" for number in range(MAX_URLS + 1))
    read, read_more = {"type": "fetch_url"}, {"type": "fetch_url", "max_urls": MAX_URLS + 1}
    for tool in (read, read_more):
        response = await create(client, input=f"Compare {' '.join(urls)}", tools=[tool])
        assert response.status_code == 422
        assert f"input: must have at most {MAX_URLS} addresses" in response.text
    assert services.requests == []
    await create(client, input=f"Compare {' '.join(urls[:-1])}", tools=[read_more])
    await create(client, input=f"Compare {' '.join(urls)}", tools=[{**read, "max_urls": MAX_URLS}, read_more])
    assert [request.urls for request in services.requests] == [urls[:-1]] * 2


async def test_snippet_of_what_no_search_found_is_the_beginning_of_its_text(
    client: httpx2.AsyncClient, services: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address of the client, or a source of an earlier answer. The SDK reads the cost as numbers."""
    held = Source(index=1, title=REF.title, url=REF.url, text="An event loop runs tasks. " * 20)

    async def reading(request: Any, *, request_id: str, **options: Any) -> AsyncIterator[Any]:
        yield Started(request_id=request_id)
        yield Read(request_id=request_id, url=REF.url, status="read", chars=len(held.text))
        yield SourcesNumbered.of(request_id, (held,))
        yield Token(request_id=request_id, text=services.answer)
        yield Done(request_id=request_id, response=services._research_response(request, request_id))

    transport: Any = client._transport
    monkeypatch.setattr(transport.app.state.server.platform.research, "stream", reading)
    response = agent_events(await create(client, stream=True))[-1]["response"]
    for item, contents in zip(response["output"], ("results", "contents"), strict=False):
        assert item[contents][0]["snippet"] == held.text[:300]
    assert response["usage"]["cost"] == {"currency": "USD", "input_cost": 0.0, "output_cost": 0.0, "total_cost": 0.0}
    assert (await client.get(f"{RESPONSES}/{response['id']}")).json() == response


async def test_calls_of_tools_in_the_conversation_are_left_out(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "{}"}
    await create(client, input=[{"role": "user", "content": QUESTION}, call, result])
    assert services.requests[0].query == QUESTION


async def test_filters_of_the_tool_restrict_the_search(client: httpx2.AsyncClient, services: FakeServices) -> None:
    filters = {
        "search_domain_filter": ["python.org", "-pinterest.com"],
        "search_recency_filter": "hour",
        "search_before_date_filter": "1/31/2026",
    }
    response = await create(client, tools=[{"type": "web_search", "filters": filters}], temperature=0.1)
    assert (services.requests[0].domains, services.requests[0].time_range) == (("python.org", "-pinterest.com"), "day")
    assert services.requests[0].freshness == "1970-01-01..2026-01-31"
    assert response.headers["x-ignored-fields"] == "tools, temperature"


@for_each(
    ("body", "field"),
    [
        ({"effort": None}, "model"),
        ({"effort": None, "model": "openai/gpt-5"}, "model"),
        ({"effort": "extreme"}, "effort"),
        ({"tools": [{"type": "finance_search"}]}, "tools"),
        ({"tools": [{"type": "web_search", "filters": {UPDATED_BEFORE: "1/1/26"}}]}, UPDATED_BEFORE),
        ({"skills": [{"type": "builtin", "name": "office"}]}, "skills"),
        ({"background": True, "store": False}, "store"),
        ({"max_steps": 0}, "max_steps"),
        ({"response_format": {"type": "regex"}}, "response_format"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "{}"}]}, "input"),
    ],
)
async def test_field_that_cannot_be_served_is_a_422_by_name(body: dict[str, Any], field: str) -> None:
    async with app_client() as client:
        response = await create(client, **body)
        assert response.status_code == 422, response.text
        assert response.json()["error"]["param"].split(".")[0] == field


async def test_unknown_model_together_with_an_effort_is_named(client: httpx2.AsyncClient) -> None:
    response = await create(client, model="openai/gpt-5", max_output_tokens=100)
    assert response.headers["x-ignored-fields"] == "model, max_output_tokens"


async def test_background_response_is_queued_followed_and_fetched(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """The stream can be resumed after any event. The response is also found under the vendor's other route."""
    services.gate.clear()
    queued = (await create(client, background=True)).json()
    assert (queued["status"], queued["background"]) == ("queued", True)
    services.gate.set()
    response = await ended(client, f"{RESPONSES}/{queued['id']}")
    assert (response["status"], response["output"][-1]["content"][0]["text"]) == ("completed", services.answer)
    assert (await client.get(f"/perplexity/v1/agent/{queued['id']}")).json() == response
    path = f"{RESPONSES}/{queued['id']}"
    events = agent_events(await client.get(path, params={"stream": "true"}))
    assert events[-1]["response"] == response
    rest = agent_events(await client.get(path, params={"stream": "true", "starting_after": 3}))
    assert rest == events[4:]


async def test_background_response_is_cancelled_once(client: httpx2.AsyncClient, services: FakeServices) -> None:
    services.gate.clear()
    name = (await create(client, background=True)).json()["id"]
    assert await becomes_true(lambda: bool(services.requests), CLOSE_TIMEOUT_S)
    cancelled = await client.post(f"{RESPONSES}/{name}/cancel")
    assert cancelled.json() == {"response_id": name, "status": "cancelling"}
    assert (await client.get(f"{RESPONSES}/{name}")).json()["status"] == "cancelled"
    assert (await client.post(f"{RESPONSES}/{name}/cancel")).status_code == 400


async def test_response_that_ends_before_it_is_cancelled_is_no_cancelled_one(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was found running, and its end came first."""
    name = (await create(client, background=True)).json()["id"]
    await ended(client, f"{RESPONSES}/{name}")

    async def find_running(*_: object) -> SimpleNamespace:
        return SimpleNamespace(status="running")

    monkeypatch.setattr(runs, "find_job", find_running)
    refused = await client.post(f"{RESPONSES}/{name}/cancel")
    assert (refused.status_code, "completed" in refused.text) == (400, True)


async def test_failed_response_says_why(client: httpx2.AsyncClient, services: FakeServices) -> None:
    services.error_after_first_event = WebSearchConnectionError("SearXNG is away: start it")
    last = agent_events(await create(client, stream=True))[-1]
    assert (last["type"], last["error"]["message"]) == ("response.failed", "SearXNG is away: start it")
    name = (await create(client, background=True)).json()["id"]
    response = await ended(client, f"{RESPONSES}/{name}")
    assert (response["status"], response["error"]["message"]) == ("failed", "SearXNG is away: start it")


async def test_async_chat_runs_in_the_background(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """CREATED, IN_PROGRESS, then COMPLETED with the completion of a chat."""
    services.gate.clear()
    sent = await client.post(ASYNC, json={"request": {**CHAT, "temperature": 0.1}})
    created = sent.json()
    assert (created["status"], created["model"], created["response"]) == ("CREATED", "sonar-pro", None)
    assert sent.headers["x-ignored-fields"] == "temperature"
    assert await becomes_true(lambda: bool(services.requests), CLOSE_TIMEOUT_S)
    assert (await client.get(f"{ASYNC}/{created['id']}")).json()["status"] == "IN_PROGRESS"
    services.gate.set()
    found = await ended(client, f"{ASYNC}/{created['id']}")
    assert found["status"] == "COMPLETED"
    assert found["completed_at"] >= found["started_at"] >= found["created_at"] == created["created_at"]
    completion = found["response"]
    assert (completion["id"], completion["model"], completion["object"]) == (
        found["id"],
        "sonar-pro",
        "chat.completion",
    )
    assert completion["choices"][0]["message"]["content"] == services.answer
    assert (completion["citations"], completion["search_results"][0]["snippet"]) == ([REF.url], HIT.snippet)
    assert services.requests[0].depth == "deep"


async def test_async_chat_of_one_idempotency_key_runs_once(client: httpx2.AsyncClient, services: FakeServices) -> None:
    body = {"request": CHAT, "idempotency_key": "order 7"}
    one, other = [(await client.post(ASYNC, json=body)).json()["id"] for _ in range(2)]
    assert one == other
    await ended(client, f"{ASYNC}/{one}")
    again = {**body, "request": {**CHAT, "model": "sonar"}}
    assert (await client.post(ASYNC, json=again)).json()["model"] == CHAT["model"]  # the cost of the run
    assert (await client.post(ASYNC, json={**body, "idempotency_key": "order 8"})).json()["id"] != one


async def test_async_chats_are_listed_by_their_owner(services: FakeServices) -> None:
    """Newest first, in pages, and no other runs; another key sees none of them."""
    async with app_client(services, LLM_PLATFORM_API_KEYS=KEYS) as client:
        names = [(await client.post(ASYNC, json={"request": CHAT}, headers=ALICE)).json()["id"] for _ in range(3)]
        await client.post("/research", json={"query": QUESTION, "background": True}, headers=ALICE)
        page = (await client.get(ASYNC, params={"limit": 2}, headers=ALICE)).json()
        assert [request["id"] for request in page["requests"]] == names[:0:-1]
        assert page["requests"][0]["model"] == "sonar-pro"
        rest = (await client.get(ASYNC, params={"next_token": page["next_token"]}, headers=ALICE)).json()
        assert ([request["id"] for request in rest["requests"]], rest["next_token"]) == ([names[0]], None)
        assert (await client.get(ASYNC, headers=BOB)).json()["requests"] == []
        for path in (f"{ASYNC}/{names[0]}", f"{RESPONSES}/{names[0]}"):
            assert (await client.get(path, headers=BOB)).status_code == 404
        assert (await client.get(f"{RESPONSES}/{names[0]}", headers=ALICE)).status_code == 404


async def test_failed_async_chat_says_why(client: httpx2.AsyncClient, services: FakeServices) -> None:
    services.error = WebSearchConnectionError("SearXNG is away: start it")
    name = (await client.post(ASYNC, json={"request": CHAT})).json()["id"]
    found = await ended(client, f"{ASYNC}/{name}")
    assert (found["status"], found["error_message"]) == ("FAILED", "SearXNG is away: start it")
    assert found["failed_at"]


async def test_invalid_async_chat_names_the_field(client: httpx2.AsyncClient) -> None:
    response = await client.post(ASYNC, json={"request": {**CHAT, "model": "gpt"}})
    assert (response.status_code, response.json()["error"]["param"]) == (422, "request.model")


async def test_models_are_listed(client: httpx2.AsyncClient) -> None:
    models = (await client.get("/perplexity/v1/models")).json()
    assert [model["id"] for model in models["data"]] == list(DEPTHS)
