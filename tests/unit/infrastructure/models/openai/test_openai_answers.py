"""Answers of chat services: clean text with its usage, or an LLMException."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing

import pytest
from tests.fakes.llm_contract import collect, question
from tests.support.chat_server import (
    DONE,
    EVENTS,
    HTML,
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

from modules.llm_platform.application.services.health_service import HealthService
from modules.llm_platform.domain.dtos.llm_dtos import LLMReset, LLMResponse, LLMToken
from modules.llm_platform.domain.exceptions import (
    LLMBlockedError,
    LLMConfigError,
    LLMConnectionError,
    LLMException,
    LLMProviderException,
    LLMQuotaError,
    LLMRequestError,
    LLMTimeoutError,
    LLMUnavailableError,
)
from modules.llm_platform.domain.llm import model_progress
from modules.llm_platform.domain.llm.model_progress import receive_model_progress
from modules.llm_platform.infrastructure.models.kinds import LLMConnection
from modules.llm_platform.infrastructure.models.openai import chat
from modules.llm_platform.infrastructure.models.openai.chat import OpenAIProvider
from modules.llm_platform.infrastructure.models.openai.sdk import load_openai

KEY = "sk-key-of-mine-0123456789"
AT_ONCE_S = 10.0  # limit on the busiest machine; the alternative takes half a minute or never ends
USAGE = {"prompt_tokens": 12, "completion_tokens": 34}


@pytest.fixture
async def serve():
    """A provider whose service sends the given replies, and that service."""
    load_openai()  # takes longer than the time limits of some tests
    async with AsyncExitStack() as stack:

        async def _serve(*replies: Reply, **config) -> tuple[OpenAIProvider, ChatServer]:
            server = await stack.enter_async_context(ChatServer(*replies).running())
            common = {"name": "n", "kind": "kimi", "model": "m", "base_url": server.url, "api_key": KEY}
            provider = OpenAIProvider(LLMConnection(**{**common, **config}))
            stack.push_async_callback(provider.aclose)
            return provider, server

        yield _serve


async def _failure(provider: OpenAIProvider, streamed: bool = False) -> LLMException:
    with pytest.raises(LLMException) as caught:
        await (collect(provider, question()) if streamed else provider.generate(question()))
    return caught.value


def _text(parts: list) -> str:
    return "".join(part.text for part in parts if isinstance(part, LLMToken))


# --- good answers ----------------------------------------------------------------------------------------------------


async def test_usage_and_cost_use_the_services_count(serve: Callable) -> None:
    """Prices are per million tokens; `spent` counts this call."""
    for reply, streamed in (
        (answer(completion(usage=USAGE)), False),
        (stream(chunk("a", "stop"), usage_chunk(12, 34), DONE), True),
    ):
        provider, _ = await serve(reply, price_in=2.0, price_out=10.0)
        found = (await collect(provider, question()))[-1] if streamed else await provider.generate(question())
        assert isinstance(found, LLMResponse)
        assert found.usage.model_dump(exclude_none=True) == USAGE
        assert found.spent.model_dump() == {"calls": 1, **USAGE, "cost_usd": pytest.approx(12 * 2e-6 + 34 * 10e-6)}


@pytest.mark.parametrize(
    "usage", [None, {}, [], "many", {"prompt_tokens": -1, "completion_tokens": True}, {"prompt_tokens": 1e400}]
)
async def test_missing_usage_is_counted_by_us(serve: Callable, usage: object) -> None:
    """Also where the service sends invalid numbers."""
    provider, _ = await serve(answer(completion(usage=usage)))
    found = await provider.generate(question())
    assert 0 < found.usage.prompt_tokens < 50
    assert 0 < found.usage.completion_tokens < 50


async def test_an_unknown_price_gives_no_cost(serve: Callable) -> None:
    """`cost_usd` is None; for kimi it is 0."""
    unknown, _ = await serve(kind="openai")
    assert (await unknown.generate(question())).spent.cost_usd is None
    kimi, _ = await serve()
    assert (await kimi.generate(question())).spent.cost_usd == 0.0


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (completion("<think>Hm.\nWell.</think>\n\nThe answer."), "The answer."),
        (completion("It was in the prompt.</think>The answer."), "The answer."),
        (
            completion([{"type": "thinking", "text": "no"}, {"type": "text", "text": "The "}, {"text": "answer."}]),
            "The answer.",
        ),
        (completion("The\x00 ans\x1b[31mwer."), "The ans[31mwer."),
        (completion("Half \ud83d."), "Half \ufffd."),
        (b"\xef\xbb\xbf  " + completion("The answer."), "The answer."),
        (b'{"choices":[{"message":{"content":"caf\xe9"}}]}', "caf\ufffd"),
        (b'{"choices":[{"text":"The answer."}]}', "The answer."),
        (completion("The answer.", finish="eos_token"), "The answer."),
        (completion("The answer.", reasoning_content="Hm."), "The answer."),
    ],
)
async def test_unusual_answers_become_clean_text(serve: Callable, body: bytes, text: str) -> None:
    """Reasoning blocks, lists of parts, control characters and invalid bytes."""
    provider, _ = await serve(answer(body))
    found = await provider.generate(question())
    assert found.content == text
    assert found.finish_reason == "stop"


async def test_a_cut_answer_has_the_finish_reason_length(serve: Callable) -> None:
    """The text so far is returned."""
    provider, _ = await serve(answer(completion("So far", finish="length")))
    assert (await provider.generate(question())).finish_reason == "length"


async def test_the_key_in_an_answer_is_redacted(serve: Callable) -> None:
    """Also split over several chunks."""
    provider, _ = await serve(
        answer(completion(f"Your key is {KEY}.")),
        stream(chunk(f"Your key is {KEY[:9]}"), 0.01, chunk(KEY[9:] + "."), chunk(finish="stop"), DONE),
    )
    assert (await provider.generate(question())).content == "Your key is [redacted]."
    assert _text(await collect(provider, question())) == "Your key is [redacted]."


# --- answers that are none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (answer(b'{"choices": null}'), "without choices"),
        (answer(b'{"choices": []}'), "without choices"),
        (answer(b'{"choices": ["text"]}'), "without choices"),
        (answer(b'"a string"'), "an empty stream"),
        (answer(b"[]"), "not a chat completion"),
        (answer(b"null"), "an empty stream"),
        (answer(b"[" * 100_000), "broken JSON"),
        (answer(b""), "an empty stream"),
        (answer(completion()[:-20]), "broken JSON"),
        (answer(b"<html>Welcome!</html>", content_type=HTML), "web page"),
        (answer(completion(None)), "empty answer"),
        (answer(completion("")), "empty answer"),
        (answer(completion(" \n ")), "no answer"),
        (answer(completion({"text": "no"})), "empty answer"),
        (answer(completion("", "length", reasoning_content="Hm")), "LLM_MAX_TOKENS"),
        (answer(completion("", "stop", reasoning_content="Hm")), "no answer"),
        (answer(completion("<think>Hm", "length")), "LLM_MAX_TOKENS"),
        (answer(completion("", "length")), "LLM_MAX_TOKENS"),
        (answer(completion("Well", "content_filter")), "content_filter"),
        (answer(completion("Well", "error")), "stopped with an error"),
        (answer(completion(None, refusal="I would rather not")), "refused"),
        (answer(completion("long " * 250_000)), "more text than"),
        (answer(b'{"error": {"message": "boom", "type": "server_error"}}'), r"returned an error.*\(server_error\)"),
    ],
)
async def test_a_body_without_an_answer_is_an_error(serve: Callable, reply: Reply, says: str) -> None:
    """The message names the cause; the call is counted."""
    provider, _ = await serve(reply)
    failure = await _failure(provider)
    assert type(failure) is LLMProviderException
    assert failure.spent.calls == 1
    with pytest.raises(LLMProviderException, match=says):
        raise failure


async def test_an_answer_of_reasoning_alone_has_a_cost(serve: Callable) -> None:
    """It is an error that was paid for."""
    provider, _ = await serve(
        answer(completion("", "length", USAGE, reasoning_content="Hm")), price_in=1.0, price_out=1.0
    )
    spent = (await _failure(provider)).spent
    assert (spent.prompt_tokens, spent.completion_tokens) == (12, 34)
    assert spent.cost_usd == pytest.approx(46e-6)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"code": 429, "message": "slow down"}}, LLMBlockedError),
        ({"error": {"code": "429", "message": "slow down"}}, LLMBlockedError),
        ({"error": {"type": "rate_limit_exceeded", "message": "slow down"}}, LLMBlockedError),
        ({"error": {"type": "insufficient_quota"}}, LLMQuotaError),
        ({"error": "The engine is overloaded"}, LLMBlockedError),
        ({"error": {"code": 401}}, LLMConfigError),
        ({"error": {"code": "context_length_exceeded"}}, LLMRequestError),
        ({"error": ["what"]}, LLMProviderException),
        ({"error": True}, LLMProviderException),
    ],
)
async def test_errors_with_status_200_are_errors(serve: Callable, body: dict, kind: type[LLMException]) -> None:
    """Streamed and complete answers raise the same error."""
    data = json.dumps(body).encode()
    provider, _ = await serve(answer(data), stream(b"data: " + data + b"\n\n"))
    for streamed in (False, True):
        failure = await _failure(provider, streamed)
        assert type(failure) is kind
        assert "slow down" not in failure.message


# --- streams ---------------------------------------------------------------------------------------------------------


async def test_tokens_arrive_as_they_are_written(serve: Callable) -> None:
    """The first one long before the last."""
    provider, server = await serve(stream(chunk("First"), 30.0, chunk(" last", "stop"), DONE))
    async with aclosing(provider.stream(question())) as parts:
        assert await asyncio.wait_for(anext(parts), AT_ONCE_S) == LLMToken(text="First")
    await asyncio.wait_for(server.gone.wait(), AT_ONCE_S)


async def test_what_a_model_writes_within_a_step_comes_together(serve: Callable) -> None:
    """The end of the answer does not wait for the end of a step."""
    words = [part for _ in range(100) for part in (chunk("word "), 0.005)]
    provider, _ = await serve(stream(*words, chunk("end", "stop"), DONE))
    began = time.monotonic()
    parts = [part async for part in provider.stream(question().model_copy(update={"step_s": 0.2}))]
    took_s = time.monotonic() - began
    assert sum(isinstance(part, LLMToken) for part in parts) <= took_s / 0.2 + 2
    began = time.monotonic()
    assert await provider.generate(question().model_copy(update={"step_s": 3600.0}))
    assert time.monotonic() - began < AT_ONCE_S


async def test_a_plain_body_is_accepted_as_a_stream(serve: Callable) -> None:
    """Whatever its content type is."""
    for content_type in ("application/json", EVENTS):
        provider, _ = await serve(answer(b"\n" + completion(usage=USAGE), content_type=content_type))
        parts = await collect(provider, question())
        assert _text(parts) == WORDS == parts[-1].content
        assert parts[-1].usage.completion_tokens == 34


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([b"<html>Welcome!</html>"], "web page"),
        ([b""], "empty stream"),
        ([b": nothing\n\n"], "empty stream"),
        ([b"data: {]\n\n"], "broken JSON"),
        ([DONE], "empty answer"),
        ([chunk(finish="stop"), DONE], "empty answer"),
        ([chunk(reasoning_content="Hm"), chunk(finish="length"), DONE], "LLM_MAX_TOKENS"),
        ([chunk("Some words"), chunk(finish="content_filter"), DONE], "content_filter"),
        ([b'{"choices": null}'], "without choices"),
    ],
)
async def test_a_stream_without_an_answer_is_an_error(serve: Callable, events: list, says: str) -> None:
    """Like a complete body without one."""
    provider, _ = await serve(stream(*events))
    with pytest.raises(LLMProviderException, match=says):
        await collect(provider, question())


@pytest.mark.parametrize("ending", ["end", "drop"])
async def test_a_stream_that_breaks_off_is_an_error(serve: Callable, ending: str) -> None:
    """Without [DONE] and a finish reason; its tokens were paid for."""
    has_read = asyncio.Event()
    provider, _ = await serve(stream(chunk("Half of"), 0.02, chunk(" the"), has_read, ending=ending))
    streamed_text = ""
    with pytest.raises(LLMConnectionError) as caught:
        async for part in provider.stream(question()):
            streamed_text += _text([part])
            if streamed_text.endswith("the"):
                has_read.set()
    assert streamed_text == "Half of the"
    assert caught.value.spent.completion_tokens == 3
    assert caught.value.retryable


async def test_an_error_within_the_stream_is_raised(serve: Callable) -> None:
    """With the cost of the tokens so far."""
    provider, _ = await serve(
        stream(chunk("Some"), b'data: {"error": {"message": "x", "type": "engine_overloaded_error"}}\n\n')
    )
    failure = await _failure(provider, streamed=True)
    assert type(failure) is LLMBlockedError
    assert failure.spent.completion_tokens == 1


@pytest.mark.parametrize("end", [[DONE], [], [usage_chunk(1, 1)]])
async def test_a_finish_reason_completes_the_answer(serve: Callable, end: list) -> None:
    """Also without [DONE]."""
    provider, _ = await serve(stream(chunk("All"), chunk(finish="stop"), *end))
    assert (await collect(provider, question()))[-1].content == "All"
    provider, _ = await serve(stream(chunk("All"), DONE))
    assert (await collect(provider, question()))[-1].content == "All"


async def test_a_complete_answer_does_not_wait_long_for_usage(serve: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """TAIL_S after the finish reason."""
    monkeypatch.setattr("modules.llm_platform.infrastructure.models.openai.chat.TAIL_S", 0.05)
    for ending in ("hang", "drop"):
        provider, _ = await serve(stream(chunk("All"), chunk(finish="stop"), 0.01, ending=ending))
        assert (await collect(provider, question()))[-1].content == "All"


async def test_reasoning_in_a_stream_is_removed(serve: Callable) -> None:
    """However a block is split over chunks."""
    text = "<think>secret <think>deep</think> secret</think>\n\nThe answer."
    provider, _ = await serve(stream(*(chunk(letter) for letter in text), chunk(finish="stop"), DONE))
    parts = await collect(provider, question())
    assert _text(parts) == "The answer." == parts[-1].content
    assert not [part for part in parts if isinstance(part, LLMReset)]


async def test_reasoning_without_an_opening_tag_is_reset(serve: Callable) -> None:
    """The answer is what follows."""
    provider, _ = await serve(
        stream(chunk("Hm, well."), 0.02, chunk("</think>The answer."), chunk(finish="stop"), DONE)
    )
    parts = await collect(provider, question())
    kinds = [type(part) for part in parts]
    assert kinds == [LLMToken, LLMReset, LLMToken, LLMResponse]
    assert parts[2].text == parts[3].content == "The answer."


# --- deadlines and limits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        Reply(ending="hang"),
        Reply([b" ", 0.02] * 2000),
        stream(*[b": still here\n\n", 0.02] * 2000),
        stream(*[chunk("", role="assistant"), 0.02] * 2000),
        Reply([b" ", 0.02] * 2000, status=500),
    ],
    ids=["silence", "drip", "comments", "no words", "error"],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_the_first_token_has_a_time_limit(serve: Callable, reply: Reply, streamed: bool) -> None:
    """Whatever else arrives; the message names the setting."""
    provider, server = await serve(reply, timeout=0.25)
    began = time.perf_counter()
    failure = await _failure(provider, streamed)
    assert time.perf_counter() - began < AT_ONCE_S
    assert type(failure) is LLMTimeoutError
    assert "LLM_TIMEOUT_S" in failure.message
    assert failure.spent.calls == 1
    await asyncio.wait_for(server.gone.wait(), AT_ONCE_S)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_text_may_take_longer_than_its_first_token(serve: Callable, streamed: bool) -> None:
    """A slow model writes for minutes."""
    slow = stream(*[chunk("word "), 0.1] * 12, chunk(finish="stop"), DONE)
    provider, _ = await serve(slow, timeout=0.8, idle_timeout=AT_ONCE_S)
    text = _text(await collect(provider, question())) if streamed else (await provider.generate(question())).content
    assert text.split() == ["word"] * 12


@pytest.mark.parametrize("pause", [[3600.0], [b": still here\n\n", 0.02] * 2000], ids=["silence", "comments"])
async def test_the_next_token_has_a_time_limit(serve: Callable, pause: list) -> None:
    """The limit applies to each token, and the message names it. Other data does not extend it."""
    provider, server = await serve(stream(chunk("An event"), *pause), timeout=AT_ONCE_S, idle_timeout=0.25)
    began = time.perf_counter()
    failure = await _failure(provider, streamed=True)
    assert time.perf_counter() - began < AT_ONCE_S
    assert type(failure) is LLMTimeoutError
    assert "LLM_IDLE_TIMEOUT_S" in failure.message
    assert failure.spent.completion_tokens
    await asyncio.wait_for(server.gone.wait(), AT_ONCE_S)


async def test_a_server_that_loads_its_model_is_waited_for(serve: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most as long as for the first token."""
    monkeypatch.setattr(chat, "LOADING_PAUSE_S", 0.01)
    loading = error(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})
    provider, server = await serve(loading, loading, answer())
    assert (await provider.generate(question())).content == WORDS
    assert len(server.asked) == 3
    endless, _ = await serve(loading, timeout=0.2)
    assert isinstance(await _failure(endless), LLMUnavailableError | LLMTimeoutError)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("temperature", "Unsupported value: 'temperature' does not support 0 with this model."),
        (
            "response_format",
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        ),
        ("stream_options", "Unknown field: stream_options"),
        ("stream", "stream is not supported by this deployment"),
    ],
)
async def test_a_refused_optional_field_is_not_sent_again(serve: Callable, field: str, message: str) -> None:
    """The request is repeated without it, and later ones do not have it."""
    refusal = error(400, {"error": {"message": message, "type": "invalid_request_error"}})
    provider, server = await serve(refusal, answer(), kind="openai")
    request = question().model_copy(update={"json_schema": {"type": "object"}})
    for _ in range(2):
        assert (await provider.generate(request)).content == WORDS
    assert [field in request.body for request in server.asked] == [True, False, False]


