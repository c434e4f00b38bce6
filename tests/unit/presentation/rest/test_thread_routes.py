"""Threads over HTTP: stored questions with their follow-ups, listed, found, renamed and deleted by their owner only."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client
from tests.unit.presentation.rest.test_research_job_routes import ALICE, BOB, KEYS, ended, submitted
from tests.unit.presentation.rest.test_research_routes import events_of

from modules.llm_platform.application.services.research_job_service import NOT_STORED
from modules.llm_platform.domain.dtos.research_job_dtos import MAX_TITLE_CHARS
from modules.llm_platform.domain.exceptions import StoreError

QUESTION = {"query": "What is Python asyncio?"}


async def followed(client: httpx2.AsyncClient, name: str, query: str) -> str:
    asked = {"query": query, "background": True, "previous_id": name}
    job = (await client.post("/research", json=asked)).json()
    await ended(client, job["id"])
    return str(job["id"])


async def thread(client: httpx2.AsyncClient, name: str) -> dict[str, Any]:
    return dict((await client.get(f"/research/threads/{name}")).json())


async def test_a_thread_is_the_chain_of_its_runs(client: httpx2.AsyncClient) -> None:
    """Any of its runs names it; the list has it once; it is found, renamed, and deleted with all its runs."""
    first = await submitted(client)
    await ended(client, first)
    second = await followed(client, first, "And what is trio?")
    found = await thread(client, second)
    assert [(job["id"], job["previous_id"], job["thread_id"]) for job in found["researches"]] == [
        (first, None, first),
        (second, first, first),
    ]
    assert (found["title"], found["status"], found["runs"], found["running"]) == (QUESTION["query"], "done", 2, 0)
    renamed = await client.patch(f"/research/threads/{second}", json={"title": " Event loops "})
    assert (renamed.status_code, renamed.json()["title"]) == (200, "Event loops")
    for text, count in (("TRIO", 1), ("loops", 1), ("asyncio", 1), ("owls", 0)):
        listed = (await client.get("/research/threads", params={"q": text})).json()
        assert len(listed["threads"]) == count, text
    assert (await client.delete(f"/research/threads/{second}")).status_code == 200
    for name in (first, second):
        assert (await client.get(f"/research/{name}")).status_code == 404
    assert (await client.get("/research/threads")).json() == {"threads": [], "next": None}


async def test_a_question_asked_again_joins_its_thread(client: httpx2.AsyncClient) -> None:
    """`thread_id` puts a queued run, and a stored foreground one, into a thread; neither follows an earlier answer."""
    first = await submitted(client)
    await ended(client, first)
    for wish in ({"background": True}, {"store": True}):
        answer = await client.post("/research", json={**QUESTION, "depth": "deep", "thread_id": first, **wish})
        assert answer.status_code in (200, 202)
    found = await thread(client, first)
    assert [job["previous_id"] for job in found["researches"]] == [None] * 3
    refused = await client.post("/research", json={"query": "What is asyncio?", "thread_id": first})
    assert (refused.status_code, refused.json()["errors"][0]["loc"]) == (422, ["body", "thread_id"])


async def test_threads_come_in_pages(client: httpx2.AsyncClient) -> None:
    """`next` leads to the ones before, and none is shown twice."""
    names = [await submitted(client) for _ in range(5)]
    seen: list[str] = []
    before: str | None = None
    while True:
        page = (
            await client.get("/research/threads", params={"limit": 2, **({"before": before} if before else {})})
        ).json()
        seen += [thread["id"] for thread in page["threads"]]
        before = page["next"]
        if before is None:
            break
    assert seen == names[::-1]
    of_id = (await client.get("/research/threads", params={"before": names[1]})).json()
    assert [thread["id"] for thread in of_id["threads"]] == [names[0]]
    unknown = await client.get(f"/research/threads?before={'0' * 32}")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "research_not_found")


async def test_a_thread_belongs_to_its_owner(services: FakeServices) -> None:
    """Another key can neither list, read, rename nor delete the thread."""
    async with app_client(services, LLM_PLATFORM_API_KEYS=KEYS) as client:
        name = await submitted(client, **ALICE)
        path = f"/research/threads/{name}"
        assert (await client.get("/research/threads", headers=BOB)).json()["threads"] == []
        for method, body in (("GET", None), ("PATCH", {"title": "Mine"}), ("DELETE", None)):
            answer = await client.request(method, path, json=body, headers=BOB)
            assert (answer.status_code, answer.json()["code"]) == (404, "research_not_found"), method
        assert (await client.get(path, headers=ALICE)).status_code == 200


async def test_deleting_a_thread_stops_its_runs(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """A running run is cancelled, and writes nothing more."""
    services.gate.clear()
    name = await submitted(client)
    while not services.requests:
        await asyncio.sleep(0.01)
    assert (await client.delete(f"/research/threads/{name}")).status_code == 200
    while not services.cancelled:
        await asyncio.sleep(0.01)
    assert (await client.get(f"/research/{name}")).status_code == 404


@pytest.mark.parametrize("body", [{}, {"title": " "}, {"title": "x" * (MAX_TITLE_CHARS + 1)}])
async def test_a_wrong_title_is_refused(client: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    """A title is not empty, and not longer than a question."""
    name = await submitted(client)
    assert (await client.patch(f"/research/threads/{name}", json=body)).status_code == 422
    assert (await thread(client, name))["title"] == QUESTION["query"]


@pytest.mark.parametrize("streams", [False, True])
async def test_a_foreground_answer_is_stored_if_asked(client: httpx2.AsyncClient, streams: bool) -> None:
    """With `store` it has an address when its last byte arrives, and begins a thread; without it nothing is stored."""
    for store in (False, True):
        answer = await client.post("/research", json={**QUESTION, "store": store, "stream": streams})
        response = events_of(answer)[-1][2]["response"] if streams else answer.json()
        name = response["metadata"]["request_id"]
        stored = await client.get(f"/research/{name}")
        assert stored.status_code == (200 if store else 404)
        if store:
            assert stored.json()["response"] == response
            assert (await thread(client, name))["id"] == name


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("fails", [False, True])
async def test_an_answer_that_could_not_be_stored_says_so(
    client: httpx2.AsyncClient, services: FakeServices, streams: bool, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was paid for and is sent; `degraded` names the store, in words without the cause, which is in the log."""

    async def full(*_: Any, **__: Any) -> None:
        raise StoreError("the disk of /secret/place is full")

    if fails:
        monkeypatch.setattr(services.jobs, "record", full)
    answer = await client.post("/research", json={**QUESTION, "store": True, "stream": streams})
    response = events_of(answer)[-1][2]["response"] if streams else answer.json()
    assert answer.status_code == 200
    assert response["synthesis"]
    entries = [entry["reason"] for entry in response["degraded"] if entry["component"] == "store"]
    assert entries == ([NOT_STORED.reason] if fails else [])
    assert "could not be stored" in NOT_STORED.reason
    stored = await client.get(f"/research/{response['metadata']['request_id']}")
    assert stored.status_code == (404 if fails else 200)


async def test_nul_characters_are_removed_from_titles_and_searches(client: httpx2.AsyncClient) -> None:
    """PostgreSQL accepts no NUL. A title of NUL characters only counts as empty."""
    name = await submitted(client)
    renamed = await client.patch(f"/research/threads/{name}", json={"title": "Event\x00 loops"})
    assert (renamed.status_code, renamed.json()["title"]) == (200, "Event loops")
    listed = await client.get("/research/threads", params={"q": "lo\x00ops\x00"})
    assert [thread["id"] for thread in listed.json()["threads"]] == [name]
    refused = await client.patch(f"/research/threads/{name}", json={"title": " \x00"})
    assert (refused.status_code, refused.json()["errors"][0]["loc"]) == (422, ["body", "title"])
