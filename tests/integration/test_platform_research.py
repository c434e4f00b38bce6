"""Research runs on the wired platform: failing models, caching, cost and deadlines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.chat_server import ChatServer, Reply, answer, chunk, completion, error, spoken, stream
from tests.support.loopback_upstream import Exchange, Handler, Loopback, json_reply, reply, serving, silence

from modules.llm_platform import (
    AppException,
    ChatMessage,
    ILLMProvider,
    IPageReader,
    ISynthesizer,
    IWebSearchProvider,
    LLMConfigError,
    LLMConnectionError,
    LLMPlatform,
    LLMRequest,
    ResearchRequest,
    ResearchResponse,
    ResearchTimeoutError,
    SourceNotHeldError,
    Spending,
    Synthesis,
    SynthesisRequest,
    SynthesisToken,
    WebSearchError,
    WebSearchTimeoutError,
)
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.answer_dtos import SynthesisPart
from modules.llm_platform.testing import FakeLLM, FakePageReader, FakeWebSearch, result_item
from modules.llm_platform.testing.waiting import CANCEL_TIMEOUT_S, CLOSE_TIMEOUT_S, START_TIMEOUT_S, becomes_true
from shared.config import Settings

QUESTION = "What does the event loop run?"
LOOP = "The event loop runs asynchronous tasks and callbacks, and performs network operations."
GIL = "The global interpreter lock lets only one thread execute Python bytecode at a time."
WRITTEN = "The event loop runs asynchronous tasks [1]."
USAGE = {"prompt_tokens": 1000, "completion_tokens": 100}
KEY = "sk-kimi-key-of-a-test"
FAILED = "The language model failed: these are quotes from the sources."


def found(*texts: str, **more: Any) -> Handler:
    rows = [
        {"title": f"Page {number}", "url": f"https://docs.test/{number}", "content": text, "engine": "google"}
        for number, text in enumerate(texts or (LOOP, GIL))
    ]
    return json_reply({"results": rows, "unresponsive_engines": [], **more})


def kimi(content: Any = WRITTEN, finish: str = "stop", **message: Any) -> Reply:
    return answer(completion(content, finish, USAGE, **message))


@asynccontextmanager
async def platform(
    *chats: ChatServer, search: Handler | None = None, priced: bool = True, **settings: Any
) -> AsyncIterator[tuple[LLMPlatform, Loopback]]:
    """Build a platform. A single chat server is Kimi; several are named a, b … with prices, in failover order."""
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(serving(search or found()))
        for chat in chats:
            await stack.enter_async_context(chat.running())
        said: dict[str, Any] = {"SEARXNG_URL": upstream.url}
        if len(chats) == 1:
            said |= {"KIMI_API_KEY": KEY, "KIMI_BASE_URL": chats[0].url}
        elif chats:
            price = {"price_in": 1.0, "price_out": 2.0} if priced else {}
            said["LLM_PROVIDERS"] = json.dumps(
                [
                    {"name": name, "base_url": chat.url, "api_key": f"key-of-{name}", "model": f"{name}-1", **price}
                    for name, chat in zip("abc", chats, strict=False)
                ]
            )
        yield await stack.enter_async_context(build_platform(Settings(**(said | settings)))), upstream


def research_request(**wishes: Any) -> ResearchRequest:
    return ResearchRequest.model_validate({"query": QUESTION, **wishes})


def assert_quotes_hold(response: ResearchResponse) -> None:
    """Check that every quote is found at its offsets in the raw result of its source."""
    assert response.raw_results is not None
    assert response.citations
    for citation in response.citations:
        content = response.raw_results[citation.source_index - 1].content
        assert content[citation.quote_start : citation.quote_end] == citation.quote


# --- models that fail ---------------------------------------------------------------------------------------------------

SHUT_OUT = {
    "error": {"type": "access_terminated_error", "message": "only available for Coding Agents such as Kimi CLI"}
}
USED_UP = {"error": {"type": "access_terminated_error", "message": "You've reached your weekly usage limit"}}


@for_each(
    ("odd", "calls", "says"),
    [
        (error(401, {}), 1, "KIMI_API_KEY"),
        (error(403, SHUT_OUT), 1, "KIMI_USER_AGENT"),
        (error(403, USED_UP), 1, "used up"),
        (error(429, {}, retry_after="3600"), 1, "too many"),
        (error(500, {}), 2, "500"),
        (answer(b'{"choices": null}'), 1, "without choices"),
        (answer(b'"words"'), 1, "an empty stream"),
        (answer(b"<html>"), 1, "web page"),
        (answer(b'{"choices": [{"mess'), 1, "broken JSON"),
        (kimi("", "length", reasoning_content="Hm. " * 50), 1, "LLM_MAX_TOKENS"),
        (kimi("<think>Hm.</think>"), 1, "no answer"),
        (kimi("Half of it [1].", "content_filter"), 1, "content_filter"),
    ],
)
async def test_when_the_model_fails_the_answer_consists_of_quotes(odd: Reply, calls: int, says: str) -> None:
    """The text, `synthesizer` and `degraded` report the failure. Each attempt is counted, and nothing is cached."""
    chat = ChatServer(odd)
    async with platform(chat) as (wired, _):
        response = await wired.research.research(research_request())
        again = await wired.research.research(research_request())
    assert response.metadata.synthesizer == "extractive"
    assert response.synthesis.startswith(LOOP[:-1])
    assert response.synthesis.endswith(FAILED)
    assert response.metadata.llm_calls == calls
    assert any(says in entry.reason for entry in response.degraded)
    assert not again.metadata.cache_hit
    is_closed = odd.headers.get("retry-after") is not None  # Retry-After is obeyed: no second call before its end
    assert again.metadata.llm_calls == (0 if is_closed else calls)
    assert_quotes_hold(response)


async def test_a_model_with_a_temporary_error_is_asked_once_more() -> None:
    """A 503 is retried once. Both calls are counted, and nothing is degraded."""
    chat = ChatServer(error(503, {}, retry_after="0"), kimi())
    async with platform(chat) as (wired, _):
        response = await wired.research.research(research_request())
    assert response.synthesis == WRITTEN
    assert response.degraded == ()
    assert (response.metadata.llm_calls, response.metadata.synthesizer) == (2, "kimi/kimi-for-coding")


async def test_an_answer_without_a_model_is_not_degraded() -> None:
    """Without a model the extractive writer answers in the words of the sources, and nothing is degraded."""
    async with platform() as (wired, _):
        response = await wired.research.research(research_request())
    assert response.synthesis == f"{LOOP[:-1]} [1]."
    assert response.degraded == ()
    assert (response.metadata.llm_calls, response.metadata.cost_usd) == (0, 0.0)


async def test_the_next_model_answers_while_the_failed_one_is_skipped() -> None:
    """A failed model is skipped for a while, and the answer gives the reason. All calls are paid for."""
    first, second = ChatServer(error(500, {})), ChatServer(kimi())
    async with platform(first, second) as (wired, _):
        asked = [research_request(depth=depth) for depth in ("shallow", "deep")]
        responses = [await wired.research.research(request) for request in asked]
    assert [response.metadata.synthesizer for response in responses] == ["b/b-1", "b/b-1"]
    assert [response.metadata.llm_calls for response in responses] == [
        2,
        3,
    ]  # a deep answer asks for the queries of its round
    assert [response.metadata.cost_usd for response in responses] == pytest.approx([0.0012, 0.0036])
    for response in responses:
        assert [entry.component for entry in response.degraded] == ["a"], "told once, however often it was skipped"
    assert len(first.asked) == 1


async def test_an_unknown_price_is_not_a_cost_of_zero() -> None:
    """cost_usd is null if any price is missing. The tokens are still counted."""
    async with platform(ChatServer(error(500, {})), ChatServer(kimi()), priced=False) as (wired, _):
        metadata = (await wired.research.research(research_request())).metadata
    assert (metadata.cost_usd, metadata.tokens_used) == (None, 1100)


async def test_a_partial_answer_of_a_failed_model_is_discarded() -> None:
    """A `reset` event discards the partial text, and the synthesis consists of the later tokens.

    Both calls are counted.
    """
    dying = ChatServer(stream(chunk("The event loop "), chunk("runs tasks [1]. And it "), ending="drop"))
    async with platform(dying, ChatServer(spoken(WRITTEN))) as (wired, _):
        events = [event async for event in wired.research.stream(research_request())]
    kinds = [event.type for event in events]
    assert kinds.count("reset") == 1
    after = events[kinds.index("reset") :]
    done = events[-1]
    assert done.type == "done"
    assert done.response.synthesis == WRITTEN == "".join(event.text for event in after if event.type == "token")
    assert done.response.metadata.llm_calls == 2
    assert done.response.metadata.tokens_used > 20


# --- what is kept --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_streamed", [False, True])
async def test_a_synthesis_is_not_paid_for_twice(first_streamed: bool) -> None:
    """The second answer comes from the cache without a call, and says so. Streamed and plain requests share the entry."""
    chat = ChatServer(spoken(WRITTEN) if first_streamed else kimi())
    async with platform(chat) as (wired, upstream):
        if first_streamed:
            *_, done = [event async for event in wired.research.stream(research_request())]
            assert done.type == "done"
            first = done.response
        else:
            first = await wired.research.research(research_request())
        second = await wired.research.research(research_request())
        *_, done = [event async for event in wired.research.stream(research_request())]
        assert done.type == "done"
    for again in (second, done.response):
        assert (again.synthesis, again.citations) == (first.synthesis, first.citations)
        assert again.metadata.cache_hit
        spent = (again.metadata.llm_calls, again.metadata.tokens_used, again.metadata.cost_usd, again.metadata.searches)
        assert spent == (0, 0, 0.0, 0)
    assert not first.metadata.cache_hit
    assert (len(chat.asked), len(upstream.requests)) == (1, 1)


QUESTIONS = "Question: What is an event loop?\nQuestion: What are callbacks?\nQuestion: What blocks a loop?"


async def test_a_deep_question_is_paid_for_once() -> None:
    """A repeated deep question takes its plan, searches, round queries and text from the cache."""
    chat = ChatServer(kimi(QUESTIONS), kimi())
    async with platform(chat) as (wired, upstream):
        first = await wired.research.research(research_request(depth="deep"))
        second = await wired.research.research(research_request(depth="deep"))
        events = [event async for event in wired.research.stream(research_request(depth="deep"))]
    third = events[-1]
    assert third.type == "done"
    for again in (second, third.response):
        assert again.synthesis == first.synthesis
        metadata = again.metadata
        assert metadata.cache_hit
        assert (metadata.llm_calls, metadata.tokens_used, metadata.cost_usd, metadata.searches) == (0, 0, 0.0, 0)
    planned = next(event for event in events if event.type == "planned")
    assert planned.questions == ("What is an event loop?", "What are callbacks?", "What blocks a loop?")
    assert (len(chat.asked), len(upstream.requests)) == (
        3,
        6,
    )  # plan, round, text; three searches, and three of the round


@for_each(
    "plan",
    [error(500, {}), kimi("I cannot help with that."), kimi("Question: What is an event loop?", "length")],
)
async def test_a_plan_that_failed_is_not_cached(plan: Reply) -> None:
    """If the model fails to plan, rules decompose the question, and the model is asked again next time."""
    retried = [plan] if plan.status < 500 else [plan, plan]  # a server error is retried once
    chat = ChatServer(*retried, kimi(), kimi(QUESTIONS))
    async with platform(chat) as (wired, _):
        await wired.research.research(research_request(depth="deep"))
        before = len(chat.asked)
        again = await wired.research.research(research_request(depth="deep"))
    assert again.metadata.llm_calls >= 1
    assert len(chat.asked) > before


async def test_no_time_to_live_keeps_no_synthesis() -> None:
    """With CACHE_TTL_S=0 search and model are called each time."""
    chat = ChatServer(kimi())
    async with platform(chat, CACHE_TTL_S=0) as (wired, upstream):
        for _ in range(2):
            assert not (await wired.research.research(research_request())).metadata.cache_hit
    assert (len(chat.asked), len(upstream.requests)) == (2, 2)


async def test_the_texts_are_held_under_the_numbers_of_the_answer() -> None:
    """`source` returns the text that the quotes refer to, also for uncited sources.

    Other numbers and ids are not found.
    """
    async with platform() as (wired, _):
        response = await wired.research.research(research_request())
        assert response.raw_results is not None
        for index, raw in enumerate(response.raw_results, 1):
            held = await wired.research.get_source(response.metadata.request_id, index)
            assert (held.text, held.url, held.title) == (raw.content, raw.url, raw.title)
        for request_id, index in ((response.metadata.request_id, 3), (response.metadata.request_id, 0), ("other", 1)):
            with pytest.raises(SourceNotHeldError):
                await wired.research.get_source(request_id, index)


async def test_quotes_hold_in_texts_that_were_cleaned() -> None:
    """A key echoed by a page is removed before offsets are computed, so offsets refer to the shown text."""
    text = f"Keys such as {KEY} are secret. 𝒯he key \U0001f511 stays away. {LOOP} 你好，世界。"
    async with platform(ChatServer(kimi()), search=found(text)) as (wired, _):
        response = await wired.research.research(research_request())
    assert_quotes_hold(response)
    assert KEY not in response.model_dump_json()
    assert response.citations[0].verdict == "supported"


# --- deep ----------------------------------------------------------------------------------------------------------------


async def test_three_different_questions_are_searched_at_the_same_time() -> None:
    """A short plan is filled up to three distinct questions without sentence punctuation."""
    waiting = asyncio.Barrier(3)

    async def together(exchange: Exchange) -> None:
        async with asyncio.timeout(START_TIMEOUT_S):
            await waiting.wait()
        await found()(exchange)

    chat = ChatServer(kimi("Question: event loop callbacks\nQuestion: Event loop: callbacks?\n"), kimi())
    async with platform(chat, search=together) as (wired, upstream):
        response = await wired.research.research(research_request(depth="deep"))
    asked = [request.form["q"] for request in upstream.requests]
    assert len(set(asked)) == 3
    assert "event loop callbacks" in asked
    assert not any("? " in query for query in asked)
    assert (response.metadata.searches, response.metadata.llm_calls) == (3, 2)
    assert [raw.url for raw in response.raw_results or ()] == ["https://docs.test/0", "https://docs.test/1"]


async def test_one_of_three_failing_is_degraded() -> None:
    """If one of three searches fails, the answer reports it in `degraded`."""
    numbers = iter(range(3))

    async def second_fails(exchange: Exchange) -> None:
        await (reply(500, b"") if next(numbers) == 1 else found())(exchange)

    async with platform(search=second_fails) as (wired, _):
        response = await wired.research.research(research_request(depth="deep"))
    assert response.synthesis.startswith(LOOP[:-1])
    assert [entry.component for entry in response.degraded] == ["search/2"]


@pytest.mark.parametrize("depth", ["shallow", "deep"])
async def test_providers_that_failed_are_no_empty_answer(depth: str) -> None:
    """If all providers fail, the provider's error is raised, or is the last event."""
    async with platform(search=reply(500, b"")) as (wired, _):
        with pytest.raises(WebSearchError):
            await wired.research.research(research_request(depth=depth))
        *_, last = [event async for event in wired.research.stream(research_request(depth=depth))]
    assert last.type == "failed"
    assert (last.problem["status"], last.problem["code"], last.problem["request_id"]) == (
        502,
        "web_search_error",
        last.request_id,
    )


