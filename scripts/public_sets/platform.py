"""A platform for a measurement: a search that finds what it is given, no model, and a data folder of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scripts.model_answers import NO_MODEL

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from shared.config import Settings


class GivenSearch(IWebSearchProvider):
    """Finds one page: the text that it holds."""

    name = "given"

    def __init__(self) -> None:
        self._page = WebSearchResultItem(title="", url="https://example.org/", snippet="Nothing.")

    def give(self, case: str, title: str, text: str) -> None:
        """Find this text from now on, under an address of its own."""
        self._page = WebSearchResultItem(title=title, url=f"https://example.org/{case}", snippet=text)

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        return WebSearchResponse(query=request.query, results=(self._page,), provider=self.name)


@contextmanager
def quiet_settings(**values: Any) -> Iterator[Settings]:
    """Settings without a model, whose data folder is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield Settings.load(**NO_MODEL | {"LLM_PLATFORM_DATA_DIR": folder, "CACHE_TTL_S": 0} | values)
