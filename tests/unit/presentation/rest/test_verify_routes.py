"""Verification over HTTP: whole and streamed, with the errors and limits of research."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices

from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.domain.dtos.verification_dtos import VerifiedAgain

URL = "https://a.example/tower"
TOWER = "The Eiffel Tower is 330 metres tall. It was completed in 1889."
TEXT = f"The Eiffel Tower is 330 metres tall [1]. It was completed in 1899 [1].\n\n[1] {URL}\n"


async def test_the_answer_has_sentences_sources_and_counts(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """Each sentence has its position, verdict and citations, and each source has its state."""
    services.verified_pages[URL] = TOWER
    answer = await client.post("/verify", json={"text": TEXT})
    assert answer.status_code == 200
    found = answer.json()
    assert [(TEXT[one["start"] : one["end"]], one["verdict"]) for one in found["sentences"]] == [
        ("The Eiffel Tower is 330 metres tall", "supported"),
        ("It was completed in 1899", "unsupported"),
    ]
    assert found["sentences"][1]["difference"] == {
        "claimed": {"start": 61, "end": 65},
        "found": {"start": 57, "end": 61},
        "kind": "date",
    }
    assert [(source["index"], source["url"], source["state"]) for source in found["sources"]] == [(1, URL, "read")]
    assert found["counts"]["unsupported"] == 1
    assert found["metadata"]["request_id"] == answer.headers["x-request-id"]


async def test_sentences_are_streamed(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """Events are numbered, and the last event has the complete answer."""
    services.verified_pages[URL] = TOWER
    answer = await client.post("/verify", json={"text": TEXT}, headers={"Accept": "text/event-stream"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [dict(line.split(": ", 1) for line in frame.split("\n")) for frame in answer.text.strip().split("\n\n")]
    assert [event["event"] for event in events] == ["started", "sources", "read", "sentence", "sentence", "done"]
    assert [event["id"] for event in events] == [str(number) for number in range(1, 7)]
    assert json.loads(events[-1]["data"])["response"]["counts"]["sentences"] == 2


@for_each(
    "body, field",
    [
        ({}, "text"),
        ({"text": ""}, "text"),
        ({"text": "…"}, "text"),
        ({"text": "a" * 100_001}, "text"),
        ({"text": "a\x00"}, "text"),
        ({"text": "It is so.", "sources": [{"index": 0, "text": "x"}]}, "sources"),
        ({"text": "It is so.", "sources": [{"index": 1}]}, "sources"),
        ({"text": "It is so.", "sources": [{"index": 1, "url": "file:///etc/passwd"}]}, "sources"),
        ({"text": "It is so.", "sources": [{"index": 1, "text": "x"}, {"index": 1, "text": "y"}]}, "sources"),
        ({"text": "It is so.", "find_sources": "yes"}, "find_sources"),
    ],
)
async def test_wrong_requests_are_refused(client: httpx2.AsyncClient, body: dict[str, object], field: str) -> None:
    """A wrong field is named, without its value."""
    answer = await client.post("/verify", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"][:2] == ["body", field]


async def test_a_text_with_thousands_of_links_is_refused(client: httpx2.AsyncClient) -> None:
    """More sources than are read: 422, streamed or not, before any page is read."""
    text = " ".join(f"[a](https://a{number}.example)" for number in range(3000))
    for headers in ({}, {"Accept": "text/event-stream"}):
        answer = await client.post("/verify", json={"text": text}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (422, "verification")


async def test_a_stored_answer_is_verified_again(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """It is compared with its pages, and each verdict that is another one now is named; an unknown id is 404."""
    stored = (await client.post("/research", json={"query": "What runs tasks?", "store": True})).json()
    services.verified_pages[stored["sources"][0]["url"]] = "The page is about bees and their honey now."
    again = await client.post(f"/research/{stored['metadata']['request_id']}/verify")
    assert again.status_code == 200
    assert again.json()["query"] == "What runs tasks?"
    assert again.json()["research_id"] == stored["metadata"]["request_id"]
    assert [change["was"]["source_index"] for change in again.json()["changed"]] == [1]
    assert (await client.post("/research/unknown/verify")).status_code == 404


async def test_changes_of_a_stored_answer_are_reported(
    client: httpx2.AsyncClient, services: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The webhook is notified if a verdict is another one now, and not otherwise; an address that gets none is refused."""
    stored = (await client.post("/research", json={"query": "What runs tasks?", "store": True})).json()
    services.verified_pages[stored["sources"][0]["url"]] = "The page is about bees and their honey now."
    path, hook = f"/research/{stored['metadata']['request_id']}/verify", "https://hooks.example.org/changed"
    refused = await client.post(path, json={"webhook": hook})
    assert (refused.status_code, refused.json()["code"]) == (422, "webhook")
    reported: list[tuple[str, int]] = []

    async def check(self: ResearchJobService, url: str) -> None:
        assert url == hook

    async def report(self: ResearchJobService, verified: VerifiedAgain, webhook: str, *, owner: str = "") -> None:
        reported.append((webhook, len(verified.changed)))

    monkeypatch.setattr(ResearchJobService, "check_webhook", check)
    monkeypatch.setattr(ResearchJobService, "report_changes", report)
    assert (await client.post(path, json={"webhook": hook})).json()["no_longer_hold"] == 1
    assert (await client.post(path)).status_code == (await client.post(path, json={})).status_code == 200
    assert reported == [(hook, 1)]
    services.verified_pages[stored["sources"][0]["url"]] = stored["citations"][0]["quote"]
    assert (await client.post(path, json={"webhook": hook})).json()["changed"] == []
    assert reported == [(hook, 1)]
    assert (await client.post(path, json={"webhook": "ftp://a.example"})).status_code == 422


