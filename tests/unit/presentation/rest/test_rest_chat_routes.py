"""A conversation with a model over HTTP, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.unit.presentation.rest.fake_platform import Scripted, door

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


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture
async def client(scripted: Scripted) -> AsyncIterator[httpx2.AsyncClient]:
    async with door(scripted) as client:
        yield client


def events_of(answer: httpx2.Response) -> list[dict[str, Any]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line[6:]) for line in answer.text.split("\n") if line.startswith("data: ")]


@pytest.mark.parametrize("path", ["/llm-platform/chat", "/llm-platform/chat/"])
async def test_an_answer(client: httpx2.AsyncClient, scripted: Scripted, path: str) -> None:
    """With and without a slash, the documented fields and no others; no redirect."""
    answer = await client.post(path, json={**ASKED, "provider": "fake", "model": "fake-1", "max_tokens": 100})
    assert answer.status_code == 200
    assert answer.json() == ANSWER
    [asked] = scripted.asked
    assert (asked.provider, asked.model, asked.max_tokens) == ("fake", "fake-1", 100)


@pytest.mark.parametrize(("headers", "body"), [({}, {"stream": True}), ({"Accept": "text/event-stream"}, {})], ids=str)
async def test_a_stream(client: httpx2.AsyncClient, headers: dict[str, str], body: dict[str, Any]) -> None:
    """Tokens, then the whole answer."""
    events = events_of(await client.post("/llm-platform/chat", json={**ASKED, **body}, headers=headers))
    assert [event["type"] for event in events] == ["token", "done"]
    assert events[0]["text"] == ANSWER["content"]
    assert events[1]["response"] == ANSWER


async def test_an_error_before_the_first_token(client: httpx2.AsyncClient, scripted: Scripted) -> None:
    """It has its HTTP status, streamed or not."""
    for error, status in ((LLMRequestError("no such model"), 422), (LLMConfigError("set LLM_API_KEY"), 503)):
        scripted.error = error
        for stream in (False, True):
            answer = await client.post("/llm-platform/chat", json={**ASKED, "stream": stream})
            assert (answer.status_code, answer.json()["detail"]) == (status, error.message)


async def test_an_error_after_the_first_token(client: httpx2.AsyncClient, scripted: Scripted) -> None:
    """It is the stream's last event."""
    scripted.error_half_way = LLMConnectionError("the connection broke")
    events = events_of(await client.post("/llm-platform/chat", json={**ASKED, "stream": True}))
    assert [event["type"] for event in events] == ["token", "failed"]
    assert events[1]["problem"]["code"] == "llm_connection"


async def test_nothing_else_can_be_chosen(client: httpx2.AsyncClient, scripted: Scripted) -> None:
    """An address or a key in the request is ignored: they are the operator's."""
    body = {**ASKED, "base_url": "http://evil.test/v1", "api_base": "http://evil.test", "api_key": "x", "temperature": 2}
    assert (await client.post("/llm-platform/chat", json=body)).status_code == 200
    assert "evil" not in repr(scripted.asked)


@pytest.mark.parametrize("field", [{"max_tries": 3}, {"max_tries": "x"}, {"holds": "page text"}, {"holds": [1]}], ids=str)
async def test_what_the_platform_fills_is_no_callers(
    client: httpx2.AsyncClient, scripted: Scripted, field: dict[str, Any]
) -> None:
    """How often a model is tried, and what the ledger calls the words, is passed over like any unknown field."""
    assert (await client.post("/llm-platform/chat", json={**ASKED, **field})).status_code == 200
    [asked] = scripted.asked
    assert (asked.max_tries, asked.holds) == (None, "query")


def test_what_the_platform_fills_is_not_described() -> None:
    """Every other field of the request is."""
    described = ChatApiRequest.model_json_schema()["properties"]
    assert set(described) == {"stream", *LLMRequest.model_fields} - {"max_tries", "holds"}


@pytest.mark.parametrize("field", [{"max_tokens": 0}, {"max_tokens": "5"}, {"stream": "true"}, {"model": ""}, {"provider": 1}])
async def test_wrong_fields(client: httpx2.AsyncClient, field: dict[str, Any]) -> None:
    """422 that names the field."""
    answer = await client.post("/llm-platform/chat", json={**ASKED, **field})
    assert answer.status_code == 422
    assert [error["loc"] for error in answer.json()["errors"]] == [["body", next(iter(field))]]
