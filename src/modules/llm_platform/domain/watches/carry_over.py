"""Keep what an earlier run of a watch found and the later one did not, so that the next run is compared with both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.watch_dtos import LedgerFact, WatchReading
from modules.llm_platform.domain.text.tokens import normalize
from modules.llm_platform.domain.urls.canonical_url import canonical_url
from modules.llm_platform.domain.watches.counterparts import find_rewording
from modules.llm_platform.domain.watches.page_versions import PageDifference, read_pages

MAX_SOURCES: Final = 60  # pages of one reading; the pages of the last run come first
MAX_FACTS: Final = 60  # facts of one reading; the facts of the last run come first


def carry_over(was: WatchReading, now: WatchReading) -> WatchReading:
    """Return the later reading with the facts of the earlier one that may still hold, and the pages that were not read.

    - A page that failed once is compared when it is read again. Each page keeps the time at which it was read.
    - An answer that its page still has stays watched though the later run quotes another one.
    """
    read = {canonical_url(source.url) for source in now.sources if source.text.strip()}
    unread = (_date(source, was) for source in was.sources if canonical_url(source.url) not in read)
    sources = (*(_date(source, now) for source in now.sources), *unread)[:MAX_SOURCES]
    known = {canonical_url(source.url) for source in sources}
    facts = {(canonical_url(fact.url), normalize(fact.quote)): fact for fact in now.facts}
    for fact in _list_held(was, now):
        if canonical_url(fact.url) in known:
            facts.setdefault((canonical_url(fact.url), normalize(fact.quote)), fact)
    return now.model_copy(update={"facts": tuple(facts.values())[:MAX_FACTS], "sources": sources})


def _date(source: Source, reading: WatchReading) -> Source:
    return source if source.read_at else source.model_copy(update={"read_at": reading.at})


def _list_held(was: WatchReading, now: WatchReading) -> Iterator[LedgerFact]:
    """Yield the earlier facts that their pages still have, as they word them now, and those of pages that were not read."""
    then, today = read_pages(was), read_pages(now)
    for earlier in was.facts:
        fact, url = earlier.model_copy(update={"dispute": None}), canonical_url(earlier.url)
        if url not in then or url not in today:
            yield fact
        elif fact.is_answer:
            page = PageDifference(then[url], today[url])
            claim = page.was.read_claim(fact.quote)
            if page.now.has(claim):
                yield fact
            elif (wording := find_rewording(claim, page.came)) is not None:
                yield fact.model_copy(update={"quote": wording})
