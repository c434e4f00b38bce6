"""Brave fulfils the contract of the port, with answers written after its reference."""

from __future__ import annotations

from typing import Any

import httpx2
from tests.contracts.search_row_contract import KeyedSearchContract
from tests.support.loopback_upstream import recorded

from modules.llm_platform.infrastructure.search.brave import BraveWebSearchAdapter


class TestBrave(KeyedSearchContract):
    found = "python asyncio"
    answers = (recorded("brave/web"), recorded("brave/nothing_found"))

    def adapter(self, url: str, client: httpx2.AsyncClient) -> BraveWebSearchAdapter:
        return BraveWebSearchAdapter("BSA-0123456789", url, client=client)

    @staticmethod
    def one(url: str) -> Any:
        return {"web": {"results": [{"title": "One", "url": url}]}}
