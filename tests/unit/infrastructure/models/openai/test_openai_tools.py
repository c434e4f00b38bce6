"""A caller's fields that are sent to the service, and the returned calls of the caller's tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from pydantic import ValidationError
from tests.fakes.llm_contract import question
from tests.support.chat_server import (
    DONE,
    WORDS,
    ChatServer,
    Reply,
    answer,
    chunk,
    completion,
    error,
    spoken,
    stream,
    usage_chunk,
)

from modules.llm_platform.domain.dtos.llm_dtos import MAX_EXTRA_BYTES, ChatMessage, LLMRequest, LLMResponse, LLMToken
from modules.llm_platform.domain.exceptions import LLMProviderException, LLMRequestError
from modules.llm_platform.infrastructure.models.kinds import LLMConnection
from modules.llm_platform.infrastructure.models.openai.chat import OpenAIProvider
from modules.llm_platform.infrastructure.models.openai.meter import MAX_ANSWER_CHARS

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}


@pytest.fixture
async def serve():
    """A provider whose service sends the given replies, and that service."""
    async with AsyncExitStack() as stack:

        async def _serve(*replies: Reply, **config: Any) -> tuple[OpenAIProvider, ChatServer]:
            server = await stack.enter_async_context(ChatServer(*replies).running())
            common = {"name": "n", "kind": "openai", "model": "m", "base_url": server.url, "api_key": "k"}
            provider = OpenAIProvider(LLMConnection(**{**common, **config}))
            stack.push_async_callback(provider.aclose)
            return provider, server

        yield _serve


def part(index: int = 0, name: str | None = None, arguments: str | None = None, **fields: Any) -> dict[str, Any]:
    said = {key: text for key, text in (("name", name), ("arguments", arguments)) if text is not None}
    return {"index": index, **fields, "function": said}


STREAMED = stream(
    chunk("", role="assistant"),
    chunk(tool_calls=[part(name="weather", arguments="", id="call_1", type="function")]),
    chunk(tool_calls=[part(arguments='{"city":')]),
    chunk(tool_calls=[part(arguments=' "Rome"}'), part(1, "time", "{}", id="call_2", type="function")]),
    chunk(finish="tool_calls"),
    usage_chunk(11, 9),
    DONE,
)


def asked(**extra: Any) -> LLMRequest:
    return question().model_copy(update={"extra": extra})


async def test_fields_of_the_caller_are_sent_as_they_are(serve: Callable) -> None:
    provider, server = await serve(answer())
    extra = {"tools": TOOLS, "tool_choice": "auto", "stop": ["END"], "seed": 7, "top_p": 0.5}
    await provider.generate(asked(**extra))
    assert {name: server.asked[0].body[name] for name in extra} == extra


@pytest.mark.parametrize("name", ["model", "base_url", "api_key", "stream", "messages", "max_tokens", "user"])
def test_other_fields_are_refused(name: str) -> None:
    """A request can name no address, key, model or anything that the adapter sets."""
    with pytest.raises(ValidationError):
        LLMRequest(messages=question().messages, extra={name: "x"})
    with pytest.raises(ValidationError):
        LLMRequest(messages=question().messages, extra={"stop": "x" * MAX_EXTRA_BYTES})


async def test_calls_and_results_are_sent_in_the_form_of_the_protocol(serve: Callable) -> None:
    provider, server = await serve(answer())
    turns = (
        *question().messages,
        ChatMessage(role="assistant", content="", tool_calls=(CALL,)),
        ChatMessage(role="tool", content="Sunny.", tool_call_id="call_1"),
    )
    await provider.generate(LLMRequest(messages=turns, extra={"tools": TOOLS}))
    assert server.asked[0].body["messages"][-2:] == [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "Sunny.", "tool_call_id": "call_1"},
    ]


async def test_streamed_calls_are_passed_on_and_joined(serve: Callable) -> None:
    """Each part as it came, and the whole calls at the end."""
    provider, _ = await serve(STREAMED)
    parts = [part async for part in provider.stream(asked(tools=TOOLS))]
    deltas = [delta for part in parts if isinstance(part, LLMToken) for delta in part.tool_calls]
    assert (
        "".join(delta["function"].get("arguments", "") for delta in deltas if delta["index"] == 0) == '{"city": "Rome"}'
    )
    whole = parts[-1]
    assert isinstance(whole, LLMResponse)
    second = {"id": "call_2", "type": "function", "function": {"name": "time", "arguments": "{}"}}
    assert whole.tool_calls == (CALL, second)
    assert (whole.content, whole.finish_reason, whole.usage.completion_tokens) == ("", "tool_calls", 9)


@pytest.mark.parametrize("arguments", ['{"city": "Rome"}', {"city": "Rome"}])
async def test_whole_answers_have_calls_too(serve: Callable, arguments: object) -> None:
    """Also where a service sends the arguments as an object, or says `stop`."""
    call = {**CALL, "function": {"name": "weather", "arguments": arguments}}
    provider, _ = await serve(answer(completion(None, "stop", tool_calls=[call])))
    whole = await provider.generate(asked(tools=TOOLS))
    assert whole.tool_calls == (CALL,)
    assert whole.finish_reason == "tool_calls"


async def test_unrequested_tool_calls_are_no_answer(serve: Callable) -> None:
    """An answer that only calls tools that were not offered is empty."""
    provider, _ = await serve(STREAMED)
    with pytest.raises(LLMProviderException, match="empty answer"):
        await provider.generate(question())


@pytest.mark.parametrize(
    "calls",
    [
        "weather",
        [None, 5, "x"],
        [{"function": "f"}],
        [{"index": -1, "function": {"name": 5}}],
        [{"index": 10**9, "function": {"name": "weather", "arguments": "{}"}}],
    ],
)
async def test_calls_of_another_form_break_nothing(serve: Callable, calls: object) -> None:
    provider, _ = await serve(stream(chunk("Words.", tool_calls=calls), chunk(finish="stop"), DONE))
    whole = await provider.generate(asked(tools=TOOLS))
    assert whole.content == "Words."
    assert all(set(tool_call) == {"id", "type", "function"} for tool_call in whole.tool_calls)


async def test_endless_calls_are_cut_off(serve: Callable) -> None:
    """Arguments count like text."""
    long = chunk(tool_calls=[part(arguments="x" * (MAX_ANSWER_CHARS // 2))])
    provider, _ = await serve(stream(long, long, long, chunk(finish="tool_calls"), DONE))
    with pytest.raises(LLMProviderException, match="more text than the limit"):
        await provider.generate(asked(tools=TOOLS))


@pytest.mark.parametrize(
    "refusal",
    [
        {"message": "Unsupported parameter: 'stop' is not supported with this model.", "type": "invalid_request_error"},
        {"message": "Not supported.", "param": "stop", "type": "invalid_request_error"},
    ],
)
async def test_a_refused_field_of_the_caller_is_an_error_that_names_it(serve: Callable, refusal: object) -> None:
    """It is not dropped in silence, and nothing is remembered for the requests of others."""
    provider, server = await serve(error(400, {"error": refusal}), answer())
    with pytest.raises(LLMRequestError, match="does not accept this stop") as caught:
        await provider.generate(asked(stop=["END"]))
    assert caught.value.field == "stop"
    assert (await provider.generate(asked(stop=["END"]))).content == WORDS
    assert server.asked[-1].body["stop"] == ["END"]


@pytest.mark.parametrize(
    "message",
    [
        "Invalid schema for response_format 'answer': 'required' is required",
        "JSON schema conversion failed: Unrecognized schema",
        "failed to parse grammar",
    ],
)
async def test_a_refused_schema_of_a_caller_is_left_out_once(serve: Callable, message: str) -> None:
    """The next schema, ours or another caller's, is sent again."""
    provider, server = await serve(error(400, {"error": {"message": message}}), answer())
    schema = {"type": "object", "properties": {"a": {}}}
    theirs = question().model_copy(update={"json_schema": schema, "is_callers_schema": True})
    ours = question().model_copy(update={"json_schema": {"type": "object"}})
    for request in (theirs, ours, theirs):
        assert (await provider.generate(request)).content == WORDS
    formats = [request.body.get("response_format") for request in server.asked]
    assert formats[0]["json_schema"] == {"name": "answer", "schema": schema, "strict": False}  # type: ignore[index]
    assert [bool(response_format) for response_format in formats] == [True, False, True, True]


