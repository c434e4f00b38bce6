"""The API of Perplexity: chat completions answered by a research run, and search (docs/reference/compatible-apis.md).

Reference of the vendor: https://docs.perplexity.ai/api-reference/chat-completions-post
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from modules.llm_platform.application.research.response import add_spending
from modules.llm_platform.domain.citations.show.source_pages import add_cited_page, list_cited_pdf_pages
from modules.llm_platform.domain.dtos import web_search_dtos
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.llm_dtos import MAX_TOOLS
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest, ShortMessage
from modules.llm_platform.domain.dtos.source_dtos import RawResult, SourceRef
from modules.llm_platform.domain.research.long_message import SearchQuery
from modules.llm_platform.domain.research.transcript_task import TranscriptTask
from modules.llm_platform.presentation.rest.compat import (
    chat_completions,
    client_tools,
    dialect,
    structured,
    transcripts,
)
from modules.llm_platform.presentation.rest.compat.perplexity.filters import DATES, SearchFilters
from modules.llm_platform.presentation.rest.compat.perplexity.models import DEPTHS
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.request_scope import get_services, request_id
from modules.llm_platform.presentation.rest.http.run_research import run_research
from modules.llm_platform.presentation.rest.http.sse import MEDIA_TYPE, stream_research
from shared.exceptions import AppException

router = APIRouter(prefix="/perplexity", tags=["compatible"])

log = logging.getLogger(__name__)

SOURCES: Final[Mapping[str, tuple[web_search_dtos.SourceKind, ...]]] = {"web": ("web",), "academic": ("academic",)}
MAX_SEARCH_RESULTS: Final = 20  # The vendor's limit.
MAX_QUERIES: Final = 5  # The vendor's limit.
REFUSED: Final = {
    "disable_search": "an answer without a search is not supported: use POST /v1/chat/completions with a model of its own",
    **DATES,
}


_Queries = Annotated[tuple[SearchQuery, ...], Field(min_length=1, max_length=MAX_QUERIES)]


class PerplexityChatRequest(SearchFilters, frozen=True):
    """A conversation. The model selects the depth: sonar, sonar-pro or sonar-deep-research."""

    model: Literal["sonar", "sonar-pro", "sonar-reasoning", "sonar-reasoning-pro", "sonar-deep-research"]
    messages: chat_completions.Messages
    stream: bool | None = Field(default=None, strict=True)
    search_mode: Literal["web", "academic"] | None = None
    return_related_questions: bool | None = Field(default=None, strict=True)
    response_format: dict[str, Any] | None = None
    tools: Annotated[tuple[dict[str, Any], ...], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: str | dict[str, Any] | None = None

    def ignored_fields(self, tool: client_tools.ForcedTool | None) -> tuple[str, ...]:
        """Return the names of the fields that do not change all that they ask for."""
        return client_tools.list_ignored_fields((*self.partly_served, "tools", "tool_choice"), tool, self.tools or ())


class PerplexitySearchRequest(SearchFilters, frozen=True):
    """One query or several."""

    query: Annotated[SearchQuery | _Queries, dialect.accept_one_or_several(SearchQuery, _Queries)]
    max_results: int = Field(default=10, ge=1, le=MAX_SEARCH_RESULTS, strict=True)


class PerplexityChatResponse(BaseModel, extra="allow"):
    """A chat completion with `citations` and `search_results`: [n] in the text is `citations[n-1]`."""

    id: str
    model: str
    created: int
    object: str
    choices: list[dict[str, Any]]
    citations: list[str]
    search_results: list[dict[str, Any]]
    usage: dict[str, Any]


class PerplexitySearchResponse(BaseModel):
    """The search results."""

    id: str
    results: list[dict[str, Any]]


@router.post(
    "/chat/completions",
    **dialect.declare_route(
        "Answer a question, for clients of Perplexity",
        PerplexityChatRequest,
        PerplexityChatResponse,
        stream=chat_completions.CHUNKS,
    ),
)
async def chat(request: Request) -> Response:
    body = await read_body(request, PerplexityChatRequest)
    if task := transcripts.find_task(body.messages):
        return await _answer_task(request, body, task)
    tool = client_tools.find_forced_tool(request, body.tools or (), body.tool_choice)
    question = build_research(request, body, tool)
    ignored = body.ignored_fields(tool)
    completion = chat_completions.Completion(
        request_id(request),
        body.model,
        describe,
        is_json=question.output_schema is not None,
        tool=tool.name if tool else "",
    )
    if body.stream:
        stream = await stream_research(request, question, ChatStream(completion))
        return dialect.report_ignored(stream, body, *ignored, "return_related_questions")
    response, related = await _find_answer(request, body, question, completion)
    if related is None:
        return dialect.make_json_answer(completion.whole(response), body, *ignored)
    metadata = add_spending(response.metadata, related.spent)
    answer = completion.whole(response.model_copy(update={"metadata": metadata}))
    answer["related_questions"] = [other for other in related.questions if other != question.query]
    return dialect.make_json_answer(answer, body, *ignored)


async def _answer_task(request: Request, body: PerplexityChatRequest, task: TranscriptTask) -> Response:
    """Answer a task about a transcript, which needs no search and has no sources."""
    answer = await transcripts.answer_task(request, task, body.messages, DEPTHS[body.model], body.response_format)
    completion = chat_completions.Completion(request_id(request), body.model, describe)
    ignored = (*body.ignored_fields(None), "return_related_questions")
    if not body.stream:
        return dialect.make_json_answer(completion.whole(answer), body, *ignored)
    encoder = ChatStream(completion)
    content = b"".join(map(encoder.encode, transcripts.make_research_events(answer, completion.request_id)))
    return dialect.report_ignored(Response(content, media_type=MEDIA_TYPE), body, *ignored)


@router.post(
    "/search",
    **dialect.declare_route("Search, for clients of Perplexity", PerplexitySearchRequest, PerplexitySearchResponse),
)
async def search(request: Request) -> Response:
    body = await read_body(request, PerplexitySearchRequest)
    chat_completions.refuse_fields(body, REFUSED)
    queries = (body.query,) if isinstance(body.query, str) else body.query
    searches = [
        web_search_dtos.WebSearchRequest(
            query=query,
            count=body.max_results,
            domains=body.search_domain_filter or (),
            time_range=body.time_range,
            freshness=body.freshness,
            language=body.language,
        )
        for query in queries
    ]
    found = await dialect.search_web_multi(request, searches)
    results = {
        item.url: {"title": item.title, "url": item.url, "snippet": item.text, "date": item.published_date}
        for answer in found
        for item in answer.results
    }
    answer = {"id": request_id(request), "results": list(results.values())[: body.max_results * len(queries)]}
    return dialect.make_json_answer(answer, body, *body.partly_served)


def build_research(
    request: Request, body: PerplexityChatRequest, tool: client_tools.ForcedTool | None, *, in_background: bool = False
) -> ResearchRequest:
    chat_completions.refuse_fields(body, REFUSED)
    return chat_completions.research_request(
        body.messages,
        DEPTHS[body.model],
        in_background=in_background,
        domains=body.search_domain_filter or (),
        time_range=body.time_range,
        freshness=body.freshness,
        language=body.language,
        output_schema=tool.schema if tool else structured.read_schema(request, body.response_format),
        **({"sources": SOURCES[body.search_mode]} if body.search_mode else {}),
    )


async def _find_answer(
    request: Request,
    body: PerplexityChatRequest,
    question: ResearchRequest,
    completion: chat_completions.Completion,
) -> tuple[ResearchResponse, ResearchPlan | None]:
    """Return the answer and, on request, its related questions, which are planned at the same time.

    If the plan fails, there are no related questions.
    """
    if not body.return_related_questions or isinstance(question, ShortMessage):
        return await run_research(request, question, completion.collect_sources), None
    try:
        async with asyncio.TaskGroup() as tasks:
            plan = PlanRequest(query=question.query, language=question.language, history=question.history)
            related = tasks.create_task(_make_plan(request, plan))
            response = await run_research(request, question, completion.collect_sources)
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return response, related.result()


async def _make_plan(request: Request, plan: PlanRequest) -> ResearchPlan:
    try:
        return await get_services(request).research.plan(plan)
    except AppException as error:
        log.warning("no related questions", extra={"reason": error.message})
        return ResearchPlan(query=plan.query, language=plan.language or "", questions=(), planner="")


def describe(sources: Sequence[SourceRef], response: ResearchResponse | None) -> Mapping[str, Any]:
    """Return the fields of an answer beside its text. The address of a PDF names the page of its first supporting quote, which
    is not known before the text is written.
    """
    texts = {raw.url: raw for raw in (response.raw_results or ())} if response else {}
    pages = list_cited_pdf_pages(response.citations) if response else {}
    urls = [add_cited_page(source.url, source.index, pages) for source in sources]
    described: dict[str, Any] = {
        "citations": urls,
        "search_results": [
            {**_make_source(source, texts.get(source.url), response.query if response else ""), "url": url}
            for source, url in zip(sources, urls, strict=True)
        ],
    }
    if response is not None:
        metadata = response.metadata
        usage = {**chat_completions.make_token_usage(response), "num_search_queries": metadata.searches}
        if metadata.cost_usd is not None:  # None: a price is unknown.
            usage["cost"] = {"input_tokens_cost": 0.0, "output_tokens_cost": 0.0, "total_cost": metadata.cost_usd}
        described |= {"usage": usage, **chat_completions.make_extension(response)}
    return described


def _make_source(source: SourceRef, raw: RawResult | None, question: str) -> dict[str, Any]:
    described = {"title": source.title, "url": source.url, "source": "web"}
    return {**described, "snippet": dialect.select_snippet(raw, question), "date": raw.published} if raw else described


def format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    return error.status_code, _make_perplexity_error(problem)


def _make_perplexity_error(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return an error as the clients of Perplexity read it: `code` is the status, `type` says what is wrong.

    Some of them, such as @ai-sdk/perplexity, read an error with another `code` as none.
    """
    error = chat_completions.make_openai_error(problem)["error"]
    return {"error": {**error, "type": problem["code"], "code": problem["status"]}}


class ChatStream(chat_completions.CompletionStream):
    """The chunks of Perplexity."""

    @staticmethod
    def format_problem(problem: Mapping[str, Any]) -> Mapping[str, Any]:
        return _make_perplexity_error(problem)