async def test_a_failing_suggestion_is_reported() -> None:
    """If the suggested query after an empty search fails, the answer reports it in `degraded`."""

    async def sparse(exchange: Exchange) -> None:
        query = exchange.form["q"]
        if query == "event loop policy":
            await reply(500, b"")(exchange)
        elif "nothing" in query:
            await json_reply({"results": [], "suggestions": ["event loop policy"]})(exchange)
        else:
            await found()(exchange)

    chat = ChatServer(kimi("Question: event loop\nQuestion: nothing here\nQuestion: callbacks"), kimi())
    async with platform(chat, search=sparse) as (wired, _):
        response = await wired.research.research(research_request(depth="deep"))
    assert response.synthesis == WRITTEN
    assert [entry.component for entry in response.degraded] == ["search/suggested"]
    assert response.metadata.searches == 7  # three of the plan, the suggestion, and three of the round


# --- time ----------------------------------------------------------------------------------------------------------------


async def test_near_the_deadline_quotes_answer() -> None:
    """A silent model costs its time and one call, but the answer still has quotes. `degraded` names the late component."""
    async with platform(ChatServer(Reply(ending="hang")), RESEARCH_TIMEOUT_S=3) as (wired, _):
        response = await wired.research.research(research_request())
    assert response.synthesis.endswith(FAILED)
    assert [entry.component for entry in response.degraded] == ["llm"]
    assert response.metadata.llm_calls == 1


