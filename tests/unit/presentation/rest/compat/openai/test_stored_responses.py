"""Responses of OpenAI's API that outlive their request: in the background, stored, resumed, cancelled, removed."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx2
import openai
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import HIT, SEARCHED, FakeServices, app_client

from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.domain.exceptions import StoreUnavailableError, WebSearchConnectionError
from modules.llm_platform.presentation.rest import research_job_routes
from modules.llm_platform.testing.waiting import CLOSE_TIMEOUT_S, becomes_true

QUESTION = "What is asyncio?"
SOURCES = "web_search_call.action.sources"
KEYS = "alice:a-key-of-alice,bob:a-key-of-bob"


@pytest.fixture
def services() -> FakeServices:
    services = FakeServices()
    services.searches = (SEARCHED,)
    return services


def sdk_of(client: httpx2.AsyncClient, key: str = "key") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key=key, base_url="http://localhost/v1", http_client=client, max_retries=0)


@pytest.fixture
async def sdk(client: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    return sdk_of(client)


async def ended(sdk: openai.AsyncOpenAI, name: str) -> Any:
    async with asyncio.timeout(CLOSE_TIMEOUT_S):
        while (response := await sdk.responses.retrieve(name)).status in ("queued", "in_progress"):
            await asyncio.sleep(0.02)
    return response


async def test_background_response_is_queued_and_fetched(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    """The response is queued at once. Later it has the same fields, the searches, and the answer with its citations."""
    services.gate.clear()
    queued = await sdk.responses.create(
        model="o3-deep-research", input=QUESTION, background=True, metadata={"team": "a"}, instructions="Be brief."
    )
    assert (queued.status, queued.background, queued.output) == ("queued", True, [])
    services.gate.set()
    response = await ended(sdk, queued.id)
    assert (response.id, response.status, response.output_text) == (queued.id, "completed", services.answer)
    for name in ("created_at", "model", "metadata", "instructions", "background", "store"):
        assert getattr(response, name) == getattr(queued, name), name
    [call, message] = response.output
    assert (call.type, call.action.type, call.action.query) == ("web_search_call", "search", SEARCHED.query)
    assert message.content[0].annotations
    assert services.requests[0].depth == "report"


async def test_stream_of_a_background_response_is_resumed(sdk: openai.AsyncOpenAI) -> None:
    """The event numbers start at 0 and are stable, so a client can resume after any event."""
    stream = await sdk.responses.create(model="research-deep", input=QUESTION, background=True, stream=True)
    events = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events][:3] == ["response.created", "response.queued", "response.in_progress"]
    last: Any = events[-1]
    assert (last.type, last.response.status) == ("response.completed", "completed")
    for after in (0, 2, len(events) - 2):
        rest = await sdk.responses.retrieve(last.response.id, stream=True, starting_after=after)
        assert [event async for event in rest] == events[after + 1 :]
    again = await sdk.responses.retrieve(last.response.id, stream=True)
    assert [event async for event in again] == events
    assert await sdk.responses.retrieve(last.response.id) == last.response


@for_each("streamed", [False, True])
async def test_foreground_response_is_stored(
    streamed: bool, client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """The complete object can be fetched after it was sent, except with `store: false`."""
    body = {"model": "research-deep", "input": QUESTION, "include": [SOURCES], "stream": streamed}
    sdk = sdk_of(client)
    for stored in (True, False):
        sent: Any = await sdk.responses.create(**body, store=stored)  # type: ignore[call-overload]
        response = [event async for event in sent][-1].response if streamed else sent
        assert response.store is stored
        if stored:
            assert await sdk.responses.retrieve(response.id) == response
            assert response.output[0].action.sources[0].url == HIT.url
        else:
            with pytest.raises(openai.NotFoundError):
                await sdk.responses.retrieve(response.id)


async def test_sources_are_included_on_request_only(sdk: openai.AsyncOpenAI) -> None:
    response: Any = await sdk.responses.create(model="research-deep", input=QUESTION)
    assert response.output[0].action.sources is None
    fetched: Any = await sdk.responses.retrieve(response.id, include=[SOURCES])
    assert [source.url for source in fetched.output[0].action.sources] == [HIT.url]


async def test_answer_is_sent_though_it_cannot_be_stored(
    sdk: openai.AsyncOpenAI, services: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was paid for, so it is sent. `store` is then false."""

    async def fail(*_: object) -> None:
        raise StoreUnavailableError("the disk is full")

    monkeypatch.setattr(services.jobs, "record", fail)
    response = await sdk.responses.create(model="research-deep", input=QUESTION)
    assert (response.output_text, response.to_dict()["store"]) == (services.answer, False)


