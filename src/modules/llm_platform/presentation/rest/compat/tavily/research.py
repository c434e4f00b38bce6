"""Tavily's API: research, in the background or as a stream.

References of the vendor: https://docs.tavily.com/documentation/api-reference/endpoint/research and .../research-streaming
"""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, assert_never, get_args

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, StrictBool
from starlette.types import Scope

from modules.llm_platform.application.research.events import (
    Done,
    Failed,
    Planned,
    PlatformEvent,
    Read,
    ResearchEvent,
    Reset,
    RoundStarted,
    Searched,
    SourcesNumbered,
    Token,
)
from modules.llm_platform.domain.citations.show.source_pages import add_cited_page, list_cited_pdf_pages
from modules.llm_platform.domain.citations.show.styles import CitationStyle, render_citations, render_reference_list
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.request_dtos import Depth, ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchJobDetail
from modules.llm_platform.presentation.rest.compat import chat_completions, dialect
from modules.llm_platform.presentation.rest.compat.tavily.shared import TavilyDomains, count_call
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.problems import make_problem
from modules.llm_platform.presentation.rest.http.request_scope import get_caller_id, get_services, request_id
from modules.llm_platform.presentation.rest.http.sse import stream_research
from shared.exceptions import AppException

router = APIRouter(prefix="/tavily", tags=["compatible"])

Model = Literal["mini", "pro", "auto"]
DEPTHS: Final[Mapping[Model, Depth]] = {"mini": "deep", "auto": "deep", "pro": "report"}
STATUSES: Final = {"queued": "pending", "running": "in_progress", "done": "completed"}  # Any other status is failed.
API: Final = "tavily"  # The name of the API in stored runs.
STREAM: Final = "The steps, the text and the sources as `chat.completion.chunk` objects, and the event `done`."
TAVILY_END_OF_STREAM: Final = b"event: done\n\n"


class TavilyResearchRequest(TavilyDomains, frozen=True):
    """A task. Its part beyond a question is context. A stream ends with its connection. Without a stream, the run is stored."""

    input: str
    model: Model = "auto"
    output_schema: dict[str, Any] | None = None
    stream: StrictBool = False
    citation_format: CitationStyle = "numbered"

    @property
    def question(self) -> ResearchRequest:
        """The research request of the task. Raises InvalidRequestError."""
        chat_completions.refuse_fields(self, {"files": "files are not read: put their text into input"})
        wishes: dict[str, Any] = {"output_schema": self.output_schema} if self.output_schema is not None else {}
        return chat_completions.research_request(
            [chat_completions.CompletionMessage(role="user", content=self.input)],
            DEPTHS[self.model],
            field=("input",),
            in_background=not self.stream,
            domains=self.domains,
            **wishes,
        )


class TavilyResearchTask(BaseModel):
    """A run that was queued. `request_id` names it to `GET /tavily/research/{request_id}`."""

    request_id: str
    created_at: datetime
    status: str
    input: str
    model: str
    response_time: float


class TavilyResearchState(BaseModel):
    """The state of a run. A `completed` one has `content` and `sources`, and one that `failed` has `error`."""

    request_id: str
    status: Literal["pending", "in_progress", "completed", "failed"]
    response_time: float
    created_at: datetime | None = None
    content: str | dict[str, Any] | None = None
    sources: list[dict[str, Any]] | None = None
    error: str | None = None
    usage: dict[str, Any] | None = None


@router.post(
    "/research",
    **dialect.declare_route(
        "Research, for clients of Tavily",
        TavilyResearchRequest,
        TavilyResearchTask,
        dialect.ERROR_STATUSES_400,
        stream=STREAM,
    ),
)
async def create_research(request: Request) -> Response:
    began = time.perf_counter()
    body = await read_body(request, TavilyResearchRequest)
    question = body.question
    count_call(request, "research")
    if body.stream:
        stream = await stream_research(request, question, TavilyStream(request_id(request), body))
        return dialect.report_ignored(stream, body, "include_domains")
    job = await get_services(request).research_jobs.submit(question, owner=get_caller_id(request), api=API)
    task = {
        "request_id": f"{job.id}-{body.citation_format}",
        "created_at": job.created_at,
        "status": STATUSES["queued"],
        "input": body.input,
        "model": body.model,
        "response_time": round(time.perf_counter() - began, 3),
    }
    return dialect.make_json_answer(task, body, "include_domains")


@router.get(
    "/research/{request_id}",
    summary="A research run, for clients of Tavily",
    response_model=TavilyResearchState,
    responses={
        **dialect.declare_errors(400, 404, 422),
        202: {"description": "It is queued or runs", "model": TavilyResearchState},
    },
)
async def get_research(
    request: Request,
    request_id: str,
    include_usage: Annotated[bool, Query(description="Adds `usage`: searches, tokens and cost")] = False,
) -> Response:
    # The id that the client got is the id of the run, with the citation style at its end.
    job_id, _, sent = request_id.rpartition("-")
    style: CitationStyle | None = next((known for known in get_args(CitationStyle) if known == sent), None)
    job = await get_services(request).research_jobs.get(job_id if style else request_id, owner=get_caller_id(request))
    state = _make_state(job, style or "numbered", include_usage=include_usage)
    status = 202 if job.status in ("queued", "running") else 200
    return dialect.make_json_response({"request_id": request_id, **state}, status)


