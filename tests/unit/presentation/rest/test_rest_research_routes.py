"""Research over HTTP: whole, as events, and the texts behind it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.unit.presentation.rest.fake_platform import HELD, REF, Scripted, door

from modules.llm_platform.domain.dtos.report_dtos import MAX_OTHER_THAN
from modules.llm_platform.domain.dtos.research_dtos import MAX_PLAN_QUESTIONS, OF_A_REPORT
from modules.llm_platform.domain.exceptions import WebSearchBlockedError
from modules.llm_platform.presentation.rest import sse

QUESTION = {"query": "What is Python asyncio?"}
EVENTS = {"Accept": "text/event-stream"}
WISHES: dict[str, Any] = {  # of a report
    "plan": ["What is a solar sail?", "Who built one?"],
    "urls": ["https://example.org/a?b=1"],
    "instructions": "Write for children.",
    "max_llm_calls": 0,
    "max_cost_usd": 0.5,
    "max_seconds": 60,
    "fresh": True,
}


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture
async def client(scripted: Scripted) -> AsyncIterator[httpx2.AsyncClient]:
    async with door(scripted) as client:
        yield client


def events_of(answer: httpx2.Response) -> list[tuple[str, str, dict[str, Any]]]:
    """Each event as (id, type, data); comments are left out."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "content-length" not in answer.headers
    frames = [frame for frame in answer.text.split("\n\n") if frame and not frame.startswith(":")]
    found = []
    for frame in frames:
        name, kind, data = frame.split("\n")
        assert (name[:4], kind[:7], data[:6]) == ("id: ", "event: ", "data: ")
        found.append((name[4:], kind[7:], json.loads(data[6:])))
    return found


