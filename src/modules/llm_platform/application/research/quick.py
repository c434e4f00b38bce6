"""Shallow and deep research: search, and write an answer from the search results."""

import asyncio
import logging
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from math import ceil
from typing import Self

from cachetools import TTLCache

from modules.llm_platform.application.research import events, read_pages
from modules.llm_platform.application.research.context import ResearchContext
from modules.llm_platform.application.research.files import FilesSearch, OpenedFiles
from modules.llm_platform.application.research.plan import (
    LATE_PLAN,
    MAX_QUESTIONS,
    PLAN_VERSION,
    Plan,
    distinct_questions,
    plan,
    usable_plan,
)
from modules.llm_platform.application.research.response import ResearchResult, build_response, nothing_found_text
from modules.llm_platform.application.research.reuse import earlier_results, is_answered, reusable_sources
from modules.llm_platform.application.research.search import (
    SearchResults,
    fuse_results,
    number_sources,
    raw_of,
    search_questions,
)
from modules.llm_platform.application.research.structured_output import output_seconds
from modules.llm_platform.application.research.verification import Verification
from modules.llm_platform.application.research.writing import WritingRequest, WrittenAnswer, write
from modules.llm_platform.domain.concurrency.deadline import deadline_in
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.report_dtos import ResearchPlan
from modules.llm_platform.domain.dtos.research_dtos import CitedClaim, Source
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.research.follow_up import has_content_words
from modules.llm_platform.domain.research.store_key import store_key
from shared.exceptions import AppException

log = logging.getLogger(__name__)

MAX_SOURCES = 20  # up to 30 are found; the last ones cost tokens and are seldom cited
RESERVE_SHARE = 0.1  # share of the time that is kept for the extractive answer near the deadline
RESERVE_MAX_S = 3.0
PLAN_SHARE = 0.3
NOT_JUDGED_AGAIN_S = 600.0  # pause after a judge that was too late; each try is paid for
MAX_LATE_CLAIMS = 1000
MAX_WAIT_SHARE = {"shallow": 0.02, "deep": 0.05}  # share of the writing time that a whole answer waits for its judge


@dataclass(frozen=True, slots=True)
class ResearchOptions:
    """Settings: seconds of one run, results of one search, tokens of one answer, cache seconds of a deep plan, and what is
    read before writing. `judges_supported`: a judge also verifies the citations that the words support.
    """

    timeout_s: float = 120.0
    results_per_search: int = 10
    max_tokens: int = DEFAULT_MAX_TOKENS
    plan_ttl_s: float = 0.0
    reading: read_pages.ReadOptions = read_pages.DEFAULT_READING
    judges_supported: bool = False


@dataclass(frozen=True, slots=True)
class _QuickRun:
    """One running research and the pages that it reads; at `deadline` (event loop time) the fallback starts to write."""

    context: ResearchContext
    deadline: float
    reads: read_pages.PageReads


