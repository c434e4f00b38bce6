"""For those who write or use page readers: a scripted one, and the promises that every one keeps."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import (
    PageBlockedError,
    PageConfigError,
    PageConnectionError,
    PageError,
    PageRequestError,
)
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.testing.patience import CLOSES_WITHIN_S, RETURNS_WITHIN_S, STARTS_WITHIN_S, becomes
from shared.exceptions import AppException

PAGE_ERRORS: Final = (PageRequestError, PageConfigError, PageConnectionError, PageError)
READ_AT: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

PageOutcome: TypeAlias = str | Page | AppException


def made_up_page(url: str, text: str, title: str = "A page") -> Page:
    """A page as a reader gives it; the same address and text always give the same one."""
    known_by = hashlib.sha256(text.encode()).hexdigest()
    return Page(
        url=url, title=title, text=text, read_at=READ_AT, reader="fake", sha256=known_by, media_type="text/plain"
    )


class FakePageReader(IPageReader):
    """A reader that answers from a script, without a network.

    `pages` maps an address to its text, to a whole page, or to the error to raise; an address that it lacks is a
    PageError. `delay_s` seconds pass before each answer. `urls` holds what was asked for, `running` how many reads are
    under way.
    """

    def __init__(self, pages: Mapping[str, PageOutcome], *, delay_s: float = 0.0, name: str = "fake") -> None:
        self.name = name
        self.urls: list[str] = []
        self.running = 0
        self._pages = pages
        self._delay_s = delay_s

    async def read(self, url: str) -> Page:
        self.urls.append(url)
        self.running += 1
        try:
            await asyncio.sleep(self._delay_s)
        finally:
            self.running -= 1
        outcome = self._pages.get(url, PageError("There is no such page"))
        if isinstance(outcome, AppException):
            raise outcome
        return outcome if isinstance(outcome, Page) else made_up_page(url, outcome)


class Reading(NamedTuple):
    """A reader, and an address to try it with."""

    reader: IPageReader
    url: str


class SlowReading(NamedTuple):
    """A reader and an address whose server stays silent; `busy()` counts the exchanges still open."""

    reader: IPageReader
    url: str
    busy: Callable[[], int]


class PageReaderContract:
    """Subclass, give the fixtures, and the port's promises are checked.

    Fixtures to give, each a Reading: `readable` (a page with text), `unreachable`, `refused` (an address that may not be
    read), `walled` (a page behind a login or the like), `missing` (no such page), and `slow` (a SlowReading).
    """

    async def test_a_page_says_where_it_comes_from(self, readable: Reading) -> None:
        """Text, title, address, the reader's name, the time with its zone, and the hash by which the text is known."""
        page = await readable.reader.read(readable.url)
        assert page.text.strip()
        assert page.title
        assert page.url.startswith(("http://", "https://", "doc:"))
        assert page.reader == readable.reader.name
        assert page.read_at.tzinfo is not None
        assert page.sha256 == hashlib.sha256(page.text.encode()).hexdigest()
        assert "/" in page.media_type

    async def test_not_reaching_it_is_an_error(self, unreachable: Reading) -> None:
        """A page that could not be fetched is an error that may pass, with words."""
        error = await _error_of(unreachable)
        assert isinstance(error, PageConnectionError)
        assert error.retryable
        assert error.message

    async def test_what_may_not_be_read_is_the_callers_mistake(self, refused: Reading) -> None:
        """An address that is not allowed is refused as such, and trying again changes nothing."""
        error = await _error_of(refused)
        assert isinstance(error, PageRequestError)
        assert not error.retryable

    async def test_a_wall_is_no_page(self, walled: Reading) -> None:
        """What stands before the text is not given out as the text."""
        assert isinstance(await _error_of(walled), PageBlockedError)

    async def test_an_error_page_is_no_page(self, missing: Reading) -> None:
        """A page that is not there is an error, never an empty text."""
        assert isinstance(await _error_of(missing), PageError)

    async def test_an_error_repeats_nothing_of_the_address(self, refused: Reading, missing: Reading) -> None:
        """An address may say what somebody looks for: no message holds it."""
        for reading in (refused, missing):
            error = await _error_of(reading)
            assert isinstance(error, PAGE_ERRORS)
            assert reading.url.partition(":")[2].lstrip("/") not in error.message

    async def test_reads_side_by_side_do_not_disturb_each_other(self, readable: Reading, walled: Reading) -> None:
        """Each of several reads at once gets its own answer."""
        first, error, second = await asyncio.gather(
            readable.reader.read(readable.url), _error_of(walled), readable.reader.read(readable.url)
        )
        assert first.text == second.text
        assert isinstance(error, PageBlockedError)

    async def test_cancelling_leaves_no_connection_behind(self, slow: SlowReading) -> None:
        """A cancelled read returns at once and closes what it opened."""
        read = asyncio.create_task(slow.reader.read(slow.url))
        assert await becomes(lambda: slow.busy() > 0, STARTS_WITHIN_S), "the server was never asked"
        read.cancel()
        done, _ = await asyncio.wait([read], timeout=RETURNS_WITHIN_S)
        assert done, "a cancelled read must return"
        assert read.cancelled()
        assert await becomes(lambda: slow.busy() == 0, CLOSES_WITHIN_S), "the exchange was left open"


async def _error_of(reading: Reading) -> AppException | None:
    try:
        await reading.reader.read(reading.url)
    except AppException as error:
        return error
    return None