async def test_ignored_fields_are_those_that_are_never_sent(serve: Callable) -> None:
    """Kimi accepts no temperature, and LLM_TEMPERATURE overrides the request's."""
    fixed = [(await serve(spoken(), **how))[0].ignored_fields for how in ({"kind": "kimi"}, {"temperature": 0.7}, {})]
    assert fixed == [("temperature",), ("temperature",), ()]


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
async def test_empty_turns_are_sent_unchanged(serve: Callable, role: Any) -> None:
    """Some agents regularly return empty tool results, and the service decides whether to accept them."""
    provider, server = await serve(answer())
    await provider.generate(LLMRequest(messages=(*question().messages, ChatMessage(role=role, content=""))))
    assert server.asked[0].body["messages"][-1] == {"role": role, "content": ""}


def several(*texts: str) -> bytes:
    """Return a chunk with a part of each answer."""
    choices = [{"index": number, "delta": {"content": text}} for number, text in enumerate(texts)]
    return b"data: " + json.dumps({"choices": choices}).encode() + b"\n\n"


async def test_several_answers_come_apart(serve: Callable) -> None:
    """Each under its number, in one chunk or in several; more than were asked for are dropped."""
    end = json.dumps(
        {"choices": [{"index": number, "delta": {}, "finish_reason": "stop"} for number in (1, 0)]}
    ).encode()
    one = b'data: {"choices": [{"index": 1, "delta": {"content": " B"}}]}\n\n'
    provider, _ = await serve(stream(several("a", "b", "c"), one, b"data: " + end + b"\n\n", usage_chunk(3, 4), DONE))
    parts = [part async for part in provider.stream(asked(n=2))]
    streamed = [(part.choice, part.text) for part in parts if isinstance(part, LLMToken)]
    assert "".join(text for choice, text in streamed if choice == 1) == "b B"
    whole = parts[-1]
    assert isinstance(whole, LLMResponse)
    assert (whole.content, [other.content for other in whole.others]) == ("a", ["b B"])
    assert whole.usage.completion_tokens == 4