async def test_a_model_that_repeats_itself_is_stopped(serve: Callable) -> None:
    """The answer says why it ends, and the service is left."""
    provider, server = await serve(stream(*[chunk("The sky is blue because of the light. "), 0.001] * 20_000))
    response = await provider.generate(question())
    assert response.finish_reason == "repetition"
    assert 1000 <= len(response.content) < 3000
    await asyncio.wait_for(server.gone.wait(), AT_ONCE_S)


async def test_the_progress_of_a_call_is_reported(serve: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """First that the model reads, with the tokens of the prompt, then how fast it writes."""
    monkeypatch.setattr(model_progress, "PROGRESS_INTERVAL_S", 0.02)
    provider, _ = await serve(stream(0.3, chunk("An event loop runs"), 0.3, chunk(" callbacks.", "stop"), DONE))
    reported = []
    with receive_model_progress(reported.append):
        await provider.generate(question())
    reading, writing = reported[0], reported[-1]
    assert (reading.model, reading.completion_tokens, reading.tokens_per_s) == ("m", 0, None)
    assert reading.prompt_tokens
    assert writing.completion_tokens
    assert writing.tokens_per_s
    assert writing.elapsed_s > reading.elapsed_s


async def test_a_slow_reader_does_not_count(serve: Callable) -> None:
    """The deadline covers only the wait for the service."""
    provider, _ = await serve(spoken(), timeout=0.3)
    words = 0
    async for part in provider.stream(question()):
        if words == 0:
            await asyncio.sleep(0.5)
        words += isinstance(part, LLMToken)
    assert words


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("status", [200, 500])
async def test_an_endless_body_is_an_error(serve: Callable, streamed: bool, status: int) -> None:
    """Reading stops at the limit, and the connection is closed."""
    megabyte = b'{"x": "' + b"a" * 1_000_000
    provider, server = await serve(Reply([megabyte] * 500, status=status))
    failure = await _failure(provider, streamed)
    assert isinstance(failure, LLMProviderException)
    await asyncio.wait_for(server.gone.wait(), AT_ONCE_S)
    assert server.sent < 30_000_000


async def test_an_endless_stream_is_an_error(serve: Callable) -> None:
    """Reading stops at the limit for an answer."""
    numbers = [chunk(" ".join(map(str, range(first, first + 5_000)))) for first in range(0, 4_000_000, 5_000)]
    provider, server = await serve(stream(*numbers))
    failure = await _failure(provider, streamed=True)
    assert type(failure) is LLMProviderException
    assert failure.spent.completion_tokens > 0
    await asyncio.wait_for(server.gone.wait(), AT_ONCE_S)


@pytest.mark.parametrize(
    "reply", [Reply(ending="hang"), Reply([b"{"], ending="hang"), stream(chunk("a"), ending="hang")]
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_cancelling_closes_the_connection(serve: Callable, reply: Reply, streamed: bool) -> None:
    """Before the first byte and within the body."""
    provider, server = await serve(reply)
    call = collect(provider, question()) if streamed else provider.generate(question())
    task = asyncio.create_task(call)
    while not server.asked:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.wait_for(server.gone.wait(), AT_ONCE_S)
    with pytest.raises(asyncio.CancelledError):
        await task


# --- errors ----------------------------------------------------------------------------------------------------------

SHUT_OUT = "Kimi For Coding is currently only available for Coding Agents such as Kimi CLI, Claude Code, Roo Code."
USED_UP = "You've reached your usage limit for this billing cycle. Your quota will be refreshed in the next cycle."


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (error(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}), LLMConfigError, "KIMI_API_KEY"),
        (error(402, {}), LLMQuotaError, "balance"),
        (
            error(403, {"error": {"type": "access_terminated_error", "message": SHUT_OUT}}),
            LLMConfigError,
            "KIMI_USER_AGENT",
        ),
        (error(403, {"error": {"type": "access_terminated_error", "message": USED_UP}}), LLMQuotaError, "quota"),
        (error(403, {"error": "no"}), LLMConfigError, "KIMI_API_KEY"),
        (
            error(404, {"error": {"message": "no such model", "type": "model_not_found"}}),
            LLMConfigError,
            "KIMI_BASE_URL and KIMI_MODEL",
        ),
        (error(405, b"no"), LLMConfigError, "KIMI_BASE_URL"),
        (error(307, b"", location="http://127.0.0.1:9/elsewhere"), LLMConfigError, "KIMI_BASE_URL"),
        (error(400, {"error": {"code": "context_length_exceeded", "message": "…"}}), LLMRequestError, "too long"),
        (
            error(400, {"error": {"message": "This model's maximum context length is 8192 tokens"}}),
            LLMRequestError,
            "too long",
        ),
        (error(413, b""), LLMRequestError, "too long"),
        (error(400, {"error": {"message": "The model `m` does not exist"}}), LLMConfigError, "KIMI_MODEL"),
        (error(400, {"error": {"message": "API key not valid"}}), LLMConfigError, "KIMI_API_KEY"),
        (error(422, {"detail": [{"msg": "unknown field"}]}), LLMProviderException, "does not accept"),
        (error(418, b"\xff\xfe"), LLMProviderException, "does not accept"),
        (error(408, b""), LLMConnectionError, "408"),
        (error(409, b""), LLMUnavailableError, "409"),
        (
            error(429, {"error": {"type": "rate_limit_reached_error"}}),
            LLMBlockedError,
            "too many requests .429 rate_limit_reached_error",
        ),
        (error(429, {"error": {"type": "insufficient_quota"}}), LLMQuotaError, "quota"),
        (error(500, {"error": {"message": "boom"}}), LLMUnavailableError, "failed .500"),
        (error(501, b"<html>"), LLMProviderException, "501"),
        *((error(status, b"x"), LLMUnavailableError, f"failed .{status}") for status in (502, 503, 504, 524, 529)),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_each_status_has_its_error(serve: Callable, reply: Reply, kind: type, says: str, streamed: bool) -> None:
    """The message names the setting and repeats nothing of the service."""
    provider, _ = await serve(reply)
    failure = await _failure(provider, streamed)
    assert type(failure) is kind
    with pytest.raises(kind, match=says):
        raise failure
    assert failure.spent.model_dump() == {"calls": 1, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0}
    for word in ("boom", "Incorrect", "Roo Code", "elsewhere", "unknown field", KEY):
        assert word not in failure.message


async def test_a_request_is_sent_once(serve: Callable) -> None:
    """Retries are a policy."""
    provider, server = await serve(error(503, b""), answer())
    await _failure(provider)
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [429, 503, 402, 403])
async def test_retry_after_reaches_the_caller(serve: Callable, status: int) -> None:
    """As seconds and as a date."""
    quota = {"error": {"message": "quota"}}
    provider, _ = await serve(
        error(status, quota, retry_after="17"), error(status, quota, retry_after="Fri, 31 Dec 2100 23:59:59 GMT")
    )
    assert (await _failure(provider)).retry_after_s == 17
    assert (await _failure(provider)).retry_after_s == 86_400


