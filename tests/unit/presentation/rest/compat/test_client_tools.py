"""Tools of a client with a research model: a forced tool defines the form of the answer, and other tools have no
effect. The requests are those of pydantic-ai, instructor, langchain, LlamaIndex, litellm and Vercel's AI SDK.
tests/clients has the packages themselves.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.compat.anthropic.test_messages import put_together, sent_events
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.dtos.llm_dtos import MAX_TOOLS
from modules.llm_platform.domain.untrusted.output_schema import MAX_SCHEMA_DEPTH

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"says": {"type": "string"}}, "required": ["says"]}
QUESTION = "What is Python asyncio?"
CHAT, RESPONSES, ANTHROPIC = "/v1/chat/completions", "/v1/responses", "/anthropic/v1/messages"
SONAR, AGENT = "/perplexity/chat/completions", "/perplexity/v1/responses"
TURNS = [{"role": "user", "content": QUESTION}]
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "research-deep", "messages": TURNS},
    RESPONSES: {"model": "research-deep", "input": QUESTION},
    ANTHROPIC: {"model": "research-deep", "max_tokens": 500, "messages": TURNS},
    SONAR: {"model": "sonar-pro", "messages": TURNS},
    AGENT: {"effort": "medium", "input": QUESTION},
}
DOORS = pytest.mark.parametrize("path", BODIES)
SECRET = "unlikely-name-of-a-tool"


def tool(path: str, name: str = "final_result", schema: Any = SCHEMA) -> dict[str, Any]:
    """Return a function in the syntax of the API at this path."""
    if path == ANTHROPIC:
        return {"name": name, "description": "The result.", "input_schema": schema}
    function = {"name": name, "description": "The result.", "parameters": schema, "strict": True}
    return {"type": "function", "function": function} if "chat" in path else {"type": "function", **function}


def named(path: str, name: str = "final_result") -> dict[str, Any]:
    """Return the choice of a tool by its name."""
    if path == ANTHROPIC:
        return {"type": "tool", "name": name}
    return {"type": "function", "function": {"name": name}} if "chat" in path else {"type": "function", "name": name}


def required(path: str) -> Any:
    return {"type": "any"} if path == ANTHROPIC else "required"


def auto(path: str, mode: str = "auto") -> Any:
    return {"type": mode} if path == ANTHROPIC else mode


def call_of(path: str, answer: dict[str, Any]) -> tuple[str, Any, str]:
    """Return the name, the arguments and the reason of the end of the only call in an answer."""
    if path == ANTHROPIC:
        [block] = [block for block in answer["content"] if block["type"] == "tool_use"]
        assert not [block for block in answer["content"] if block["type"] == "text"]
        return block["name"], block["input"], answer["stop_reason"]
    if "chat" in path:
        [choice] = answer["choices"]
        [call] = choice["message"]["tool_calls"]
        assert (choice["message"]["content"], call["type"], bool(call["id"])) == (None, "function", True)
        return call["function"]["name"], json.loads(call["function"]["arguments"]), choice["finish_reason"]
    [item] = [item for item in answer["output"] if item["type"] == "function_call"]
    assert not [item for item in answer["output"] if item["type"] == "message"]
    assert item["call_id"]
    return item["name"], json.loads(item["arguments"]), answer["status"]


def ended(path: str) -> str:
    return "tool_use" if path == ANTHROPIC else "tool_calls" if "chat" in path else "completed"


@DOORS
@pytest.mark.parametrize("is_named", [True, False])
async def test_parameters_of_a_forced_tool_are_the_schema_and_its_call_the_answer(
    client: httpx2.AsyncClient, services: FakeServices, path: str, is_named: bool
) -> None:
    """A tool is forced if it is named, or is the only one and required.

    Neither the tool nor its choice is reported as ignored.
    """
    choice = named(path) if is_named else required(path)
    response = await client.post(path, json={**BODIES[path], "tools": [tool(path)], "tool_choice": choice})
    assert response.status_code == 200, response.text
    assert services.requests[0].output_schema == SCHEMA
    assert call_of(path, response.json()) == ("final_result", services.output, ended(path))
    assert response.json()["llm_platform"]["synthesis"] == services.answer
    assert "tool" not in response.headers.get("x-ignored-fields", "")


@DOORS
async def test_stream_has_the_same_call(client: httpx2.AsyncClient, services: FakeServices, path: str) -> None:
    """The stream contains the call, and neither the text of the answer nor the arguments as text."""
    body = {**BODIES[path], "tools": [tool(path)], "tool_choice": named(path), "stream": True}
    response = await client.post(path, json=body)
    assert services.answer not in json.dumps(texts_of(path, response))
    assert call_of(path, whole_of(path, response)) == ("final_result", services.output, ended(path))


def texts_of(path: str, response: httpx2.Response) -> list[Any]:
    """Return the text that a client shows."""
    parts = data_of(response)
    if path == ANTHROPIC:
        return [part["delta"] for part in parts if part.get("delta", {}).get("type") == "text_delta"]
    if "chat" in path:
        return [choice["delta"].get("content") for part in parts for choice in part["choices"]]
    return [part for part in parts if part["type"].startswith("response.output_text")]


def data_of(response: httpx2.Response) -> list[dict[str, Any]]:
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def whole_of(path: str, response: httpx2.Response) -> dict[str, Any]:
    """Return the answer that the parts of a stream add up to."""
    if path == ANTHROPIC:
        events = sent_events(response.content)
        return {"content": put_together(events), "stop_reason": events[-2]["delta"]["stop_reason"]}
    parts = data_of(response)
    if "chat" not in path:
        return dict(parts[-1]["response"])
    choices = [choice for part in parts for choice in part["choices"]]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    message = {"content": None, "tool_calls": calls}
    return {"choices": [{"message": message, "finish_reason": choices[-1]["finish_reason"]}]}


@DOORS
@pytest.mark.parametrize("mode", ["auto", "none", None])
async def test_tools_that_need_not_be_called_are_named_as_ignored(
    client: httpx2.AsyncClient, services: FakeServices, path: str, mode: str | None
) -> None:
    choice = {} if mode is None else {"tool_choice": auto(path, mode)}
    response = await client.post(path, json={**BODIES[path], "tools": [tool(path), tool(path, "other")], **choice})
    assert response.status_code == 200, response.text
    assert services.requests[0].output_schema is None
    assert {"tools", *choice} <= set(response.headers["x-ignored-fields"].split(", "))
    assert services.answer in response.text


@DOORS
async def test_a_forced_tool_among_others_is_called_and_the_others_are_named(
    client: httpx2.AsyncClient, services: FakeServices, path: str
) -> None:
    tools = [tool(path, "other", {"type": "object"}), tool(path)]
    response = await client.post(path, json={**BODIES[path], "tools": tools, "tool_choice": named(path)})
    assert call_of(path, response.json())[0] == "final_result"
    assert services.requests[0].output_schema == SCHEMA
    ignored = response.headers["x-ignored-fields"].split(", ")
    assert ("tools" in ignored, "tool_choice" in ignored) == (True, False)


@DOORS
async def test_turns_after_the_call_of_a_forced_tool_ask_the_same_question(
    client: httpx2.AsyncClient, services: FakeServices, path: str
) -> None:
    """A library that could not validate an answer sends the call back with the reason, and forces the tool again."""
    arguments = json.dumps({"says": 1})
    call = {"id": "c1", "type": "function", "function": {"name": "final_result", "arguments": arguments}}
    turns: list[dict[str, Any]] = [
        *TURNS,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "1 is not a string: fix the errors and try again."},
    ]
    if path in (RESPONSES, AGENT):
        item = {"type": "function_call", "call_id": "c1", "name": "final_result", "arguments": arguments}
        turns = [*TURNS, item, {"type": "function_call_output", "call_id": "c1", "output": "1 is not a string."}]
    if path == ANTHROPIC:
        use = {"type": "tool_use", "id": "c1", "name": "final_result", "input": {"says": 1}}
        result = {"type": "tool_result", "tool_use_id": "c1", "content": "1 is not a string.", "is_error": True}
        turns = [*TURNS, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    field = "input" if path in (RESPONSES, AGENT) else "messages"
    response = await client.post(
        path, json={**BODIES[path], field: turns, "tools": [tool(path)], "tool_choice": named(path)}
    )
    assert response.status_code == 200, response.text
    assert services.requests[0].query == QUESTION
    assert call_of(path, response.json())[1] == services.output


@DOORS
@for_each(
    ("fields", "field"),
    [
        (lambda path: {"tool_choice": named(path, SECRET)}, "tool_choice"),
        (lambda path: {"tool_choice": named(path, "../../etc/passwd\x00")}, "tool_choice"),
        (lambda path: {"tools": [tool(path), tool(path, "b")], "tool_choice": required(path)}, "tool_choice"),
        (lambda path: {"tools": [], "tool_choice": required(path)}, "tool_choice"),
        (lambda path: {"tools": [tool(path, schema={"type": "array"})]}, "tools"),
        (lambda path: {"tools": [tool(path, schema={"$ref": f"http://{SECRET}.example"})]}, "tools"),
        (lambda path: {"tools": [tool(path, schema=deep(MAX_SCHEMA_DEPTH))]}, "tools"),
        (lambda path: {"tools": [tool(path, schema={"description": SECRET * 2000})]}, "tools"),
        (lambda path: {"tools": [tool(path, "x" * 300)], "tool_choice": required(path)}, "tools"),
        (lambda path: {"tools": [{}] * (MAX_TOOLS + 1)}, "tools"),
        (lambda path: {"tools": SECRET}, "tools"),
        (lambda path: {"tool_choice": [SECRET]}, "tool_choice"),
    ],
)
async def test_call_that_cannot_be_made_is_refused_by_field(path: str, fields: Any, field: str) -> None:
    """The error names the field in the API's format, without the value, and precedes any search."""
    services = FakeServices()
    async with app_client(services) as client:
        body = {**BODIES[path], "tools": [tool(path)], "tool_choice": named(path), **fields(path)}
        response = await client.post(path, json=body)
    assert response.status_code in (400, 422), response.text
    error = response.json()["error"]
    assert error["message"].startswith(field)
    assert SECRET not in response.text
    assert "passwd" not in response.text
    assert services.requests == []


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@DOORS
async def test_without_a_language_model_a_forced_tool_names_the_setting(path: str) -> None:
    services = FakeServices()
    services.models = ()
    async with app_client(services) as client:
        body = {**BODIES[path], "tools": [tool(path)]}
        refused = await client.post(path, json={**body, "tool_choice": named(path)})
        answered = await client.post(path, json=body)
    assert (refused.status_code in (400, 422), answered.status_code) == (True, 200)
    assert "LLM_API_KEY" in refused.json()["error"]["message"]


