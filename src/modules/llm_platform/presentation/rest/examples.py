"""Examples for the OpenAPI document: the request, the response and the errors of each route.

They are built from the DTOs, so a renamed field is an error here. The examples of a compatible interface, whose fields
another system defines, belong to its `Dialect`. A test validates each example against its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel

from modules.llm_platform.application.research.events import (
    Done,
    FoundResult,
    Planned,
    Read,
    Searched,
    SourcesNumbered,
    Started,
    Token,
)
from modules.llm_platform.application.verification.events import SentenceVerified, SourcesNamed, TextVerified
from modules.llm_platform.domain.dtos import research_job_dtos, verification_dtos, watch_dtos
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.document_dtos import DocumentList, DocumentProblem, ListedDocument
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceLine, EvidenceSource
from modules.llm_platform.domain.dtos.health_dtos import HealthReport
from modules.llm_platform.domain.dtos.llm_dtos import Usage
from modules.llm_platform.domain.dtos.report_dtos import ReportAmounts, ReportEstimate, ResearchPlan
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import HeldSource, RawResult, SourceRef
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import ResearchCancelledError, SourceNotHeldError, WebSearchError
from modules.llm_platform.domain.ports.rate_limiter import LimitState, RateLimit
from modules.llm_platform.presentation.rest.chat_routes import ChatApiResponse, ChatDone
from modules.llm_platform.presentation.rest.compat.table import DIALECT_OF_PREFIX, DIALECTS
from modules.llm_platform.presentation.rest.http import problems
from modules.llm_platform.presentation.rest.http.access import get_first_segment
from modules.llm_platform.presentation.rest.http.route_example import Example
from modules.llm_platform.presentation.rest.http.sse import MEDIA_TYPE, Event, NumberedEvents
from modules.llm_platform.presentation.rest.options_routes import ResearchChoices
from modules.llm_platform.presentation.rest.searxng_shape import to_searxng
from shared.exceptions import AppException

QUESTION: Final = "What is Python asyncio?"
URL: Final = "https://docs.python.org/3/library/asyncio.html"
TITLE: Final = "asyncio — Asynchronous I/O"
QUOTE: Final = "asyncio is a library to write concurrent code using the async/await syntax."
TEXT: Final = f"{TITLE}. {QUOTE} It is a foundation for network and web servers."
REQUEST_ID: Final = "3f2c8a5e9d7b4c61a0e4f19b7d2c6a58"
CLIENT_LIMIT: Final = RateLimit("client", 30, 60, burst=5)
CHECKED_AT: Final = "2026-11-20T12:00:00Z"

RESEARCH_RESPONSE: Final = ResearchResponse(
    query=QUESTION,
    depth="shallow",
    synthesis=f"{QUOTE.removesuffix('.')} [1].",
    sources=(SourceRef(index=1, title=TITLE, url=URL),),
    raw_results=(RawResult(title=TITLE, url=URL, content=TEXT, source="duckduckgo", score=1.0),),
    citations=(
        Citation(
            start=0,
            end=len(QUOTE) - 1,  # The span ends before the marker and the full stop.
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
SEARCH_RESPONSE: Final = WebSearchResponse(
    query=QUESTION,
    total_matches=1,
    results=(WebSearchResultItem(title=TITLE, url=URL, snippet=QUOTE, site_name="docs.python.org"),),
    provider="searxng",
)
EVIDENCE_LINE: Final = EvidenceLine(
    question=QUESTION,
    state="answered",
    coverage=1.0,
    quote=QUOTE,
    start=0,
    end=len(QUOTE),
    source=EvidenceSource(index=1, url=URL, title=TITLE),
    round=0,
)
STORED_SOURCE: Final = HeldSource(index=1, url=URL, title=TITLE, text=TEXT, sha256=sha256(TEXT.encode()).hexdigest())
HEALTH: Final = HealthReport.model_validate(
    {
        "status": "healthy",
        "searxng_connected": True,
        "kimi_coding_available": False,
        "components": {
            "searxng": {"kind": "search", "status": "healthy", "detail": "reachable", "checked_at": CHECKED_AT}
        },
    }
)
CHAT_RESPONSE: Final = ChatApiResponse(
    content="An event loop runs coroutines.",
    provider="openai",
    model="gpt-4o-mini",
    usage=Usage(prompt_tokens=14, completion_tokens=6),
)
PLAN: Final = ResearchPlan(
    query=QUESTION,
    language="en",
    questions=("What is asyncio used for?", "How does the event loop of asyncio work?"),
    planner="decomposition",
    estimate=ReportEstimate(
        at_most=ReportAmounts(searches=10, pages=11), per_question=ReportAmounts(searches=1), max_seconds=900
    ),
)
OPTIONS: Final = ResearchChoices(
    sources=("web", "documents"),
    default_sources=("web",),
    models=("openai/gpt-4o-mini",),
    background=True,
    document_titles=("Setting up a printer",),
)
DOCUMENTS: Final = DocumentList(
    total=2,
    documents=(
        ListedDocument(title="Price list", url="doc:prices.csv"),
        ListedDocument(title="Setting up a printer", url="doc:printer.md"),
    ),
    not_read=1,
    problems=(DocumentProblem(path="letter.pdf", reason="it is encrypted"),),
    unread="1 file of a type that is not read: 1 .odt",
)
QUEUED_RESEARCH: Final = research_job_dtos.ResearchJobDetail(
    id=REQUEST_ID,
    status="queued",
    query=QUESTION,
    depth="report",
    created_at=datetime(2026, 11, 20, 12, tzinfo=UTC),
    thread_id=REQUEST_ID,
    request=ResearchRequest(query=QUESTION, depth="report"),
)
DONE_RESEARCH: Final = QUEUED_RESEARCH.model_copy(
    update={
        "status": "done",
        "depth": "shallow",
        "request": ResearchRequest(query=QUESTION),
        "started_at": datetime(2026, 11, 20, 12, tzinfo=UTC),
        "finished_at": datetime(2026, 11, 20, 12, 0, 1, tzinfo=UTC),
        "attempts": 1,
        "progress": research_job_dtos.ResearchProgress(step="done", planned=1, searched=1),
        "response": RESEARCH_RESPONSE,
    }
)
RUNNING_RESEARCH: Final = QUEUED_RESEARCH.model_copy(
    update={
        "status": "running",
        "started_at": QUEUED_RESEARCH.created_at,
        "attempts": 1,
        "progress": research_job_dtos.ResearchProgress(step="read", planned=3, searched=3, read=2, summarized=1),
    }
)
CANCELLED_RESEARCH: Final = QUEUED_RESEARCH.model_copy(
    update={
        "status": "cancelled",
        "finished_at": datetime(2026, 11, 20, 12, 0, 1, tzinfo=UTC),
        "problem": ResearchCancelledError().problem(instance=f"/research/{REQUEST_ID}", request_id=REQUEST_ID),
    }
)
RESEARCH_PAGE: Final = research_job_dtos.ResearchJobPage(
    researches=(
        research_job_dtos.ResearchJob.model_validate(
            DONE_RESEARCH.model_dump(include=set(research_job_dtos.ResearchJob.model_fields))
        ),
    )
)
RESEARCH_THREAD: Final = research_job_dtos.ResearchThreadDetail(
    id=REQUEST_ID,
    title=QUESTION,
    status="done",
    created_at=DONE_RESEARCH.created_at,
    updated_at=DONE_RESEARCH.created_at,
    researches=RESEARCH_PAGE.researches,
)


def _dump(value: BaseModel, **options: Any) -> dict[str, Any]:
    return value.model_dump(mode="json", **options)


def _encode_events(*events: Event) -> str:
    encoder = NumberedEvents()
    return "".join(encoder.encode(event).decode() for event in events)


RESEARCH_EVENTS: Final = _encode_events(
    Started(request_id=REQUEST_ID),
    Planned(request_id=REQUEST_ID, questions=(QUESTION,)),
    Searched(
        request_id=REQUEST_ID,
        query=QUESTION,
        provider="searxng",
        count=1,
        cached=False,
        results=(FoundResult(url=URL, title=TITLE),),
    ),
    SourcesNumbered(request_id=REQUEST_ID, sources=RESEARCH_RESPONSE.sources),
    Token(request_id=REQUEST_ID, text=RESEARCH_RESPONSE.synthesis),
    Done(request_id=REQUEST_ID, response=RESEARCH_RESPONSE),
)
CHAT_EVENTS: Final = _encode_events(
    Token(request_id=REQUEST_ID, text=CHAT_RESPONSE.content), ChatDone(request_id=REQUEST_ID, response=CHAT_RESPONSE)
)

VERIFIED_TEXT: Final = verification_dtos.VerifiedText(
    sentences=(
        verification_dtos.VerifiedSentence(
            start=0, end=len(QUOTE) - 1, verdict="supported", is_cited=True, citations=RESEARCH_RESPONSE.citations
        ),
    ),
    sources=(verification_dtos.VerifiedSource(index=1, url=URL, title=TITLE, state="read"),),
    counts=verification_dtos.VerificationCounts(sentences=1, supported=1, sources=1, read=1),
    metadata=verification_dtos.VerificationMetadata(latency_ms=420, request_id=REQUEST_ID),
)
VERIFIED_AGAIN: Final = verification_dtos.VerifiedAgain(
    **dict(VERIFIED_TEXT),
    research_id=REQUEST_ID,
    query=QUESTION,
    answered_at=datetime(2026, 11, 20, 12, 0, 1, tzinfo=UTC),
    verified_at=datetime(2026, 11, 21, 6, tzinfo=UTC),
)
QUEUED_VERIFICATION: Final = verification_dtos.VerificationJob(
    id=REQUEST_ID, status="queued", created_at=QUEUED_RESEARCH.created_at
)
VERIFICATION_EVENTS: Final = _encode_events(
    Started(request_id=REQUEST_ID),
    SourcesNamed(request_id=REQUEST_ID, sources=RESEARCH_RESPONSE.sources, sentences=1),
    Read(request_id=REQUEST_ID, url=URL, status="read", chars=len(TEXT)),
    SentenceVerified(request_id=REQUEST_ID, sentence=VERIFIED_TEXT.sentences[0]),
    TextVerified(request_id=REQUEST_ID, response=VERIFIED_TEXT),
)

WATCH_ID: Final = "b70d6f4d4da9355961c64bcf3467098f"
WATCH_FEED: Final = "(an Atom feed)"
WATCHED_AT: Final = datetime(2026, 11, 20, 12, 0, 1, tzinfo=UTC)
ASKED_AGAIN_AT: Final = datetime(2026, 11, 21, 12, 0, 1, tzinfo=UTC)
WATCH: Final = watch_dtos.WatchDetail(
    id=WATCH_ID,
    query="Which version of Python is the newest?",
    depth="deep",
    every_s=86_400,
    created_at=WATCHED_AT,
    sources=("web",),
    next_at=ASKED_AGAIN_AT,
    last_run_at=WATCHED_AT,
    runs=1,
    at_most=watch_dtos.WatchAmounts(
        run=ReportAmounts(searches=10, pages=38), days_30=ReportAmounts(searches=300, pages=1140)
    ),
    last_runs=(watch_dtos.WatchRun(number=1, job_id=REQUEST_ID, at=WATCHED_AT, status="done"),),
)
CHANGE: Final = watch_dtos.FoundChange(
    kind="changed",
    fact="Python … is the newest version.",
    was=watch_dtos.FactAt(value="3.14", quote="Python 3.14 is the newest version.", source=URL, at=WATCHED_AT),
    now=watch_dtos.FactAt(value="3.15", quote="Python 3.15 is the newest version.", source=URL, at=ASKED_AGAIN_AT),
    number=1,
    run=2,
    at=ASKED_AGAIN_AT,
)

EXAMPLES: Final[Mapping[str, Example]] = {
    "post /research": Example(
        _dump(RESEARCH_RESPONSE), {"query": QUESTION, "depth": "shallow", "sources": ["web"]}, events=RESEARCH_EVENTS
    ),
    "get /research/options": Example(_dump(OPTIONS)),
    "get /research/documents": Example(_dump(DOCUMENTS), parameters={"limit": 200}),
    "get /research": Example(_dump(RESEARCH_PAGE), parameters={"limit": 20}),
    "get /research/threads": Example(
        {"threads": [_dump(RESEARCH_THREAD, exclude={"researches"})], "next": None},
        parameters={"limit": 20, "q": "asyncio"},
    ),
    "get /research/threads/{request_id}": Example(_dump(RESEARCH_THREAD), parameters={"request_id": REQUEST_ID}),
    "patch /research/threads/{request_id}": Example(
        {**_dump(RESEARCH_THREAD), "title": "Python"}, {"title": "Python"}, parameters={"request_id": REQUEST_ID}
    ),
    "delete /research/threads/{request_id}": Example(_dump(RESEARCH_THREAD), parameters={"request_id": REQUEST_ID}),
    "get /research/{request_id}": Example(_dump(DONE_RESEARCH), parameters={"request_id": REQUEST_ID}),
    "delete /research/{request_id}": Example(_dump(CANCELLED_RESEARCH), parameters={"request_id": REQUEST_ID}),
    "post /research/{request_id}/finish": Example(_dump(RUNNING_RESEARCH), parameters={"request_id": REQUEST_ID}),
    "get /research/{request_id}/events": Example(None, parameters={"request_id": REQUEST_ID}, events=RESEARCH_EVENTS),
    "get /research/{request_id}/sealed": Example("(the bytes of a zip file)", parameters={"request_id": REQUEST_ID}),
    "post /research/plan": Example(_dump(PLAN), {"query": QUESTION, "language": "en"}),
    "get /research/{request_id}/evidence": Example(
        f"{EVIDENCE_LINE.model_dump_json()}\n", parameters={"request_id": REQUEST_ID}
    ),
    "get /research/{request_id}/sources/{index}": Example(
        _dump(STORED_SOURCE), parameters={"request_id": REQUEST_ID, "index": 1}
    ),
    "get /research/{request_id}/sources/{index}/icon": Example(
        "(the bytes of a PNG, ICO, GIF, JPEG or WebP image)", parameters={"request_id": REQUEST_ID, "index": 1}
    ),
    "post /verify": Example(
        _dump(VERIFIED_TEXT),
        {"text": f"{QUOTE.removesuffix('.')} ([{TITLE}]({URL}))."},
        events=VERIFICATION_EVENTS,
        accepted=_dump(QUEUED_VERIFICATION),
    ),
    "get /verify/{request_id}": Example(
        _dump(QUEUED_VERIFICATION.model_copy(update={"status": "done", "read": 1, "response": VERIFIED_TEXT})),
        parameters={"request_id": REQUEST_ID},
    ),
    "post /research/{request_id}/verify": Example(_dump(VERIFIED_AGAIN), parameters={"request_id": REQUEST_ID}),
    "post /watches": Example(_dump(WATCH), {"query": WATCH.query, "every_s": 86_400}),
    "get /watches": Example(
        {"watches": [_dump(WATCH, exclude={"at_most", "last_runs"})], "next": None}, parameters={"limit": 20}
    ),
    "get /watches/{watch_id}": Example(_dump(WATCH), parameters={"watch_id": WATCH_ID}),
    "delete /watches/{watch_id}": Example(None, parameters={"watch_id": WATCH_ID}),
    "post /watches/{watch_id}/run": Example(None, parameters={"watch_id": WATCH_ID}, accepted=_dump(WATCH)),
    "get /watches/{watch_id}/changes": Example(
        {"changes": [_dump(CHANGE)], "next": None}, parameters={"watch_id": WATCH_ID, "limit": 20}
    ),
    "get /watches/{watch_id}/feed.atom": Example(WATCH_FEED, parameters={"watch_id": WATCH_ID}),
    "post /llm-platform/web-search": Example(
        {
            **_dump(SEARCH_RESPONSE, include={"query", "total_matches", "provider", "degraded"}),
            "results": [_dump(SEARCH_RESPONSE.results[0], exclude={"source", "score"})],
        },
        {"query": QUESTION, "count": 5, "time_range": "year"},
    ),
    "get /search": Example(to_searxng(SEARCH_RESPONSE), parameters={"q": QUESTION, "language": "en"}),
    "post /search": Example(to_searxng(SEARCH_RESPONSE), {"q": QUESTION, "page": 1}),
    "post /llm-platform/chat": Example(
        _dump(CHAT_RESPONSE),
        {"messages": [{"role": "user", "content": "What runs coroutines? One sentence."}], "max_tokens": 200},
        events=CHAT_EVENTS,
    ),
    "get /health": Example(_dump(HEALTH)),
    "get /ready": Example({"status": "ready"}),
    "get /metrics": Example("# TYPE llm_platform_http_requests_in_progress gauge\n"),
    **{route: example for dialect in DIALECTS for route, example in dialect.examples.items()},
}

ERRORS: Final[Mapping[int, AppException]] = {
    HTTPStatus.BAD_REQUEST: problems.BadRequestError(),
    HTTPStatus.UNAUTHORIZED: problems.UnauthorizedError(),
    HTTPStatus.FORBIDDEN: problems.CrossSiteError(),
    HTTPStatus.NOT_FOUND: SourceNotHeldError(),
    HTTPStatus.METHOD_NOT_ALLOWED: problems.MethodNotAllowedError(),
    HTTPStatus.CONFLICT: ResearchCancelledError(),
    HTTPStatus.REQUEST_TIMEOUT: problems.BodyTimeoutError(),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: problems.BodyTooLargeError(),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: problems.MediaTypeError(),
    HTTPStatus.MISDIRECTED_REQUEST: problems.UnknownHostError(),
    HTTPStatus.UNPROCESSABLE_ENTITY: problems.InvalidRequestError(()),
    HTTPStatus.TOO_MANY_REQUESTS: problems.RateLimitedError(
        LimitState(CLIENT_LIMIT, is_exceeded=True, remaining=0, next_s=2.0)
    ),
    HTTPStatus.INTERNAL_SERVER_ERROR: problems.InternalError(),
    HTTPStatus.BAD_GATEWAY: WebSearchError("SearXNG returned status 500: search its log"),
    HTTPStatus.SERVICE_UNAVAILABLE: problems.NotServingError(),
}
INVALID_FIELD: Final = {"loc": ["body", "query"], "msg": "is missing", "type": "missing"}


def add_examples(method: str, path: str, operation: dict[str, Any]) -> None:
    """Add the example of a route, and one problem for each error status, to its OpenAPI operation."""
    route = f"{method} {path}"
    if route not in EXAMPLES:
        where = f"EXAMPLES in {__name__}, of a compatible API to `examples` of its DIALECT"
        raise LookupError(f"{method.upper()} {path} needs an example: add {route!r} to {where}")
    example = EXAMPLES[route]
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in example.parameters:
            parameter["example"] = example.parameters[parameter["name"]]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        content["example"] = dict(example.request or {})
    for status, response in operation["responses"].items():
        for media_type, content in response.get("content", {}).items():
            content["example"] = _make_response(example, media_type, int(status), path)


def _make_response(example: Example, media_type: str, status: int, path: str) -> Any:
    if status == HTTPStatus.ACCEPTED:
        return example.accepted or _dump(QUEUED_RESEARCH)
    if status not in (HTTPStatus.OK, HTTPStatus.CREATED):
        problem = ERRORS[status].problem(instance=path, request_id=REQUEST_ID)
        if status == HTTPStatus.UNPROCESSABLE_ENTITY:
            problem = {**problem, "errors": [INVALID_FIELD]}
        dialect = DIALECT_OF_PREFIX.get(get_first_segment(path))
        return dict(dialect.format_error(ERRORS[status], problem)[1]) if dialect else problem
    if media_type == MEDIA_TYPE:
        return example.events
    return example.text if media_type == "text/plain" and example.text else example.response
