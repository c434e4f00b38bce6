"""Background runs over HTTP: queued, followed, resumed, cancelled, listed; each seen by its owner only."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import httpx2
from tests.support.sealed_answers import make_seals
from tests.unit.presentation.rest.fake_platform import REF, STORED_SOURCE, STORED_TEXT, FakeServices, app_client
from tests.unit.presentation.rest.test_research_routes import events_of

from modules.llm_platform.domain.dtos.research_job_dtos import JobEvent
from modules.llm_platform.presentation.rest import research_job_routes
from modules.llm_platform.presentation.rest.http.access import ANONYMOUS
from modules.llm_platform.presentation.rest.http.request_scope import CALLER, SERVER
from modules.llm_platform.presentation.rest.http.server_state import ServerState
from modules.llm_platform.presentation.rest.research_job_routes import MAX_STREAMS
from modules.llm_platform.testing.waiting import CLOSE_TIMEOUT_S, becomes_true

QUESTION = {"query": "What is Python asyncio?", "background": True}
KEYS = "alice:a-key-of-alice,bob:a-key-of-bob"
ALICE, BOB = {"X-API-Key": "a-key-of-alice"}, {"X-API-Key": "a-key-of-bob"}


async def submitted(client: httpx2.AsyncClient, **headers: str) -> str:
    answer = await client.post("/research", json=QUESTION, headers=headers)
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert answer.headers["location"] == f"/research/{job['id']}"
    assert job["status"] in ("queued", "running")
    return str(job["id"])


async def ended(client: httpx2.AsyncClient, name: str, **headers: str) -> dict[str, Any]:
    await client.get(f"/research/{name}/events", headers=headers)  # ends with the research
    return dict((await client.get(f"/research/{name}", headers=headers)).json())


async def test_a_research_in_the_background(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """202 and Location at once; then its state, at last the whole answer; its sources can be requested."""
    services.gate.clear()
    name = await submitted(client)
    waiting = (await client.get(f"/research/{name}")).json()
    assert (waiting["response"], waiting["problem"], waiting["finished_at"]) == (None, None, None)
    services.gate.set()
    job = await ended(client, name)
    assert (job["status"], job["depth"], job["attempts"]) == ("done", "shallow", 1)
    assert job["response"]["sources"] == [REF.model_dump()]
    assert job["response"]["metadata"]["request_id"] == name
    assert job["request"] == {**job["request"], "query": QUESTION["query"], "sources": ["web"]}
    assert await services.jobs.sources("", name) is not None
    assert (await client.get("/research/held/sources/1")).json() == STORED_SOURCE.model_dump()


async def test_an_answer_is_sealed_for_its_owner(services: FakeServices) -> None:
    """One file with the answer and the stored texts, always the same; another key does not find it, and it takes an answer."""
    async with app_client(services, LLM_PLATFORM_API_KEYS=KEYS) as client:
        services.gate.clear()
        name = await submitted(client, **ALICE)
        early = await client.get(f"/research/{name}/sealed", headers=ALICE)
        assert (early.status_code, early.json()["code"]) == (409, "seal")
        services.gate.set()
        job = await ended(client, name, **ALICE)
        answer = await client.get(f"/research/{name}/sealed", headers=ALICE)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
        assert answer.headers["content-disposition"] == 'attachment; filename="answer.sealed.zip"'
        assert (await client.get(f"/research/{name}/sealed", headers=ALICE)).content == answer.content
        opened = make_seals().open(answer.content)
        assert opened.answer.response.synthesis == job["response"]["synthesis"]
        assert opened.sources == (STORED_TEXT,)
        others = await client.get(f"/research/{name}/sealed", headers=BOB)
        assert (others.status_code, others.json()["code"]) == (404, "research_not_found")


async def test_event_streams_of_one_caller_are_bounded(services: FakeServices) -> None:
    """Each may ask the store every second. Those of another caller, and closed ones, do not count."""
    services.gate.clear()
    async with app_client(services, LLM_PLATFORM_API_KEYS=KEYS) as client:
        alice, bob = await submitted(client, **ALICE), await submitted(client, **BOB)
        following = [
            asyncio.create_task(client.get(f"/research/{alice}/events", headers=ALICE)) for _ in range(MAX_STREAMS)
        ]
        transport: Any = client._transport
        streams = transport.app.state.server.streams
        assert await becomes_true(lambda: streams.total() == MAX_STREAMS, CLOSE_TIMEOUT_S)
        refused = await client.get(f"/research/{alice}/events", headers=ALICE)
        assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
        assert "retry-after" in refused.headers
        others = asyncio.create_task(client.get(f"/research/{bob}/events", headers=BOB))
        services.gate.set()
        answers = await asyncio.gather(*following, others)
        assert {answer.status_code for answer in answers} == {200}
        assert not streams
        assert (await client.get(f"/research/{alice}/events", headers=ALICE)).status_code == 200


async def test_events_resume_after_the_last_one(client: httpx2.AsyncClient) -> None:
    """Events have stored numbers. Last-Event-ID resumes exactly after an event, and after the end the response is 204."""
    name = await submitted(client)
    events = events_of(await client.get(f"/research/{name}/events"))
    assert [kind for _, kind, _ in events] == ["started", "sources", "token", "done"]
    assert [number for number, _, _ in events] == ["1", "2", "3", "4"]
    assert {data["request_id"] for _, _, data in events} == {name}
    for last, left in (("2", events[2:]), ("0", events), ("nonsense", events), ("9" * 30, events)):
        again = await client.get(f"/research/{name}/events", headers={"Last-Event-ID": last})
        assert events_of(again) == left
    over = await client.get(f"/research/{name}/events", headers={"Last-Event-ID": "4"})
    assert (over.status_code, over.content) == (204, b"")


async def test_events_are_followed_while_they_happen(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """A client that follows a running research gets the rest when it happens."""
    services.gate.clear()
    name = await submitted(client)
    following = asyncio.create_task(client.get(f"/research/{name}/events"))
    while not services.requests:
        await asyncio.sleep(0.01)
    assert not following.done()
    services.gate.set()
    assert [kind for _, kind, _ in events_of(await following)][-1] == "done"


async def test_cancelled(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """DELETE stops the research; again it says the same. The events end with `failed`. What is done stays done."""
    services.gate.clear()
    name = await submitted(client)
    while not services.requests:
        await asyncio.sleep(0.01)
    for _ in range(2):
        answer = await client.delete(f"/research/{name}")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
        assert answer.json()["problem"]["code"] == "research_cancelled"
    while not services.cancelled:
        await asyncio.sleep(0.01)
    *_, (_, kind, data) = events_of(await client.get(f"/research/{name}/events"))
    assert (kind, data["problem"]["code"]) == ("failed", "research_cancelled")
    services.gate.set()
    done = await submitted(client)
    await ended(client, done)
    assert (await client.delete(f"/research/{done}")).json()["status"] == "done"


async def test_a_run_can_be_finished_early(services: FakeServices) -> None:
    """A run of the caller is finished early.

    A run of another key or an unknown run is a 404, and an ended run is a 409.
    """
    services.gate.clear()
    async with app_client(services, LLM_PLATFORM_API_KEYS=KEYS) as client:
        name = await submitted(client, **ALICE)
        assert await becomes_true(lambda: name in services.early_finishes, CLOSE_TIMEOUT_S)
        path = f"/research/{name}/finish"
        for refused in (
            await client.post(path, headers=BOB),
            await client.post("/research/unknown/finish", headers=ALICE),
        ):
            assert (refused.status_code, refused.json()["code"]) == (404, "research_not_found")
        assert not services.early_finishes[name].is_asked
        for _ in range(2):
            answer = await client.post(path, headers=ALICE)
            assert (answer.status_code, answer.json()["status"]) == (200, "running")
        assert services.early_finishes[name].is_asked
        services.gate.set()
        await ended(client, name, **ALICE)
        over = await client.post(path, headers=ALICE)
        assert (over.status_code, over.json()["code"]) == (409, "research_ended")
        assert (await client.get(path, headers=ALICE)).status_code == 405


async def test_a_failed_research(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """The problem is the one that the research would have had as an answer; a defect is an internal error."""
    services.error = ValueError("a defect")
    job = await ended(client, await submitted(client))
    assert (job["status"], job["response"], job["problem"]["code"]) == ("failed", None, "internal")
    assert "defect" not in str(job)


async def test_each_owner_sees_their_own(services: FakeServices) -> None:
    """Another key gets the same 404 as for an unknown id, on every route, and an empty list."""
    async with app_client(services, LLM_PLATFORM_API_KEYS=KEYS) as client:
        name = await submitted(client, **ALICE)
        assert (await ended(client, name, **ALICE))["status"] == "done"
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/events")):
            answer = await client.request(method, f"/research/{name}{path}", headers=BOB)
            unknown = await client.request(method, f"/research/{'0' * 32}{path}", headers=BOB)
            assert (answer.status_code, answer.json()["code"]) == (404, "research_not_found")
            assert answer.json()["detail"] == unknown.json()["detail"]
            assert (await client.request(method, f"/research/{name}{path}")).status_code == 401
        assert (await client.get("/research", headers=BOB)).json() == {"researches": [], "next": None}
        listed = (await client.get("/research", headers=ALICE)).json()["researches"]
        assert [job["id"] for job in listed] == [name]
    assert services.owners == ["label:alice"]


async def test_pages(client: httpx2.AsyncClient) -> None:
    """The newest run comes first, without its answer. `next` gives the next page, and `limit` is validated."""
    names = [await submitted(client) for _ in range(3)]
    first = (await client.get("/research?limit=2")).json()
    assert [job["id"] for job in first["researches"]] == [names[2], names[1]]
    assert "response" not in first["researches"][0]
    last = (await client.get("/research", params={"limit": 2, "before": first["next"]})).json()
    assert ([job["id"] for job in last["researches"]], last["next"]) == ([names[0]], None)
    for wrong in ("0", "101", "x"):
        assert (await client.get(f"/research?limit={wrong}")).status_code == 422
    of_id = (await client.get("/research", params={"before": names[1]})).json()
    assert [job["id"] for job in of_id["researches"]] == [names[0]]
    for unknown in ("%00%ff", "0" * 32):
        refused = await client.get(f"/research?before={unknown}")
        assert (refused.status_code, refused.json()["code"]) == (404, "research_not_found")


async def test_what_does_not_go_together(client: httpx2.AsyncClient) -> None:
    """A webhook needs `background` and a secret; `stream` and `background` exclude each other."""
    hook = "https://hooks.example.org/done"
    for body, field in (
        ({**QUESTION, "stream": True}, "background"),
        ({"query": "What is it?", "webhook": hook}, "webhook"),
        ({**QUESTION, "webhook": "ftp://example.org"}, "webhook"),
        ({**QUESTION, "background": "yes"}, "background"),
    ):
        answer = await client.post("/research", json=body)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["loc"] == ["body", field]
    answer = await client.post("/research", json={**QUESTION, "webhook": hook})
    assert (answer.status_code, answer.json()["code"]) == (422, "webhook")
    assert "WEBHOOK_SECRET" in answer.json()["detail"]


async def test_impossible_ids(client: httpx2.AsyncClient) -> None:
    """Any id that does not exist is a 404, whatever the path contains."""
    for name in ("%00", "%ff", "a b", "x" * 500, "%F0%9F%98%80"):
        assert (await client.get(f"/research/{name}")).status_code == 404


async def test_client_that_leaves_with_the_last_event_is_no_error() -> None:
    """When the events end while the client hangs up, nothing is left for asyncio to report."""
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    request: Any = SimpleNamespace(scope={SERVER: ServerState(), CALLER: ANONYMOUS})

    async def events() -> AsyncGenerator[JobEvent, None]:
        yield JobEvent(1, "done", "{}")
        next(iter(reading)).cancel()  # at the same time as the end

    async def read() -> None:
        async for _ in research_job_routes._stream_until_draining(request, events()):
            pass

    reading = {asyncio.create_task(read())}
    await asyncio.wait(reading)
    reading.clear()  # a task holds the frames of what it ran
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []
