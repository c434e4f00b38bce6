"""The Responses APIs with a JSON schema, and with tools of the client before a language model."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import REF, FakeServices, app_client

from modules.llm_platform.domain.dtos.degraded import Degraded

SCHEMA = {"type": "object", "properties": {"says": {"type": "string"}}, "required": ["says"]}
TEXT: Any = {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
QUESTION = "What is asyncio?"
DOORS = (
    ("/v1/responses", {"model": "research-deep", "input": QUESTION, "text": TEXT}, "text.format"),
    ("/perplexity/v1/responses", {"effort": "medium", "input": QUESTION, "response_format": FORMAT}, "response_format"),
)
DOOR = for_each(("path", "body", "field"), DOORS)
TOOL: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": True}
OUTPUT = {"type": "function_call_output", "call_id": "1", "output": "x"}
CALL = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
}


@pytest.fixture
async def sdk(client: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="key", base_url="http://localhost/v1", http_client=client, max_retries=0)


def stream_events(response: httpx2.Response) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]


@DOOR
async def test_the_text_is_the_json_object(path: str, body: dict[str, Any], field: str) -> None:
    """Streamed, stored and at once; its annotations are the markers in its strings."""
    services = FakeServices()
    async with app_client(services) as client:
        response = (await client.post(path, json=body)).json()
        [part] = response["output"][-1]["content"]
        assert json.loads(part["text"]) == services.output
        assert services.requests[0].output_schema == SCHEMA
        [annotation] = part["annotations"]
        assert (part["text"][annotation["start_index"] : annotation["end_index"]], annotation["url"]) == (
            "[1]",
            REF.url,
        )
        assert response["llm_platform"]["synthesis"] == services.answer
        assert (await client.get(f"{path}/{response['id']}")).json() == response
        for background in (False, True):
            events = stream_events(await client.post(path, json={**body, "stream": True, "background": background}))
            text = "".join(event.get("delta", "") for event in events)
            assert json.loads(text) == services.output
            assert events[-1]["response"]["output"][-1]["content"] == [part]


@DOOR
async def test_an_object_that_was_not_made_is_an_error(path: str, body: dict[str, Any], field: str) -> None:
    """At once, in a stream, and in the background; such an answer is not stored as a good one."""
    services = FakeServices()
    services.output = None
    services.degraded = (Degraded(component="output", reason="llm_budget: nothing is left"),)
    async with app_client(services) as client:
        response = await client.post(path, json=body)
        assert (response.status_code, "nothing is left" in response.text) == (502, True)
        assert await services.jobs.page("", 10) == ()
        for background in (False, True):
            sent = {**body, "stream": True, "background": background}
            events = stream_events(await client.post(path, json=sent))
            assert events[-1]["type"] == "response.failed"
            assert "nothing is left" in json.dumps(events[-1])
            assert not any("delta" in event for event in events)


@DOOR
async def test_without_a_model_the_field_is_named(path: str, body: dict[str, Any], field: str) -> None:
    services = FakeServices()
    services.models = ()
    async with app_client(services) as client:
        response = await client.post(path, json=body)
        assert response.json()["error"]["param"] == field
        assert services.requests == []


async def test_fields_for_the_language_model_are_forwarded(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    """Each under its name in chat completions."""
    await sdk.responses.create(
        model="fake/fake-1",
        input=QUESTION,
        temperature=0.5,
        top_p=0.9,
        tools=[TOOL],
        parallel_tool_calls=False,
        tool_choice={"type": "function", "name": "weather"},
        text=TEXT,
        reasoning={"effort": "low"},
    )
    [prompt] = services.requests
    assert prompt.temperature == 0.5
    assert prompt.extra == {
        "top_p": 0.9,
        "tools": [
            {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}, "strict": True}}
        ],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}},
    }


async def test_calls_of_tools_are_items(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    services.tool_calls, services.answer = ({name: value for name, value in CALL.items() if name != "index"},), ""
    response: Any = await sdk.responses.create(model="fake/fake-1", input=QUESTION, tools=[TOOL])
    [call] = response.output
    assert (call.type, call.call_id, call.name, call.arguments) == (
        "function_call",
        "call_1",
        "weather",
        '{"city": "Oslo"}',
    )
    assert response.status == "completed"


async def test_text_comes_before_the_calls(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """At once and streamed alike: the order of the items is that in which the model wrote them."""
    services.tool_calls, services.answer = (CALL,), "Let me look."
    body = {"model": "fake/fake-1", "input": QUESTION, "tools": [TOOL]}
    whole = (await client.post("/v1/responses", json=body)).json()["output"]
    streamed = stream_events(await client.post("/v1/responses", json={**body, "stream": True}))[-1]["response"][
        "output"
    ]
    for output in (whole, streamed):
        assert [item["type"] for item in output] == ["message", "function_call"]
        assert (output[0]["content"][0]["text"], output[1]["arguments"]) == ("Let me look.", '{"city": "Oslo"}')


async def test_calls_of_tools_are_streamed(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    """A client joins the parts of the arguments. The text before the call is a separate message."""
    parts = [
        {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": '{"city"'}},
        {"index": 0, "function": {"arguments": ': "Oslo"}'}},
    ]
    services.tool_calls, services.answer = tuple(parts), "Let me look."
    async with sdk.responses.stream(model="fake/fake-1", input=QUESTION, tools=[TOOL]) as stream:
        events: Any = [event async for event in stream]
        response: Any = await stream.get_final_response()
    calls = [item for item in response.output if item.type == "function_call"]
    assert [(call.name, call.arguments) for call in calls] == [("weather", '{"city": "Oslo"}')]
    assert response.output_text == "Let me look."
    kinds = [event.type for event in events]
    assert kinds.count("response.function_call_arguments.delta") == 2
    assert kinds.index("response.function_call_arguments.done") < kinds.index("response.completed")
    assert sorted(event.output_index for event in events if event.type == "response.output_item.done") == [0, 1]


async def test_results_of_tools_go_back_to_the_model(sdk: openai.AsyncOpenAI, services: FakeServices) -> None:
    """The calls of one turn are one turn of the assistant, with its text; each result is a turn of a tool."""
    turns: Any = [
        {"role": "user", "content": "Weather?"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "1", "name": "weather", "arguments": "{}"},
        {"type": "function_call", "call_id": "2", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "sun"},
        {"type": "function_call_output", "call_id": "2", "output": "rain"},
    ]
    await sdk.responses.create(model="fake/fake-1", input=turns, tools=[TOOL])
    [prompt] = services.requests
    assert [(turn.role, turn.content, len(turn.tool_calls), turn.tool_call_id) for turn in prompt.messages] == [
        ("user", "Weather?", 0, None),
        ("assistant", "I look.", 2, None),
        ("tool", "sun", 0, "1"),
        ("tool", "rain", 0, "2"),
    ]


async def test_text_after_tool_calls_belongs_to_the_same_turn(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """Models expect the results of calls directly after them."""
    call = {"type": "function_call", "call_id": "1", "name": "weather", "arguments": "{}"}
    texts = [{"role": "assistant", "content": text} for text in ("I look.", "In Oslo.")]
    sent = [{"role": "user", "content": "Weather?"}, call, *texts, OUTPUT, texts[0]]
    await client.post("/v1/responses", json={"model": "fake/fake-1", "input": sent})
    [prompt] = services.requests
    assert [(turn.role, turn.content, len(turn.tool_calls)) for turn in prompt.messages] == [
        ("user", "Weather?", 0),
        ("assistant", "I look.\n\nIn Oslo.", 1),
        ("tool", "x", 0),
        ("assistant", "I look.", 0),
    ]


@for_each(
    ("body", "message"),
    [
        ({"model": "research-deep", "tools": [{"type": "computer"}]}, "tools.0: a research run has no such tool"),
        ({"model": "fake/fake-1", "tools": [{"type": "web_search"}]}, "tools.0: a language model takes functions only"),
        ({"model": "research-deep", "input": [OUTPUT]}, "input: the last message must have the role user"),
        ({"model": "fake/fake-1", "input": [{"type": "function_call", "call_id": "1"}]}, "input.0.name: is missing"),
    ],
)
async def test_tool_in_the_wrong_place_is_refused_with_the_reason(body: dict[str, Any], message: str) -> None:
    async with app_client() as client:
        response = await client.post("/v1/responses", json={"input": QUESTION, **body})
        assert response.status_code == 400
        assert response.json()["error"]["message"].startswith(message)
