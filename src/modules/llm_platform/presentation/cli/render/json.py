"""Answers as JSON: what the HTTP interface sends, indented."""

import json
import re
from typing import Any

from pydantic import BaseModel

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse
from modules.llm_platform.domain.evidence.lines import list_evidence_lines

SEARCH_FIELDS: Any = {
    "query": True,
    "total_matches": True,
    "results": {"__all__": {"title", "url", "snippet", "summary", "site_name", "published_date"}},
    "provider": True,
    "degraded": True,
}
# JSON does not escape these characters, and a terminal may obey them.
_CONTROL = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def write_json(value: Any) -> str:
    """Return indented JSON in which terminal control characters and lone surrogates are escaped."""
    return _escape(json.dumps(value, ensure_ascii=False, indent=2))


def _escape(text: str) -> str:
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def search_json(response: WebSearchResponse) -> str:
    """Return the answer of POST /llm-platform/web-search."""
    return write_json(response.model_dump(mode="json", include=SEARCH_FIELDS))


def write_evidence_json_lines(response: ResearchResponse) -> str:
    """Return the lines of GET /research/{request_id}/evidence."""
    lines = list_evidence_lines(response.evidence, response.sources)
    return "".join(f"{_escape(line.model_dump_json())}\n" for line in lines)


def write_model_json(answer: BaseModel) -> str:
    """Return all fields: the answer of POST /research, /research/plan or /verify, or a page."""
    return write_json(answer.model_dump(mode="json"))
