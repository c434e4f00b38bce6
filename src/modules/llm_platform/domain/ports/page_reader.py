"""The port of page readers."""

from abc import ABC, abstractmethod

from modules.llm_platform.domain.dtos.page_dtos import Page


class IPageReader(ABC):
    """Reads the text of a page whose address may be untrusted."""

    name: str  # shown in `Page.reader` and logs

    async def prepare(self) -> None:
        """Start what reading needs, so that the first page does not wait for it. Raises nothing; does nothing by default."""
        return

    @abstractmethod
    async def read(self, url: str) -> Page:
        """Return the page's text, which is never empty: a page without usable text is an error.

        Raises the page errors of `domain.exceptions` and nothing else: PageRequestError for an address that may not be
        read, PageBlockedError for a login, a consent or a captcha instead of the text, PageError for a page that does
        not exist or has no text. Cancelling is safe at any point and closes what was opened.
        """
