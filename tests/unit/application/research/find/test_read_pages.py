"""Pages are read before a quick or deep answer is written, in a bounded time, and never fail it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.research_run import make_run
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.application.research.find.read_pages import (
    FURTHER_PAGES,
    LATE_SHARE,
    MAX_STORED_TOKENS,
    OTHER_TOKENS,
    PROMPT_GROWTH,
    PageReads,
    RankedPage,
    ReadOptions,
    SourcesBeingRead,
    add_pages,
)
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import PageError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.retrieval.excerpt import RankedPassages
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.domain.urls.canonical_url import canonical_url

ENOUGH_S = 30.0
SOON_S = 0.2
HANGS = "hangs"


def page(url: str, text: str) -> Page:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Page(url=url, title="T", text=text, read_at=now, reader="fake", sha256="0", media_type="text/html")


class ScriptedReader(IPageReader):
    """Gives the texts of its pages, hangs for one called HANGS until `released` is set, and fails for every other address."""

    name = "fake"

    def __init__(self, pages: Mapping[str, str]) -> None:
        self.pages = pages
        self.asked: list[str] = []
        self.cancelled = 0
        self.released = asyncio.Event()

    async def read(self, url: str) -> Page:
        self.asked.append(url)
        if HANGS in url:
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if url not in self.pages:
            raise PageError("There is no such page")
        return page(url, self.pages[url])


def urls(*names: str) -> list[str]:
    return [f"https://a.example/{name}" for name in names]


def found(*texts: str) -> tuple[Source, ...]:
    return tuple(
        Source(index=number, title="T", url=f"https://a.example/{number}", text=text, text_kind="snippet")
        for number, text in enumerate(texts, 1)
    )


def page_reads(
    reader: IPageReader, events: list[Any], limit: int, seconds: float = ENOUGH_S, left: float = ENOUGH_S
) -> PageReads:
    """`left`: seconds to the deadline of the research."""
    deadline = asyncio.get_running_loop().time() + left
    return PageReads(reader, replace(make_run(events), deadline=deadline), limit, seconds)


async def collected(reader: IPageReader, wanted: Sequence[str], limit: int, seconds: float = ENOUGH_S) -> Any:
    events: list[Any] = []
    async with page_reads(reader, events, limit, seconds) as reads:
        pages = await reads.collect(wanted)
        return sorted(read_page.page.url for read_page in pages.values()), reads.end(), events


async def took(wait: Awaitable[object]) -> float:
    began = asyncio.get_running_loop().time()
    await wait
    return asyncio.get_running_loop().time() - began


async def test_the_next_best_page_replaces_one_that_cannot_be_read() -> None:
    """The limit counts read pages. Each address is requested once, and has one event."""
    reader = ScriptedReader(dict.fromkeys(urls("b", "c", "d"), "Text."))
    pages, counts, events = await collected(reader, urls("a", "b", "c", "d"), 2)
    assert pages == urls("b", "c")
    assert (counts.read, counts.failed, counts.late) == (2, 1, 0)
    assert reader.asked == urls("a", "b", "c")
    assert [(event.url[-1], event.status) for event in events] == [("a", "page_error"), ("b", "read"), ("c", "read")]


async def test_no_page_is_waited_for_beyond_its_time() -> None:
    """What is read by then is taken, the rest is counted, told and cancelled."""
    reader = ScriptedReader({urls("b")[0]: "Text."})
    pages, counts, events = await collected(reader, urls(HANGS, "b"), 2, seconds=SOON_S)
    assert pages == urls("b")
    assert (counts.read, counts.failed, counts.late) == (1, 0, 1)
    assert reader.cancelled == 1
    assert (events[-1].url, events[-1].status) == (urls(HANGS)[0], "timeout")


async def test_reading_begins_with_the_first_results() -> None:
    """A page that is started while other searches run is not read again."""
    reader = ScriptedReader(dict.fromkeys(urls("a", "b"), "Text."))
    async with page_reads(reader, [], 2) as reads:
        reads.start(urls("a"), 1)
        pages = await reads.collect(urls("a", "b"))
    assert sorted(read_page.page.url for read_page in pages.values()) == urls("a", "b")
    assert reader.asked == urls("a", "b")


async def test_a_late_page_is_read_on_and_becomes_the_text_of_its_source() -> None:
    """While the answer is written; the numbers of the sources and all other texts stay."""
    reader = ScriptedReader(
        {f"https://a.example/{number}": f"Page {number}." for number in (1, 3)} | {urls(HANGS)[0]: "Late."}
    )
    events: list[Any] = []
    stored: list[tuple[Source, ...]] = []

    async def store(sources: tuple[Source, ...]) -> None:
        stored.append(sources)

    sources = found("One.", "Two.", "Three.")
    sources = (sources[0].model_copy(update={"url": urls(HANGS)[0]}), *sources[1:])
    async with page_reads(reader, events, 1, SOON_S) as reads:
        assert await reads.collect([source.url for source in sources]) == {}
        being_read = SourcesBeingRead(sources, reads, store)
        assert being_read.get_sources() == sources
        being_read.read_cited((1, 2, 3))
        reader.released.set()
        await reads.wait_for([])  # has no time left, so it returns at once
        while len(reads.get_pages()) < 2:
            await asyncio.sleep(0)
        taken = being_read.get_sources()
        await being_read.finish({2})
        assert being_read.get_sources() is taken
        await being_read.store(taken)  # no page has been read since
        counts = reads.end()
    assert [(source.index, source.url, source.text, source.text_kind) for source in taken] == [
        (1, sources[0].url, "Late.", "page"),
        (2, sources[1].url, "Two.", "snippet"),
        (3, sources[2].url, "Page 3.", "page"),
    ]
    assert stored == [taken]
    late = reads.get_pages()[canonical_url(sources[0].url)].page
    assert (taken[0].read_at, taken[0].media_type, taken[1].read_at) == (late.read_at, late.media_type, None)
    assert (counts.read, counts.failed, counts.late) == (2, 1, 0)
    assert [event.status for event in events].count("read") == 2


async def test_beyond_the_prompt_only_cited_sources_are_read() -> None:
    """The server of a source that the text does not cite never learns of the question."""
    reader = ScriptedReader({f"https://a.example/{number}": "Text." for number in range(1, 5)})

    async def store(sources: tuple[Source, ...]) -> None:
        return

    sources = found("One.", "Two.", "Three.", "Four.")
    async with page_reads(reader, [], 1) as reads:
        await reads.collect([source.url for source in sources])
        being_read = SourcesBeingRead(sources, reads, store)
        being_read.get_sources()
        being_read.read_cited({1, 3})
        await being_read.finish({1, 3})
    assert reader.asked == [sources[0].url, sources[2].url]


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_further_pages_are_bounded_and_none_is_read_where_none_is_wanted(limit: int) -> None:
    """Whatever the number of sources; those that cannot be read count for nothing."""
    names = [f"{HANGS}{number}" for number in range(40)]
    reader = ScriptedReader({})
    async with page_reads(reader, [], limit, 0.0) as reads:
        await reads.collect(urls(*names))
        reads.start_further(urls(*names))
        await reads.wait_for(urls(*reversed(names)))
        await asyncio.sleep(0)
        counts = reads.end()
    assert len(reader.asked) == counts.late == reader.cancelled == limit * (1 + FURTHER_PAGES)


async def test_a_cited_page_is_waited_for_once_the_text_is_there() -> None:
    """If nothing has requested the page yet, it is read now. Only cited pages are waited for."""
    reader = ScriptedReader(dict.fromkeys(urls("a", "b"), "Text."))
    async with page_reads(reader, [], 1) as reads:
        await reads.collect(urls("a"))
        reads.start_further(urls(HANGS))
        await reads.wait_for(urls("b"))
        assert sorted(read_page.page.url for read_page in reads.get_pages().values()) == urls("a", "b")


@in_virtual_time
async def test_a_page_that_had_its_time_is_not_waited_for_again() -> None:
    """A page that only the end of the text cites gets a share of the time.

    Each page is waited for once, and never beyond the deadline.
    """
    reader = ScriptedReader({})
    async with page_reads(reader, [], 2, SOON_S) as reads:
        await reads.collect(urls(HANGS))
        assert await took(reads.wait_for(urls(HANGS))) == 0.0
        assert await took(reads.wait_for(urls(HANGS, f"{HANGS}2"))) == pytest.approx(SOON_S * LATE_SHARE)
    async with page_reads(reader, [], 1, SOON_S) as reads:
        reads.start_further(urls(HANGS))
        await asyncio.sleep(1.5 * SOON_S)  # the writing
        assert await took(reads.wait_for(urls(HANGS))) == 0.0
    async with page_reads(reader, [], 1, left=0.0) as reads:
        assert await took(reads.wait_for(urls(HANGS))) == 0.0


async def test_only_relevant_passages_of_a_long_page_are_stored() -> None:
    """The event has the length of the page."""
    filler = "\n\n".join(f"Paragraph {at} tells of sheds, fences and lawns, and what they cost." for at in range(2000))
    reader = ScriptedReader({urls("a")[0]: f"{filler}\n\nThe water is 48 degrees warm.\n\n{filler}"})
    events: list[Any] = []
    async with page_reads(reader, events, 1) as reads:
        [read] = [read_page.page for read_page in (await reads.collect(urls("a"))).values()]
    assert count_tokens(read.text) <= MAX_STORED_TOKENS
    assert "48 degrees" in read.text
    assert [event.chars for event in events] == [len(reader.pages[urls("a")[0]])]


@for_each(
    ("setting", "wish", "depth", "limit"),
    [
        (None, None, "shallow", 3),
        (None, None, "deep", 4),
        (None, None, "report", 0),  # it reads pages by itself
        (2, None, "deep", 2),
        (2, 7, "deep", 7),
        (None, 0, "deep", 0),
    ],
)
def test_the_request_overrides_the_setting(setting: int | None, wish: int | None, depth: str, limit: int) -> None:
    """The number of pages comes from the request, else from READ_PAGES, else it is three for a shallow and four for a
    deep answer.
    """
    assert ReadOptions(pages=setting).get_page_limit(make_run([], depth, wish).request) == limit


@for_each(
    ("setting", "depth", "timeout_s", "seconds"),
    [
        (None, "shallow", 60.0, 1.2),
        (None, "deep", 60.0, 2.5),
        (None, "report", 60.0, 0.0),  # it reads pages by itself
        (4.0, "shallow", 60.0, 4.0),
        (0.0, "deep", 60.0, 0.0),
        (4.0, "deep", 10.0, 1.0),  # a tenth of the time of the research run
        (None, "deep", 10.0, 1.0),
    ],
)
def test_pages_have_their_time_and_at_most_a_share_of_all(
    setting: float | None, depth: str, timeout_s: float, seconds: float
) -> None:
    """The setting goes before the time of the depth; a short research run is not spent on reading."""
    assert ReadOptions(seconds=setting).calculate_seconds(make_run([], depth), timeout_s) == pytest.approx(seconds)


async def test_without_pages_nothing_changes() -> None:
    sources = found("One.", "Two.")
    assert add_pages(sources, {}) == (sources, sources)


async def test_sources_with_pages_come_first_and_are_marked() -> None:
    """Their text is the page's; the others keep the excerpt and their order."""
    read = page("https://a.example/2", "The water is 48 degrees warm.")
    pages = {canonical_url(read.url): RankedPage(read)}
    sources, _ = add_pages(found("One.", "Two.", "Three."), pages)
    assert [(source.index, source.url[-1], source.text_kind) for source in sources] == [
        (1, "2", "page"),
        (2, "1", "snippet"),
        (3, "3", "snippet"),
    ]
    assert sources[0].text == "The water is 48 degrees warm."


async def test_a_prompt_grows_by_half_at_most_and_holds_what_fits_the_question() -> None:
    """Whatever the length of the pages."""
    filler = "\n\n".join(f"Paragraph {at} tells of sheds, fences and lawns, and what they cost." for at in range(400))
    text = f"{filler}\n\nThe water is 48 degrees warm when it is cold outside.\n\n{filler}"
    found_sources = found(*["An excerpt of many words that the search engine made of the page. " * 3] * 6)
    passages = RankedPassages(text, "How warm is the water?")
    pages = {canonical_url(source.url): RankedPage(page(source.url, text), passages) for source in found_sources[:3]}
    _, excerpts = add_pages(found_sources, pages)
    before = OTHER_TOKENS + sum(count_tokens(source.text) for source in found_sources)
    after = OTHER_TOKENS + sum(count_tokens(excerpt.text) for excerpt in excerpts)
    assert after <= before * (1 + PROMPT_GROWTH)
    assert all("48 degrees" in excerpt.text for excerpt in excerpts[:3])
