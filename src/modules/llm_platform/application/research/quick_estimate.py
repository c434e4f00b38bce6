"""Estimate what a shallow or deep run takes at most, excluding retries and failover."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from modules.llm_platform.application.research.find.read_pages import FURTHER_PAGES, PAGES
from modules.llm_platform.application.research.find.round_queries import MAX_ANSWER_TOKENS, MAX_PROMPT_TOKENS
from modules.llm_platform.application.research.find.rounds import DEEP, NO_ROUNDS
from modules.llm_platform.application.research.find.search import wants_latest
from modules.llm_platform.application.research.report.estimate import JUDGE_TOKENS, QUERIES_TOKENS, Calls, add_up_calls
from modules.llm_platform.domain.dtos.report_dtos import ReportAmounts
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.research.question_selector import MAX_QUESTIONS


@dataclass(frozen=True, slots=True)
class QuickLimits:
    """The settings that limit a shallow or deep run. `pages` is None for the default of the depth."""

    pages: int | None
    max_tokens: int
    context_tokens: int
    has_model: bool
    has_judge: bool
    price: Callable[[int, int], float] | None


def estimate_quick(request: ResearchRequest, limits: QuickLimits, *, searches_nothing: bool) -> ReportAmounts:
    """Return what a run takes at most, besides the pages that it is given."""
    rounds = DEEP if request.depth == "deep" and not searches_nothing else NO_ROUNDS
    searches, pages = 0, 0
    if not searches_nothing:
        first = 2 * MAX_QUESTIONS if request.depth == "deep" else 1  # suggestions may replace each question
        searches = (first + rounds.rounds * rounds.searches) * (2 if wants_latest(request.query) else 1)
        before_writing = PAGES.get(request.depth, 0) if limits.pages is None else limits.pages
        pages = (before_writing + rounds.rounds * rounds.pages) * (1 + FURTHER_PAGES) if before_writing else 0
    calls = _list_calls(request, limits, rounds.rounds) if limits.has_model else ()
    price = limits.price if limits.has_model else _cost_nothing
    return add_up_calls(calls, price).model_copy(update={"searches": searches, "pages": pages})


def _cost_nothing(prompt_tokens: int, completion_tokens: int) -> float:
    return 0.0


def _list_calls(request: ResearchRequest, limits: QuickLimits, rounds: int) -> Iterator[Calls]:
    if request.depth == "deep":
        yield 1, QUERIES_TOKENS
    yield rounds, (MAX_PROMPT_TOKENS, MAX_ANSWER_TOKENS)
    yield 1, (limits.context_tokens - limits.max_tokens, limits.max_tokens)
    if limits.has_judge:
        yield 1, (max(0, limits.context_tokens - JUDGE_TOKENS), JUDGE_TOKENS)