@DOORS
async def test_schema_that_was_not_filled_is_an_error(
    client: httpx2.AsyncClient, services: FakeServices, path: str
) -> None:
    services.output = None
    body = {**BODIES[path], "tools": [tool(path)], "tool_choice": named(path)}
    assert (await client.post(path, json=body)).status_code == 502
    streamed = await client.post(path, json={**body, "stream": True})
    assert "arguments" not in streamed.text
    assert "error" in streamed.text


FINAL = {"type": "function", "function": {"name": "final_result"}}


@for_each(
    "choice",
    [
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [FINAL]}},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "final_result"}]},
        "any",
        {"type": "any"},
        {"type": "tool", "name": "final_result"},
        {"type": "function", "name": "final_result"},
    ],
)
async def test_choices_in_the_syntax_of_other_apis_are_accepted(choice: Any) -> None:
    services = FakeServices()
    async with app_client(services) as client:
        for path in (CHAT, RESPONSES):
            response = await client.post(path, json={**BODIES[path], "tools": [tool(path)], "tool_choice": choice})
            assert call_of(path, response.json())[0] == "final_result"


async def test_tools_in_the_syntax_of_other_apis_are_accepted(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    for other in (RESPONSES, ANTHROPIC):
        body = {**BODIES[CHAT], "tools": [tool(other)], "tool_choice": "required"}
        assert call_of(CHAT, (await client.post(CHAT, json=body)).json())[0] == "final_result"
        assert services.requests[-1].output_schema == SCHEMA


async def test_name_of_a_tool_comes_back_as_it_was_sent(client: httpx2.AsyncClient) -> None:
    """It names nothing on the server: a path is a name like any other."""
    name = "../../etc/passwd?x=<script>"
    body = {**BODIES[CHAT], "tools": [tool(CHAT, name)], "tool_choice": named(CHAT, name)}
    assert call_of(CHAT, (await client.post(CHAT, json=body)).json())[0] == name


async def test_search_of_the_service_and_a_forced_tool_go_together(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """A research run searches in any case, restricted as the search says, and then calls the tool."""
    search = {"type": "web_search_20260318", "name": "web_search", "allowed_domains": ["example.org"]}
    body = {**BODIES[ANTHROPIC], "tools": [search, tool(ANTHROPIC)], "tool_choice": {"type": "any"}}
    response = await client.post(ANTHROPIC, json=body)
    assert call_of(ANTHROPIC, response.json())[0] == "final_result"
    assert services.requests[0].domains == ("example.org",)
    web = {"type": "web_search", "filters": {"allowed_domains": ["example.org"]}}
    body = {**BODIES[RESPONSES], "tools": [web, tool(RESPONSES)], "tool_choice": "required"}
    assert call_of(RESPONSES, (await client.post(RESPONSES, json=body)).json())[0] == "final_result"
    assert services.requests[1].domains == ("example.org",)


async def test_call_of_a_background_run_is_fetched_later(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """The stored run knows the tool: its object, and its events again, have the call."""
    sdk: Any = openai.AsyncOpenAI(api_key="key", base_url="http://localhost/v1", http_client=client, max_retries=0)
    body = {**BODIES[RESPONSES], "tools": [tool(RESPONSES)], "tool_choice": named(RESPONSES)}
    queued = await sdk.responses.create(**body, background=True)
    events = [event async for event in await sdk.responses.retrieve(queued.id, stream=True)]
    assert events[-1].type == "response.completed"
    found = await sdk.responses.retrieve(queued.id)
    [call] = found.output
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "final_result", services.output)
    assert call.model_dump() == events[-1].response.output[0].model_dump()


async def test_a_schema_that_is_too_deep_is_reported() -> None:
    """The body is valid JSON, so the error names its depth, and contains nothing of the body."""
    schema = "{}"
    for _ in range(500):
        schema = f'{{"properties": {{"zqxvmark": {schema}}}}}'
    body = f'{{"model": "research-shallow", "messages": [], "tools": [{schema}]}}'
    async with app_client(FakeServices()) as client:
        response = await client.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert "more than 200 levels" in response.json()["error"]["message"]
    assert "zqxvmark" not in response.text
