"""The structured results of the MCP tools that no service returns.

`id`, `title`, `url`, `text` and `metadata` are the names that ChatGPT's connectors read:
https://platform.openai.com/docs/mcp
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchJob, ResearchProgress, ResearchStatus
from modules.llm_platform.domain.dtos.verification_dtos import VerifiedText
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse, WebSearchResultItem


class FoundItem(WebSearchResultItem, frozen=True):
    """A result. `fetch` reads it by its `id`."""

    id: str


class FoundItems(WebSearchResponse, frozen=True):
    """The results of a search, each with an id."""

    results: tuple[FoundItem, ...] = ()


class FetchedMetadata(BaseModel, frozen=True):
    """How a text was read, and the position of this part in it. `next_start` is None at its end."""

    read_at: datetime
    reader: str
    sha256: str
    media_type: str
    published: str | None = None
    warning: str | None = None
    start: int
    total_chars: int
    next_start: int | None = None


class FetchedText(BaseModel, frozen=True):
    """The text of a page or a document, or a part of it."""

    id: str
    title: str
    text: str
    url: str
    metadata: FetchedMetadata


class VerifiedTextAndSource(VerifiedText, frozen=True):
    """A verified text, with the text as it was sent, which offsets point into."""

    text: str


class RunState(BaseModel, frozen=True):
    """A background run: its state, and its answer or the problem when it has ended."""

    id: str
    status: ResearchStatus
    query: str
    progress: ResearchProgress = ResearchProgress()
    response: ResearchResponse | None = None
    problem: dict[str, Any] | None = None

    @classmethod
    def of(cls, job: ResearchJob) -> RunState:
        return cls.model_validate({name: value for name, value in dict(job).items() if name in cls.model_fields})