async def test_the_command_of_the_readme(client: httpx2.AsyncClient, scripted: Scripted) -> None:
    """`curl -X POST …/research -d '{"query": …}'` works as written, though curl says that it sends a form."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "*/*", "User-Agent": "curl/8.5.0"}
    answer = await client.post("/research", content=json.dumps(QUESTION), headers=form)
    assert answer.status_code == 200
    assert answer.json()["query"] == QUESTION["query"]
    assert answer.json()["sources"] == [REF.model_dump()]
    assert answer.json()["metadata"]["request_id"] == answer.headers["x-request-id"]


async def test_the_shape_of_an_answer(client: httpx2.AsyncClient) -> None:
    """The keys that users hold on to, and `raw_results` null when it is not wanted."""
    whole = (await client.post("/research", json={**QUESTION, "depth": "deep"})).json()
    assert list(whole) == ["query", "depth", "synthesis", "sources", "raw_results", "citations", "degraded", "metadata"]
    assert set(whole["raw_results"][0]) == {"title", "url", "content", "source", "score", "published"}
    bare = (await client.post("/research", json={**QUESTION, "omit_raw": True})).json()
    assert bare["raw_results"] is None


async def test_the_fields_of_a_question(client: httpx2.AsyncClient, scripted: Scripted) -> None:
    """Every field reaches the service."""
    values = {
        "query": "solar sails", "depth": "deep", "sources": ["web", "documents"], "language": "en_US", "omit_raw": True,
        "time_range": "year", "domains": ["python.org", "-pinterest.com"],
    }  # fmt: skip
    assert (await client.post("/research", json=values)).status_code == 200
    asked = scripted.asked[0].model_dump(exclude={"stream", *OF_A_REPORT})
    assert asked == {**values, "language": "en-US", "sources": ("web", "documents"), "domains": tuple(values["domains"])}


async def test_the_wishes_for_a_report(client: httpx2.AsyncClient, scripted: Scripted) -> None:
    """Each reaches the service as it was sent; what was not sent is not set."""
    answer = await client.post("/research", json={**QUESTION, "depth": "report", **WISHES})
    assert (answer.status_code, answer.json()["depth"]) == (200, "report")
    [asked] = scripted.asked
    assert set(WISHES) == set(OF_A_REPORT)
    assert asked.model_dump(mode="json", include=set(WISHES)) == WISHES
    assert asked.model_fields_set == {"query", "depth", *WISHES}


@pytest.mark.parametrize("depth", [{}, {"depth": "shallow"}, {"depth": "deep"}], ids=str)
@pytest.mark.parametrize("field", WISHES)
async def test_a_wish_without_a_report_is_refused(
    client: httpx2.AsyncClient, scripted: Scripted, depth: dict[str, str], field: str
) -> None:
    """A budget that would bound nothing, pages that nobody would read: 422 that names the field and the way out."""
    answer = await client.post("/research", json={**QUESTION, **depth, field: WISHES[field]})
    assert answer.status_code == 422
    says = "belongs to a report: add depth report, or leave it out"
    assert answer.json()["errors"] == [{"loc": ["body", field], "msg": says, "type": "report_only"}]
    assert scripted.asked == []


async def test_what_wishes_for_nothing_is_no_wish(client: httpx2.AsyncClient) -> None:
    """A client that sends every field, each as it stands by default, is understood at any depth."""
    nothing: dict[str, Any] = dict.fromkeys(("plan", "instructions", "max_llm_calls", "max_cost_usd", "max_seconds"))
    nothing |= {"urls": [], "fresh": False}
    assert (await client.post("/research", json={**QUESTION, **nothing})).status_code == 200


@pytest.mark.parametrize(
    ("field", "value", "place"),
    [
        ("plan", [], []),
        ("plan", ["What is it?"] * (MAX_PLAN_QUESTIONS + 1), []),
        ("plan", ["What is it?", "ab"], [1]),
        ("plan", ["\u200b\u200b\u200b", "What is it?"], [0]),
        ("plan", "What is it?", []),
        ("urls", ["ftp://example.org/"], [0]),
        ("urls", ["https://example.org/a b"], [0]),
        ("urls", ["https://example.org/"] * 21, []),
        ("instructions", "x" * 2001, []),
        ("max_llm_calls", -1, []),
        ("max_llm_calls", True, []),
        ("max_llm_calls", "3", []),
        ("max_cost_usd", -0.1, []),
        ("max_cost_usd", True, []),
        ("max_seconds", 0, []),
        ("max_seconds", "60", []),
        ("fresh", "yes", []),
    ],
)
async def test_wishes_that_cannot_be_granted(
    client: httpx2.AsyncClient, scripted: Scripted, field: str, value: Any, place: list[int]
) -> None:
    """422 that names the field, and in a list the entry; nothing is asked, nothing of it is sent back."""
    answer = await client.post("/research", json={**QUESTION, "depth": "report", field: value})
    assert answer.status_code == 422
    assert [error["loc"] for error in answer.json()["errors"]] == [["body", field, *place]]
    assert scripted.asked == []


async def test_a_plan_can_be_had_first(client: httpx2.AsyncClient, scripted: Scripted) -> None:
    """A question gives its sub-questions, and who made them; what was not wanted goes along."""
    answer = await client.post("/research/plan", json={**QUESTION, "language": "en_US", "other_than": ["What for?"]})
    assert answer.status_code == 200
    assert answer.json() == {
        "query": QUESTION["query"], "language": "en", "questions": [QUESTION["query"], "How?"], "planner": "fake/fake-1",
        "degraded": [], "spent": {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0},
    }  # fmt: skip
    [asked] = scripted.asked
    assert asked.model_dump() == {"query": QUESTION["query"], "language": "en-US", "other_than": ("What for?",)}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, ["query"]),
        ({"query": "ab"}, ["query"]),
        ({**QUESTION, "language": "x"}, ["language"]),
        ({**QUESTION, "other_than": ["ab"]}, ["other_than", 0]),
        ({**QUESTION, "other_than": ["What for?"] * (MAX_OTHER_THAN + 1)}, ["other_than"]),
    ],
    ids=str,
)
async def test_a_bad_question_has_no_plan(client: httpx2.AsyncClient, body: dict[str, Any], place: list[Any]) -> None:
    """422 that names the field."""
    answer = await client.post("/research/plan", json=body)
    assert answer.status_code == 422
    assert [error["loc"] for error in answer.json()["errors"]] == [["body", *place]]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (EVENTS, {}),
        ({"Accept": "application/json;q=0.5, Text/Event-Stream"}, {}),
        ({}, {"stream": True}),
    ],
    ids=str,
)
async def test_events(client: httpx2.AsyncClient, headers: dict[str, str], body: dict[str, Any]) -> None:
    """Asked for either way, the research tells its steps: numbered, typed, each with the request's id."""
    answer = await client.post("/research", json={**QUESTION, **body}, headers={**headers, "X-Request-ID": "abc"})
    events = events_of(answer)
    assert [(name, kind) for name, kind, _ in events] == [("1", "started"), ("2", "sources"), ("3", "token"), ("4", "done")]
    assert all(data["type"] == kind and data["request_id"] == "abc" for _, kind, data in events)
    done = events[-1][2]["response"]
    assert done["synthesis"] == events[2][2]["text"]
    assert answer.headers["x-request-id"] == "abc"


