"""Compare the ledgers of two runs of a watched question.

A fact that its page still has is not compared. A fact that left its page is compared with the statements that came: a page
says the same thing in other words, or another thing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from modules.llm_platform.domain.citations.checker import HEADINGS
from modules.llm_platform.domain.citations.read.claims import Claim
from modules.llm_platform.domain.dtos.watch_dtos import FactAt, LedgerFact, WatchChange, WatchReading
from modules.llm_platform.domain.text.tokens import normalize
from modules.llm_platform.domain.urls.canonical_url import canonical_url
from modules.llm_platform.domain.watches.counterparts import find_nearest, find_other
from modules.llm_platform.domain.watches.page_versions import PageDifference, PagePairs, PageVersion
from modules.llm_platform.domain.watches.values import NO_VALUE, find_changed_value

LAST_DAY: Final = "9999-12-31"  # of a source without a date


def compare_readings(was: WatchReading, now: WatchReading, pages: PagePairs | None = None) -> tuple[WatchChange, ...]:
    """Return what changed: disputes, then changes in the order of the earlier ledger, then of the later one.

    A page that only one of the runs read says nothing about its facts in the other, and an excerpt of a search engine is no
    page. The same change of several pages is listed once. `pages` are the pages of these readings, if the caller has them.
    """
    found: dict[tuple[str, ...], WatchChange] = {}
    for change in _Comparison(was, now, pages or PagePairs(was, now)).list_changes():
        found.setdefault(_key(change), change)
    return tuple(found.values())


def _key(change: WatchChange) -> tuple[str, ...]:
    """Return what is the same for a change of several pages: its values, and what is said about them."""
    sides = [side for side in (change.was, change.now) if side is not None]
    values = [side.value.casefold() for side in sides]
    said = [normalize(side.quote.replace(side.value, " ", 1) if side.value else side.quote) for side in sides]
    return change.kind, str(change.was is None), *values, *said


class _Comparison:
    def __init__(self, was: WatchReading, now: WatchReading, pages: PagePairs) -> None:
        self._was, self._now = was, now
        self._then, self._today = pages.then, pages.today
        self._differences = {url: page for url, page in pages.both.items() if page.was.is_page and page.now.is_page}
        self._explained: set[tuple[str, str]] = set()  # quotes of the later run that changes have, with their page

    def list_changes(self) -> Iterator[WatchChange]:
        yield from self._list_disputes()
        for fact in self._was.facts:
            if page := self._differences.get(canonical_url(fact.url)):
                yield from self._compare_earlier(page, fact)
        for fact in self._now.facts:
            url = canonical_url(fact.url)
            if (url, normalize(fact.quote)) in self._explained or url not in self._today:
                continue
            if page := self._differences.get(url):
                yield from self._compare_later(page, fact)
            elif self._is_news(fact):
                yield _report_new(fact.quote, self._today[url])

    def _explain(self, page: PageVersion, quote: str) -> bool:
        """Note that a change has this quote of the later run. Return False if an earlier change has it."""
        key = canonical_url(page.source.url), normalize(quote)
        is_new = key not in self._explained
        self._explained.add(key)
        return is_new

    # --- disputes ------------------------------------------------------------------------------------------------------

    def _list_disputes(self) -> Iterator[WatchChange]:
        """Yield the rows of the later ledger in which a sentence that came contradicts one that a page had before."""
        rows: dict[int, list[LedgerFact]] = {}
        for fact in self._now.facts:
            if fact.dispute is not None and canonical_url(fact.url) in self._today:
                rows.setdefault(fact.dispute, []).append(fact)
        for sides in rows.values():
            known = next(filter(self._was_said, sides), None)
            came = next((fact for fact in sides if not self._was_said(fact)), None)
            if known is not None and came is not None:
                yield self._dispute(known, came)

    def _was_said(self, fact: LedgerFact) -> bool:
        claim = self._today[canonical_url(fact.url)].read_claim(fact.quote)
        return any(page.has(claim) for page in self._then.values())

    def _dispute(self, known: LedgerFact, came: LedgerFact) -> WatchChange:
        first, last = (self._today[canonical_url(fact.url)] for fact in (known, came))
        self._explain(last, came.quote)
        value = find_changed_value(first.read_claim(known.quote), last.read_claim(came.quote)) or NO_VALUE
        was, now = _fact(known.quote, first, value.was, self._was.at), _fact(came.quote, last, value.now)
        return WatchChange(kind="disputed", fact=_name_fact(now), was=was, now=now)

    # --- facts of pages that both runs read ----------------------------------------------------------------------------

    def _compare_earlier(self, page: PageDifference, fact: LedgerFact) -> Iterator[WatchChange]:
        claim = page.was.read_claim(fact.quote)
        if page.now.has(claim):
            return
        other = find_other(claim, page.came, is_answer=fact.is_answer)
        if other is None:
            if not page.now.is_cut and page.is_same_page and find_nearest(claim, page.came) is None:
                yield WatchChange(kind="gone", fact=fact.quote, was=_fact(fact.quote, page.was, ""))
        elif self._explain(page.now, other.quote):
            now = _fact(other.quote, page.now, other.value.now)
            holder = self._find_holder(claim, page.now)
            was = _fact(fact.quote, holder or page.was, other.value.was, page.was.at)
            yield WatchChange(kind="disputed" if holder else "changed", fact=_name_fact(now), was=was, now=now)

    def _find_holder(self, claim: Claim, changed: PageVersion) -> PageVersion | None:
        """Return another page that still supports a claim, None if there is none."""
        others = (page for page in self._today.values() if page is not changed)
        return next((page for page in others if page.judge(claim).verdict == "supported"), None)

    def _compare_later(self, page: PageDifference, fact: LedgerFact) -> Iterator[WatchChange]:
        claim = page.now.read_claim(fact.quote)
        if page.was.has(claim):
            return
        other = find_other(claim, page.left, is_answer=fact.is_answer)
        if other is not None and self._is_nearest(fact, other.quote, page):
            was, now = _fact(other.quote, page.was, other.value.now), _fact(fact.quote, page.now, other.value.was)
            yield WatchChange(kind="changed", fact=_name_fact(now), was=was, now=now)
        elif fact.is_answer and not page.was.is_cut and find_nearest(claim, page.left) is None:
            yield _report_new(fact.quote, page.now)

    def _is_nearest(self, fact: LedgerFact, left: str, page: PageDifference) -> bool:
        """Return whether no other statement that came is nearer to a statement that left the page."""
        near = find_nearest(page.was.read_claim(left), page.came)
        return near is not None and normalize(near) == normalize(fact.quote)

    # --- facts of pages that only the later run read -------------------------------------------------------------------

    def _is_news(self, fact: LedgerFact) -> bool:
        """Return whether a page answers with what no page said before, and is not older than the earlier run."""
        if not fact.is_answer or (fact.published or LAST_DAY) < self._was.at.date().isoformat():
            return False
        claim = self._today[canonical_url(fact.url)].read_claim(fact.quote)
        return all(page.judge(claim).verdict == "unsupported" for page in self._then.values())


def _report_new(quote: str, page: PageVersion) -> WatchChange:
    return WatchChange(kind="new", fact=quote, now=_fact(quote, page, ""))


def _fact(quote: str, page: PageVersion, value: str, at: datetime | None = None) -> FactAt:
    """Return a quote as it is shown: without the Markdown headings above it, unless the value is in one of them."""
    headings = HEADINGS.match(quote)
    below = quote[headings.end() :] if headings else ""
    shown = below if below and value in below else quote
    return FactAt(value=value, quote=shown, source=page.source.url, at=at or page.at)


def _name_fact(now: FactAt) -> str:
    if not now.value or now.value == now.quote:
        return now.quote
    return now.quote.replace(now.value, "…", 1)
