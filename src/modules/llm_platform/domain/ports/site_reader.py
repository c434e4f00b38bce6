"""The port of readers for crawls."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from modules.llm_platform.domain.dtos.site_crawl_dtos import LinkedPage


class ISiteReader(ABC):
    """Reads the pages of a site with their links, as its robots.txt allows. Addresses and pages are untrusted."""

    @abstractmethod
    def address(self, url: str) -> str:
        """Return the one spelling of an address, in which all others of this port are. Raises PageRequestError."""

    @abstractmethod
    async def read(self, url: str, admits: Callable[[str], bool], *, is_whole: bool = False) -> LinkedPage:
        """Return the page. A redirect is followed to an address that `admits` accepts, and is a PageError otherwise.

        With `is_whole`, the text is all that is visible, including what surrounds the main content.

        Waits as long as the site asks for between two pages. Raises the page errors of `domain.exceptions` and nothing else.
        Cancelling is safe at any point and closes what was opened.
        """
