"""A relayed answer has the bytes of the service, whatever these are, within the limits of every answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.support.chat_server import DONE, EVENTS, HTML, ChatServer, Reply, answer, chunk, stream

from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest, LLMResponse, LLMToken, Relay
from modules.llm_platform.domain.exceptions import LLMException, LLMProviderException, LLMTimeoutError
from modules.llm_platform.infrastructure.models.kinds import LLMConnection
from modules.llm_platform.infrastructure.models.openai import event_stream, meter
from modules.llm_platform.infrastructure.models.openai.chat import OpenAIProvider

RECORDED = Path(__file__).parents[4] / "recordings" / "gateway"
KEY = "key-of-mine-1234"
MESSAGES = (ChatMessage(role="user", content="How heavy is it?"),)


async def relay(server: ChatServer, wish: Relay, **connection: float) -> tuple[bytes, str, LLMResponse]:
    async with server.running():
        config = LLMConnection(name="here", kind="vllm", model="small", base_url=server.url, api_key=KEY, **connection)  # type: ignore[arg-type]
        provider = OpenAIProvider(config)
        request = LLMRequest(
            messages=MESSAGES, as_it_comes=True, relay=wish, step_s=0.0, extra={"tools": [], "logprobs": True}
        )
        try:
            parts = [part async for part in provider.stream(request)]
        finally:
            await provider.aclose()
    tokens = [part for part in parts if isinstance(part, LLMToken)]
    has_events = wish.streams and not tokens[0].raw.startswith(b"{")
    assert not has_events or all(token.raw.endswith((b"\n\n", b"\r\n\r\n")) for token in tokens)
    assert isinstance(parts[-1], LLMResponse)
    return b"".join(token.raw for token in tokens), "".join(token.text for token in tokens), parts[-1]


def split(body: bytes, size: int) -> Sequence[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.glob("*.json")))
async def test_a_whole_answer_has_the_bytes_of_the_service(name: str) -> None:
    body = (RECORDED / name).read_bytes()
    server = ChatServer(Reply(split(body, 100)))
    raw, _, _ = await relay(server, Relay())
    assert raw == body
    assert "stream" not in server.asked[0].body


@pytest.mark.parametrize("size", [1, 97, 100_000])
@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.glob("*.sse")))
async def test_a_stream_has_the_bytes_of_the_service_wherever_its_packets_end(name: str, size: int) -> None:
    body = (RECORDED / name).read_bytes()
    raw, _, _ = await relay(ChatServer(Reply(split(body, size), content_type=EVENTS)), Relay(streams=True))
    assert raw == body


async def test_the_service_streams_and_counts_only_if_the_client_wants_it() -> None:
    server = ChatServer(stream(chunk("A"), chunk(finish="stop"), DONE))
    await relay(server, Relay(streams=True))
    await relay(server, Relay(streams=True, includes_usage=True))
    plain, counted = (asked.body for asked in server.asked)
    assert plain["stream"] is True
    assert "stream_options" not in plain
    assert counted["stream_options"] == {"include_usage": True}


async def test_the_text_is_the_text_of_the_first_choice_with_its_reasoning_tags() -> None:
    raw, text, _ = await relay(
        ChatServer(stream(chunk("<think>hm</think> It "), chunk("weighs."), chunk(finish="stop"), DONE)),
        Relay(streams=True),
    )
    assert text == "<think>hm</think> It weighs."
    assert b"<think>hm" in raw


async def test_a_refusal_and_a_repetition_are_passed_on() -> None:
    refused = chunk(None, refusal="No.") + chunk(finish="stop") + DONE
    assert (await relay(ChatServer(stream(refused)), Relay(streams=True)))[0] == refused
    looping = chunk("again and again and ") * 400 + chunk(finish="length") + DONE
    assert (await relay(ChatServer(stream(looping)), Relay(streams=True)))[0] == looping


async def test_one_object_in_place_of_a_stream_is_passed_on_without_the_key() -> None:
    body = json.dumps({"choices": [{"message": {"content": f"The key is {KEY}."}}]}).encode()
    server = ChatServer(Reply([*split(body, 7)]))
    raw, text, _ = await relay(server, Relay())
    streamed = await relay(ChatServer(Reply([*split(body, 7)])), Relay(streams=True, includes_usage=True))
    assert streamed[:2] == (raw, text) == (body.replace(KEY.encode(), b"[redacted]"), f"The key is {KEY}.")


@pytest.mark.parametrize(
    ("reply", "streams"),
    [
        (stream(chunk("A"), DONE), False),
        (answer(b"[1]"), True),
        (Reply([b"<html>\n\n</html>"], content_type=HTML), True),
        (Reply([b"<html>\n\n</html>"], content_type=HTML), False),
        (answer(b'{"choices": [}'), False),
        (answer(b"[" * 100_000), False),
        (stream(b"data: {broken\n\n", DONE), True),
        (stream(b'data: {"error": {"message": "overloaded"}}\n\n'), True),
        (stream(), True),
    ],
)
async def test_what_is_no_answer_is_an_error_of_the_service(reply: Reply, streams: bool) -> None:
    with pytest.raises(LLMException) as caught:
        await relay(ChatServer(reply), Relay(streams=streams))
    assert KEY not in str(caught.value)


async def test_a_stream_without_an_end_or_a_line_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_STREAM_BYTES", 100_000)
    monkeypatch.setattr(meter, "MAX_ANSWER_CHARS", 50_000)
    for part in (b"data: " + b"x" * 1000, chunk("x" * 1000), b": comment\n\n" * 100):
        with pytest.raises(LLMProviderException, match="limit"):
            await relay(ChatServer(stream(*([part] * 200), ending="hang")), Relay(streams=True))
    with pytest.raises(LLMTimeoutError):
        await relay(ChatServer(stream(chunk("A"), ending="hang")), Relay(streams=True), idle_timeout=0.2)


async def test_a_reader_that_stops_closes_the_connection() -> None:
    server = ChatServer(stream(chunk("A"), ending="hang"))
    async with server.running():
        provider = OpenAIProvider(LLMConnection(name="here", kind="vllm", model="small", base_url=server.url))
        request = LLMRequest(messages=MESSAGES, relay=Relay(streams=True), step_s=0.0)
        async with aclosing(provider.stream(request)) as parts:
            await anext(parts)
        async with asyncio.timeout(2):
            await server.gone.wait()
        await provider.aclose()


async def test_the_key_is_replaced_where_a_body_has_it_and_stops_a_stream_that_spells_it() -> None:
    body = json.dumps({"choices": [{"message": {"content": f"The key is {KEY}."}}]}).encode()
    raw, _, _ = await relay(ChatServer(answer(body)), Relay())
    assert raw == body.replace(KEY.encode(), b"[redacted]")
    spelled = [chunk(f"It is {KEY[:6]}"), chunk(KEY[6:9]), chunk(KEY[9:]), chunk("."), DONE]
    with pytest.raises(LLMProviderException):
        await relay(ChatServer(stream(*spelled)), Relay(streams=True))
    beginning = chunk(f"It is {KEY[:6]}") + chunk("board") + chunk(f" and {KEY[:5]}") + chunk(finish="stop") + DONE
    raw, _, _ = await relay(ChatServer(stream(*beginning.splitlines(keepends=True))), Relay(streams=True))
    assert raw == beginning


def _delta(choice: int = 0, **delta: object) -> bytes:
    sent = {"id": "c", "choices": [{"index": choice, "delta": delta, "finish_reason": None}]}
    return b"data: " + json.dumps(sent).encode() + b"\n\n"


def _call(arguments: str) -> dict[str, object]:
    return {"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": arguments}}]}


@pytest.mark.parametrize(
    "parts",
    [
        [_delta(1, content=KEY[:8]), _delta(1, content=KEY[8:])],
        [_delta(refusal=KEY[:8]), _delta(refusal=KEY[8:])],
        [_delta(reasoning=KEY[:8], reasoning_content="x"), _delta(reasoning=KEY[8:], reasoning_content="x")],
        [_delta(**_call(KEY[:8])), _delta(**_call(KEY[8:]))],
        [_delta(content=KEY[:8]), _delta(reasoning_content="z"), _delta(content=KEY[8:])],
        [b"".join([*(_delta(content=sign) for sign in KEY), *[_delta(content="a ")] * 300])],
    ],
    ids=["choice", "refusal", "reasoning", "call", "interleaved", "one-read"],
)
async def test_no_field_spells_the_key_however_it_is_split(parts: list[bytes]) -> None:
    paused = [step for part in parts for step in (part, 0.03)]
    async with ChatServer(stream(*paused, chunk(finish="stop"), DONE)).running() as server:
        config = LLMConnection(name="here", kind="vllm", model="small", base_url=server.url, api_key=KEY)
        provider = OpenAIProvider(config)
        request = LLMRequest(messages=MESSAGES, relay=Relay(streams=True), step_s=0.0, extra={"tools": [], "n": 2})
        sent: list[bytes] = []
        try:
            with pytest.raises(LLMProviderException, match="its own API key"):
                async for part in provider.stream(request):
                    sent += [part.raw] if isinstance(part, LLMToken) else []
        finally:
            await provider.aclose()
    assert KEY[:8].encode() not in b"".join(sent)


async def test_a_whole_answer_may_take_longer_than_the_first_token_of_a_stream() -> None:
    body = (RECORDED / sorted(path.name for path in RECORDED.glob("*.json"))[0]).read_bytes()
    raw, _, _ = await relay(ChatServer(Reply((0.5, body))), Relay(), timeout=0.2)
    assert raw == body
    with pytest.raises(LLMTimeoutError):
        await relay(ChatServer(Reply((0.5, chunk("A"), DONE), content_type=EVENTS)), Relay(streams=True), timeout=0.2)


async def test_nothing_is_passed_on_before_the_first_content() -> None:
    for first in (b": PROCESSING\n\n", chunk("", role="assistant")):
        server = ChatServer(stream(first, 0.05, b'data: {"error": {"message": "overloaded", "code": 503}}\n\n'))
        async with server.running():
            config = LLMConnection(name="here", kind="vllm", model="small", base_url=server.url, api_key=KEY)
            provider = OpenAIProvider(config)
            request = LLMRequest(messages=MESSAGES, relay=Relay(streams=True), step_s=0.0)
            try:
                with pytest.raises(LLMException):
                    assert [part async for part in provider.stream(request)] == []
                async with aclosing(provider.stream(request)) as parts:
                    with pytest.raises(LLMException):
                        await anext(parts)
            finally:
                await provider.aclose()
