"""Two versions of a page: the statements that left it, and those that came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Final

from modules.llm_platform.domain.citations.compare.alignment import SourceText, prepare_source
from modules.llm_platform.domain.citations.compare.verdicts import Judgement, is_verbatim, judge
from modules.llm_platform.domain.citations.read.claims import Claim, read_claim
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.watch_dtos import WatchReading
from modules.llm_platform.domain.urls.canonical_url import canonical_url
from modules.llm_platform.domain.watches.dates_of_the_day import blank_dates_of_the_day
from modules.llm_platform.domain.watches.statements import cut_statements

MAX_STATEMENTS: Final = 500  # of one page; the time of a comparison grows with their square


@dataclass(frozen=True)
class PageVersion:
    """A page as one run read it. Dates of the day are blank in what is compared.

    `check_stop` is called between steps of the work, and may raise to end it.
    """

    source: Source
    at: datetime
    language: str
    check_stop: Callable[[], None] = lambda: None

    @cached_property
    def source_text(self) -> SourceText:
        text = blank_dates_of_the_day(self.source.text, self.at)
        return prepare_source(text, self.source.title, self.language)

    @property
    def is_page(self) -> bool:
        """False for an excerpt by a search engine, which has other sentences at each search."""
        return self.source.text_kind != "snippet"

    def read_claim(self, quote: str) -> Claim:
        """Return a quote of this page, for comparison with another version."""
        self.check_stop()
        return read_claim(" ".join(blank_dates_of_the_day(quote, self.at).split()), self.language)

    def has(self, claim: Claim) -> bool:
        """Return whether the page has the words of the claim in this order."""
        self.check_stop()
        return not claim.words or is_verbatim(claim, self.source_text)

    def judge(self, claim: Claim) -> Judgement:
        self.check_stop()
        return judge(claim, self.source_text, self.language)

    @cached_property
    def statements(self) -> dict[str, Claim]:
        """The first MAX_STATEMENTS statements as the page writes them, and as they are compared."""
        sentences = (self.source.text[slice(*span)] for span in self.source_text.spans)
        found = (statement for sentence in sentences for statement in cut_statements(sentence))
        return {statement: self.read_claim(statement) for statement in islice(found, MAX_STATEMENTS)}

    @property
    def is_cut(self) -> bool:
        """True if the page may have more than MAX_STATEMENTS statements, so that a missing statement proves nothing."""
        return len(self.statements) >= MAX_STATEMENTS

    def keep(self, statements: Sequence[str]) -> PageVersion:
        """Return a version that has only these statements, each a paragraph."""
        text = "\n\n".join(statements)
        return replace(self, source=self.source.model_copy(update={"text": text, "title": ""}))


def read_pages(reading: WatchReading, check_stop: Callable[[], None] = lambda: None) -> dict[str, PageVersion]:
    """Return the pages of a run that have text, by their canonical addresses."""
    return {
        canonical_url(source.url): PageVersion(source, source.read_at or reading.at, reading.language, check_stop)
        for source in reading.sources
        if source.text.strip()
    }


class PageDifference:
    """What left a page between two runs (`left`), and what came (`came`)."""

    def __init__(self, was: PageVersion, now: PageVersion) -> None:
        self.was, self.now = was, now

    @cached_property
    def left(self) -> PageVersion:
        return self.was.keep(_list_missing(self.was, self.now))

    @cached_property
    def came(self) -> PageVersion:
        return self.now.keep(_list_missing(self.now, self.was))

    @property
    def is_same_page(self) -> bool:
        """False if nothing is left of the page: its server may have sent another one, such as a request to accept cookies."""
        return len(self.left.statements) < len(self.was.statements)


class PagePairs:
    """The pages of two runs by their canonical addresses: `then` and `today`, and `both` for those that both runs read."""

    def __init__(self, was: WatchReading, now: WatchReading, check_stop: Callable[[], None] = lambda: None) -> None:
        self.then, self.today = read_pages(was, check_stop), read_pages(now, check_stop)
        self.both = {url: PageDifference(page, self.today[url]) for url, page in self.then.items() if url in self.today}


def _list_missing(version: PageVersion, other: PageVersion) -> list[str]:
    return [statement for statement, claim in version.statements.items() if not other.has(claim)]
