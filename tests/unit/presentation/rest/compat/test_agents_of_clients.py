"""Agents that use a language model through the server. The server forwards their messages unless they are unsafe."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import openai
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.dtos.llm_dtos import MAX_MESSAGES, LLMResponse, LLMToken, Usage
from modules.llm_platform.domain.exceptions import LLMUnavailableError
from modules.llm_platform.presentation.rest.http import body as http_body
from modules.llm_platform.presentation.rest.http import sse
from modules.llm_platform.testing.waiting import START_TIMEOUT_S

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
LLM = "fake/fake-1"
HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
PNG = "data:image/png;base64,AAAA"
FIELDS: dict[str, Any] = {
    "top_k": 40,
    "min_p": 0.05,
    "repetition_penalty": 1.1,
    "min_tokens": 1,
    "logprobs": True,
    "top_logprobs": 5,
    "logit_bias": {"50256": -100},
    "n": 2,
    "verbosity": "low",
    "enable_thinking": False,
    "thinking": {"type": "disabled"},
    "chat_template_kwargs": {"enable_thinking": False},
    "prompt_cache_key": "k",
}


@pytest.fixture
async def sdk(client: httpx2.AsyncClient) -> Any:
    return openai.AsyncOpenAI(api_key="key", base_url="http://localhost/v1", http_client=client, max_retries=0)


async def test_empty_turns_reach_the_model(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """A tool that returns "", an empty system prompt, an answer that was nothing but calls, or nothing at all."""
    turns = [
        {"role": "system", "content": ""},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": ""},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None},
        *HELLO,
    ]
    response = await client.post(CHAT, json={"model": LLM, "messages": turns})
    assert response.status_code == 200, response.text
    assert [turn.content for turn in services.requests[0].messages] == [""] * 6 + ["Hello"]
    items = [*HELLO, {"type": "function_call", "call_id": "c1", "name": "f", "arguments": ""},
             {"type": "function_call_output", "call_id": "c1", "output": ""}]  # fmt: skip
    response = await client.post(RESPONSES, json={"model": LLM, "input": items, "instructions": ""})
    assert response.status_code == 200, response.text
    assert [turn.content for turn in services.requests[1].messages] == ["Hello", "", ""]


async def test_fields_of_other_services_are_forwarded(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """Those that steer the words of an answer; a research run names them."""
    response = await client.post(CHAT, json={"model": LLM, "messages": HELLO, **FIELDS})
    assert response.status_code == 200, response.text
    assert services.requests[0].extra == FIELDS
    assert "x-ignored-fields" not in response.headers
    more = {name: value for name, value in FIELDS.items() if name not in ("n", "logprobs", "logit_bias")}
    response = await client.post(CHAT, json={"model": "research-deep", "messages": HELLO, **more})
    assert set(response.headers["x-ignored-fields"].split(", ")) == set(more)


@for_each(
    ("path", "body"),
    [
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "What?"},
                                                          {"type": "image_url", "image_url": {"url": PNG}}]}]}),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "What?"},
                                                          {"type": "image_url", "image_url": PNG}]}]}),
        (RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_text", "text": "What?"},
                                                            {"type": "input_image", "image_url": PNG}]}]}),
    ],
)  # fmt: skip
async def test_images_reach_the_model(path: str, body: dict[str, Any]) -> None:
    """Images are forwarded with their data, and the text of the message as usual. A research model uses only the text."""
    services = FakeServices()
    async with app_client(services) as client:
        response = await client.post(path, json={"model": LLM, **body})
        refused = await client.post(path, json={"model": "research-deep", **body})
    assert response.status_code == 200, response.text
    [turn] = services.requests[0].messages
    assert turn.content == "What?"
    assert turn.parts == ({"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": PNG}})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"].endswith("0.content.1.type")


@for_each(
    ("path", "body"),
    [
        (
            CHAT,
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://10.1.2.3/x"}}]}
                ]
            },
        ),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-10.1.2.3"}}]}]}),
        (
            RESPONSES,
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://10.1.2.3/x"}]}]},
        ),
        (RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-10.1.2.3"}]}]}),
    ],
)
async def test_address_of_an_image_is_not_forwarded(path: str, body: dict[str, Any]) -> None:
    """A model in a private network would fetch the address from there.

    The error says what to send, without the address.
    """
    services = FakeServices()
    async with app_client(services) as client:
        response = await client.post(path, json={"model": LLM, **body})
    assert response.status_code == 400
    assert "data: URL" in response.json()["error"]["message"]
    assert "10.1.2.3" not in response.text
    assert services.requests == []


async def test_reasoning_goes_both_ways(sdk: Any, services: FakeServices) -> None:
    """In the field that DeepSeek, Kimi and vLLM use, whole and streamed."""
    services.llm_tokens = (
        LLMToken(text="", reasoning="Let me "),
        LLMToken(text="", reasoning="see."),
        LLMToken(text="Yes."),
    )
    services.llm_fields = {"content": "Yes.", "reasoning": "Let me see."}
    turns = [*HELLO, {"role": "assistant", "content": "Hm.", "reasoning_content": "A greeting."}, *HELLO]
    whole = await sdk.chat.completions.create(model=LLM, messages=turns)
    assert services.requests[0].messages[1].reasoning == "A greeting."
    assert services.requests[0].as_it_comes
    assert (whole.choices[0].message.content, whole.choices[0].message.reasoning_content) == ("Yes.", "Let me see.")
    stream = await sdk.chat.completions.create(model=LLM, messages=turns, stream=True)
    deltas = [chunk.choices[0].delta async for chunk in stream]
    assert "".join(getattr(delta, "reasoning_content", "") for delta in deltas) == "Let me see."
    assert "".join(delta.content or "" for delta in deltas) == "Yes."


async def test_several_answers_logprobs_and_details_come_back(sdk: Any, services: FakeServices) -> None:
    entry = {"token": "A", "logprob": -0.5, "bytes": [65], "top_logprobs": []}
    other = LLMResponse(content="B", provider="fake", model="fake-1", finish_reason="length")
    usage = Usage(prompt_tokens=3, completion_tokens=4, cached_tokens=2, reasoning_tokens=1)
    services.llm_tokens = (LLMToken(text="A", logprobs=(entry,)), LLMToken(text="B", choice=1))
    services.llm_fields = {"content": "A", "others": (other,), "logprobs": (entry,), "usage": usage}
    asked = {"model": LLM, "messages": HELLO, "n": 2, "logprobs": True}
    whole = await sdk.chat.completions.create(**asked)
    assert [(choice.index, choice.message.content, choice.finish_reason) for choice in whole.choices] == [
        (0, "A", "stop"),
        (1, "B", "length"),
    ]
    assert whole.choices[0].logprobs.content[0].token == "A"
    assert whole.usage.prompt_tokens_details.cached_tokens == 2
    assert whole.usage.completion_tokens_details.reasoning_tokens == 1
    chunks = [chunk async for chunk in await sdk.chat.completions.create(**asked, stream=True)]
    said = {
        (choice.index, choice.delta.content) for chunk in chunks for choice in chunk.choices if choice.delta.content
    }
    assert said == {(0, "A"), (1, "B")}
    ends = {choice.index: choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason}
    assert ends == {0: "stop", 1: "length"}


async def test_long_conversations_are_bounded_by_bytes(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """As many turns as an agent makes, and messages of a megabyte; beyond the limits in the shape of the API."""
    turns = [{"role": "user", "content": "x"}] * MAX_MESSAGES
    assert (await client.post(CHAT, json={"model": LLM, "messages": turns})).status_code == 200
    long = {"role": "user", "content": "word " * 400_000}
    assert (await client.post(CHAT, json={"model": LLM, "messages": [long]})).status_code == 200
    assert len(services.requests[1].messages[0].content) == 2_000_000
    for messages, status in (([*turns, *HELLO], 400), ([long] * 5, 413)):
        response = await client.post(CHAT, json={"model": LLM, "messages": messages})
        assert response.status_code == status
        assert response.json()["error"]["message"]
    assert len(services.requests) == 2


async def test_a_large_body_of_small_values_is_refused_before_it_is_parsed(client: httpx2.AsyncClient) -> None:
    """A list that is empty takes two bytes to send and sixty to keep: a million tools would take the memory of a server."""
    body = b'{"model": "fake/fake-1", "messages": [], "tools": [' + b"{}," * 1_000_000 + b"{}]}"
    assert len(body) < http_body.MAX_CONVERSATION_BYTES
    response = await client.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert "too many values" in response.json()["error"]["message"]


async def test_stream_begins_before_the_first_word(
    client: httpx2.AsyncClient, services: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head goes out while the model reads, with a sign of life; an error after it is a part of the stream."""
    monkeypatch.setattr(sse, "FIRST_EVENT_S", 0.01)
    monkeypatch.setattr(sse, "HEARTBEAT_S", 0.01)
    beats: list[bytes] = []
    has_beaten = asyncio.Event()
    send_part = sse._send_part

    async def counted(send: Any, body: bytes, *, is_last: bool = False) -> None:
        await send_part(send, body, is_last=is_last)
        beats.extend([body] if body == sse.HEARTBEAT else [])
        if len(beats) == 2:
            has_beaten.set()

    monkeypatch.setattr(sse, "_send_part", counted)
    services.gate.clear()
    body = {"model": LLM, "messages": HELLO, "stream": True}
    asked = asyncio.create_task(client.post(CHAT, json=body))
    await has_beaten.wait()
    services.error = LLMUnavailableError("The model is away")
    services.gate.set()
    response = await asked
    assert response.status_code == 200
    assert response.text.count(sse.HEARTBEAT.decode()) >= 2
    assert "The model is away" in response.text
    monkeypatch.setattr(sse, "FIRST_EVENT_S", START_TIMEOUT_S)  # the error precedes the head of the response
    services.error = LLMUnavailableError("The model is away")
    assert (await client.post(CHAT, json=body)).status_code == 502