def _make_state(job: ResearchJobDetail, style: CitationStyle, *, include_usage: bool) -> dict[str, Any]:
    until = job.finished_at or datetime.now(UTC)
    state: dict[str, Any] = {
        "status": STATUSES.get(job.status, "failed"),
        "response_time": round(max(0.0, (until - job.created_at).total_seconds()), 3),
    }
    if job.response is not None:
        state |= {
            "created_at": job.created_at,
            "content": _make_content(job.response, style),
            "sources": _list_sources(job.response),
        }
        if include_usage:
            fields = {"searches", "llm_calls", "prompt_tokens", "completion_tokens", "cost_usd"}
            state["usage"] = job.response.metadata.model_dump(include=fields)
    elif job.problem is not None:
        state["error"] = job.problem["detail"]
    return state


def _make_content(response: ResearchResponse, style: CitationStyle) -> str | dict[str, Any]:
    return render_citations(response, style) if response.output is None else response.output


def _list_sources(response: ResearchResponse) -> list[dict[str, Any]]:
    """Return the cited sources. `index` is the number in the text, an addition of ours. The address of a PDF names the page of
    its first supporting quote.
    """
    pages = list_cited_pdf_pages(response.citations)
    return [
        {"title": source.title, "url": add_cited_page(source.url, source.index, pages), "index": source.index}
        for source in response.sources
    ]


class TavilyStream:
    """Encodes the events of a research run: steps as tool calls, the text, its sources, and `done`.

    A text with another citation style than numbers is sent as a whole, because dates of sources come last. An object of
    `output_schema` is sent as a whole, too.
    """

    def __init__(self, name: str, body: TavilyResearchRequest) -> None:
        self._head = {
            "id": name,
            "object": "chat.completion.chunk",
            "model": "pro" if DEPTHS[body.model] == "report" else "mini",
            "created": int(time.time()),
        }
        self._style: CitationStyle = body.citation_format
        self._sends_tokens = body.citation_format == "numbered" and body.output_schema is None
        self._has_text = False
        self._is_writing = False
        self._calls = 0

    def encode(self, event: ResearchEvent) -> bytes:
        if isinstance(event, PlatformEvent):
            return b""
        match event:
            case Planned():
                return self._call("Planning", "Planning the research") + self._encode_answer("Planning")
            case Searched():  # The event follows a search, so its call and its response are sent together.
                sources = [{"title": result.title, "url": result.url, "favicon": None} for result in event.results]
                call = self._call("WebSearch", "Searching", queries=[event.query])
                return call + self._encode_answer("WebSearch", sources=sources)
            case RoundStarted():
                return self._call("Planning", event.summary()) + self._encode_answer("Planning")
            case Read():
                return b""  # The API has no call that reads one page.
            case SourcesNumbered():
                self._is_writing = True
                return self._call("Generating", "Writing the answer")
            case Token():
                return self._encode_text(event.text)
            case Reset():
                return self._encode_text(chat_completions.RESTARTED) if self._has_text else b""
            case Done():
                return self._end(event.response)
            case Failed():
                return self._encode_error(event.problem)
            case _:
                assert_never(event)

    def fail(self, error: AppException, scope: Scope) -> bytes:
        return self._encode_error(make_problem(error, scope))

    def _encode_text(self, text: str) -> bytes:
        if not self._sends_tokens:
            return b""
        self._has_text = True
        return self._chunk(content=text)

    def _end(self, response: ResearchResponse) -> bytes:
        if not self._sends_tokens:
            rest = self._chunk(content=_make_content(response, self._style))
        elif references := render_reference_list(response, self._style):
            rest = self._chunk(content=f"\n\n{references}")
        else:
            rest = b""
        answer = self._encode_answer("Generating") if self._is_writing else b""
        return answer + rest + self._chunk(sources=_list_sources(response)) + TAVILY_END_OF_STREAM

    def _call(self, name: str, arguments: str, **more: Sequence[str]) -> bytes:
        self._calls += 1
        call = {"name": name, "id": f"call_{self._calls}", "arguments": arguments, **more}
        return self._chunk(tool_calls={"type": "tool_call", "tool_call": [call]})

    def _encode_answer(self, name: str, **more: Sequence[Mapping[str, Any]]) -> bytes:
        """Return the response to the last call: one is open at a time."""
        answer = {"name": name, "id": f"call_{self._calls}", "arguments": f"{name} is finished", **more}
        return self._chunk(tool_calls={"type": "tool_response", "tool_response": [answer]})

    def _chunk(self, **delta: Any) -> bytes:
        return chat_completions.encode_data_part(
            {**self._head, "choices": [{"index": 0, "delta": {"role": "assistant", **delta}}]}
        )

    def _encode_error(self, problem: Mapping[str, Any]) -> bytes:
        return (
            chat_completions.encode_data_part({**self._head, "object": "error", "error": problem["detail"]})
            + TAVILY_END_OF_STREAM
        )