async def test_a_late_plan_is_skipped() -> None:
    """Planning is limited to a share of the time. The late call is counted and reported in `degraded`."""
    chat = ChatServer(Reply(ending="hang"), kimi())
    async with platform(chat, RESEARCH_TIMEOUT_S=10) as (wired, upstream):
        response = await wired.research.research(research_request(depth="deep"))
    assert len(upstream.requests) == 3
    assert response.synthesis == WRITTEN
    assert [entry.component for entry in response.degraded] == ["plan"]
    assert response.metadata.llm_calls == 2


async def test_no_result_before_the_deadline_is_a_timeout() -> None:
    """Without any result before the deadline, the error names the setting to raise."""
    async with platform(search=silence, RESEARCH_TIMEOUT_S=0.3) as (wired, _):
        with pytest.raises(ResearchTimeoutError, match="RESEARCH_TIMEOUT_S"):
            await wired.research.research(research_request())
    async with platform(search=silence, SEARXNG_TIMEOUT_S=0.2) as (wired, _):
        with pytest.raises(WebSearchTimeoutError):
            await wired.research.research(research_request())


@for_each("depth", ["shallow", "deep"])
@for_each("streamed", [False, True])
async def test_cancelling_is_over_at_once(depth: str, streamed: bool) -> None:
    """Cancelling takes effect at once for the caller and for every called server."""
    async with platform(search=silence) as (wired, upstream):
        stream_ = wired.research.stream(research_request(depth=depth))
        task = asyncio.create_task(
            _last(stream_) if streamed else wired.research.research(research_request(depth=depth))
        )
        while upstream.busy < (1 if depth == "shallow" else 3):
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.wait([task], timeout=CANCEL_TIMEOUT_S)
        assert task.cancelled()
        assert await becomes_true(lambda: not upstream.busy, CLOSE_TIMEOUT_S)


