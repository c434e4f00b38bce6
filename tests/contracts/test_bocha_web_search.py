"""Bocha fulfils the contract of the port, with answers written after its documentation."""

from __future__ import annotations

from typing import Any

import httpx2
from tests.contracts.search_row_contract import KeyedSearchContract
from tests.support.loopback_upstream import recorded

from modules.llm_platform.infrastructure.search.bocha import BochaWebSearchAdapter


class TestBocha(KeyedSearchContract):
    found = "阿里巴巴 ESG"
    answers = (recorded("bocha/wrapped"), recorded("bocha/nothing_found"))

    def adapter(self, url: str, client: httpx2.AsyncClient) -> BochaWebSearchAdapter:
        return BochaWebSearchAdapter("sk-bocha-0123456789", url, client=client)

    @staticmethod
    def one(url: str) -> Any:
        return {"code": 200, "data": {"webPages": {"value": [{"name": "One", "url": url}]}}}
