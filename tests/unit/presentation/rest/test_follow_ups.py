"""Follow-up questions over HTTP: whole, streamed, in the background, and in a conversation of another API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.support.clock import Clock
from tests.unit.application.services.test_follow_ups import FIRST, NEXT, NOISE, PUMPS
from tests.unit.application.services.test_research_service import Library, service
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client
from tests.unit.presentation.rest.test_research_routes import EVENTS, events_of

from modules.llm_platform.application.research.follow_up import FOLLOW_UP_TTL_S, FollowUps
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.infrastructure.cache.memory import MemoryCache

STANDALONE = f"heat pumps cold winters: {NEXT}"
MINE, YOURS = {"X-API-Key": "mine-0123456789abcdef"}, {"X-API-Key": "yours-0123456789abcdef"}


@pytest.fixture
def library() -> Library:
    return Library([PUMPS, NOISE])


@pytest.fixture
def services() -> Any:
    return FakeServices()


@pytest.fixture
async def client(library: Library, clock: Clock, services: Any) -> AsyncIterator[httpx2.AsyncClient]:
    it = service(library, jobs=services.jobs)
    it._follow_ups = FollowUps(MemoryCache(10, clock), services.jobs)
    services.research, services.stream_research, services.load_earlier_turns = (
        it.research,
        it.stream,
        it.load_earlier_turns,
    )
    services.plan, services.load_stored_answer = it.plan, it.load_stored_answer
    async with app_client(services, LLM_PLATFORM_API_KEYS=",".join([*MINE.values(), *YOURS.values()])) as client:
        yield client


async def ask(client: httpx2.AsyncClient, query: str, key: dict[str, str] = MINE, **fields: Any) -> httpx2.Response:
    return await client.post("/research", json={"query": query, **fields}, headers=key)


async def test_follow_up_of_an_answer(client: httpx2.AsyncClient, library: Library) -> None:
    """The answer has the asked and the understood question. An earlier source answers it without a search."""
    first = (await ask(client, FIRST)).json()["metadata"]
    answer = (await ask(client, NEXT, previous_id=first["request_id"])).json()
    assert (answer["query"], answer["metadata"]["standalone_query"]) == (NEXT, STANDALONE)
    assert answer["metadata"]["searches"] == 0
    assert "40 decibels" in answer["synthesis"]


async def test_stream_begins_with_the_understood_question(client: httpx2.AsyncClient) -> None:
    """The `planned` event contains the understood question."""
    first = (await ask(client, FIRST)).json()["metadata"]
    body = {"query": NEXT, "previous_id": first["request_id"]}
    events = events_of(await client.post("/research", json=body, headers=MINE | EVENTS))
    assert [kind for _, kind, _ in events[:2]] == ["started", "planned"]
    assert events[1][2]["standalone_query"] == STANDALONE


@pytest.mark.parametrize("how", [{}, {"stream": True}, {"background": True}, {"depth": "deep"}], ids=str)
async def test_unknown_and_expired_ids_and_ids_of_other_callers_are_the_same_problem(
    client: httpx2.AsyncClient, clock: Clock, how: dict[str, Any]
) -> None:
    """All are a 404 with one text, so the response does not reveal whether the id exists."""
    first = (await ask(client, FIRST)).json()["metadata"]["request_id"]
    foreign = await ask(client, NEXT, YOURS, previous_id=first, **how)
    unknown = await ask(client, NEXT, previous_id="0" * 32, **how)
    clock.now += FOLLOW_UP_TTL_S + 1
    expired = await ask(client, NEXT, previous_id=first, **how)
    problems = [answer.json() for answer in (foreign, unknown, expired)]
    assert [answer.status_code for answer in (foreign, unknown, expired)] == [404] * 3
    assert {problem["code"] for problem in problems} == {"previous_research_not_found"}
    assert len({problem["detail"] for problem in problems}) == 1
    assert "history" in problems[0]["detail"]


async def test_plan_of_a_follow_up_is_that_of_the_understood_question(client: httpx2.AsyncClient) -> None:
    """The plan is that of the understood question, also for a conversation that the client keeps.

    A plan for another conversation has no understood question.
    """

    async def plan(**fields: Any) -> Any:
        return (await client.post("/research/plan", json={"query": NEXT, **fields}, headers=MINE)).json()

    first = (await ask(client, FIRST)).json()["metadata"]["request_id"]
    followed = await plan(previous_id=first)
    assert (followed["query"], followed["standalone_query"]) == (NEXT, STANDALONE)
    assert "heat pumps" in followed["questions"][0]
    turns = [{"question": FIRST}]
    assert await plan(history=turns) == followed
    kept = await plan(history=turns, previous_id="0" * 32)
    assert kept["questions"] == followed["questions"]
    assert [entry["component"] for entry in kept["degraded"]] == ["follow_up"]
    alone = await plan()
    assert (alone["standalone_query"], alone["questions"][0]) == (None, NEXT)


async def test_plan_has_the_errors_of_a_research(client: httpx2.AsyncClient, clock: Clock) -> None:
    """An unknown id, the id of another caller or an expired id is a 404 with the same text. A wrong field is a 422."""
    first = (await ask(client, FIRST)).json()["metadata"]["request_id"]

    async def problem(key: dict[str, str] = MINE, **fields: Any) -> tuple[int, str, str]:
        answer = await client.post("/research/plan", json={"query": NEXT, **fields}, headers=key)
        return answer.status_code, answer.json()["code"], answer.json()["detail"]

    problems = [await problem(previous_id="0" * 32), await problem(YOURS, previous_id=first)]
    clock.now += FOLLOW_UP_TTL_S + 1
    problems.append(await problem(previous_id=first))
    researched = (await ask(client, NEXT, previous_id=first)).json()
    assert set(problems) == {(404, "previous_research_not_found", researched["detail"])}
    for wrong in ({"history": [{}] * 11}, {"history": [{"answer": "x"}]}, {"previous_id": ""}):
        assert (await problem(**wrong))[:2] == (422, "invalid_request")


async def test_background_research_is_followed_in_the_background(client: httpx2.AsyncClient, clock: Clock) -> None:
    """Also after the cache has forgotten it: both research runs are stored."""

    async def done(location: str) -> dict[str, Any]:
        while (job := (await client.get(location, headers=MINE)).json())["status"] in {"queued", "running"}:
            await asyncio.sleep(0.01)
        return dict(job)

    first = await ask(client, FIRST, background=True)
    await done(first.headers["location"])
    clock.now += FOLLOW_UP_TTL_S + 1
    following = await ask(client, NEXT, background=True, previous_id=first.json()["id"])
    job = await done(following.headers["location"])
    assert job["status"] == "done", job["problem"]
    assert job["response"]["metadata"]["standalone_query"] == STANDALONE
    assert (await ask(client, NEXT, YOURS, previous_id=job["id"])).status_code == 404


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_id": ""},
        {"previous_id": "x" * 129},
        {"previous_id": "a\nb"},
        {"previous_id": 7},
        {"history": [{"question": ""}]},
        {"history": [{"question": "x" * (MAX_QUERY_CHARS + 1)}]},
        {"history": [{"question": "a"}] * 11},
        {"history": [{"question": "a", "answer": "x" * 20_001}]},
    ],
    ids=lambda fields: str(fields)[:40],
)
async def test_fields_out_of_bounds_are_refused(client: httpx2.AsyncClient, fields: dict[str, Any]) -> None:
    """422 that names the field."""
    answer = await ask(client, NEXT, **fields)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"][1] in fields


async def test_turns_of_a_conversation_are_its_context(client: httpx2.AsyncClient, library: Library) -> None:
    """A Perplexity client sends all messages. The last one is understood in the context of the earlier ones."""
    turns = [("system", "Be short."), ("user", FIRST), ("assistant", PUMPS), ("user", NEXT)]
    messages = [{"role": role, "content": text} for role, text in turns]
    answer = await client.post(
        "/perplexity/chat/completions", json={"model": "sonar", "messages": messages}, headers=MINE
    )
    assert answer.status_code == 200
    assert library.asked[-1].query == STANDALONE


async def test_long_turns_of_a_conversation_are_cut(client: httpx2.AsyncClient, library: Library) -> None:
    """Whatever the length of the conversation and of its messages, the last question is answered."""
    turns = [("user", "heat pumps " * 100), ("assistant", "Yes. " * 10_000)] * 20
    messages = [{"role": role, "content": text} for role, text in [*turns, ("user", NEXT)]]
    answer = await client.post(
        "/perplexity/chat/completions", json={"model": "sonar", "messages": messages}, headers=MINE
    )
    assert answer.status_code == 200
    assert library.asked[-1].query == f"heat pumps: {NEXT}"


async def test_response_of_the_responses_api_is_followed(client: httpx2.AsyncClient, library: Library) -> None:
    """`previous_response_id` is the id of the earlier response; of another caller it does not exist."""
    first = await client.post("/v1/responses", json={"model": "research-shallow", "input": FIRST}, headers=MINE)
    body = {"model": "research-shallow", "input": NEXT, "previous_response_id": first.json()["id"]}
    answer = (await client.post("/v1/responses", json=body, headers=MINE)).json()
    assert "40 decibels" in answer["output"][0]["content"][0]["text"]
    assert len(library.asked) == 1
    for path, depth in (("/v1/responses", {"model": "research-deep"}), ("/perplexity/v1/responses", {"effort": "low"})):
        for how in ({}, {"stream": True}, {"background": True}):
            foreign = await client.post(path, json=body | depth | how, headers=YOURS)
            error = foreign.json()["error"]
            assert (foreign.status_code, error["param"]) == (404, "previous_response_id")
            assert error["message"].endswith("leave it out, or send the conversation as input")


class AiSdk:
    """Sends turns like Vercel's AI SDK, which refers to earlier answers by the ids of their items."""

    def __init__(self, client: httpx2.AsyncClient, model: str = "research-shallow") -> None:
        self._client = client
        self._turns: list[dict[str, Any]] = []
        self.model = model

    async def ask(self, question: str, key: dict[str, str] = MINE, **fields: Any) -> httpx2.Response:
        self._turns.append({"role": "user", "content": [{"type": "input_text", "text": question}]})
        body = {"model": self.model, "input": self._turns, **fields}
        answer = await self._client.post("/v1/responses", json=body, headers=key)
        self._turns += ({"type": "item_reference", "id": item["id"]} for item in answer.json().get("output", ()))
        return answer