async def _last(events: AsyncIterator[Any]) -> Any:
    return [event async for event in events][-1]


async def test_cancelling_leaves_the_model_too() -> None:
    """Cancelling closes the connection of a model that is writing."""
    chat = ChatServer(Reply(ending="hang"))
    async with platform(chat) as (wired, _):
        task = asyncio.create_task(wired.research.research(research_request()))
        while not chat.asked:
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.wait([task], timeout=CANCEL_TIMEOUT_S)
        assert task.cancelled()
        await asyncio.wait_for(chat.gone.wait(), CLOSE_TIMEOUT_S)


# --- what is searched where ------------------------------------------------------------------------------------------------


async def test_the_latest_is_searched_in_the_last_month_first() -> None:
    """A question for the latest news is searched in the last month, and if nothing is found in all times.

    A question with its own date is searched unchanged.
    """
    async with platform(search=json_reply({"results": []})) as (wired, upstream):
        await wired.research.research(research_request(query="latest python release"))
        assert [request.form.get("time_range") for request in upstream.requests] == ["month", None]
        await wired.research.research(research_request(query="latest python release of 2024"))
        assert [request.form.get("time_range") for request in upstream.requests[2:]] == [None]


async def test_documents_are_not_searched_by_a_date_that_nobody_named(tmp_path: Path) -> None:
    """A question for the latest documents is searched once without a date filter, and the answer mentions no date."""
    (tmp_path / "a.md").write_text("# Releases\n\nThe latest release of the tool is 4.2.\n")
    async with platform(DOCUMENTS_DIR=str(tmp_path)) as (wired, _):
        response = await wired.research.research(
            research_request(query="What is the latest release?", sources=("documents",))
        )
    assert response.degraded == ()
    assert response.metadata.searches == 1


