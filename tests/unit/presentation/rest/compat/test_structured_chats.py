"""JSON answers of the chat APIs: the message is only the JSON text, and the citations are separate."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest
from tests.unit.presentation.rest.fake_platform import REF, FakeServices

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import MAX_TOOLS, ConfiguredModel

SCHEMA = {"type": "object", "properties": {"says": {"type": "string"}}, "required": ["says"]}
JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
MESSAGES: Any = [{"role": "user", "content": "What is Python asyncio?"}]
DOORS = {"/v1/chat/completions": "research-deep", "/perplexity/chat/completions": "sonar-pro"}
DOOR = pytest.mark.parametrize(("path", "model"), DOORS.items())


@pytest.fixture
async def sdk(client: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="key", base_url="http://localhost/v1", http_client=client, max_retries=0)


def body(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": MESSAGES, "response_format": JSON_SCHEMA, **fields}


@DOOR
async def test_the_message_is_the_json_text(
    client: httpx2.AsyncClient, services: FakeServices, path: str, model: str
) -> None:
    """The schema reaches the research run; text and citations stay in the extension."""
    answer = (await client.post(path, json=body(model))).json()
    assert services.requests[0].output_schema == SCHEMA
    assert json.loads(answer["choices"][0]["message"]["content"]) == services.output
    assert answer["llm_platform"]["synthesis"] == services.answer
    assert answer["llm_platform"]["citations"][0]["source_index"] == REF.index


@DOOR
async def test_a_stream_has_the_json_in_its_last_chunks(client: httpx2.AsyncClient, path: str, model: str) -> None:
    """The text of the answer is not streamed, so the joined chunks are the object."""
    response = await client.post(path, json=body(model, stream=True))
    data = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    chunks = [json.loads(line) for line in data if line != "[DONE]"]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert json.loads(text) == {"says": "An event loop runs tasks. [1]", "tasks": [1]}
    assert (data[-1], chunks[-1]["choices"][0]["finish_reason"]) == ("[DONE]", "stop")


@DOOR
async def test_json_object_is_any_object(
    client: httpx2.AsyncClient, services: FakeServices, path: str, model: str
) -> None:
    response = await client.post(path, json=body(model, response_format={"type": "json_object"}))
    assert response.status_code == 200
    assert services.requests[0].output_schema == {"type": "object"}


@DOOR
async def test_text_is_text(client: httpx2.AsyncClient, services: FakeServices, path: str, model: str) -> None:
    response = await client.post(path, json=body(model, response_format={"type": "text"}))
    assert response.json()["choices"][0]["message"]["content"] == services.answer
    assert services.requests[0].output_schema is None


@DOOR
async def test_an_object_that_was_not_made_is_an_error(
    client: httpx2.AsyncClient, services: FakeServices, path: str, model: str
) -> None:
    """A JSON client gets no text instead of the object. The error has the reason, streamed or not."""
    services.output = None
    services.degraded = (Degraded(component="output", reason="llm_budget: nothing is left"),)
    response = await client.post(path, json=body(model))
    assert response.status_code == 502
    assert "llm_budget: nothing is left" in response.text
    streamed = await client.post(path, json=body(model, stream=True))
    assert "event: error" in streamed.text
    assert "llm_budget: nothing is left" in streamed.text
    assert services.answer not in streamed.text


@DOOR
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"type": "regex", "regex": "a"}, "text, json_object or json_schema"),
        ({"type": "json_schema"}, "needs a JSON Schema"),
        ({"type": "json_schema", "json_schema": {"schema": {"type": "array"}}}, "must be the schema of an object"),
        ({"type": "json_schema", "json_schema": {"schema": {"$ref": "http://evil.example"}}}, "$ref"),
    ],
)
async def test_a_wrong_format_names_the_field(
    client: httpx2.AsyncClient, services: FakeServices, path: str, model: str, wrong: object, reason: str
) -> None:
    response = await client.post(path, json=body(model, response_format=wrong))
    assert response.status_code in (400, 422)
    error = response.json()["error"]
    assert error["param"] == "response_format"
    assert reason in error["message"]
    assert services.requests == []


@DOOR
async def test_without_a_model_the_field_and_the_setting_are_named(
    client: httpx2.AsyncClient, services: FakeServices, path: str, model: str
) -> None:
    services.models = ()
    response = await client.post(path, json=body(model))
    assert response.status_code in (400, 422)
    assert response.json()["error"]["param"] == "response_format"
    assert "LLM_API_KEY" in response.json()["error"]["message"]


async def test_annotations_are_the_markers_of_the_json_text(sdk: openai.AsyncOpenAI) -> None:
    """Each points to a marker in a string; a list of numbers is no citation."""
    answer = await sdk.chat.completions.create(model="research-deep", messages=MESSAGES, response_format=JSON_SCHEMA)  # type: ignore[call-overload]
    message = answer.choices[0].message
    [citation] = [annotation.url_citation for annotation in message.annotations]
    assert message.content[citation.start_index : citation.end_index] == "[1]"
    assert citation.url == REF.url


TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
CALLS = (
    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":'}},
    {"index": 0, "function": {"arguments": '"Rome"}'}},
)
FORWARDED: dict[str, Any] = {
    "tools": TOOLS,
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "response_format": JSON_SCHEMA,
    "stop": ["END"],
    "top_p": 0.5,
    "seed": 7,
    "reasoning_effort": "low",
    "frequency_penalty": 0.1,
    "presence_penalty": -0.1,
}


async def test_a_language_model_gets_the_fields_as_they_are(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    """Every allowed field reaches the service unchanged, and none is reported as ignored."""
    raw = await sdk.chat.completions.with_raw_response.create(
        model="fake/fake-1", messages=MESSAGES, temperature=0, **FORWARDED
    )
    [prompt] = services.requests
    assert json.loads(json.dumps(prompt.extra)) == FORWARDED
    assert prompt.temperature == 0
    assert "temperature" in prompt.model_fields_set
    assert "x-ignored-fields" not in raw.headers


async def test_unknown_fields_are_not_forwarded(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """A request cannot choose an address, key or model of a service, or pass unknown fields."""
    evil = {
        "base_url": "http://evil.example",
        "api_key": "x",
        "extra": {"model": "other"},
        "extra_body": {"a": 1},
        "user": "u",
    }
    response = await client.post("/v1/chat/completions", json={"model": "fake/fake-1", "messages": MESSAGES, **evil})
    assert response.status_code == 200
    assert services.requests[0].extra == {}
    assert set(response.headers["x-ignored-fields"].split(", ")) == set(evil)


async def test_fields_that_a_service_is_never_sent_are_named(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    services.models = (ConfiguredModel("fake", "fake-1", ("temperature",)),)
    asked = {"model": "fake/fake-1", "messages": MESSAGES, "temperature": 0.5, "seed": 1}
    for stream in (False, True):
        response = await client.post("/v1/chat/completions", json={**asked, "stream": stream})
        assert response.headers["x-ignored-fields"] == "temperature"


async def test_calls_of_tools_are_returned_as_they_come(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    """Whole, and streamed as deltas; the reason of the end is tool_calls."""
    services.tool_calls = CALLS[:1]
    answer = await sdk.chat.completions.create(model="fake/fake-1", messages=MESSAGES, tools=TOOLS)  # type: ignore[call-overload]
    [choice] = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls[0].function.name == "weather"
    services.tool_calls = CALLS
    stream = await sdk.chat.completions.create(model="fake/fake-1", messages=MESSAGES, tools=TOOLS, stream=True)  # type: ignore[call-overload]
    chunks = [chunk async for chunk in stream]
    parts = [part for chunk in chunks for part in chunk.choices[0].delta.tool_calls or ()]
    assert parts[0].id == "call_1"
    assert "".join(part.function.arguments for part in parts) == '{"city":"Rome"}'
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


async def test_results_of_tools_reach_the_model(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    """A turn of the assistant may hold calls alone; the result names its call."""
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    turns: Any = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Sunny."},
    ]
    await sdk.chat.completions.create(model="fake/fake-1", messages=turns, tools=TOOLS)  # type: ignore[call-overload]
    _, assistant, result = services.requests[0].messages
    assert (assistant.content, assistant.tool_calls) == ("", (call,))
    assert (result.role, result.tool_call_id, result.content) == ("tool", "call_1", "Sunny.")


async def test_a_research_model_ignores_what_steers_a_language_model(client: httpx2.AsyncClient) -> None:
    """Tools that need not be called, stop and sampling are named; a null is no field."""
    ignored = {
        "stop": ["END"],
        "temperature": 0.1,
        "seed": 1,
        "tool_choice": "auto",
        "tools": TOOLS,
        "reasoning_effort": "low",
    }
    sent = {"model": "research-deep", "messages": MESSAGES, **ignored, "top_p": None, "colour": None}
    response = await client.post("/v1/chat/completions", json=sent)
    assert response.status_code == 200
    assert set(response.headers["x-ignored-fields"].split(", ")) == set(ignored)


async def test_a_research_model_reads_past_the_turns_of_tools(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """Agents send their whole conversation; calls and results are no questions."""
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    turns = [
        {"role": "user", "content": "How is the weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Sunny."},
        {"role": "assistant", "content": "It is sunny."},
        *MESSAGES,
    ]
    response = await client.post("/v1/chat/completions", json={"model": "research-deep", "messages": turns})
    assert response.status_code == 200
    [turn] = services.requests[0].history
    assert turn.question == "How is the weather?"


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "user", "content": None},
        {"role": "tool", "content": "Sunny.", "tool_call_id": ""},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}] * (MAX_TOOLS + 1)},
    ],
)
async def test_empty_and_endless_turns_are_refused(client: httpx2.AsyncClient, turn: object) -> None:
    response = await client.post("/v1/chat/completions", json={"model": "fake/fake-1", "messages": [turn]})
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith("messages.0")
