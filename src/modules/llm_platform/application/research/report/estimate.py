"""Estimate the upper bounds of a report (calls, tokens, cost, searches, pages), which are shown with its plan."""

import math
from collections.abc import Iterable, Sequence

from modules.llm_platform.application.research.budget import Price
from modules.llm_platform.application.research.check import judge
from modules.llm_platform.application.research.find import round_queries
from modules.llm_platform.application.research.find.rounds import NO_ROUNDS, REPORT
from modules.llm_platform.application.research.report.queries import choose_query_languages, select_source_kinds
from modules.llm_platform.application.research.report.rank import BATCH, RANK_MAX_TOKENS
from modules.llm_platform.application.research.report.run import ReportOptions, ReportTools
from modules.llm_platform.application.research.report.summarize import SUMMARY_MAX_TOKENS
from modules.llm_platform.domain.dtos.report_dtos import (
    FINAL_PAGES,
    LLMStage,
    PlanRequest,
    ReportAmounts,
    ReportEstimate,
)

# The tokens of the prompt, and of the longest answer, of one call.
QUERIES_TOKENS = (500, 1024)
RANK_TOKENS = (BATCH * 300 + 600, RANK_MAX_TOKENS)
JUDGE_TOKENS = judge.ANSWER_TOKENS + judge.MAX_CLAIMS * judge.ANSWER_TOKENS_PER_CLAIM
SECTION_FRAME_TOKENS = 1000  # of the prompt of a section, without its sources: rules, question, titles and addresses
Calls = tuple[int, tuple[int, int]]  # how many, and the tokens of the prompt and of the longest answer of one


def estimate_report(
    tools: ReportTools, request: PlanRequest, language: str, questions: Sequence[str]
) -> ReportEstimate:
    """Return the upper bound of a report over these sub-questions, excluding retries and failover."""
    now, one_more = (
        _estimate_amounts(tools, request, language, count) for count in (len(questions), len(questions) + 1)
    )
    cost = None if now.cost_usd is None or one_more.cost_usd is None else one_more.cost_usd - now.cost_usd
    return ReportEstimate(
        at_most=now,
        per_question=ReportAmounts(
            searches=one_more.searches - now.searches,
            pages=one_more.pages - now.pages,
            llm_calls=one_more.llm_calls - now.llm_calls,
            tokens=one_more.tokens - now.tokens,
            cost_usd=cost,
        ),
        max_seconds=tools.options.timeout_s,
    )


def _estimate_amounts(tools: ReportTools, request: PlanRequest, language: str, questions: int) -> ReportAmounts:
    options, kinds = tools.options, len(select_source_kinds(request))
    searches = questions * len(choose_query_languages(language, options.query_languages)) * kinds
    wanted = REPORT.rounds if request.rounds is None else request.rounds
    limits, rounds = (REPORT, wanted) if kinds else (NO_ROUNDS, 0)
    first_pages = max(options.pages, len(request.urls))
    pages = first_pages + rounds * min(limits.pages, options.pages)
    all_searches = searches + rounds * limits.searches * kinds
    if not tools.llms:
        return ReportAmounts(searches=all_searches, pages=pages)
    is_ranked_by_summary = first_pages > max(
        FINAL_PAGES, len(request.urls)
    )  # else the report is written from all pages
    context = options.context_tokens
    calls: tuple[tuple[LLMStage, int, tuple[int, int]], ...] = (
        ("queries", questions if kinds else 0, QUERIES_TOKENS),
        ("rank", searches * math.ceil(options.results_per_search / BATCH), RANK_TOKENS),
        ("queries", rounds, (round_queries.MAX_PROMPT_TOKENS, round_queries.MAX_ANSWER_TOKENS)),
        ("summarize", pages, (context - min(SUMMARY_MAX_TOKENS, context // 2), SUMMARY_MAX_TOKENS)),
        ("rank", math.ceil(first_pages / BATCH) if is_ranked_by_summary else 0, RANK_TOKENS),
        ("write", *_estimate_writing(options, questions)),
        ("judge", 1 if tools.judge else 0, (max(0, context - JUDGE_TOKENS), JUDGE_TOKENS)),
    )
    made = ((count, tokens) for stage, count, tokens in calls if stage in tools.llms)
    return add_up_calls(made, tools.price).model_copy(update={"searches": all_searches, "pages": pages})


def _estimate_writing(options: ReportOptions, questions: int) -> Calls:
    """Return the calls that write the report: one, or one for the introduction and each section."""
    if not options.section_tokens:
        return 1, (options.context_tokens - options.max_tokens, options.max_tokens)
    calls = 1 + questions
    prompt_tokens = min(options.section_tokens + SECTION_FRAME_TOKENS, options.context_tokens)
    return calls, (prompt_tokens, options.max_tokens // calls)


def add_up_calls(calls: Iterable[Calls], price: Price | None) -> ReportAmounts:
    """Return the calls with their tokens and their cost, which is None without a price."""
    calls = tuple(calls)
    prompt = sum(count * tokens for count, (tokens, _) in calls)
    completion = sum(count * tokens for count, (_, tokens) in calls)
    return ReportAmounts(
        llm_calls=sum(count for count, _ in calls),
        tokens=prompt + completion,
        cost_usd=price(prompt, completion) if price else None,
    )
