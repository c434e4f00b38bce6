"""Pages are read before a quick or deep answer is written, in a bounded time, and never fail it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from modules.llm_platform.application.research.context import ResearchContext
from modules.llm_platform.application.research.read_pages import (
    OTHER_TOKENS,
    PROMPT_GROWTH,
    PageReads,
    ReadOptions,
    with_pages,
)
from modules.llm_platform.domain.canonical_url import canonical_url
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest, Source
from modules.llm_platform.domain.egress_log import EgressLog
from modules.llm_platform.domain.exceptions import PageError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.text.tokens import count_tokens

ENOUGH_S = 30.0
HANGS = "hangs"


def page(url: str, text: str) -> Page:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Page(url=url, title="T", text=text, read_at=now, reader="fake", sha256="0", media_type="text/html")


class ScriptedReader(IPageReader):
    """Gives the texts of its pages, hangs for one called HANGS, and fails for every other address."""

    name = "fake"

    def __init__(self, pages: Mapping[str, str]) -> None:
        self.pages = pages
        self.asked: list[str] = []
        self.cancelled = 0

    async def read(self, url: str) -> Page:
        self.asked.append(url)
        if HANGS in url:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if url not in self.pages:
            raise PageError("There is no such page")
        return page(url, self.pages[url])


def context(events: list[Any], depth: str = "shallow", pages: int | None = None) -> ResearchContext:
    async def store(sources: tuple[Source, ...]) -> None:
        return

    return ResearchContext(
        request=ResearchRequest(query="How warm is the water?", depth=depth, pages=pages), request_id="r", detected="en",
        emit=events.append, store_sources=store, streamed=False, began=0.0, egress_log=EgressLog(),
    )  # fmt: skip


def urls(*names: str) -> list[str]:
    return [f"https://a.example/{name}" for name in names]


def found(*texts: str) -> tuple[Source, ...]:
    return tuple(
        Source(index=number, title="T", url=f"https://a.example/{number}", text=text, text_kind="snippet")
        for number, text in enumerate(texts, 1)
    )


async def collected(reader: IPageReader, wanted: Sequence[str], limit: int, seconds: float = ENOUGH_S) -> Any:
    events: list[Any] = []
    async with PageReads(reader, context(events), limit) as reads:
        pages = await reads.collect(wanted, seconds)
        return sorted(each.url for each in pages.values()), reads.counts, events


async def test_the_next_best_page_replaces_one_that_cannot_be_read() -> None:
    """The limit counts pages that are read; each address is asked for once, and each has its event."""
    reader = ScriptedReader(dict.fromkeys(urls("b", "c", "d"), "Text."))
    pages, counts, events = await collected(reader, urls("a", "b", "c", "d"), 2)
    assert pages == urls("b", "c")
    assert (counts.read, counts.failed, counts.late) == (2, 1, 0)
    assert reader.asked == urls("a", "b", "c")
    assert [(event.url[-1], event.status) for event in events] == [("a", "page_error"), ("b", "read"), ("c", "read")]


async def test_no_page_is_waited_for_beyond_its_time() -> None:
    """What is read by then is taken, the rest is counted, told and cancelled."""
    reader = ScriptedReader({urls("b")[0]: "Text."})
    pages, counts, events = await collected(reader, urls(HANGS, "b"), 2, seconds=0.2)
    assert pages == urls("b")
    assert (counts.read, counts.failed, counts.late) == (1, 0, 1)
    assert reader.cancelled == 1
    assert (events[-1].url, events[-1].status) == (urls(HANGS)[0], "timeout")


async def test_reading_begins_with_the_first_results() -> None:
    """A page that is started while other searches run is not read again."""
    reader = ScriptedReader(dict.fromkeys(urls("a", "b"), "Text."))
    async with PageReads(reader, context([]), 2) as reads:
        reads.start(urls("a"), 1)
        pages = await reads.collect(urls("a", "b"), ENOUGH_S)
    assert sorted(each.url for each in pages.values()) == urls("a", "b")
    assert reader.asked == urls("a", "b")


@pytest.mark.parametrize(
    ("setting", "wish", "depth", "limit"),
    [(None, None, "shallow", 3), (None, None, "deep", 5), (2, None, "deep", 2), (2, 7, "deep", 7), (None, 0, "deep", 0)],
)
def test_the_request_goes_before_the_setting(setting: int | None, wish: int | None, depth: str, limit: int) -> None:
    assert ReadOptions(pages=setting).page_limit(context([], depth, wish)) == limit


async def test_without_pages_nothing_changes() -> None:
    sources = found("One.", "Two.")
    assert await with_pages(sources, {}, "How?", "en") == (sources, sources)


async def test_sources_with_pages_come_first_and_are_marked() -> None:
    """Their text is the page's; the others keep the excerpt and their order."""
    read = page("https://a.example/2", "The water is 48 degrees warm.")
    pages = {canonical_url(read.url): read}
    sources, _ = await with_pages(found("One.", "Two.", "Three."), pages, "How warm is the water?", "en")
    assert [(each.index, each.url[-1], each.text_kind) for each in sources] == [
        (1, "2", "page"), (2, "1", "snippet"), (3, "3", "snippet"),
    ]  # fmt: skip
    assert sources[0].text == "The water is 48 degrees warm."


async def test_a_prompt_grows_by_half_at_most_and_holds_what_fits_the_question() -> None:
    """Whatever the length of the pages."""
    filler = "\n\n".join(f"Paragraph {at} tells of sheds, fences and lawns, and what they cost." for at in range(400))
    text = f"{filler}\n\nThe water is 48 degrees warm when it is cold outside.\n\n{filler}"
    found_sources = found(*["An excerpt of many words that the search engine made of the page. " * 3] * 6)
    pages = {canonical_url(each.url): page(each.url, text) for each in found_sources[:3]}
    _, excerpts = await with_pages(found_sources, pages, "How warm is the water?", "en")
    before = OTHER_TOKENS + sum(count_tokens(each.text) for each in found_sources)
    after = OTHER_TOKENS + sum(count_tokens(each.text) for each in excerpts)
    assert after <= before * (1 + PROMPT_GROWTH)
    assert all("48 degrees" in each.text for each in excerpts[:3])