async def test_client_that_leaves_before_the_first_word_ends_the_call(
    services: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "FIRST_EVENT_S", 0.01)
    services.gate.clear()
    async with app_client(services) as client:
        with pytest.raises(asyncio.CancelledError):
            asked = asyncio.create_task(client.post(CHAT, json={"model": LLM, "messages": HELLO, "stream": True}))
            while not services.requests:
                await asyncio.sleep(0.01)
            asked.cancel()
            await asked
        while not services.cancelled:
            await asyncio.sleep(0.01)
    assert services.cancelled == 1


async def test_response_continues_a_conversation_with_a_model(sdk: Any, services: FakeServices) -> None:
    """The earlier turns include tool calls and their results, also of streamed responses.

    The instructions are those of the new request.
    """
    services.tool_calls = (CALL,)
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    first = await sdk.responses.create(model=LLM, input="Weather?", instructions="Be brief.", tools=[tool])
    services.tool_calls = ()
    output = [{"type": "function_call_output", "call_id": "c1", "output": "Sunny."}]
    stream = await sdk.responses.create(
        model=LLM, input=output, previous_response_id=first.id, instructions="In verse.", stream=True
    )
    second = [event async for event in stream][-1].response
    await sdk.responses.create(model=LLM, input="And tomorrow?", previous_response_id=second.id)
    said = [(turn.role, turn.content) for turn in services.requests[1].messages]
    assert said == [
        ("system", "In verse."),
        ("user", "Weather?"),
        ("assistant", services.answer),
        ("tool", "Sunny."),
    ]
    assert services.requests[1].messages[2].tool_calls == (CALL,)
    assert [turn.role for turn in services.requests[2].messages] == ["user", "assistant", "tool", "assistant", "user"]