async def test_a_verification_in_the_background_is_polled(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """202 with its address; when it is done, it has the result of a whole answer, and its texts can be requested."""
    services.verified_pages[URL] = TOWER
    queued = await client.post("/verify", json={"text": TEXT, "background": True})
    assert (queued.status_code, queued.json()["response"]) == (202, None)
    job = queued.json()["id"]
    assert queued.headers["location"] == f"/verify/{job}"
    async with asyncio.timeout(30):
        while (found := (await client.get(f"/verify/{job}")).json())["status"] in ("queued", "running"):
            await asyncio.sleep(0.02)
    whole = (await client.post("/verify", json={"text": TEXT})).json()
    assert (found["status"], found["read"]) == ("done", 1)
    assert found["response"]["sentences"] == whole["sentences"]
    assert found["response"]["sources"] == whole["sources"]
    events = await client.get(f"/research/{job}/events")
    assert [line for line in events.text.splitlines() if line.startswith("event")] == [
        "event: started",
        "event: read",
        "event: done",
    ]
    assert (await client.get("/verify/unknown")).status_code == 404
    assert (await client.get("/research/threads")).json()["threads"] == []


async def test_an_ordinary_run_is_no_verification(client: httpx2.AsyncClient) -> None:
    """A stored answer has no place at /verify."""
    stored = (await client.post("/research", json={"query": "What runs tasks?", "store": True})).json()
    assert (await client.get(f"/verify/{stored['metadata']['request_id']}")).status_code == 404


async def test_a_text_with_too_many_sources_fails_in_the_background(client: httpx2.AsyncClient) -> None:
    """The problem is the same as in a direct request."""
    text = " ".join(f"[a](https://a{number}.example)" for number in range(300))
    job = (await client.post("/verify", json={"text": text, "background": True})).json()["id"]
    async with asyncio.timeout(30):
        while (found := (await client.get(f"/verify/{job}")).json())["status"] in ("queued", "running"):
            await asyncio.sleep(0.02)
    assert (found["status"], found["problem"]["code"]) == ("failed", "verification")


@for_each("extra", [{"stream": True, "background": True}, {"webhook": "https://a.example/hook"}])
async def test_options_that_do_not_fit_together_are_refused(
    client: httpx2.AsyncClient, extra: dict[str, object]
) -> None:
    """A stream has no background, and a webhook belongs to it."""
    assert (await client.post("/verify", json={"text": "It is so.", **extra})).status_code == 422