async def test_answer_whose_conversation_cannot_be_read_again_is_sent(
    sdk: openai.AsyncOpenAI, monkeypatch: pytest.MonkeyPatch, services: FakeServices
) -> None:
    """If the earlier turns cannot be read, the answer is sent, because it was paid for."""

    async def fail(*_: object) -> None:
        raise StoreUnavailableError("the database restarts")

    monkeypatch.setattr(ResearchJobService, "_add_turns", fail)
    response = await sdk.responses.create(model="research-deep", input=QUESTION)
    assert (response.output_text, response.to_dict()["store"]) == (services.answer, False)


async def test_background_stream_that_is_refused_is_not_queued(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller with as many open streams as it may have pays for no answer that it cannot follow."""
    body = {"model": "research-deep", "input": QUESTION, "background": True, "stream": True}
    assert (await client.post("/v1/responses", json=body)).status_code == 200
    monkeypatch.setattr(research_job_routes, "MAX_STREAMS", 0)
    assert (await client.post("/v1/responses", json=body)).status_code == 503
    assert len((await client.get("/research")).json()["researches"]) == 1


async def test_running_response_is_cancelled(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    """A second call returns the same; one that has ended is refused, and so is one that never ran in the background."""
    services.gate.clear()
    queued = await sdk.responses.create(model="research-report", input=QUESTION, background=True)
    assert await becomes_true(lambda: bool(services.requests), CLOSE_TIMEOUT_S)
    for _ in range(2):
        assert (await sdk.responses.cancel(queued.id)).status == "cancelled"
    assert (await sdk.responses.retrieve(queued.id)).status == "cancelled"
    events: Any = [event async for event in await sdk.responses.retrieve(queued.id, stream=True)]
    assert (events[-1].type, events[-1].response.status) == ("response.failed", "cancelled")
    assert await becomes_true(lambda: services.cancelled == 1, CLOSE_TIMEOUT_S)
    services.gate.set()
    done = await sdk.responses.create(model="research-deep", input=QUESTION)
    with pytest.raises(openai.BadRequestError, match="completed"):
        await sdk.responses.cancel(done.id)


async def test_failed_background_response_says_why(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    services.error = WebSearchConnectionError("SearXNG is away: start it")
    queued = await sdk.responses.create(model="research-report", input=QUESTION, background=True)
    response = await ended(sdk, queued.id)
    assert (response.status, response.error.message) == ("failed", "SearXNG is away: start it")


async def test_deleted_response_is_gone(sdk: openai.AsyncOpenAI) -> None:
    response = await sdk.responses.create(model="research-deep", input=QUESTION)
    await sdk.responses.delete(response.id)
    for call in (sdk.responses.retrieve, sdk.responses.delete, sdk.responses.cancel, sdk.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            await call(response.id)  # type: ignore[operator]


async def test_background_without_a_store_is_refused_by_name(client: httpx2.AsyncClient) -> None:
    transport: Any = client._transport
    transport.app.state.server.platform.research_jobs._store = None
    for path in ("/v1/responses", "/perplexity/v1/responses"):
        body = {"model": "research-deep", "effort": "low", "input": QUESTION, "background": True}
        error = (await client.post(path, json=body)).json()["error"]
        assert (error["param"], "STORE_TTL_DAYS" in error["message"]) == ("background", True)


async def test_response_of_another_key_does_not_exist(services: FakeServices) -> None:
    """A run that was stored by another API is not found either."""
    async with app_client(services, LLM_PLATFORM_API_KEYS=KEYS) as client:
        alice, bob = sdk_of(client, "a-key-of-alice"), sdk_of(client, "a-key-of-bob")
        response = await alice.responses.create(model="research-deep", input=QUESTION)
        assert (await alice.responses.retrieve(response.id)).id == response.id
        native = await client.post(
            "/research", json={"query": QUESTION, "background": True}, headers={"X-API-Key": "a-key-of-alice"}
        )
        for owner, name in ((bob, response.id), (alice, native.json()["id"]), (alice, "nothing")):
            for call in (owner.responses.retrieve, owner.responses.delete, owner.responses.cancel):
                with pytest.raises(openai.NotFoundError):
                    await call(name)
        assert (await alice.responses.retrieve(response.id)).id == response.id


async def test_input_items_are_listed(sdk: openai.AsyncOpenAI) -> None:
    """The last message comes first, unless `order` says otherwise. Pages continue after an id."""
    turns: Any = [{"role": "user", "content": "Hello you"}, {"role": "assistant", "content": "Hi"}]
    response = await sdk.responses.create(model="research-deep", input=[*turns, {"role": "user", "content": QUESTION}])
    first = await sdk.responses.input_items.list(response.id, limit=2)
    assert [item.role for item in first.data] == ["user", "assistant"]  # type: ignore[union-attr]
    assert first.has_more
    everything = [item async for item in first]
    assert [item.content[0].text for item in everything] == [QUESTION, "Hi", "Hello you"]  # type: ignore[union-attr]
    ascending = await sdk.responses.input_items.list(response.id, order="asc")
    assert [item.id for item in ascending.data] == [item.id for item in everything[::-1]]


async def test_output_is_accepted_as_input(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    """Clients send the output of the last response, searches and all, before the next question."""
    response: Any = await sdk.responses.create(model="research-deep", input=QUESTION)
    turns: Any = [{"role": "user", "content": QUESTION}, *(item.to_dict() for item in response.output)]
    await sdk.responses.create(model="research-deep", input=[*turns, {"role": "user", "content": "And trio?"}])
    [turn] = services.requests[-1].history
    assert (turn.question, turn.answer) == (QUESTION, services.answer)


@for_each("body", [{"background": True, "store": False}, {"metadata": {"k": "x" * 513}}, {"max_tool_calls": 0}])
async def test_what_cannot_be_is_refused_by_name(body: dict[str, Any], sdk: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.responses.create(**{"model": "research-deep", "input": QUESTION, **body})
    assert (caught.value.param or "").split(".")[0] in body


@for_each(
    ("model", "limit", "depth", "ignored"),
    [
        ("research-shallow", 1, "shallow", False),
        ("research-deep", 5, "shallow", False),
        ("research-deep", 6, "deep", False),
        ("research-report", 5, "report", True),
    ],
)
async def test_limit_of_tool_calls_is_kept_or_named(
    model: str, limit: int, depth: str, ignored: bool, client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """A shallow research makes one search, a deep one at most six; one that may make fewer is a shallow one."""
    body = {"model": model, "input": QUESTION, "max_tool_calls": limit}
    response = await client.post("/v1/responses", json=body)
    assert ("max_tool_calls" in response.headers.get("x-ignored-fields", "")) is ignored
    assert response.json()["max_tool_calls"] == limit
    assert services.requests[-1].depth == depth


@for_each("how", [{}, {"background": True}])
@for_each("streamed", [False, True])
async def test_completed_response_says_when(how: dict[str, Any], streamed: bool, client: httpx2.AsyncClient) -> None:
    """The same each time that it is read; before it is completed there is no such time."""
    sdk, began = sdk_of(client), int(time.time())
    sent: Any = await sdk.responses.create(model="research-deep", input=QUESTION, stream=streamed, **how)
    if streamed:
        events = [event async for event in sent]
        assert events[0].response.completed_at is None
        sent = events[-1].response
    response = await ended(sdk, sent.id)
    assert began <= response.created_at <= response.completed_at <= time.time() + 1
    assert (await sdk.responses.retrieve(sent.id)).completed_at == response.completed_at
    if streamed:
        assert sent == response


async def test_invalid_place_in_a_stream_is_refused(client: httpx2.AsyncClient) -> None:
    response = await client.get("/v1/responses/x?stream=true&starting_after=many")
    assert (response.status_code, response.json()["error"]["param"]) == (400, "starting_after")


async def test_vendors_names_of_deep_research_are_reports(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    """`code_interpreter`, which its examples send along, is named as ignored."""
    for model in ("o3-deep-research", "o4-mini-deep-research-2025-06-26"):
        assert (await sdk.models.retrieve(model)).id == model
        tools: Any = [{"type": "web_search_preview"}, {"type": "code_interpreter", "container": {"type": "auto"}}]
        sent = await sdk.responses.with_raw_response.create(model=model, input=QUESTION, tools=tools)
        assert sent.headers["x-ignored-fields"] == "tools"
        assert services.requests[-1].depth == "report"
    with pytest.raises(openai.NotFoundError):
        await sdk.models.retrieve("gpt-5")
