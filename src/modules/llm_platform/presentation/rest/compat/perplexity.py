"""The API of Perplexity: chat completions answered by a research run, and search (docs/reference/compatible-apis.md).

Reference of the vendor: https://docs.perplexity.ai/api-reference/chat-completions-post
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from modules.llm_platform.domain.dtos import research_dtos, web_search_dtos
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ResearchPlan
from modules.llm_platform.presentation.rest.compat import chat_completions, dialect
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.responses import request_id, run_research, services
from modules.llm_platform.presentation.rest.http.sse import stream_research
from shared.exceptions import AppException

router = APIRouter(prefix="/perplexity", tags=["compatible"])

DEPTHS: Final[Mapping[str, research_dtos.Depth]] = {
    "sonar": "shallow",
    "sonar-pro": "deep",
    "sonar-reasoning": "deep",
    "sonar-reasoning-pro": "deep",
    "sonar-deep-research": "report",
}
SOURCES: Final[Mapping[str, tuple[web_search_dtos.SourceKind, ...]]] = {"web": ("web",), "academic": ("academic",)}
MAX_SEARCH_RESULTS: Final = 20  # the vendor's limit
MAX_QUERIES: Final = 5  # the vendor's limit
MAX_LANGUAGES: Final = 10
REFUSED: Final = {
    "disable_search": "an answer without a search is not supported: use POST /v1/chat/completions with a model of its own",
    "tools": "tools are not supported",
    "search_after_date_filter": "dates are not supported: use search_recency_filter",
    "search_before_date_filter": "dates are not supported: use search_recency_filter",
    "last_updated_after_filter": "dates are not supported: use search_recency_filter",
    "last_updated_before_filter": "dates are not supported: use search_recency_filter",
}

Recency = Literal["hour", "day", "week", "month", "year"]
Domains = Annotated[tuple[web_search_dtos.Domain, ...], Field(max_length=web_search_dtos.MAX_DOMAINS)]


class _Filters(dialect.DialectBody):
    search_domain_filter: Domains | None = None
    search_recency_filter: Recency | None = None
    search_language_filter: Annotated[tuple[web_search_dtos.Language, ...], Field(max_length=MAX_LANGUAGES)] | None = None

    @property
    def time_range(self) -> web_search_dtos.TimeRange | None:
        """The smallest range that contains the filter; no provider knows hours."""
        return "day" if self.search_recency_filter == "hour" else self.search_recency_filter

    @property
    def language(self) -> str | None:
        """The language, if the filter names one; several are no language of an answer."""
        languages = self.search_language_filter or ()
        return languages[0] if len(languages) == 1 else None

    @property
    def partly_served(self) -> tuple[str, ...]:
        """The names of the fields that do not change all that they ask for."""
        partly = ("search_recency_filter",) if self.search_recency_filter == "hour" else ()
        return (*partly, "search_language_filter") if len(self.search_language_filter or ()) > 1 else partly


class PerplexityChatRequest(_Filters):
    """A conversation. The model selects the depth: sonar, sonar-pro or sonar-deep-research."""

    model: Literal["sonar", "sonar-pro", "sonar-reasoning", "sonar-reasoning-pro", "sonar-deep-research"]
    messages: chat_completions.Messages
    stream: bool | None = Field(default=None, strict=True)
    search_mode: Literal["web", "academic"] | None = None
    return_related_questions: bool | None = Field(default=None, strict=True)
    response_format: dict[str, Any] | None = None


class PerplexitySearchRequest(_Filters):
    """One query or several."""

    query: web_search_dtos.Query | Annotated[tuple[web_search_dtos.Query, ...], Field(min_length=1, max_length=MAX_QUERIES)]
    max_results: int = Field(default=10, ge=1, le=MAX_SEARCH_RESULTS, strict=True)


class PerplexityChatResponse(BaseModel):
    """A chat completion with `citations` and `search_results`: [n] in the text is `citations[n-1]`."""

    model_config = ConfigDict(extra="allow")

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
    **dialect.declaration(
        "Answer a question, for clients of Perplexity",
        PerplexityChatRequest,
        PerplexityChatResponse,
        stream=chat_completions.CHUNKS,
    ),
)
async def chat(request: Request) -> Response:
    body = await read_body(request, PerplexityChatRequest)
    question = _question(body)
    completion = chat_completions.Completion(request_id(request), body.model, _describe)
    if body.stream:
        stream = await stream_research(request, question, chat_completions.CompletionStream(completion))
        return dialect.report_ignored(stream, body, *body.partly_served, "return_related_questions")
    response, related = await _answer(request, body, question, completion)
    answer = completion.whole(response)
    if related is not None:
        answer["related_questions"] = [each for each in related.questions if each != question.query]
        _add_spending(answer["usage"], related.spent)
    return dialect.json_answer(answer, body, *body.partly_served)


@router.post(
    "/search",
    **dialect.declaration("Search, for clients of Perplexity", PerplexitySearchRequest, PerplexitySearchResponse),
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
            language=body.language,
        )
        for query in queries
    ]
    found = await dialect.search_web_multi(request, searches)
    results = list({item.url: _search_result(item) for each in found for item in each.results}.values())
    answer = {"id": request_id(request), "results": results[: body.max_results * len(queries)]}
    return dialect.json_answer(answer, body, *body.partly_served)


def _question(body: PerplexityChatRequest) -> research_dtos.ResearchRequest:
    chat_completions.refuse_fields(body, REFUSED)
    chat_completions.refuse_format(body.response_format)
    return chat_completions.research_request(
        body.messages,
        DEPTHS[body.model],
        sources=SOURCES[body.search_mode or "web"],
        domains=body.search_domain_filter or (),
        time_range=body.time_range,
        language=body.language,
    )


async def _answer(
    request: Request,
    body: PerplexityChatRequest,
    question: research_dtos.ResearchRequest,
    completion: chat_completions.Completion,
) -> tuple[research_dtos.ResearchResponse, ResearchPlan | None]:
    """Return the answer and, on request, its related questions, which are planned at the same time."""
    if not body.return_related_questions:
        return await run_research(request, question, completion.notice), None
    try:
        async with asyncio.TaskGroup() as tasks:
            plan = PlanRequest(query=question.query, language=question.language, history=question.history)
            related = tasks.create_task(services(request).research.plan(plan))
            response = await run_research(request, question, completion.notice)
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return response, related.result()


def _describe(sources: Sequence[research_dtos.SourceRef], response: research_dtos.ResearchResponse | None) -> Mapping[str, Any]:
    texts = {raw.url: raw for raw in (response.raw_results or ())} if response else {}
    described: dict[str, Any] = {
        "citations": [source.url for source in sources],
        "search_results": [_source(source, texts.get(source.url), response.query if response else "") for source in sources],
    }
    if response is not None:
        described |= {"usage": _usage(response), **chat_completions.extension(response)}
    return described


def _source(source: research_dtos.SourceRef, raw: research_dtos.RawResult | None, question: str) -> dict[str, Any]:
    described = {"title": source.title, "url": source.url, "source": "web"}
    return {**described, "snippet": dialect.snippet_of(raw, question), "date": raw.published} if raw else described


def _search_result(item: web_search_dtos.WebSearchResultItem) -> dict[str, Any]:
    return {"title": item.title, "url": item.url, "snippet": item.text, "date": item.published_date}


def _usage(response: research_dtos.ResearchResponse) -> dict[str, Any]:
    """Return tokens, searches and the cost in US dollars; the cost is left out if a price is unknown."""
    metadata = response.metadata
    usage = {**chat_completions.token_usage(response), "num_search_queries": metadata.searches}
    if metadata.cost_usd is not None:
        usage["cost"] = {"input_tokens_cost": None, "output_tokens_cost": None, "total_cost": metadata.cost_usd}
    return usage


def _add_spending(usage: dict[str, Any], spent: Spending) -> None:
    usage["prompt_tokens"] += spent.prompt_tokens
    usage["completion_tokens"] += spent.completion_tokens
    usage["total_tokens"] += spent.tokens
    if spent.cost_usd is None:
        usage.pop("cost", None)
    elif "cost" in usage:
        usage["cost"]["total_cost"] += spent.cost_usd


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    return error.status_code, chat_completions.openai_error(problem)


DIALECT: Final = dialect.Dialect(
    prefix="/perplexity",
    router=router,
    examples={
        ("post", "/perplexity/chat/completions"): dialect.Example(
            {
                "id": "3f2c8a5e",
                "model": "sonar",
                "created": 1_795_000_000,
                "object": "chat.completion",
                "choices": [
                    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "A drink [1]."}}
                ],
                "citations": ["https://example.org/tea"],
                "search_results": [{"title": "Tea", "url": "https://example.org/tea", "source": "web"}],
                "usage": {"prompt_tokens": 310, "completion_tokens": 12, "total_tokens": 322, "num_search_queries": 1},
            },
            {"model": "sonar", "messages": [{"role": "user", "content": "What is tea?"}]},
            events='data: {"id":"3f2c8a5e","object":"chat.completion.chunk","choices":[]}\n\ndata: [DONE]\n\n',
        ),
        ("post", "/perplexity/search"): dialect.Example(
            {
                "id": "3f2c8a5e",
                "results": [{"title": "Tea", "url": "https://example.org/tea", "snippet": "A drink.", "date": None}],
            },
            {"query": "What is tea?", "max_results": 3},
        ),
    },
    format_error=_format_error,
)
