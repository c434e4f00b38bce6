"""Keep what an earlier run of a watch found and the later one did not, so that the next run is compared with both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.watch_dtos import LedgerFact, WatchReading
from modules.llm_platform.domain.text.tokens import normalize
from modules.llm_platform.domain.urls.canonical_url import canonical_url
from modules.llm_platform.domain.watches.counterparts import find_nearest, find_rewording
from modules.llm_platform.domain.watches.page_versions import PageDifference, PagePairs

MAX_SOURCES: Final = 60  # pages of one reading; the pages of the last run come first
MAX_FACTS: Final = 60  # facts of one reading; the facts of the last run come first


def carry_over(was: WatchReading, now: WatchReading, pages: PagePairs | None = None) -> WatchReading:
    """Return the later reading with the facts of the earlier one that may still hold, and the pages that were not read.

    - A page that failed once is compared when it is read again. Each page keeps the time at which it was read.
    - An answer that its page still has stays watched though the later run quotes another one.

    `pages` are the pages of these readings, if the caller has them.
    """
    pages = pages or PagePairs(was, now)
    read = {url: page for url, page in pages.both.items() if not _is_other_page(page, url, was)}
    unread = pages.then.keys() - read.keys()
    later = [_date(source, now) for source in now.sources if canonical_url(source.url) not in unread]
    earlier = [_date(source, was) for source in was.sources if canonical_url(source.url) in unread]
    sources = (*later, *earlier)[:MAX_SOURCES]
    known = {canonical_url(source.url) for source in sources}
    facts: dict[tuple[str, str], LedgerFact] = {}
    for fact in (*now.facts, *_list_held(was, read, unread)):
        if canonical_url(fact.url) in known:
            facts.setdefault((canonical_url(fact.url), normalize(fact.quote)), fact)
    return now.model_copy(update={"facts": tuple(facts.values())[:MAX_FACTS], "sources": sources})


def _is_other_page(page: PageDifference, url: str, was: WatchReading) -> bool:
    """Return whether nothing on the page, and nothing about its facts, is left: its server sent another page."""
    quotes = [fact.quote for fact in was.facts if canonical_url(fact.url) == url]
    return not page.is_same_page and all(
        find_nearest(page.was.read_claim(quote), page.came) is None for quote in quotes
    )


def _date(source: Source, reading: WatchReading) -> Source:
    return source if source.read_at else source.model_copy(update={"read_at": reading.at})


def _list_held(was: WatchReading, read: Mapping[str, PageDifference], unread: set[str]) -> Iterator[LedgerFact]:
    """Yield the earlier facts of pages that were not read, and the answers that their pages still have, in today's words."""
    for earlier in was.facts:
        fact, url = earlier.model_copy(update={"dispute": None}), canonical_url(earlier.url)
        if url in unread:
            yield fact
        elif url in read and fact.is_answer:
            claim = read[url].was.read_claim(fact.quote)
            if read[url].now.has(claim):
                yield fact
            elif (wording := find_rewording(claim, read[url].came)) is not None:
                yield fact.model_copy(update={"quote": wording})