@pytest.mark.parametrize("how", [{}, {"store": False}], ids=str)
async def test_reference_to_an_answer_is_its_text(
    client: httpx2.AsyncClient, library: Library, how: dict[str, Any]
) -> None:
    """References to searches are left out; the answer of a message that was too short for a search has no text."""
    chat = AiSdk(client)
    assert (await chat.ask("hi", **how)).status_code == 200
    first = (await chat.ask(FIRST, **how)).json()
    chat._turns.insert(-1, {"type": "item_reference", "id": f"ws_{first['id']}_0"})
    answer = await chat.ask(NEXT, **how)
    assert answer.status_code == 200, answer.text
    assert library.asked[-1].query == STANDALONE


@pytest.mark.parametrize("model", ["research-shallow", "fake/fake-1"])
@pytest.mark.parametrize("item", ["of a language model", "of another API key", "fc_1_0", "msg_nothing"])
async def test_reference_to_what_is_not_stored_is_refused(client: httpx2.AsyncClient, model: str, item: str) -> None:
    """An answer of a language model is never stored, and one of another API key does not exist."""
    chat = AiSdk(client, "fake/fake-1" if item == "of a language model" else "research-shallow")
    await chat.ask(FIRST, YOURS if item == "of another API key" else MINE)
    if not item.startswith("of "):
        chat._turns[-1]["id"] = item
    chat.model, position = model, f"input.{len(chat._turns) - 1}"
    answer = await chat.ask(NEXT)
    error = answer.json()["error"]
    message = (
        f"{position}: this item is not stored: send the item itself (AI SDK: providerOptions.openai.store = false)"
    )
    assert (answer.status_code, error["param"], error["message"]) == (400, position, message)


async def test_language_model_reads_the_answer_that_is_referred_to(client: httpx2.AsyncClient, services: Any) -> None:
    chat = AiSdk(client)
    first = (await chat.ask(FIRST)).json()
    chat.model = "fake/fake-1"
    assert (await chat.ask("Say that in German.")).status_code == 200
    text = first["output"][-1]["content"][0]["text"]
    sent = [(message.role, message.content) for message in services.requests[-1].messages]
    assert sent == [("user", FIRST), ("assistant", text), ("user", "Say that in German.")]