async def test_no_error_contains_the_key(serve: Callable, caplog: pytest.LogCaptureFixture) -> None:
    """In message, repr, traceback and log."""
    caplog.set_level("DEBUG")
    echo = {"error": {"message": f"Incorrect API key provided: {KEY}", "type": KEY, "code": KEY}}
    replies = [error(401, echo), error(500, echo), error(429, echo), answer(json.dumps(echo).encode())]
    provider, _ = await serve(*replies)
    import traceback

    for _ in replies:
        failure = await _failure(provider)
        shown = "".join(traceback.format_exception(failure, chain=True)) + repr(failure) + str(failure.__dict__)
        assert KEY not in shown
        assert failure.__context__ is None or KEY not in repr(failure.__context__)
    assert KEY not in repr(provider) + repr(provider._connection) + caplog.text
    assert provider._client is not None
    assert KEY not in repr(vars(provider._client)) + repr(vars(provider._client._upstream))


async def test_a_refused_connection_is_an_error(serve: Callable) -> None:
    """It names the setting; no token was spent."""
    provider, _ = await serve(base_url="http://127.0.0.1:9/v1")
    failure = await _failure(provider)
    assert type(failure) is LLMConnectionError
    assert "KIMI_BASE_URL" in failure.message


async def test_a_broken_tls_handshake_is_an_error(serve: Callable) -> None:
    """It names the setting."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        provider, _ = await serve(base_url=f"https://127.0.0.1:{port}/v1")
        failure = await _failure(provider)
    assert type(failure) is LLMConnectionError
    assert "KIMI_BASE_URL" in failure.message


# --- ping ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [answer(b'{"data": []}'), error(404, b"")])
async def test_a_ping_lists_the_models(serve: Callable, reply: Reply) -> None:
    """A service without such a list is reachable too."""
    provider, server = await serve(reply)
    assert "reachable" in await provider.ping()
    assert (server.asked[0].method, server.asked[0].target) == ("GET", "/v1/models")


async def test_health_shows_names_of_models_that_fit_a_line(serve: Callable) -> None:
    """A longer name is cut to 80 characters, and a name with control characters is left out."""
    names = ["a" * 80 + "bbb", "red\x1b[31m", "two\nlines", "small"]
    provider, _ = await serve(answer(json.dumps({"data": [{"id": name} for name in names]}).encode()))
    health = await HealthService({}, {"kimi": provider}, deadline_s=AT_ONCE_S).check()
    assert health.components["kimi"].detail.endswith(f" to one of {'a' * 80}, small")


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (error(401, b""), LLMConfigError, "KIMI_API_KEY"),
        (error(503, b""), LLMUnavailableError, "failed .503"),
        (answer(b'{"error": {"message": "no", "code": 401}}'), LLMConfigError, "KIMI_API_KEY"),
        (answer(b"<html>", content_type=HTML), LLMConfigError, "KIMI_BASE_URL"),
        (Reply(ending="hang"), LLMTimeoutError, "did not answer"),
    ],
)
async def test_a_ping_raises_the_errors_of_a_call(serve: Callable, reply: Reply, kind: type, says: str) -> None:
    """With cause and remedy."""
    provider, _ = await serve(reply, timeout=0.3)
    with pytest.raises(kind, match=says):
        await provider.ping()