async def test_conversation_of_another_key_or_none_is_not_found() -> None:
    services = FakeServices()
    keys = ("a-long-enough-key-1", "a-long-enough-key-2")
    async with app_client(services, LLM_PLATFORM_API_KEYS=",".join(keys)) as client:
        first, other = ({"authorization": f"Bearer {key}"} for key in keys)
        found = (await client.post(RESPONSES, json={"model": LLM, "input": "Hi"}, headers=first)).json()["id"]
        unkept = (
            await client.post(RESPONSES, json={"model": LLM, "input": "Hi", "store": False}, headers=first)
        ).json()["id"]
        continued = {"model": LLM, "input": "And?", "previous_response_id": found}
        statuses = [(await client.post(RESPONSES, json=continued, headers=key)).status_code for key in (first, other)]
        continued["previous_response_id"] = unkept
        statuses.append((await client.post(RESPONSES, json=continued, headers=first)).status_code)
    assert statuses == [200, 404, 404]


@for_each(
    ("path", "body"),
    [
        (CHAT, {"messages": HELLO, "response_format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}}),
        (RESPONSES, {"input": "What is asyncio?", "text": {"format": {"type": "json_schema", "json_schema": {
            "name": "a", "schema": {"type": "object"}}}}}),
        (RESPONSES, {"input": "What is asyncio?", "response_format": {"type": "json_schema", "json_schema": {
            "name": "a", "schema": {"type": "object"}}}}),
    ],
)  # fmt: skip
async def test_schema_in_the_syntax_of_the_other_api_is_accepted(path: str, body: dict[str, Any]) -> None:
    """A schema in the syntax of the other API is accepted by language models and by research models."""
    services = FakeServices()
    async with app_client(services) as client:
        for model in (LLM, "research-deep"):
            response = await client.post(path, json={"model": model, **body})
            assert response.status_code == 200, response.text
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    assert json.loads(json.dumps(services.requests[0].extra["response_format"])) == wanted
    assert services.requests[1].output_schema == {"type": "object"}
