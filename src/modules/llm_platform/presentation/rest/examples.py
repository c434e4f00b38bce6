"""One example for each route of the OpenAPI document: what is sent, what comes back, and how it is refused.

They are made of the DTOs, so that a field that is renamed breaks them here; a test validates each against its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel

from modules.llm_platform.application.problem import problem
from modules.llm_platform.application.research.events import Done, Planned, Searched, SourcesNumbered, Started, Token
from modules.llm_platform.domain.dtos.health_dtos import ComponentHealth, HealthReport
from modules.llm_platform.domain.dtos.llm_dtos import Usage
from modules.llm_platform.domain.dtos.report_dtos import ResearchPlan
from modules.llm_platform.domain.dtos.research_dtos import (
    Citation,
    HeldSource,
    RawResult,
    ResearchMetadata,
    ResearchResponse,
    SourceRef,
)
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import SourceNotHeldError, WebSearchError
from modules.llm_platform.presentation.rest import problems
from modules.llm_platform.presentation.rest.chat_routes import ChatApiResponse, ChatDone
from modules.llm_platform.presentation.rest.searxng_shape import to_searxng
from modules.llm_platform.presentation.rest.sse import MEDIA_TYPE, Event, frame
from shared.exceptions import AppException

QUESTION: Final = "What is Python asyncio?"
URL: Final = "https://docs.python.org/3/library/asyncio.html"
TITLE: Final = "asyncio — Asynchronous I/O"
QUOTE: Final = "asyncio is a library to write concurrent code using the async/await syntax."
TEXT: Final = f"{TITLE}. {QUOTE} It is a foundation for network and web servers."
REQUEST_ID: Final = "3f2c8a5e9d7b4c61a0e4f19b7d2c6a58"
HOUR: Final = "2026-11-20T12:00:00Z"

ANSWER: Final = ResearchResponse(
    query=QUESTION,
    depth="shallow",
    synthesis=f"{QUOTE.removesuffix('.')} [1].",
    sources=(SourceRef(index=1, title=TITLE, url=URL),),
    raw_results=(RawResult(title=TITLE, url=URL, content=TEXT, source="duckduckgo", score=1.0),),
    citations=(
        Citation(
            start=0,
            end=len(QUOTE) - 1,  # the marker and the full stop behind it are left out
            source_index=1,
            quote=QUOTE,
            quote_start=TEXT.index(QUOTE),
            quote_end=TEXT.index(QUOTE) + len(QUOTE),
            verdict="supported",
            score=1.0,
        ),
    ),
    metadata=ResearchMetadata(
        latency_ms=840, searches=1, synthesizer="extractive", providers=("searxng",), request_id=REQUEST_ID
    ),
)
FOUND: Final = WebSearchResponse(
    query=QUESTION,
    total_matches=1,
    results=(WebSearchResultItem(title=TITLE, url=URL, snippet=QUOTE, site_name="docs.python.org"),),
    provider="searxng",
)
HELD: Final = HeldSource(index=1, url=URL, title=TITLE, text=TEXT, sha256=sha256(TEXT.encode()).hexdigest())
HEALTH: Final = HealthReport.model_validate(
    {
        "status": "healthy",
        "searxng_connected": True,
        "kimi_coding_available": False,
        "components": {"searxng": ComponentHealth(status="healthy", detail="reachable", checked_at=HOUR)},  # type: ignore[arg-type]
    }
)
CHAT: Final = ChatApiResponse(
    content="An event loop runs coroutines.",
    provider="openai",
    model="gpt-4o-mini",
    usage=Usage(prompt_tokens=14, completion_tokens=6),
)
PLANNED: Final = ResearchPlan(
    query=QUESTION,
    language="en",
    questions=("What is asyncio used for?", "How does the event loop of asyncio work?"),
    planner="decomposition",
)


@dataclass(frozen=True, slots=True)
class Example:
    """One use of a route. `parameters`: by their names; `events`: the answer as an event stream."""

    answer: Any
    request: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    events: str = ""


def _shown(value: BaseModel, **options: Any) -> dict[str, Any]:
    return value.model_dump(mode="json", **options)


def _events(*events: Event) -> str:
    return "".join(frame(number, event) for number, event in enumerate(events, 1))


RESEARCHED: Final = _events(
    Started(request_id=REQUEST_ID),
    Planned(request_id=REQUEST_ID, questions=(QUESTION,)),
    Searched(request_id=REQUEST_ID, query=QUESTION, provider="searxng", count=1, cached=False),
    SourcesNumbered(request_id=REQUEST_ID, sources=ANSWER.sources),
    Token(request_id=REQUEST_ID, text=ANSWER.synthesis),
    Done(request_id=REQUEST_ID, response=ANSWER),
)
CHATTED: Final = _events(
    Token(request_id=REQUEST_ID, text=CHAT.content), ChatDone(request_id=REQUEST_ID, response=CHAT)
)

EXAMPLES: Final[Mapping[tuple[str, str], Example]] = {
    ("post", "/research"): Example(
        _shown(ANSWER), {"query": QUESTION, "depth": "shallow", "sources": ["web"]}, events=RESEARCHED
    ),
    ("post", "/research/plan"): Example(_shown(PLANNED), {"query": QUESTION, "language": "en"}),
    ("get", "/research/{request_id}/sources/{index}"): Example(
        _shown(HELD), parameters={"request_id": REQUEST_ID, "index": 1}
    ),
    ("post", "/llm-platform/web-search"): Example(
        {
            **_shown(FOUND, include={"query", "total_matches", "provider", "degraded"}),
            "results": [_shown(FOUND.results[0], exclude={"source", "score"})],
        },
        {"query": QUESTION, "count": 5, "time_range": "year"},
    ),
    ("get", "/search"): Example(to_searxng(FOUND), parameters={"q": QUESTION, "language": "en"}),
    ("post", "/search"): Example(to_searxng(FOUND), {"q": QUESTION, "page": 1}),
    ("post", "/llm-platform/chat"): Example(
        _shown(CHAT),
        {"messages": [{"role": "user", "content": "What runs coroutines? One sentence."}], "max_tokens": 200},
        events=CHATTED,
    ),
    ("get", "/health"): Example(_shown(HEALTH)),
    ("get", "/ready"): Example({"status": "ready"}),
}

REFUSALS: Final[Mapping[int, AppException]] = {
    HTTPStatus.UNAUTHORIZED: problems.UnauthorizedError(),
    HTTPStatus.FORBIDDEN: problems.ForeignSiteError(),
    HTTPStatus.NOT_FOUND: SourceNotHeldError(),
    HTTPStatus.REQUEST_TIMEOUT: problems.BodyTimeoutError(),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: problems.BodyTooLargeError(),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: problems.MediaTypeError(),
    HTTPStatus.MISDIRECTED_REQUEST: problems.UnknownHostError(),
    HTTPStatus.UNPROCESSABLE_ENTITY: problems.InvalidRequestError(()),
    HTTPStatus.INTERNAL_SERVER_ERROR: problems.InternalError(),
    HTTPStatus.BAD_GATEWAY: WebSearchError("SearXNG answered with status 500: look into its log"),
    HTTPStatus.SERVICE_UNAVAILABLE: problems.NotServingError(),
}
WRONG_FIELD: Final = {"loc": ["body", "query"], "msg": "Field required", "type": "missing"}


def with_examples(method: str, path: str, operation: dict[str, Any]) -> None:
    """Put the route's example, and one problem for each status, into its part of the OpenAPI document."""
    example = EXAMPLES[method, path]
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in example.parameters:
            parameter["example"] = example.parameters[parameter["name"]]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        content["example"] = dict(example.request or {})
    for status, response in operation["responses"].items():
        for media_type, content in response["content"].items():
            content["example"] = _answer(example, media_type, int(status), path)


def _answer(example: Example, media_type: str, status: int, path: str) -> Any:
    if status != HTTPStatus.OK:
        return _refusal(status, path)
    if media_type == MEDIA_TYPE:
        return example.events
    return example.answer


def _refusal(status: int, path: str) -> dict[str, Any]:
    refused = problem(REFUSALS[status], instance=path, request_id=REQUEST_ID)
    return {**refused, "errors": [WRONG_FIELD]} if status == HTTPStatus.UNPROCESSABLE_ENTITY else refused
