"""The port of page readers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from modules.llm_platform.domain.dtos.page_dtos import Page


class IPageReader(ABC):
    """Somebody who opens an address that a stranger may have chosen, and gives the text that is there."""

    name: str  # in `Page.reader` and logs

    @abstractmethod
    async def read(self, url: str) -> Page:
        """The page's text, which is never empty: what cannot be used as a source is an error.

        Raises the page errors of `domain.exceptions` and nothing else: PageRequestError for an address that may not be
        read, PageBlockedError where a login, a consent or a riddle stands before the text, PageError for a page that is
        not there or holds no text. Cancelling is safe at any point and closes what was opened.
        """
