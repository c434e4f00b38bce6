"""Estimate the upper bound of a shallow or deep run, excluding retries and failover."""

from collections.abc import Iterator

from modules.llm_platform.application.research.budget import Price
from modules.llm_platform.application.research.find.read_pages import FURTHER_PAGES
from modules.llm_platform.application.research.find.round_queries import MAX_ANSWER_TOKENS, MAX_PROMPT_TOKENS
from modules.llm_platform.application.research.find.rounds import DEEP, NO_ROUNDS
from modules.llm_platform.application.research.find.search import wants_latest
from modules.llm_platform.application.research.quick_tools import QuickTools
from modules.llm_platform.application.research.report.estimate import JUDGE_TOKENS, QUERIES_TOKENS, Calls, add_up_calls
from modules.llm_platform.domain.dtos.report_dtos import ReportAmounts
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.research.question_selector import MAX_QUESTIONS


def estimate_quick(
    tools: QuickTools, request: ResearchRequest, price: Price | None, context_tokens: int, *, searches_nothing: bool
) -> ReportAmounts:
    """Return the upper bound of a run, excluding the pages that it is given."""
    rounds = DEEP if request.depth == "deep" and not searches_nothing else NO_ROUNDS
    searches, pages = 0, 0
    if not searches_nothing:
        first = 2 * MAX_QUESTIONS if request.depth == "deep" else 1  # suggestions may replace each question
        searches = (first + rounds.rounds * rounds.searches) * (2 if wants_latest(request.query) else 1)
        before_writing = tools.options.reading.get_page_limit(request) if tools.pages is not None else 0
        pages = (before_writing + rounds.rounds * rounds.pages) * (1 + FURTHER_PAGES) if before_writing else 0
    calls = _list_calls(tools, request, context_tokens, rounds.rounds) if tools.has_llm else ()
    return add_up_calls(calls, price if tools.has_llm else _cost_nothing).model_copy(
        update={"searches": searches, "pages": pages}
    )


def _cost_nothing(prompt_tokens: int, completion_tokens: int) -> float:
    return 0.0


def _list_calls(tools: QuickTools, request: ResearchRequest, context_tokens: int, rounds: int) -> Iterator[Calls]:
    if tools.planner.llm is not None and request.depth == "deep":
        yield 1, QUERIES_TOKENS
        yield rounds, (MAX_PROMPT_TOKENS, MAX_ANSWER_TOKENS)
    max_tokens = tools.options.max_tokens
    yield 1, (context_tokens - max_tokens, max_tokens)
    if tools.judge is not None:
        yield 1, (max(0, context_tokens - JUDGE_TOKENS), JUDGE_TOKENS)