async def test_the_web_and_documents_are_two_providers_and_two_requests(tmp_path: Path) -> None:
    """Each provider is named in `providers` and counted in `searches`."""
    (tmp_path / "loop.md").write_text(f"# Loop\n\n{LOOP}\n")
    async with platform(DOCUMENTS_DIR=str(tmp_path)) as (wired, _):
        response = await wired.research.research(research_request(sources=("web", "documents")))
    assert set(response.metadata.providers) == {"searxng", "documents"}
    assert response.metadata.searches == 2
    assert_quotes_hold(response)


@for_each("depth", ["shallow", "deep", "report"])
async def test_a_missing_web_search_is_listed_only_if_the_web_was_named(depth: str, tmp_path: Path) -> None:
    """Documents answer where there is nothing else. A request that names the web learns that it was not searched."""
    (tmp_path / "loop.md").write_text(f"# Loop\n\n{LOOP}\n")
    settings = Settings(
        DOCUMENTS_DIR=tmp_path, LLM_PLATFORM_DATA_DIR=tmp_path / "data", LLM_PLATFORM_OFFLINE=True, STORE_TTL_DAYS=0
    )
    async with build_platform(settings) as services:
        listed = []
        for fields in ({}, {"sources": ("documents",)}, {"sources": ("web",)}):
            response = await services.research.research(research_request(depth=depth, **fields))
            assert response.sources
            listed.append([entry.component for entry in response.degraded])
    assert listed == [[], [], ["web"]]


