"""Answers as JSON: what the HTTP interface sends, indented."""

from __future__ import annotations

import json
import re
from typing import Any

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.report_dtos import ResearchPlan
from modules.llm_platform.domain.dtos.research_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse

SEARCH_FIELDS: Any = {
    "query": True,
    "total_matches": True,
    "results": {"__all__": {"title", "url", "snippet", "summary", "site_name", "published_date"}},
    "provider": True,
    "degraded": True,
}
# JSON leaves these as they are, and a terminal may obey them: inside a string they can as well be written as escapes.
_STEERING = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def dumped(value: Any) -> str:
    """JSON text that any encoding can carry and no terminal obeys."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def search_json(response: WebSearchResponse) -> str:
    """What POST /llm-platform/web-search answers."""
    return dumped(response.model_dump(mode="json", include=SEARCH_FIELDS))


def research_json(response: ResearchResponse) -> str:
    """What POST /research answers."""
    return dumped(response.model_dump(mode="json"))


def plan_json(plan: ResearchPlan) -> str:
    """What POST /research/plan answers."""
    return dumped(plan.model_dump(mode="json"))


def page_json(page: Page) -> str:
    """A page with all that is known about it."""
    return dumped(page.model_dump(mode="json"))
