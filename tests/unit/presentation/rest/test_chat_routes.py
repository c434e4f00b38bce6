"""The chat route, with and without streaming."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from tests.unit.presentation.rest.fake_platform import FakeServices

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest
from modules.llm_platform.domain.exceptions import LLMConfigError, LLMConnectionError, LLMRequestError
from modules.llm_platform.presentation.rest.chat_routes import ChatApiRequest

ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
ANSWER = {
    "content": "An event loop runs tasks. [1]",
    "provider": "fake",
    "model": "fake-1",
    "finish_reason": "stop",
    "usage": {"prompt_tokens": 3, "completion_tokens": 4},
}


def events_of(answer: httpx2.Response) -> list[dict[str, Any]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line[6:]) for line in answer.text.split("\n") if line.startswith("data: ")]


@pytest.mark.parametrize("path", ["/llm-platform/chat", "/llm-platform/chat/"])
async def test_response_has_the_documented_fields(
    client: httpx2.AsyncClient, services: FakeServices, path: str
) -> None:
    """With and without a trailing slash, without a redirect."""
    answer = await client.post(path, json={**ASKED, "provider": "fake", "model": "fake-1", "max_tokens": 100})
    assert answer.status_code == 200
    assert answer.json() == ANSWER
    [asked] = services.requests
    assert (asked.provider, asked.model, asked.max_tokens) == ("fake", "fake-1", 100)


@pytest.mark.parametrize(("headers", "body"), [({}, {"stream": True}), ({"Accept": "text/event-stream"}, {})], ids=str)
async def test_stream_has_tokens_and_the_response(
    client: httpx2.AsyncClient, headers: dict[str, str], body: dict[str, Any]
) -> None:
    """The stream has tokens, then the complete response."""
    events = events_of(await client.post("/llm-platform/chat", json={**ASKED, **body}, headers=headers))
    assert [event["type"] for event in events] == ["token", "done"]
    assert events[0]["text"] == ANSWER["content"]
    assert events[1]["response"] == ANSWER


async def test_an_error_before_the_first_token(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """It is an HTTP error, streamed or not."""
    for error, status in ((LLMRequestError("no such model"), 422), (LLMConfigError("set LLM_API_KEY"), 503)):
        services.error = error
        for stream in (False, True):
            answer = await client.post("/llm-platform/chat", json={**ASKED, "stream": stream})
            assert (answer.status_code, answer.json()["detail"]) == (status, error.message)


async def test_unknown_model_is_an_error_of_its_field(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """The location names it, or the body where the error is about no single field."""
    for field, location in (("model", ["body", "model"]), (None, ["body"])):
        services.error = LLMRequestError("is not configured", field=field)
        answer = await client.post("/llm-platform/chat", json=ASKED)
        assert [error["loc"] for error in answer.json()["errors"]] == [location]


async def test_an_error_after_the_first_token(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """It is the last event of the stream."""
    services.error_after_first_event = LLMConnectionError("the connection broke")
    events = events_of(await client.post("/llm-platform/chat", json={**ASKED, "stream": True}))
    assert [event["type"] for event in events] == ["token", "failed"]
    assert events[1]["problem"]["code"] == "llm_connection"


async def test_upstream_cannot_be_set_by_a_request(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """A URL or key in the request is ignored."""
    body = {
        **ASKED,
        "base_url": "http://evil.test/v1",
        "api_base": "http://evil.test",
        "api_key": "x",
        "temperature": 2,
    }
    assert (await client.post("/llm-platform/chat", json=body)).status_code == 200
    assert "evil" not in repr(services.requests)


@pytest.mark.parametrize(
    "field", [{"max_tries": 3}, {"max_tries": "x"}, {"data_kind": "page text"}, {"data_kind": [1]}], ids=str
)
async def test_internal_fields_are_ignored(
    client: httpx2.AsyncClient, services: FakeServices, field: dict[str, Any]
) -> None:
    """The fields `max_tries` and `data_kind` are ignored like unknown fields."""
    assert (await client.post("/llm-platform/chat", json={**ASKED, **field})).status_code == 200
    [asked] = services.requests
    assert (asked.max_tries, asked.data_kind) == (None, "query")


def test_internal_fields_are_not_in_the_schema() -> None:
    """All other fields of the request are."""
    described = ChatApiRequest.model_json_schema()["properties"]
    internal = {"max_tries", "data_kind", "json_schema", "is_callers_schema", "extra", "as_it_comes", "step_s", "relay"}
    assert set(described) == {"stream", *LLMRequest.model_fields} - internal


@pytest.mark.parametrize(
    "field", [{"max_tokens": 0}, {"max_tokens": "5"}, {"stream": "true"}, {"model": ""}, {"provider": 1}]
)
async def test_invalid_field_is_refused(client: httpx2.AsyncClient, field: dict[str, Any]) -> None:
    """422 that names the field."""
    answer = await client.post("/llm-platform/chat", json={**ASKED, **field})
    assert answer.status_code == 422
    assert [error["loc"] for error in answer.json()["errors"]] == [["body", next(iter(field))]]
