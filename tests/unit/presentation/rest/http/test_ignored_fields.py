"""Fields of a body that the route does not have: named in a header, and in `degraded` of the answer."""

from __future__ import annotations

import json
from typing import Any

import httpx2
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices

TEXT = "The Eiffel Tower is 330 metres tall [1].\n\n[1] https://a.example/tower\n"
ASKED = {"query": "What is tea?"}
CHAT = {"messages": [{"role": "user", "content": "Hello"}]}
SSE = {"Accept": "text/event-stream"}
HEADER = "x-ignored-fields"


def entries_of(answer: dict[str, Any]) -> list[str]:
    return [entry["reason"] for entry in answer["degraded"] if entry["component"] == "request"]


@for_each(
    "path, body",
    [
        ("/research", ASKED),
        ("/research", {**ASKED, "store": True}),
        ("/research/plan", ASKED),
        ("/llm-platform/web-search", ASKED),
        ("/verify", {"text": TEXT}),
    ],
)
async def test_an_answer_names_the_fields_that_its_route_does_not_have(
    client: httpx2.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    """In the header and in `degraded`; the field that was meant is named where one has a similar name. A null is not named."""
    answer = await client.post(path, json={**body, "langauge": "de", "colour-1": "red", "size": None})
    assert (answer.status_code, answer.headers[HEADER]) == (200, "langauge;meant=language, colour-1")
    assert entries_of(answer.json()) == [
        "ignored_fields: this route has no such fields: langauge (did you mean language?), colour-1"
    ]


@for_each(
    "path, body, field, meant",
    [
        ("/llm-platform/chat", CHAT, "maxTokens", "max_tokens"),
        ("/llm-platform/chat", {**CHAT, "stream": True}, "temprature", "temperature"),
        ("/search", {"q": "tea"}, "pagno", "pageno"),
        ("/research", {**ASKED, "background": True}, "depht", "depth"),
        ("/verify", {"text": TEXT, "background": True}, "find_source", "find_sources"),
    ],
)
async def test_an_answer_without_such_a_list_has_the_header(
    client: httpx2.AsyncClient, path: str, body: dict[str, Any], field: str, meant: str
) -> None:
    """Chats, SearXNG's JSON and the states of background runs."""
    answer = await client.post(path, json={**body, field: "x"})
    assert answer.is_success
    assert answer.headers[HEADER] == f"{field};meant={meant}"


@for_each("path, body", [("/research", ASKED), ("/research", {**ASKED, "store": True}), ("/verify", {"text": TEXT})])
async def test_a_stream_names_them_too(client: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> None:
    """In its header, and in `degraded` of the answer in its last event."""
    answer = await client.post(path, json={**body, "langauge": "de"}, headers=SSE)
    assert answer.headers[HEADER] == "langauge;meant=language"
    last = json.loads(answer.text.strip().rpartition("data: ")[2])
    assert last["type"] == "done"
    assert entries_of(last["response"]) == [
        "ignored_fields: this route has no such fields: langauge (did you mean language?)"
    ]


async def test_a_stored_answer_keeps_the_entry(client: httpx2.AsyncClient) -> None:
    """Later readers of the stored answer learn why it is shallow."""
    answer = (await client.post("/research", json={**ASKED, "store": True, "depht": "deep"})).json()
    stored = (await client.get(f"/research/{answer['metadata']['request_id']}")).json()
    assert entries_of(stored["response"]) == [
        "ignored_fields: this route has no such fields: depht (did you mean depth?)"
    ]


async def test_an_error_has_the_header(client: httpx2.AsyncClient) -> None:
    """A required field with a wrong name is missing, and the header says which one was sent."""
    answer = await client.post("/research", json={"qeury": "What is tea?"})
    assert (answer.status_code, answer.headers[HEADER]) == (422, "qeury;meant=query")


@for_each("name", ["x" * 61, "a b", "a,b", "a;b", "a\r\nSet-Cookie: b=c", "größe", "<b>", "\u202e", ""])
async def test_an_unusual_field_name_is_only_counted(client: httpx2.AsyncClient, name: str) -> None:
    """The name is not repeated, because the client may forward text of others."""
    answer = await client.post("/research", json={**ASKED, name: "secret"})
    assert answer.headers[HEADER] == "*;count=1"
    assert entries_of(answer.json()) == ["ignored_fields: this route has no such fields: 1 with other names"]


async def test_many_fields_are_thirty_names_and_a_count(client: httpx2.AsyncClient) -> None:
    """However many fields a client sends, header and answer stay short."""
    answer = await client.post("/research", json={**ASKED, **{f"{number:060}": 1 for number in range(2000)}})
    names = answer.headers[HEADER].split(", ")
    assert (len(names), names[-1]) == (31, "*;count=1970")
    assert len(answer.headers[HEADER]) < 2000
    assert entries_of(answer.json())[0].endswith(", and 1970 more")


@for_each("field", ["max_tries", "extra", "as_it_comes"])
async def test_a_field_that_the_platform_sets_itself_is_named(client: httpx2.AsyncClient, field: str) -> None:
    """A client cannot choose it, whatever it sends."""
    assert field in (await client.post("/llm-platform/chat", json={**CHAT, field: {"a": 1}})).headers[HEADER]


@for_each(
    "path, body",
    [
        ("/research", {"message": "What is tea?", "depth": "deep", "stream": False}),
        ("/search", {"q": "tea", "pageno": 2, "categories": "news"}),
        ("/llm-platform/chat", {**CHAT, "max_tokens": 5}),
        ("/verify", {"text": TEXT, "find_sources": True}),
    ],
)
async def test_nothing_is_said_of_fields_that_have_an_effect(
    client: httpx2.AsyncClient, services: FakeServices, path: str, body: dict[str, Any]
) -> None:
    """There is no header and no entry."""
    answer = await client.post(path, json=body)
    assert HEADER not in answer.headers
    assert not entries_of({"degraded": (), **answer.json()})