@for_each(
    ("query", "wished", "searched", "own"),
    [
        ("Что делает цикл событий?", None, "ru", "ru"),
        ("Was macht eine Ereignisschleife?", None, "de", "de"),
        ("asyncio", None, "all", "en"),
        ("asyncio", "en_US", "en-US", "en-US"),
    ],
)
async def test_the_language_of_a_question(query: str, wished: str | None, searched: str, own: str) -> None:
    """The requested language is used, or else the language detected by script and words.

    If detection is unsure, all languages are searched, and fixed texts are in English.
    """
    async with platform() as (wired, upstream):
        response = await wired.research.research(research_request(query=query, language=wished))
    assert upstream.requests[0].form["language"] == searched
    assert response.metadata.language == own


async def test_a_question_cannot_steer_the_search_engine() -> None:
    """Bangs, redirects and language prefixes in a question are searched as words."""
    async with platform() as (wired, upstream):
        await wired.research.research(research_request(query="What is !!g and :de in <5 !images?"))
    assert upstream.requests[0].form["q"] == "What is g and de in 5 images?"


async def test_offline_asks_no_model_elsewhere() -> None:
    """Offline, only a model on loopback is used. Without one, chat reports offline mode, and a research run quotes."""
    settings = Settings(LLM_PLATFORM_OFFLINE=True, KIMI_API_KEY=KEY)
    request = LLMRequest(messages=(ChatMessage(role="user", content="Hello"),))
    async with build_platform(settings, overrides={IWebSearchProvider: FakeWebSearch([result_item(1)])}) as wired:
        with pytest.raises(LLMConfigError, match=r"Offline.*loopback"):
            await wired.llm.generate(request)
        assert (await wired.research.research(research_request())).metadata.synthesizer == "extractive"
    async with build_platform(Settings()) as wired:
        with pytest.raises(LLMConfigError, match="LLM_API_KEY"):
            await wired.llm.generate(request)
    chat = ChatServer(kimi("Hello."))
    async with platform(chat, LLM_PLATFORM_OFFLINE=True) as (wired, upstream):
        assert (await wired.llm.generate(request)).content == "Hello."
    assert upstream.connections == 0


async def test_overrides_replace_ports() -> None:
    """An override of a port receives every call, and replaces the policies too."""
    search, llm = FakeWebSearch([result_item(1, "event loop")]), FakeLLM([WRITTEN])
    async with build_platform(Settings(), overrides={IWebSearchProvider: search, ILLMProvider: llm}) as wired:
        responses = [await wired.research.research(research_request()) for _ in range(2)]
    assert [response.metadata.synthesizer for response in responses] == ["fake/fake-1"] * 2
    assert len(search.requests) == 2


