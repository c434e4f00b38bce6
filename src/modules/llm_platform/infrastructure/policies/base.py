"""Base classes of policies that wrap one object of a port and keep its name."""

from __future__ import annotations

from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider


class WebSearchPolicy(IWebSearchProvider):
    def __init__(self, provider: IWebSearchProvider) -> None:
        self.name = provider.name
        self._provider = provider


class LLMPolicy(ILLMProvider):
    def __init__(self, provider: ILLMProvider) -> None:
        self.name = provider.name
        self.model = provider.model
        self._provider = provider


class PageReaderPolicy(IPageReader):
    def __init__(self, reader: IPageReader) -> None:
        self.name = reader.name
        self._reader = reader

    async def prepare(self) -> None:
        await self._reader.prepare()