class QuickResearch:
    """Answers from search results and the best of their pages: one search if shallow, three concurrent ones if deep.

    - `plans` caches the questions of deep research runs; None disables the cache.
    - `models` names those that plan, for its keys.
    - `reader` reads pages; None reads none.
    """

    def __init__(
        self,
        search: IWebSearchProvider,
        writer: ISynthesizer,
        fallback: ISynthesizer,
        planner: ILLMProvider | None = None,
        options: ResearchOptions | None = None,
        plans: ICache[ResearchPlan] | None = None,
        judge: ICitationJudge | None = None,
        reader: IPageReader | None = None,
        models: str = "",
    ) -> None:
        self._search = search
        self._writer = writer
        self._fallback = fallback
        self._planner = planner
        self._options = options or ResearchOptions()
        self._plans = plans
        self._judge = judge
        self._late_claims: TTLCache[tuple[str, CitedClaim], bool] = TTLCache(MAX_LATE_CLAIMS, NOT_JUDGED_AGAIN_S)
        self._reader = reader
        self._models = models
        self._reserve_s = min(RESERVE_MAX_S, self._options.timeout_s * RESERVE_SHARE)

    def with_files(self, files: OpenedFiles, *, beside_sources: bool) -> Self:
        """Return a copy that searches the files of the request, beside the sources or in their place."""
        other = copy(self)
        other._search = FilesSearch(files, self._search if beside_sources else None)
        return other

    def end(self, context: ResearchContext) -> float:
        """Event loop time by which everything is done."""
        return context.began + self._options.timeout_s

    async def answer(self, context: ResearchContext) -> None:
        """Emit all events of the research except the first one; Done is the last.

        Raises the AppException after which nothing is left to answer from.
        """
        reading, timeout_s = self._options.reading, self._options.timeout_s
        timeout_s -= output_seconds(context.request, timeout_s)
        deadline = context.began + timeout_s - self._reserve_s
        limit, seconds = reading.page_limit(context), reading.seconds_for(context, timeout_s)
        async with read_pages.PageReads(self._reader, context, limit, seconds, deadline) as reads:
            await self._answer(_QuickRun(context, deadline, reads))

    async def _answer(self, run: _QuickRun) -> None:
        context = run.context
        planned = await self._plan(run)
        follow_up = run.context.follow_up
        earlier = reusable_sources(follow_up, run.context.language) if follow_up else ()
        gathered = await self._gather_beside(run, planned, earlier)
        answers = (*gathered.answers, *([earlier_results(earlier)] if earlier else []))
        found, raw = number_sources(fuse_results(answers, self._source_limit(run)), known=earlier)
        sources, excerpts = await self._read(run, found)
        selected = tuple(events.RankedResult(url=source.url, title=source.title) for source in sources)
        run.context.emit(events.Ranked(request_id=run.context.request_id, query=run.context.request.query, kept=selected))
        run.context.emit(events.SourcesNumbered.of(run.context.request_id, sources))
        await context.store_sources(sources)
        written = await self._write(run, sources, excerpts)
        sources = written.sources if written else sources
        response = build_response(
            ResearchResult(
                context.request, context.request_id, context.language, planned, gathered, sources,
                raw_of(sources, raw), written, reads=run.reads.end(), asked=context.asked,
            ),
            fallback=self._fallback.name,
            egress_log=context.egress_log,
            latency_s=asyncio.get_running_loop().time() - context.began,
        )
        log.info(
            "research done",
            extra={
                "depth": context.request.depth,
                "sources": len(sources),
                "latency_ms": response.metadata.latency_ms,
            },
        )
        context.emit(events.Done(request_id=context.request_id, response=response))

    async def _gather_beside(self, run: _QuickRun, planned: Plan, earlier: tuple[Source, ...]) -> SearchResults:
        """Return the results of the searches. A shallow one makes none if the earlier sources answer the question."""
        context = run.context
        if not earlier or context.follow_up is None:
            return await self._gather(run, planned)
        if context.request.depth == "shallow" and await is_answered(context.follow_up, earlier, context.language):
            return SearchResults((), (), 0)
        try:
            return await self._gather(run, planned)
        except AppException as error:
            return SearchResults((), (Degraded.of("search", error),), len(planned.questions))

    async def _plan(self, run: _QuickRun) -> Plan:
        if run.context.request.depth == "shallow":
            return Plan((run.context.request.query,))
        try:
            async with deadline_in(self._options.timeout_s * PLAN_SHARE):
                planned = _planned_before(run.context) or await self._cached_plan(run.context)
        except TimeoutError:
            planned = replace(
                await plan(run.context.request.query, run.context.language, None),
                spent=Spending(calls=1),  # the call is paid for, its tokens are unknown
                degraded=(Degraded(component="plan", reason=LATE_PLAN),),
            )
        run.context.emit(events.Planned(request_id=run.context.request_id, questions=planned.questions))
        return planned

    async def _cached_plan(self, context: ResearchContext) -> Plan:
        """Return the cached plan of the same question, or a new one; a degraded plan is not cached."""
        question, language = context.request.query, context.language
        if self._plans is None or self._planner is None or self._options.plan_ttl_s <= 0:
            return await plan(question, language, self._planner)
        key = store_key(version=PLAN_VERSION, model=self._models or self._planner.name, language=language, deep=question)
        if cached := usable_plan(await self._plans.get(key), question):
            return Plan(cached.questions)
        made = await plan(question, language, self._planner)
        if made.by_model and not made.degraded:
            value = ResearchPlan(
                query=question, language=language, questions=made.questions, planner=self._planner.name
            )
            await self._plans.set(key, value, self._options.plan_ttl_s)
        return made

    async def _gather(self, run: _QuickRun, planned: Plan) -> SearchResults:
        gathered = await self._search_all(run, planned.questions)
        empty = sum(not answer.results for answer in gathered.answers)
        if run.context.request.depth == "shallow" or not empty:
            return gathered
        # The engines' own suggestions replace questions without results.
        suggested = (suggestion for answer in gathered.answers for suggestion in answer.suggestions)
        limit = min(empty, MAX_QUESTIONS)
        replacements = distinct_questions(
            suggested, run.context.language, taken=planned.questions, limit=limit, written=run.context.asked
        )
        if not replacements:
            return gathered
        run.context.emit(events.Planned(request_id=run.context.request_id, questions=(*planned.questions, *replacements)))
        try:
            return gathered + await self._search_all(run, replacements)
        except AppException as error:
            return gathered + SearchResults((), (Degraded.of("search/suggested", error),), len(replacements))

    async def _read(self, run: _QuickRun, sources: tuple[Source, ...]) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
        """Return the sources with the pages that could be read in time, and what the writer reads of them."""
        pages = await run.reads.collect([source.url for source in sources if source.text_kind == "snippet"])
        return read_pages.with_pages(sources, pages)

    async def _search_all(self, run: _QuickRun, questions: Sequence[str]) -> SearchResults:
        def emit_searched(request: WebSearchRequest, answer: WebSearchResponse) -> None:
            run.context.emit(
                events.Searched(
                    request_id=run.context.request_id,
                    query=request.query,
                    provider=answer.provider,
                    count=len(answer.results),
                    cached=answer.cached,
                    results=tuple(map(events.FoundResult.of, answer.results)),
                )
            )
            urls = (item.url for item in answer.results if item.source != DOCUMENTS)
            run.reads.start(urls, ceil(run.reads.limit / len(questions)))

        requests = [self._to_search(run, question) for question in questions]
        return await search_questions(requests, self._search, run.deadline, emit_searched)

    def _to_search(self, run: _QuickRun, question: str) -> WebSearchRequest:
        research = run.context.request
        return WebSearchRequest(
            query=question,
            count=self._options.results_per_search,
            sources=research.sources,
            language=run.context.detected,
            time_range=research.time_range,
            freshness=research.freshness,
            domains=research.domains,
        )

    def _source_limit(self, run: _QuickRun) -> int:
        return self._options.results_per_search if run.context.request.depth == "shallow" else MAX_SOURCES

    def _question_to_write(self, context: ResearchContext) -> str:
        """Return the question that stands by itself. Quotes are selected for it as it was asked: the sources are on its
        topic, and the words of the topic would outweigh those of the question.
        """
        follow_up = context.follow_up
        is_quoted = (
            follow_up is not None and self._planner is None and has_content_words(follow_up.asked, context.language)
        )
        return follow_up.asked if follow_up is not None and is_quoted else context.request.query

    async def _write(
        self, run: _QuickRun, sources: tuple[Source, ...], excerpts: tuple[Source, ...]
    ) -> WrittenAnswer | None:
        if not sources:
            text = nothing_found_text(run.context.request.depth, run.context.language)
            run.context.emit(events.Token(request_id=run.context.request_id, text=text))
            return None
        reading = read_pages.SourcesBeingRead(sources, run.reads, run.context.store_sources)
        request = WritingRequest(
            question=self._question_to_write(run.context),
            sources=sources,
            language=run.context.language,
            max_tokens=self._options.max_tokens,
            writer=self._writer,
            fallback=self._fallback,
            deadline=run.deadline,
            offer_deep=run.context.request.depth == "shallow",
            by_model=self._planner is not None,
            instructions=run.context.request.instructions,
            context=run.context.request.context,
            verification=self._verification(run),
            excerpts=excerpts,
            reading=reading,
        )
        return await write(
            request,
            run.context.streamed,
            on_text=lambda text: run.context.emit(events.Token(request_id=run.context.request_id, text=text)),
            on_reset=lambda reason: run.context.emit(events.Reset(request_id=run.context.request_id, reason=reason)),
            on_checked=lambda citations, pending: run.context.emit(
                events.Verified(request_id=run.context.request_id, citations=citations, pending=pending)
            ),
        )

    def _verification(self, run: _QuickRun) -> Verification | None:
        if self._judge is None:
            return None
        if self._options.judges_supported:
            return Verification(self._judge, run.deadline)
        waits = None if run.context.streamed else MAX_WAIT_SHARE[run.context.request.depth]
        return Verification(self._judge, run.deadline, doubted_only=True, max_wait_share=waits, cancelled=self._late_claims)


def _planned_before(context: ResearchContext) -> Plan | None:
    """Return the searches that the model planned when it read a follow-up question; the cost is counted there."""
    follow_up = context.follow_up
    return Plan(follow_up.questions, by_model=True) if follow_up and follow_up.questions else None
