"""The research routes: JSON, event streams, plans and source texts."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, ClassVar

import httpx2
import pytest
from tests.support.virtual_time import in_virtual_time
from tests.unit.presentation.rest.fake_platform import REF, STORED_SOURCE, FakeServices, app_client

from modules.llm_platform.domain.dtos.report_dtos import MAX_OTHER_THAN, PlanRequest
from modules.llm_platform.domain.dtos.request_dtos import FIELDS_FOR_REPORTS, MAX_PLAN_QUESTIONS
from modules.llm_platform.domain.exceptions import WebSearchBlockedError
from modules.llm_platform.domain.ports.icon_reader import Icon, IIconReader
from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS
from modules.llm_platform.presentation.rest.http import sse

QUESTION = {"query": "What is Python asyncio?"}
EVENTS = {"Accept": "text/event-stream"}
PNG = b"\x89PNG\r\n\x1a\n and so on"
REPORT_FIELDS: dict[str, Any] = {
    "plan": ["What is a solar sail?", "Who built one?"],
    "urls": ["https://example.org/a?b=1"],
    "max_llm_calls": 0,
    "max_cost_usd": 0.5,
    "max_seconds": 60,
    "fresh": True,
}


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


async def test_curl_command_of_the_readme_works(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """`curl -X POST …/research -d '{"query": …}'` works although curl sends the media type of a form."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "*/*", "User-Agent": "curl/8.5.0"}
    answer = await client.post("/research", content=json.dumps(QUESTION), headers=form)
    assert answer.status_code == 200
    assert answer.json()["query"] == QUESTION["query"]
    assert answer.json()["sources"] == [REF.model_dump()]
    assert answer.json()["metadata"]["request_id"] == answer.headers["x-request-id"]


async def test_response_has_the_documented_keys(client: httpx2.AsyncClient) -> None:
    """The response has the documented keys; `raw_results` is null with `omit_raw`."""
    whole = (await client.post("/research", json={**QUESTION, "depth": "deep"})).json()
    assert list(whole) == [
        "query",
        "depth",
        "synthesis",
        "output",
        "sources",
        "raw_results",
        "citations",
        "evidence",
        "degraded",
        "metadata",
    ]
    assert whole["output"] is None
    assert set(whole["raw_results"][0]) == {"title", "url", "content", "source", "score", "published"}
    bare = (await client.post("/research", json={**QUESTION, "omit_raw": True})).json()
    assert bare["raw_results"] is None


async def test_request_fields_reach_the_service(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """Every field reaches the service."""
    values = {
        "query": "solar sails",
        "depth": "deep",
        "sources": ["web", "documents"],
        "language": "en_US",
        "omit_raw": True,
        "time_range": "year",
        "domains": ["python.org", "-pinterest.com"],
        "pages": 2,
        "rounds": 3,
        "freshness": None,
        "model": "fake/fake-1",
        "files": [{"name": "x/a.md", "content": "QSBmaWxl"}],
        "context": "For a talk.",
        "previous_id": "held",
        "history": [{"question": "What is asyncio?", "answer": "A library."}],
        "output_schema": {"type": "object", "properties": {"speed": {"type": "number"}}},
    }
    assert (await client.post("/research", json=values)).status_code == 200
    added = {"stream", "store", "background", "webhook", "thread_id"}
    asked = services.requests[0].model_dump(exclude={*added, "instructions", *FIELDS_FOR_REPORTS})
    assert asked == {
        **values,
        "language": "en-US",
        "sources": ("web", "documents"),
        "domains": tuple(values["domains"]),
        "history": tuple(values["history"]),
        "files": ({"name": "a.md", "content": b"A file"},),
    }


async def test_report_fields_reach_the_service(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """Each field reaches the service unchanged; other fields are not set."""
    answer = await client.post("/research", json={**QUESTION, "depth": "report", **REPORT_FIELDS})
    assert (answer.status_code, answer.json()["depth"]) == (200, "report")
    [asked] = services.requests
    assert set(REPORT_FIELDS) == set(FIELDS_FOR_REPORTS)
    assert asked.model_dump(mode="json", include=set(REPORT_FIELDS)) == REPORT_FIELDS
    assert asked.model_fields_set == {"query", "depth", *REPORT_FIELDS}


@pytest.mark.parametrize("depth", [{}, {"depth": "shallow"}, {"depth": "deep"}], ids=str)
@pytest.mark.parametrize("field", REPORT_FIELDS)
async def test_report_field_without_a_report_is_refused(
    client: httpx2.AsyncClient, services: FakeServices, depth: dict[str, str], field: str
) -> None:
    """422 that names the field and the remedy."""
    answer = await client.post("/research", json={**QUESTION, **depth, field: REPORT_FIELDS[field]})
    assert answer.status_code == 422
    says = "belongs to a report: add depth report, or leave it out"
    assert answer.json()["errors"] == [{"loc": ["body", field], "msg": says, "type": "report_only"}]
    assert services.requests == []


async def test_default_report_fields_are_accepted_at_any_depth(client: httpx2.AsyncClient) -> None:
    """A client may send every field with its default."""
    nothing: dict[str, Any] = dict.fromkeys(("plan", "max_llm_calls", "max_cost_usd", "max_seconds"))
    nothing |= {"urls": [], "fresh": False}
    assert (await client.post("/research", json={**QUESTION, **nothing})).status_code == 200


@pytest.mark.parametrize(
    ("field", "value", "position"),
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
async def test_invalid_field_is_refused(
    client: httpx2.AsyncClient, services: FakeServices, field: str, value: Any, position: list[int]
) -> None:
    """422 that names the field and the list entry; no service is called."""
    answer = await client.post("/research", json={**QUESTION, "depth": "report", field: value})
    assert answer.status_code == 422
    assert [error["loc"] for error in answer.json()["errors"]] == [["body", field, *position]]
    assert services.requests == []


LONG = "We compare pumps for a house of 1950. " * 40 + "Which heat pump is quiet enough for a yard? Thanks!"


@pytest.mark.parametrize("path", ["/research", "/research/plan"])
async def test_the_question_of_a_message_is_found(
    client: httpx2.AsyncClient, services: FakeServices, path: str
) -> None:
    """A message longer than a question is read like a chat message. A short message is the question."""
    assert (await client.post(path, json={"message": LONG, "context": "Of 2026."})).status_code == 200
    assert (await client.post(path, json={"message": " What is Python asyncio? "})).status_code == 200
    long, short = services.requests
    assert long.query == "Which heat pump is quiet enough for a yard?"
    assert short.query == QUESTION["query"]
    if path == "/research":
        assert (long.context, short.context) == (f"Of 2026.\n\n{LONG}", None)


@pytest.mark.parametrize(
    ("body", "positions"),
    [
        ({"message": LONG, "query": "What is it?"}, [["body"]]),
        ({"message": "x" * (MAX_MESSAGE_CHARS + 1)}, [["body", "message"]]),
        ({"message": "ab"}, [["body", "query"], ["body", "message"]]),
        ({"message": None}, [["body", "query"], ["body", "message"]]),
        ({"message": LONG, "context": 7}, [["body", "context"]]),
    ],
    ids=["both", "too long", "too short", "null", "context"],
)
async def test_an_invalid_message_is_refused(
    client: httpx2.AsyncClient, services: FakeServices, body: dict[str, Any], positions: list[list[str]]
) -> None:
    """422 that names the field, for a research run and for a plan; no service is called."""
    for path in ("/research", "/research/plan"):
        answer = await client.post(path, json=body)
        assert answer.status_code == 422
        assert sorted(error["loc"] for error in answer.json()["errors"]) == sorted(positions)
    assert services.requests == []


async def test_plan_returns_sub_questions(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """The plan has the sub-questions and the planner; `other_than`, `context` and `model` reach the service."""
    wishes: dict[str, Any] = {"other_than": ["What for?"], "context": "Trio was first.", "model": "fake/fake-1"}
    answer = await client.post("/research/plan", json={**QUESTION, "language": "en_US", **wishes})
    assert answer.status_code == 200
    assert answer.json() == {
        "query": QUESTION["query"],
        "standalone_query": None,
        "language": "en",
        "questions": [QUESTION["query"], "How?"],
        "planner": "fake/fake-1",
        "degraded": [],
        "spent": {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0},
        "estimate": None,
    }
    [asked] = services.requests
    expected = PlanRequest(query=QUESTION["query"], language="en_US", **wishes)
    assert asked.model_dump() == expected.model_dump()


@pytest.mark.parametrize(
    ("body", "position"),
    [
        ({}, ["query"]),
        ({"query": "ab"}, ["query"]),
        ({**QUESTION, "language": "x"}, ["language"]),
        ({**QUESTION, "other_than": ["ab"]}, ["other_than", 0]),
        ({**QUESTION, "other_than": ["What for?"] * (MAX_OTHER_THAN + 1)}, ["other_than"]),
    ],
    ids=str,
)
async def test_invalid_plan_request_is_refused(
    client: httpx2.AsyncClient, body: dict[str, Any], position: list[Any]
) -> None:
    """422 that names the field."""
    answer = await client.post("/research/plan", json=body)
    assert answer.status_code == 422
    assert [error["loc"] for error in answer.json()["errors"]] == [["body", *position]]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (EVENTS, {}),
        ({"Accept": "application/json;q=0.5, Text/Event-Stream"}, {}),
        ({}, {"stream": True}),
    ],
    ids=str,
)
async def test_event_stream_is_numbered_and_typed(
    client: httpx2.AsyncClient, headers: dict[str, str], body: dict[str, Any]
) -> None:
    """Requested by `stream` or Accept, the events are numbered and typed, and have the request id."""
    answer = await client.post("/research", json={**QUESTION, **body}, headers={**headers, "X-Request-ID": "abc"})
    events = events_of(answer)
    assert [(name, kind) for name, kind, _ in events] == [
        ("1", "started"),
        ("2", "sources"),
        ("3", "token"),
        ("4", "done"),
    ]
    assert all(data["type"] == kind and data["request_id"] == "abc" for _, kind, data in events)
    done = events[-1][2]["response"]
    assert done["synthesis"] == events[2][2]["text"]
    assert answer.headers["x-request-id"] == "abc"


async def test_error_before_the_first_event_is_an_http_error(client: httpx2.AsyncClient) -> None:
    """An invalid request gets problem+json although an event stream was requested."""
    answer = await client.post("/research", json={"query": "ab"}, headers=EVENTS)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


async def test_failed_stream_ends_with_the_problem(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """The last event of a failed stream has the problem object that an HTTP error would have."""
    services.error_after_first_event = WebSearchBlockedError("all engines are blocked")
    events = events_of(await client.post("/research", json=QUESTION, headers={**EVENTS, "X-Request-ID": "abc"}))
    assert [kind for _, kind, _ in events] == ["started", "sources", "failed"]
    problem = events[-1][2]["problem"]
    assert (problem["status"], problem["code"], problem["retryable"]) == (503, "web_search_blocked", True)
    assert (problem["request_id"], problem["detail"]) == ("abc", "all engines are blocked")


async def test_unexpected_error_in_a_stream_is_logged_and_hidden(
    client: httpx2.AsyncClient, services: FakeServices, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error ends the stream with a 500 problem; only the log has the details."""
    services.error_after_first_event = ValueError("the secret of the pyramids")
    answer = await client.post("/research", json=QUESTION, headers=EVENTS)
    events = events_of(answer)
    assert events[-1][1] == "failed"
    assert events[-1][2]["problem"]["status"] == 500
    assert "pyramids" not in answer.text
    assert any(record.exc_info and record.levelno == logging.ERROR for record in caplog.records)


@in_virtual_time
async def test_idle_stream_sends_comments() -> None:
    """An idle stream sends comments at intervals, which are not events."""
    services = FakeServices()
    services.delay_s = 3.5 * sse.HEARTBEAT_S
    async with app_client(services) as client:
        answer = await client.post("/research", json=QUESTION, headers=EVENTS)
    assert answer.text.count(": still here\n\n") == 3
    assert [name for name, _, _ in events_of(answer)] == ["1", "2", "3", "4"]
    assert not [task for task in asyncio.all_tasks() if "_heartbeat" in repr(task.get_coro()) and not task.cancelling()]


async def test_an_icon_is_an_image_that_can_do_nothing(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """Off unless there is a reader; only of a source that the caller holds; 404 where the site has none."""
    path = "/research/held/sources/1/icon"
    assert (await client.get(path)).status_code == 404

    class Icons(IIconReader):
        asked: ClassVar[list[str]] = []

        async def read(self, url: str) -> Icon | None:
            self.asked.append(url)
            return Icon("image/png", PNG) if len(self.asked) == 1 else None

    services.icons = Icons()
    async with app_client(services) as client:
        assert (await client.get("/research/options")).json()["favicons"] is True
        found = await client.get(path)
        assert (found.status_code, found.content, found.headers["content-type"]) == (200, PNG, "image/png")
        assert found.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in found.headers["content-security-policy"]
        assert (await client.get(path)).status_code == 404
        gone = await client.get("/research/gone/sources/1/icon")
        assert (gone.status_code, gone.json()["code"]) == (404, "source_not_held")
    assert Icons.asked == [STORED_SOURCE.url] * 2


async def test_source_text_can_be_fetched(client: httpx2.AsyncClient) -> None:
    """A stored source text can be fetched; a missing one is 404, an invalid index is 422."""
    held = await client.get("/research/held/sources/1")
    assert held.json() == STORED_SOURCE.model_dump()
    for path in ("/research/held/sources/2", "/research/gone/sources/1"):
        gone = await client.get(path)
        assert (gone.status_code, gone.json()["code"]) == (404, "source_not_held")
    for index in ("0", "-1", "x", "1e3", "9" * 400):
        wrong = await client.get(f"/research/held/sources/{index}")
        assert (wrong.status_code, wrong.json()["errors"][0]["loc"]) == (422, ["path", "index"])
        assert set(wrong.json()["errors"][0]) == {"loc", "msg", "type"}


async def test_the_ledger_is_sent_as_json_lines(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """One object a line, whatever its texts hold; a run that is not kept is a 404."""
    found = await client.get("/research/held/evidence")
    assert found.headers["content-type"].startswith("application/x-ndjson")
    first, second = (json.loads(line) for line in found.text.splitlines())
    assert (first["quote"], first["source"]["index"], first["round"]) == ("line\nbreak", 1, 0)
    assert (second["question"], second["quote"], second["source"]) == ("Why?", None, None)
    lost = await client.get("/research/other/evidence")
    assert (lost.status_code, lost.json()["code"]) == (404, "source_not_held")
