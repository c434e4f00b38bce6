"""The quick answers, shallow and deep: search, and write from what the search results say (requirements RB1 and RB2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from modules.llm_platform.application.research.context import ResearchContext
from modules.llm_platform.application.research.events import (
    Done,
    Kept,
    Planned,
    Ranked,
    Reset,
    Searched,
    SourcesNumbered,
    Token,
)
from modules.llm_platform.application.research.plan import (
    LATE_PLAN,
    PLAN_VERSION,
    QUESTIONS,
    Plan,
    distinct,
    plan,
)
from modules.llm_platform.application.research.response import (
    ResearchResult,
    build_response,
    nothing_found_text,
    source_ref,
)
from modules.llm_platform.application.research.search import (
    SearchResults,
    fuse_results,
    number_sources,
    search_questions,
)
from modules.llm_platform.application.research.verification import Verification
from modules.llm_platform.application.research.writing import WritingRequest, WrittenAnswer, write
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.report_dtos import ResearchPlan
from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.llm import ILLMProvider, IWarmUp
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer
from modules.llm_platform.domain.store_key import store_key
from shared.exceptions import AppException

log = logging.getLogger(__name__)

MAX_SOURCES = 20  # a deep research finds up to thirty; the tail costs tokens and is seldom cited
RESERVE_SHARE = 0.1  # of the time allowed, kept for the extractive answer when the deadline comes near
RESERVE_MAX_S = 3.0
PLAN_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class ResearchOptions:
    """The operator's settings: seconds for one research, results of one search, tokens of one answer, seconds that the
    questions of a deep research are cached.
    """

    timeout_s: float = 120.0
    results_per_search: int = 10
    max_tokens: int = DEFAULT_MAX_TOKENS
    plan_ttl_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _QuickRun:
    """One research under way; at `deadline` (event loop time) the last resort begins to write."""

    order: ResearchContext
    deadline: float


class QuickResearch:
    """Answers from search results: one search when shallow, three side by side when deep.

    `plans` caches the questions that the model made of a deep one; None asks for them each time.
    """

    def __init__(
        self,
        search: WebSearchService,
        writer: ISynthesizer,
        last_resort: ISynthesizer,
        planner: ILLMProvider | None = None,
        options: ResearchOptions | None = None,
        plans: ICache[ResearchPlan] | None = None,
        judge: ICitationJudge | None = None,
    ) -> None:
        self._search = search
        self._writer = writer
        self._last_resort = last_resort
        self._planner = planner
        self._options = options or ResearchOptions()
        self._plans = plans
        self._judge = judge
        self._reserve_s = min(RESERVE_MAX_S, self._options.timeout_s * RESERVE_SHARE)

    async def answer(self, order: ResearchContext) -> None:
        """Tell all events of the research but the first, Done last.

        Raises the AppException that left nothing to answer from.
        """
        run = _QuickRun(order, order.began + self._options.timeout_s - self._reserve_s)
        planned = await self._plan(run)
        async with self._warmed_up(run):
            gathered = await self._gather(run, planned)
        sources, raw = number_sources(fuse_results(gathered.answers, self._source_limit(run)))
        self._tell_sources(run, sources)
        await order.hold(sources)
        written = await self._write(run, sources)
        response = build_response(
            ResearchResult(
                run.order.request, run.order.request_id, run.order.language, planned, gathered, sources, raw, written
            ),
            last_resort=self._last_resort.name,
            sent_to=order.ledger.sent(),
            latency_s=asyncio.get_running_loop().time() - run.order.began,
        )
        log.info(
            "research done",
            extra={
                "depth": run.order.request.depth,
                "sources": len(sources),
                "latency_ms": response.metadata.latency_ms,
            },
        )
        run.order.tell(Done(request_id=run.order.request_id, response=response))

    async def _plan(self, run: _QuickRun) -> Plan:
        if run.order.request.depth == "shallow":
            return Plan((run.order.request.query,))
        try:
            async with asyncio.timeout(self._options.timeout_s * PLAN_SHARE):
                planned = await self._planned(run.order)
        except TimeoutError:
            planned = replace(
                await plan(run.order.request.query, run.order.language, None),
                spent=Spending(calls=1),  # it may have written, but nobody will ever tell how much
                degraded=(Degraded(component="plan", reason=LATE_PLAN),),
            )
        run.order.tell(Planned(request_id=run.order.request_id, questions=planned.questions))
        return planned

    async def _planned(self, order: ResearchContext) -> Plan:
        """The plan of the same question asked before, at no cost, or a new one; what failed in part is not cached."""
        question, language = order.request.query, order.language
        if self._plans is None or self._planner is None or self._options.plan_ttl_s <= 0:
            return await plan(question, language, self._planner)
        key = store_key(version=PLAN_VERSION, model=self._planner.name, language=language, deep=question)
        if cached := await self._plans.get(key):
            return Plan(cached.questions)
        made = await plan(question, language, self._planner)
        if made.by_model and not made.degraded:
            value = ResearchPlan(
                query=question, language=language, questions=made.questions, planner=self._planner.name
            )
            await self._plans.set(key, value, self._options.plan_ttl_s)
        return made

    @asynccontextmanager
    async def _warmed_up(self, run: _QuickRun) -> AsyncGenerator[None, None]:
        """The model gets ready while the searches are waited for; one that is not ready in time is asked all the same."""
        if not isinstance(self._planner, IWarmUp):
            yield
            return
        warming = asyncio.create_task(self._planner.warm_up())
        try:
            yield
            await asyncio.wait([warming], timeout=max(0.0, run.deadline - asyncio.get_running_loop().time()))
        finally:
            warming.cancel()

    async def _gather(self, run: _QuickRun, planned: Plan) -> SearchResults:
        gathered = await self._search_all(run, planned.questions)
        empty = sum(not answer.results for answer in gathered.answers)
        if run.order.request.depth == "shallow" or not empty:
            return gathered
        # A question that found nothing is replaced by what the engines themselves suggest.
        suggested = (suggestion for answer in gathered.answers for suggestion in answer.suggestions)
        instead = distinct(suggested, run.order.language, taken=planned.questions, limit=min(empty, QUESTIONS))
        if not instead:
            return gathered
        run.order.tell(Planned(request_id=run.order.request_id, questions=(*planned.questions, *instead)))
        try:
            return gathered + await self._search_all(run, instead)
        except AppException as error:
            return gathered + SearchResults((), (Degraded.of("search/suggested", error),), len(instead))

    async def _search_all(self, run: _QuickRun, questions: Sequence[str]) -> SearchResults:
        def found(request: WebSearchRequest, answer: WebSearchResponse) -> None:
            run.order.tell(
                Searched(
                    request_id=run.order.request_id,
                    query=request.query,
                    provider=answer.provider,
                    count=len(answer.results),
                    cached=answer.cached,
                )
            )

        requests = [self._to_search(run, question) for question in questions]
        return await search_questions(requests, self._search, run.deadline, found)

    def _to_search(self, run: _QuickRun, question: str) -> WebSearchRequest:
        asked = run.order.request
        return WebSearchRequest(
            query=question,
            count=self._options.results_per_search,
            sources=asked.sources,
            language=run.order.detected,
            time_range=asked.time_range,
            domains=asked.domains,
        )

    def _source_limit(self, run: _QuickRun) -> int:
        return self._options.results_per_search if run.order.request.depth == "shallow" else MAX_SOURCES

    def _tell_sources(self, run: _QuickRun, sources: Sequence[Source]) -> None:
        kept = tuple(Kept(url=source.url, title=source.title) for source in sources)
        run.order.tell(Ranked(request_id=run.order.request_id, query=run.order.request.query, kept=kept))
        run.order.tell(SourcesNumbered(request_id=run.order.request_id, sources=tuple(map(source_ref, sources))))

    async def _write(self, run: _QuickRun, sources: tuple[Source, ...]) -> WrittenAnswer | None:
        if not sources:
            text = nothing_found_text(run.order.request.depth, run.order.language)
            run.order.tell(Token(request_id=run.order.request_id, text=text))
            return None
        order = WritingRequest(
            question=run.order.request.query,
            sources=sources,
            language=run.order.language,
            max_tokens=self._options.max_tokens,
            writer=self._writer,
            last_resort=self._last_resort,
            deadline=run.deadline,
            offer_deep=run.order.request.depth == "shallow",
            by_model=self._planner is not None,
            verification=Verification(self._judge, run.deadline) if self._judge else None,
        )
        return await write(
            order,
            run.order.streamed,
            show=lambda text: run.order.tell(Token(request_id=run.order.request_id, text=text)),
            take_back=lambda reason: run.order.tell(Reset(request_id=run.order.request_id, reason=reason)),
        )