async def test_a_bad_question_is_no_stream(client: httpx2.AsyncClient) -> None:
    """An error before the first event is an HTTP error."""
    answer = await client.post("/research", json={"query": "ab"}, headers=EVENTS)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


async def test_a_stream_that_fails(client: httpx2.AsyncClient, scripted: Scripted) -> None:
    """A stream that breaks off says why in its last event, as the same problem that HTTP would give."""
    scripted.error_half_way = WebSearchBlockedError("all engines are blocked")
    events = events_of(await client.post("/research", json=QUESTION, headers={**EVENTS, "X-Request-ID": "abc"}))
    assert [kind for _, kind, _ in events] == ["started", "sources", "failed"]
    problem = events[-1][2]["problem"]
    assert (problem["status"], problem["code"], problem["retryable"]) == (503, "web_search_blocked", True)
    assert (problem["request_id"], problem["detail"]) == ("abc", "all engines are blocked")


async def test_a_stream_that_crashes(
    client: httpx2.AsyncClient, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake of ours ends the stream properly too; its reader learns no more than that, the log learns all."""
    scripted.error_half_way = ValueError("the secret of the pyramids")
    answer = await client.post("/research", json=QUESTION, headers=EVENTS)
    events = events_of(answer)
    assert events[-1][1] == "failed"
    assert events[-1][2]["problem"]["status"] == 500
    assert "pyramids" not in answer.text
    assert any(record.exc_info and record.levelno == logging.ERROR for record in caplog.records)


async def test_a_quiet_stream_keeps_proxies_awake(
    client: httpx2.AsyncClient, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing happens a comment is sent now and then; it is no event."""
    monkeypatch.setattr(sse, "PULSE_S", 0.02)
    scripted.delay_s = 0.2
    answer = await client.post("/research", json=QUESTION, headers=EVENTS)
    assert answer.text.count(": still here\n\n") >= 3
    assert [name for name, _, _ in events_of(answer)] == ["1", "2", "3", "4"]
    assert sse.PULSE_S < 1
    assert not [task for task in asyncio.all_tasks() if "beat" in repr(task.get_coro()) and not task.cancelling()]


async def test_the_texts_behind_an_answer(client: httpx2.AsyncClient) -> None:
    """A source's stored text can be fetched while it is held; after that 404, and no number is 422."""
    held = await client.get("/research/held/sources/1")
    assert held.json() == HELD.model_dump()
    for path in ("/research/held/sources/2", "/research/gone/sources/1"):
        gone = await client.get(path)
        assert (gone.status_code, gone.json()["code"]) == (404, "source_not_held")
    for index in ("0", "-1", "x", "1e3", "9" * 400):
        wrong = await client.get(f"/research/held/sources/{index}")
        assert (wrong.status_code, wrong.json()["errors"][0]["loc"]) == (422, ["path", "index"])
        assert set(wrong.json()["errors"][0]) == {"loc", "msg", "type"}