class Mute(ISynthesizer):
    """A custom writer without a name, whose stream ends half-way, or which fails."""

    async def synthesize(self, request: SynthesisRequest) -> Synthesis:
        raise LLMConnectionError("the writer is out", spent=Spending(calls=1, prompt_tokens=7))

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        yield SynthesisToken(text="The event loop is half said. What follows it shows where it ends. ")
        raise LLMConnectionError("the writer is out", spent=Spending(calls=1, prompt_tokens=7))


async def test_a_failed_custom_writer_is_replaced() -> None:
    """If a custom writer fails, the answer consists of quotes, and the cost of the writer is reported."""
    overrides = {IWebSearchProvider: FakeWebSearch([result_item(1, "event loop")]), ISynthesizer: Mute()}
    async with build_platform(Settings(), overrides=overrides) as wired:
        response = await wired.research.research(research_request(query="What does page 1 say about event loop?"))
        events = [
            event
            async for event in wired.research.stream(research_request(query="What does page 1 say about event loop?"))
        ]
    assert response.metadata.synthesizer == "extractive"
    assert (response.metadata.llm_calls, response.metadata.tokens_used) == (1, 7)
    assert [entry.component for entry in response.degraded] == ["custom"]
    assert response.synthesis.endswith(FAILED)
    *_, done = events
    assert done.type == "done"
    kinds = [event.type for event in events]
    after = events[kinds.index("reset") :]
    assert done.response.synthesis == "".join(event.text for event in after if event.type == "token")
    assert "half said" not in done.response.synthesis


async def test_no_key_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    """A key does not appear in model quotes, service errors, logs or reprs."""
    caplog.set_level("DEBUG")
    for said in (kimi(f"The key is {KEY} [1]."), error(401, {"error": {"message": f"wrong key {KEY}", "type": KEY}})):
        async with platform(ChatServer(said)) as (wired, _):
            told = (await wired.research.research(research_request())).model_dump_json()
            told += "".join(
                [event.model_dump_json() async for event in wired.research.stream(research_request(depth="deep"))]
            )
            try:
                await wired.llm.generate(LLMRequest(messages=(ChatMessage(role="user", content="Hello"),)))
            except AppException as failure:
                told += f"{failure!r} {failure.message} {failure.__cause__!r} {failure.__context__!r}"
            told += repr(wired)
        assert KEY not in told
        assert KEY not in caplog.text


# --- defects in custom parts -----------------------------------------------------------------------------------------------


class _WrongModel(ILLMProvider):
    name = "wrong"

    async def stream(self, request: LLMRequest) -> AsyncIterator[Any]:
        yield WRITTEN  # a str instead of an LLMToken


class _OwnReader(IPageReader):
    name = "own"

    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome

    async def read(self, url: str) -> Any:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


@for_each(
    "part",
    [
        {ILLMProvider: FakeLLM([KeyError("choices")])},
        {ILLMProvider: _WrongModel()},
        {IPageReader: _OwnReader(OSError("no such page"))},
        {IPageReader: _OwnReader(None)},
    ],
)
@for_each("depth", ["shallow", "deep", "report"])
async def test_a_defect_in_a_custom_part_loses_no_answer(
    part: dict[type, Any], depth: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With a defect in a custom part the answer has quotes, `degraded` names the failed model, and the error is logged."""
    search = FakeWebSearch([result_item(1, "tides"), result_item(2, "tides")])
    overrides = {IWebSearchProvider: search, IPageReader: FakePageReader({}), **part}
    async with build_platform(Settings(STORE_TTL_DAYS=0), overrides=overrides) as wired:
        request = research_request(query="What does page 1 say about tides?", depth=depth)
        response = await wired.research.research(request)
    assert "What page 1 says about tides" in response.synthesis
    if ILLMProvider in part:
        assert any("unexpected error" in failed.reason for failed in response.degraded)
    assert any(record.exc_info for record in caplog.records)