async def test_an_answer_as_it_comes_has_its_reasoning_and_may_be_empty(serve: Callable) -> None:
    """A research stage gets neither: for it an empty answer is a failure of the model."""
    thought = stream(chunk(reasoning_content="Let me "), chunk(reasoning_content="see."), chunk(finish="length"), DONE)
    provider, _ = await serve(thought)
    passed = question().model_copy(update={"as_it_comes": True})
    parts = [part async for part in provider.stream(passed)]
    assert "".join(part.reasoning for part in parts if isinstance(part, LLMToken)) == "Let me see."
    whole = await provider.generate(passed)
    assert (whole.content, whole.reasoning, whole.finish_reason) == ("", "Let me see.", "length")
    with pytest.raises(LLMProviderException):
        await provider.generate(question())


async def test_key_in_reasoning_and_logprobs_is_not_passed_on(serve: Callable) -> None:
    """Also in pieces, as a service that repeats its headers would send it."""
    key = "sk-secret-key-of-the-service"
    tokens = [key[:9], key[9:20], key[20:], " more"]
    entries = [{"token": token, "logprob": -0.1, "top_logprobs": []} for token in tokens]
    chunks = [
        b"data: "
        + json.dumps(
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": "x", "reasoning_content": token},
                        "logprobs": {"content": [entry]},
                    }
                ]
            }
        ).encode()
        + b"\n\n"
        for token, entry in zip(tokens, entries, strict=True)
    ]
    provider, _ = await serve(stream(*chunks, chunk(finish="stop"), DONE), api_key=key)
    request = asked(logprobs=True).model_copy(update={"as_it_comes": True})
    parts = [part async for part in provider.stream(request)]
    tokens_of = [part for part in parts if isinstance(part, LLMToken)]
    told = "".join(part.reasoning + "".join(entry["token"] for entry in part.logprobs) for part in tokens_of)
    assert key not in told
    assert key not in (await provider.generate(request)).model_dump_json()


async def test_details_of_the_usage_are_passed_on(serve: Callable) -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 7},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    provider, _ = await serve(answer(completion("x", "stop", usage)))
    counted = (await provider.generate(question())).usage
    assert (counted.cached_tokens, counted.reasoning_tokens) == (7, 3)
    assert (counted.prompt_tokens, counted.completion_tokens) == (9, 5)


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


async def test_parts_and_reasoning_of_turns_are_sent(serve: Callable) -> None:
    """An image is sent in the protocol's format, and earlier reasoning under the field name of such models."""
    provider, server = await serve(answer())
    parts = ({"type": "text", "text": "What is it?"}, IMAGE)
    turns = (
        ChatMessage(role="user", content="What is it?", parts=parts),
        ChatMessage(role="assistant", content="", reasoning="An image.", tool_calls=(CALL,)),
    )
    await provider.generate(LLMRequest(messages=turns))
    asked_turns = server.asked[0].body["messages"]
    assert asked_turns[0] == {"role": "user", "content": list(parts)}
    assert asked_turns[1]["reasoning_content"] == "An image."


@pytest.mark.parametrize(
    "part_",
    [
        {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest/meta-data"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "image_url", "image_url": "data:,"},
        {"type": "image_url"},
        {"type": "file", "file": {"file_id": "file-of-another"}},
        {"type": "file", "file": {"file_id": "file-of-another", "file_data": "data:,"}},
        {"type": "file", "file": {"file_data": "https://example.org/a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "http://10.0.0.1/x"}},
        {"type": "video_url", "video_url": {"url": "data:,"}},
        {"type": ["text"]},
        {"type": "text"},
    ],
)
def test_parts_bring_their_data(part_: dict[str, Any]) -> None:
    """No request makes a service fetch an address, or read a file of the operator's account."""
    with pytest.raises(ValidationError):
        ChatMessage(role="user", content="", parts=(part_,))
