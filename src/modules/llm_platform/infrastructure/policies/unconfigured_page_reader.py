"""Stands where no page may be read, and says so when it is asked."""

from __future__ import annotations

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import PageConfigError
from modules.llm_platform.domain.ports.page_reader import IPageReader


class UnconfiguredPageReader(IPageReader):
    """Every read raises PageConfigError with the remedy."""

    def __init__(self, name: str, remedy: str) -> None:
        self.name = name
        self._remedy = remedy

    async def read(self, url: str) -> Page:
        raise PageConfigError(self._remedy)
