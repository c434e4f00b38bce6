"""What a language model cannot get is refused under the name that the client gave it, and not under a name of the prompt."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices

from modules.llm_platform.domain.dtos.llm_dtos import MAX_EXTRA_BYTES

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/anthropic/v1/messages"
HELLO: dict[str, Any] = {"role": "user", "content": "Hello!"}
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
RESULT = {"type": "tool_result", "tool_use_id": "c" * 201}
LONG = "x" * MAX_EXTRA_BYTES


@pytest.mark.parametrize(
    ("path", "fields", "place"),
    [
        (CHAT, {"messages": [HELLO, {"role": "user", "content": [PICTURE]}]}, "messages.1.content"),
        (CHAT, {"messages": [{"role": "tool", "content": "a", "tool_call_id": "c" * 201}]}, "messages.0.tool_call_id"),
        (CHAT, {"messages": [HELLO], "tools": [{"type": "function", "function": {"name": LONG}}], "seed": 1}, "tools"),
        (RESPONSES, {"input": [HELLO, {"role": "user", "content": [PICTURE]}], "instructions": "Hi."}, "input.1.content"),
        (
            RESPONSES,
            {"input": [HELLO, CALL, {**CALL, "call_id": "d"}, {**CALL, "type": "function_call_output", "output": [PICTURE]}]},
            "input.3.output",
        ),
        (RESPONSES, {"input": "Hello!", "tools": [{"type": "function", "name": LONG}]}, "tools"),
        (RESPONSES, {"input": "Hello!", "text": {"format": {"type": "json_schema", "schema": {"title": LONG}}}}, "text"),
        (MESSAGES, {"messages": [HELLO], "tools": [{"name": LONG, "input_schema": {}}]}, "tools"),
        (
            MESSAGES,
            {"messages": [HELLO, {"role": "user", "content": [RESULT]}], "system": "Hi."},
            "messages.1.content",
        ),
    ],
)  # fmt: skip
async def test_error_names_the_field_that_was_sent(
    client: httpx2.AsyncClient, services: FakeServices, path: str, fields: dict[str, Any], place: str
) -> None:
    body = {"model": "fake/fake-1", **({"max_tokens": 9} if path == MESSAGES else {}), **fields}
    response = await client.post(path, json=body)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(f"{place}: must ")
    assert not services.requests


@for_each(
    ("path", "fields", "message"),
    [
        (
            CHAT,
            {"messages": [{"role": "user", "content": None}]},
            "messages.0: needs a content: a text, or a list of parts",
        ),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0: needs a text"),
        (CHAT, {"messages": [HELLO], "stop": ["a"] * 5000}, "stop: must have at most "),
        (MESSAGES, {"messages": [HELLO], "system": [None]}, "system.0: must be a JSON object"),
    ],
)
async def test_error_is_of_the_type_that_was_sent(
    client: httpx2.AsyncClient, path: str, fields: dict[str, Any], message: str
) -> None:
    """If a field accepts several types, the error is about the type that was sent. A missing field is named."""
    body = {"model": "research-shallow", **({"max_tokens": 9} if path == MESSAGES else {}), **fields}
    response = await client.post(path, json=body)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(message)


async def test_conversation_that_is_too_long_with_its_earlier_turns_is_named(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """The turns of `previous_response_id` count for the limit."""
    asked = {"model": "fake/fake-1", "input": [HELLO] * 1000}
    first = await client.post(RESPONSES, json=asked)
    response = await client.post(RESPONSES, json={**asked, "previous_response_id": first.json()["id"]})
    assert (first.status_code, response.status_code) == (200, 400)
    assert response.json()["error"]["param"] == "input"
