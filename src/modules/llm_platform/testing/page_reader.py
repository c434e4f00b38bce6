"""A fake page reader, and the contract of `IPageReader`."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.testing import waiting
from shared.exceptions import AppException

PAGE_ERRORS: Final = (
    exceptions.PageRequestError,
    exceptions.PageConfigError,
    exceptions.PageConnectionError,
    exceptions.PageError,
)
READ_AT: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

PageOutcome: TypeAlias = str | Page | AppException


def sample_page(url: str, text: str, title: str = "A page") -> Page:
    """Return a page as a reader returns it. The same arguments return an equal page."""
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return Page(url=url, title=title, text=text, read_at=READ_AT, reader="fake", sha256=sha256, media_type="text/plain")


class FakePageReader(IPageReader):
    """A page reader without a network.

    - `pages` maps a URL to its text, to a page, or to the error to raise. Any other URL is a PageError.
    - `delay_s` is the time in seconds before each result.
    - `urls` has the requested URLs in their order.
    - `running` is the number of running reads.
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
        outcome = self._pages.get(url, exceptions.PageError("There is no such page"))
        if isinstance(outcome, AppException):
            raise outcome
        return outcome if isinstance(outcome, Page) else sample_page(url, outcome)


class PageCase(NamedTuple):
    """A reader and a URL to read."""

    reader: IPageReader
    url: str


class SlowPage(NamedTuple):
    """A reader and a URL whose server does not respond. `busy()` returns the number of open connections."""

    reader: IPageReader
    url: str
    busy: Callable[[], int]


class PageReaderContract:
    """Subclass it and add these fixtures, each a PageCase.

    `readable`: a page with text · `unreachable` · `refused`: a URL that may not be read · `walled`: a page behind a login
    or a bot check · `missing`: no such page · `slow`: a SlowPage.
    """

    async def test_page_has_text_and_provenance(self, readable: PageCase) -> None:
        """A page has text, title, URL, reader, a time with time zone, the hash of the text, and a media type."""
        page = await readable.reader.read(readable.url)
        assert page.text.strip()
        assert page.title
        assert page.url.startswith(("http://", "https://", "doc:"))
        assert page.reader == readable.reader.name
        assert page.read_at.tzinfo is not None
        assert page.sha256 == hashlib.sha256(page.text.encode()).hexdigest()
        assert "/" in page.media_type

    async def test_unreachable_page_is_a_retryable_error(self, unreachable: PageCase) -> None:
        """A page that cannot be fetched is a retryable PageConnectionError with a message."""
        error = await _error_of(unreachable)
        assert isinstance(error, exceptions.PageConnectionError)
        assert error.retryable
        assert error.message

    async def test_refused_url_is_a_request_error(self, refused: PageCase) -> None:
        """A URL that is not allowed is a PageRequestError, which is not retryable."""
        error = await _error_of(refused)
        assert isinstance(error, exceptions.PageRequestError)
        assert not error.retryable

    async def test_walled_page_is_an_error(self, walled: PageCase) -> None:
        """A login page or bot check is not returned as the page."""
        assert isinstance(await _error_of(walled), exceptions.PageBlockedError)

    async def test_missing_page_is_an_error(self, missing: PageCase) -> None:
        """A missing page is an error, never an empty text."""
        assert isinstance(await _error_of(missing), exceptions.PageError)

    async def test_error_message_does_not_contain_the_url(self, refused: PageCase, missing: PageCase) -> None:
        """A URL can reveal a query, so no error message contains it."""
        for case in (refused, missing):
            error = await _error_of(case)
            assert isinstance(error, PAGE_ERRORS)
            assert case.url.partition(":")[2].lstrip("/") not in error.message

    async def test_reads_can_run_concurrently(self, readable: PageCase, walled: PageCase) -> None:
        """Concurrent reads return their own results."""
        first, error, second = await asyncio.gather(
            readable.reader.read(readable.url), _error_of(walled), readable.reader.read(readable.url)
        )
        assert first.text == second.text
        assert isinstance(error, exceptions.PageBlockedError)

    async def test_cancelled_read_closes_its_connection(self, slow: SlowPage) -> None:
        """A cancelled read ends promptly and closes its connection."""
        read = asyncio.create_task(slow.reader.read(slow.url))
        assert await waiting.becomes_true(lambda: slow.busy() > 0, waiting.START_TIMEOUT_S), "the server got no request"
        assert await waiting.is_cancelled_promptly(read)
        assert await waiting.becomes_true(lambda: slow.busy() == 0, waiting.CLOSE_TIMEOUT_S), (
            "the connection is still open"
        )


async def _error_of(case: PageCase) -> AppException:
    return await waiting.error_of(case.reader.read(case.url), AppException)
