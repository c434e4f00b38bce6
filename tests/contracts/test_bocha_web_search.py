"""Bocha keeps the promises of the port, over answers made after its documents."""

from __future__ import annotations

import httpx2
from tests.contracts.search_row_contract import AnsweredSearchContract
from tests.loopback_upstream import recorded

from modules.llm_platform.infrastructure.adapters.bocha_web_search import BochaWebSearchAdapter


class TestBocha(AnsweredSearchContract):
    found = "阿里巴巴 ESG"
    answers = (recorded("bocha/wrapped"), recorded("bocha/nothing_found"))

    def adapter(self, url: str, client: httpx2.AsyncClient) -> BochaWebSearchAdapter:
        return BochaWebSearchAdapter("sk-bocha-0123456789", url, client=client)
