"""Searching several questions at once, and putting their results together."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.application.research.find.search import (
    fuse_results,
    list_raw_results,
    number_sources,
    search_questions,
    select_usable_results,
    wants_latest,
)
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.concurrency.early_finish import EarlyFinish
from modules.llm_platform.domain.dtos.source_dtos import Source, SourceRef
from modules.llm_platform.domain.dtos.web_search_dtos import (
    SourceKind,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.domain.exceptions import ResearchTimeoutError, WebSearchBlockedError, WebSearchError
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.testing.waiting import START_TIMEOUT_S, becomes_true


class Scripted(IWebSearchProvider):
    """Answers by query: a number of results, an error to raise, or seconds to wait before one result."""

    name = "scripted"

    def __init__(self, script: dict[str, object]) -> None:
        self.script = script
        self.asked: list[WebSearchRequest] = []
        self.running = self.most_at_once = 0

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.asked.append(request)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            return await self._answer(request)
        finally:
            self.running -= 1

    async def _answer(self, request: WebSearchRequest) -> WebSearchResponse:
        turn = self.script.get(request.query, 1)
        if isinstance(turn, Exception):
            raise turn
        if callable(turn):
            turn = turn(request)
        if isinstance(turn, float):
            await asyncio.sleep(turn)
            turn = 1
        await asyncio.sleep(0)
        items = tuple(WebSearchResultItem(title=f"t{i}", url=f"https://x.test/{i}") for i in range(int(str(turn))))
        return WebSearchResponse(query=request.query, results=items, provider=self.name)


async def run(provider: Scripted, *queries: str, within: float = 5.0, sources: tuple[SourceKind, ...] = ("web",)):
    told: list[str] = []
    requests = [WebSearchRequest(query=query, sources=sources) for query in queries]
    deadline = asyncio.get_running_loop().time() + within
    service = WebSearchService(provider)
    found = await search_questions(
        requests, service, deadline, lambda request, _: told.append(request.query), EarlyFinish()
    )
    return found, told


async def test_all_questions_are_searched_at_the_same_time() -> None:
    """Three questions are three searches in flight, answered in the order of the questions."""
    provider = Scripted({"a1": 1, "b2": 2, "c3": 3})
    found, told = await run(provider, "a1", "b2", "c3")
    assert provider.most_at_once == 3
    assert [len(answer.results) for answer in found.answers] == [1, 2, 3]
    assert found.searches == 3
    assert sorted(told) == ["a1", "b2", "c3"]


async def test_one_of_three_failing_is_degraded_not_an_error() -> None:
    """Two answers are enough.

    `degraded` names the third search and until when it is blocked, and its request is counted.
    """
    found, _ = await run(Scripted({"bad": WebSearchBlockedError("all blocked", retry_after_s=9)}), "one", "bad", "two")
    assert len(found.answers) == 2
    assert found.degraded[0].component == "search/2"
    assert found.degraded[0].until is not None
    assert found.searches == 3


async def test_all_failing_raises_the_last_error() -> None:
    """Providers that failed are not "nothing found"."""
    with pytest.raises(WebSearchError):
        await run(Scripted({"one": WebSearchBlockedError("x"), "two": WebSearchError("y")}), "one", "two")


async def test_results_at_the_deadline_are_used() -> None:
    """A search that is late is given up and named; what came in time serves."""
    provider = Scripted({"slow": 30.0})
    found, _ = await run(provider, "fast", "slow", within=0.1)
    assert len(found.answers) == 1
    assert "deadline" in found.degraded[0].reason
    assert provider.running == 0


async def test_a_search_that_the_caller_stopped_is_no_failure() -> None:
    """A request to write now stops unfinished searches. They were sent, so they are counted."""
    early_finish = EarlyFinish()
    early_finish.ask()
    found = await search_questions(
        [WebSearchRequest(query="fast"), WebSearchRequest(query="slow")],
        Scripted({"slow": 30.0}),
        asyncio.get_running_loop().time() + 60.0,
        lambda request, _: early_finish.found(),
        early_finish,
    )
    assert (len(found.answers), found.searches, found.degraded) == (1, 2, ())


async def test_nothing_in_time_is_a_timeout() -> None:
    """No answer at all before the deadline is the error `timeout`."""
    with pytest.raises(ResearchTimeoutError):
        await run(Scripted({"slow": 30.0}), "slow", within=0.05)


async def test_cancelling_leaves_nothing_running() -> None:
    """The searches of a cancelled gather end with it."""
    provider = Scripted({"slow": 30.0, "slower": 40.0})
    task = asyncio.create_task(run(provider, "slow", "slower"))
    assert await becomes_true(lambda: provider.running == 2, START_TIMEOUT_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert provider.running == 0


@for_each(
    ("question", "wanted"),
    [
        ("latest developments in fusion energy", True),
        ("Was ist neu: aktuelle Entwicklungen bei Batterien", True),
        ("последние новости термояда", True),
        ("核聚变最新进展", True),
        ("latest developments of 2024", False),
        ("latest news of this week", False),
        ("What is asyncio?", False),
        ("translated works", False),
    ],
)
def test_questions_for_the_latest(question: str, wanted: bool) -> None:
    """The question asks for the newest information and has no date."""
    assert wants_latest(question) is wanted


async def test_the_latest_is_searched_in_the_last_month_first() -> None:
    """One search with time_range month; the open one only when that finds nothing."""
    provider = Scripted({})
    found, _ = await run(provider, "latest fusion results")
    assert [request.time_range for request in provider.asked] == ["month"]
    assert found.searches == 1


async def test_documents_alone_are_searched_once_whatever_their_age() -> None:
    """No time range reaches them, so that a second search would find the same."""
    provider = Scripted({"latest fusion results": 0})
    found, _ = await run(provider, "latest fusion results", sources=("documents",))
    assert [request.time_range for request in provider.asked] == [None]
    assert found.searches == 1


async def test_no_news_of_the_month_means_searching_all() -> None:
    """An empty month is not an answer to "latest"; both searches are counted."""
    provider = Scripted({"latest fusion results": lambda request: 0 if request.time_range else 2})
    found, _ = await run(provider, "latest fusion results")
    assert [request.time_range for request in provider.asked] == ["month", None]
    assert len(found.answers[0].results) == 2
    assert found.searches == 2


@for_each(
    ("provider", "kept"),
    [
        ("searxng", ["https://a.example/1"]),
        ("documents", ["https://a.example/1", "doc:notes/a.md"]),
        ("documents+searxng", ["https://a.example/1", "doc:notes/a.md"]),
    ],
)
def test_only_the_documents_provider_names_documents(provider: str, kept: list[str]) -> None:
    """A web result with a document address would make the reader open a file. A result without an address is no source."""
    urls = (
        "https://a.example/1",
        "doc:notes/a.md",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://a.example/a b",
    )
    items = tuple(WebSearchResultItem(title="t", url=url, snippet="s") for url in urls)
    answer = WebSearchResponse(query="q", results=items, provider=provider)
    assert [item.url for item in select_usable_results(answer, 10)] == kept
    assert [item.url for item in select_usable_results(answer, 1)] == kept[:1]


def answer(*urls: str, text: str = "words") -> WebSearchResponse:
    items = tuple(WebSearchResultItem(title=url, url=url, snippet=text) for url in urls)
    return WebSearchResponse(query="q", results=items)


def test_high_in_two_lists_beats_first_in_one() -> None:
    """Reciprocal rank fusion."""
    fused = fuse_results(
        [answer("https://a.test/", "https://b.test/"), answer("https://c.test/", "https://b.test/")], 10
    )
    assert fused[0].url == "https://b.test/"


def test_one_address_stands_once_with_its_longest_text() -> None:
    """Tracking parameters and fragments make no new source."""
    fused = fuse_results(
        [answer("https://a.test/x?utm_source=n", text="short"), answer("https://A.test/x#part", text="longer text")], 10
    )
    assert [item.snippet for item in fused] == ["longer text"]


def test_raw_results_have_the_order_of_the_source_numbers() -> None:
    """`raw_results[n - 1].content` is the text that quotes of source n refer to."""
    sources, raw = number_sources(fuse_results([answer("https://a.test/", "https://b.test/")], 10))
    assert [source.index for source in sources] == [1, 2]
    assert all(raw[source.index - 1].content == source.text for source in sources)
    assert all(raw[source.index - 1].url == source.url for source in sources)


def test_a_page_read_before_keeps_what_was_read_of_it() -> None:
    """A source of an earlier run is a page's text again, with the share of the page that was kept."""
    items = fuse_results([answer("https://a.test/", "https://b.test/")], 10)
    known = Source(index=4, title="", url="https://a.test/", text="words", text_kind="page", extraction=0.08)
    sources, _ = number_sources(items, [known])
    found = {source.url: (source.text_kind, SourceRef.of(source).extraction) for source in sources}
    assert found == {"https://a.test/": ("page", 0.08), "https://b.test/": ("snippet", None)}


@for_each("published", [None, "2026-01-02"])
def test_raw_results_have_the_text_and_the_date_of_the_page_that_was_read(published: str | None) -> None:
    """Citation styles take the date from them, so a page that states its date is not cited as undated."""
    (source,), raw = number_sources(answer("https://a.test/").results)
    read = source.model_copy(update={"text": "The whole page.", "published": published})
    [result] = list_raw_results([read], raw)
    assert (result.content, result.published) == ("The whole page.", published)
    assert list_raw_results([source], raw) == raw


def test_nothing_in_nothing_out() -> None:
    """No answers, no sources."""
    assert number_sources(fuse_results([], 10)) == ((), ())


@given(st.lists(st.lists(st.integers(0, 30), unique=True, max_size=15), max_size=4), st.integers(1, 20))
def test_fusion_keeps_each_address_once_and_never_more_than_the_limit(lists: list[list[int]], limit: int) -> None:
    """For any lists."""
    fused = fuse_results([answer(*(f"https://x.test/{i}" for i in ids)) for ids in lists], limit)
    urls = [item.url for item in fused]
    assert len(urls) == len(set(urls)) == min(limit, len({i for ids in lists for i in ids}))
