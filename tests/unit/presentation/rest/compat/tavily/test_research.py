"""Tavily's research: in the background, as a stream, and in the styles of citation."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import HIT, REF, SEARCHED, FakeServices, app_client

from modules.llm_platform.domain.exceptions import WebSearchConnectionError
from modules.llm_platform.testing.waiting import CLOSE_TIMEOUT_S, becomes_true

RESEARCH = "/tavily/research"
QUESTION = "What is Python asyncio?"
KEYS = "alice:a-key-of-alice,bob:a-key-of-bob"
ALICE, BOB = {"Authorization": "Bearer a-key-of-alice"}, {"Authorization": "Bearer a-key-of-bob"}
LIST = "An event loop runs tasks. [1]\n\n## Sources\n\n- [1] asyncio. <https://docs.example.org/asyncio>\n"


async def ended(client: httpx2.AsyncClient, task: dict[str, Any], **headers: str) -> dict[str, Any]:
    """Poll as the client does, until the status is no longer 202."""
    last: list[httpx2.Response] = []

    async def is_final() -> bool:
        last[:] = [await client.get(f"{RESEARCH}/{task['request_id']}", headers=headers)]
        return last[0].status_code != 202

    async with asyncio.timeout(30):
        while not await is_final():
            await asyncio.sleep(0.01)
    assert last[0].status_code == 200, last[0].text
    return dict(last[0].json())


def deltas(text: str) -> list[dict[str, Any]]:
    """Return the deltas of a stream, in order; it ends with the event `done`."""
    assert text.endswith("event: done\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    return [chunk["choices"][0]["delta"] for chunk in chunks]


async def test_research_is_queued_and_fetched(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """200 and `pending` at once, as the SDK reads it; then 202 until it has ended."""
    services.gate.clear()
    created = await client.post(RESEARCH, json={"input": QUESTION, "model": "mini", "output_length": "short"})
    assert created.status_code == 200
    assert created.headers["x-ignored-fields"] == "output_length"
    task = created.json()
    assert (task["status"], task["input"], task["model"]) == ("pending", QUESTION, "mini")
    assert task["created_at"]
    running = await client.get(f"{RESEARCH}/{task['request_id']}")
    assert running.status_code == 202
    assert running.json()["status"] in ("pending", "in_progress")
    services.gate.set()
    state = await ended(client, task)
    assert (state["request_id"], state["status"], state["content"]) == (task["request_id"], "completed", LIST)
    assert state["sources"] == [{"title": REF.title, "url": REF.url, "index": 1}]
    assert state["response_time"] >= 0
    used = await client.get(f"{RESEARCH}/{task['request_id']}", params={"include_usage": "true"})
    assert set(used.json()["usage"]) == {"searches", "llm_calls", "prompt_tokens", "completion_tokens", "cost_usd"}


@for_each(
    ("sent", "depth", "domains"),
    [
        ({}, "deep", ()),
        ({"model": "mini"}, "deep", ()),
        ({"model": "auto"}, "deep", ()),
        ({"model": "pro"}, "report", ()),
        ({"include_domains": ["python.org"], "exclude_domains": ["x.org"]}, "deep", ("python.org", "-x.org")),
    ],
)
async def test_model_is_the_depth(sent: dict[str, Any], depth: str, domains: tuple[str, ...]) -> None:
    services = FakeServices()
    async with app_client(services) as client:
        await ended(client, (await client.post(RESEARCH, json={"input": QUESTION, **sent})).json())
    [request] = services.requests
    assert (request.depth, request.domains) == (depth, domains)


@for_each(
    ("style", "begin", "heading"),
    [
        ("apa", "An event loop runs tasks. (“asyncio,” n.d.)", "## References"),
        ("mla", "An event loop runs tasks. (“asyncio”)", "## Works Cited"),
        ("chicago", "An event loop runs tasks. (“asyncio” n.d.)", "## Bibliography"),
    ],
)
async def test_style_of_citations_is_kept_in_the_id(style: str, begin: str, heading: str) -> None:
    """Nothing but the id is needed to fetch the text in its style, from another process too."""
    async with app_client() as client:
        task = (await client.post(RESEARCH, json={"input": QUESTION, "citation_format": style})).json()
        content = (await ended(client, task))["content"]
        assert content.startswith(begin)
        assert heading in content
        streamed = await client.post(RESEARCH, json={"input": QUESTION, "citation_format": style, "stream": True})
    assert [delta["content"] for delta in deltas(streamed.text) if "content" in delta] == [content]


async def test_research_belongs_to_the_key(services: FakeServices) -> None:
    """Another key's research, an unknown one and none at all are the same 404, in Tavily's shape."""
    async with app_client(services, LLM_PLATFORM_API_KEYS=KEYS) as client:
        task = (await client.post(RESEARCH, json={"input": QUESTION}, headers=ALICE)).json()
        await ended(client, task, **ALICE)
        for name in (task["request_id"], "unknown", "unknown-apa", "x" * 300, "%00"):
            refused = await client.get(f"{RESEARCH}/{name}", headers=BOB)
            assert refused.status_code == 404
            assert "detail" in refused.json()
        assert (await client.get(f"{RESEARCH}/{task['request_id']}")).status_code == 401


async def test_failed_research_says_why(client: httpx2.AsyncClient, services: FakeServices) -> None:
    services.error = WebSearchConnectionError("The search provider is down.")
    state = await ended(client, (await client.post(RESEARCH, json={"input": QUESTION})).json())
    assert (state["status"], state["error"]) == ("failed", "The search provider is down.")


async def test_stream_has_steps_text_and_sources(client: httpx2.AsyncClient) -> None:
    answer = await client.post(RESEARCH, json={"input": QUESTION, "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = deltas(answer.text)
    assert [delta["tool_calls"]["type"] for delta in found if "tool_calls" in delta] == ["tool_call", "tool_response"]
    assert "".join(delta["content"] for delta in found if "content" in delta) == LIST
    assert found[-1]["sources"] == [{"title": REF.title, "url": REF.url, "index": 1}]


async def test_each_step_of_a_stream_has_its_response(services: FakeServices) -> None:
    """Each search has its own response, also if a deep run makes the same search twice."""
    services.searches = (SEARCHED, SEARCHED.model_copy(update={"query": "asyncio tasks"}), SEARCHED)
    async with app_client(services) as client:
        answer = await client.post(RESEARCH, json={"input": QUESTION, "stream": True})
    steps = [delta["tool_calls"] for delta in deltas(answer.text) if "tool_calls" in delta]
    calls = [call for step in steps for call in step.get("tool_call", ())]
    responses = [response for step in steps for response in step.get("tool_response", ())]
    assert [call.get("queries") for call in calls] == [[search.query] for search in services.searches] + [None]
    assert (
        [call["id"] for call in calls]
        == [response["id"] for response in responses]
        == [f"call_{n}" for n in range(1, 5)]
    )
    assert [call["name"] for call in calls] == [response["name"] for response in responses]
    found = [{"title": HIT.title, "url": HIT.url, "favicon": None}]
    assert [response.get("sources") for response in responses] == [found, found, found, None]


async def test_runs_of_clients_are_not_on_the_page(client: httpx2.AsyncClient) -> None:
    """Runs of API clients are not listed on the page, which could delete them. They are found by their address."""
    task = (await client.post(RESEARCH, json={"input": QUESTION})).json()
    await ended(client, task)
    assert (await client.get("/research/threads")).json()["threads"] == []
    name = task["request_id"].removesuffix("-numbered")
    assert (await client.get(f"/research/threads/{name}")).json()["id"] == name


async def test_stream_that_fails_ends_with_an_error(client: httpx2.AsyncClient, services: FakeServices) -> None:
    services.error_after_first_event = WebSearchConnectionError("The search provider is down.")
    text = (await client.post(RESEARCH, json={"input": QUESTION, "stream": True})).text
    last = json.loads(text.removesuffix("event: done\n\n").strip().rpartition("data: ")[2])
    assert (last["object"], last["error"]) == ("error", "The search provider is down.")


async def test_long_input_becomes_context(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """What exceeds a question is not refused."""
    task = await client.post(RESEARCH, json={"input": f"{QUESTION}\n\n{'Background. ' * 400}"})
    await ended(client, task.json())
    [request] = services.requests
    assert request.query == QUESTION
    assert len(request.context) > 1000


@for_each(
    ("sent", "name"),
    [
        ({"input": ""}, "input"),
        ({"input": "hi"}, "input: is too short"),
        ({}, "input"),
        ({"input": QUESTION, "model": "max"}, "model"),
        ({"input": QUESTION, "citation_format": "ieee"}, "citation_format"),
        ({"input": "x" * 40_000}, "input"),
        ({"input": QUESTION, "files": [{"name": "a.md", "data": "eA=="}]}, "files"),
        ({"input": QUESTION, "stream": 1}, "stream"),
        ({"input": QUESTION, "output_schema": {"type": "array"}}, "output_schema"),
        ({"input": QUESTION, "include_domains": ["no domain"]}, "include_domains"),
    ],
)
async def test_invalid_field_is_a_400_with_its_name(sent: dict[str, Any], name: str) -> None:
    async with app_client() as client:
        refused = await client.post(RESEARCH, json=sent)
    assert refused.status_code == 400, refused.text
    assert refused.json()["detail"]["error"].startswith(name)


async def test_null_is_a_field_left_out(client: httpx2.AsyncClient) -> None:
    """Clients in other languages send all their fields."""
    fields = ("model", "output_schema", "stream", "citation_format", "include_domains", "exclude_domains")
    answer = await client.post(RESEARCH, json={"input": QUESTION, **dict.fromkeys(fields)})
    assert answer.status_code == 200
    assert "x-ignored-fields" not in answer.headers


async def test_output_is_the_content(services: FakeServices) -> None:
    """With output_schema the content is the object that the model has filled, in a stream as one chunk."""
    services.output = {"definition": "An event loop runs tasks. [1]"}
    body = {"input": QUESTION, "output_schema": {"properties": {"definition": {"type": "string"}}}}
    async with app_client(services) as client:
        state = await ended(client, (await client.post(RESEARCH, json=body)).json())
        streamed = await client.post(RESEARCH, json={**body, "stream": True})
    assert state["content"] == services.output
    assert [delta["content"] for delta in deltas(streamed.text) if "content" in delta] == [services.output]
    assert services.requests[0].output_schema == body["output_schema"]


async def test_usage_counts_the_calls_of_the_key() -> None:
    """Of this key alone: what others do is not told. A refused request is not counted."""
    async with app_client(LLM_PLATFORM_API_KEYS=KEYS) as client:
        for _ in range(2):
            await client.post("/tavily/search", json={"query": QUESTION}, headers=ALICE)
        await client.post("/tavily/search", json={"query": QUESTION, "max_results": 99}, headers=ALICE)
        await client.post("/tavily/map", json={"url": "example.org"}, headers=ALICE)
        alice = (await client.get("/tavily/usage", headers=ALICE)).json()
        bob = (await client.get("/tavily/usage", headers=BOB)).json()
    counts = {"search_usage": 2, "extract_usage": 0, "crawl_usage": 0, "map_usage": 1, "research_usage": 0}
    assert alice["key"] == {"usage": 3, "limit": None, **counts}
    assert alice["account"]["plan_usage"] == 3
    assert bob["key"]["usage"] == 0


async def test_cancelled_stream_ends_the_research(services: FakeServices) -> None:
    """A client that leaves does not leave its research running."""
    services.gate.clear()
    async with app_client(services) as client:
        task = asyncio.create_task(client.post(RESEARCH, json={"input": QUESTION, "stream": True}))
        assert await becomes_true(lambda: bool(services.requests), CLOSE_TIMEOUT_S)
        task.cancel()
        await asyncio.wait([task])
        assert await becomes_true(lambda: services.cancelled == 1, CLOSE_TIMEOUT_S)
