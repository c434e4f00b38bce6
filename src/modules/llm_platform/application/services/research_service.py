"""A question in, a cited answer out (research-bridge.md §§2, 3.1, 8; interface.md, POST /research and "Events")."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from modules.llm_platform.application.problem import problem
from modules.llm_platform.application.research.answer import Researched, nothing_found, reference, respond
from modules.llm_platform.application.research.events import (
    Done,
    Failed,
    Kept,
    Planned,
    Ranked,
    ResearchEvent,
    Reset,
    Searched,
    SourcesNumbered,
    Started,
    Token,
)
from modules.llm_platform.application.research.gather import Gathered, gather
from modules.llm_platform.application.research.plan import QUESTIONS, Plan, distinct, plan
from modules.llm_platform.application.research.rank import fuse, number
from modules.llm_platform.application.research.write import Order, Written, write
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.held_source import HeldSource, HeldSources
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest, ResearchResponse, Source
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import SourceNotHeldError
from modules.llm_platform.domain.language import detect
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.llm import ILLMProvider, IWarmUp
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer
from shared.exceptions import AppException

log = logging.getLogger(__name__)

MAX_SOURCES = 20  # a deep research finds up to thirty; the tail costs tokens and is seldom cited
HELD_FOR_S = 3600.0  # how long the texts behind an answer's quotes can be asked for
OWN_LANGUAGE = "en"  # for our own words where the question's language is not known
RESERVE_SHARE = 0.1  # of the time allowed, kept for the extractive answer when the deadline comes near
RESERVE_MAX_S = 3.0
PLAN_SHARE = 0.3
LATE_PLAN = "timeout: the model did not plan in time, the question was taken apart without it"

Tell = Callable[[ResearchEvent], None]


@dataclass(frozen=True, slots=True)
class ResearchOptions:
    """The operator's settings: seconds for one research, results of one search, tokens of one answer."""

    timeout_s: float = 120.0
    results_per_search: int = 10
    max_tokens: int = DEFAULT_MAX_TOKENS


@dataclass(frozen=True, slots=True)
class _Run:
    """One research under way."""

    request: ResearchRequest
    request_id: str
    language: str | None
    tell: Tell
    streamed: bool
    began: float  # event loop time, seconds
    deadline: float  # when the last resort begins to write

    @property
    def own_language(self) -> str:
        return self.language or OWN_LANGUAGE


class ResearchService:
    """Researches a question: `stream` tells what happens as it happens, `research` folds the same stream into its answer."""

    def __init__(
        self,
        search: WebSearchService,
        writer: ISynthesizer,
        last_resort: ISynthesizer,
        held: ICache[HeldSources],
        planner: ILLMProvider | None = None,
        options: ResearchOptions | None = None,
    ) -> None:
        self._search = search
        self._writer = writer
        self._last_resort = last_resort
        self._held = held
        self._planner = planner
        self._options = options or ResearchOptions()

    async def research(self, request: ResearchRequest, *, request_id: str | None = None) -> ResearchResponse:
        """The answer. Raises the AppException that left nothing to answer from."""
        async with aclosing(self._events(request, request_id or new_request_id(), streamed=False)) as events:
            async for event in events:
                if isinstance(event, Done):
                    return event.response
        raise AssertionError("a research ends with done or an error")

    async def stream(
        self, request: ResearchRequest, *, request_id: str | None = None
    ) -> AsyncGenerator[ResearchEvent, None]:
        """Started first, Done or Failed last. Closing the iterator stops the research and closes its connections."""
        request_id = request_id or new_request_id()
        async with aclosing(self._events(request, request_id, streamed=True)) as events:
            try:
                async for event in events:
                    yield event
            except AppException as error:
                instance = f"/research/{request_id}"
                yield Failed(request_id=request_id, problem=problem(error, instance=instance, request_id=request_id))

    async def source(self, request_id: str, index: int) -> HeldSource:
        """The stored text of one source of a research that ended a while ago; SourceNotHeldError when it is gone."""
        held = await self._held.get(request_id)
        found = held.find(index) if held else None
        if found is None:
            raise SourceNotHeldError
        return found

    async def _events(
        self, request: ResearchRequest, request_id: str, *, streamed: bool
    ) -> AsyncGenerator[ResearchEvent, None]:
        told: asyncio.Queue[ResearchEvent | None] = asyncio.Queue()
        began = asyncio.get_running_loop().time()
        reserve = min(RESERVE_MAX_S, self._options.timeout_s * RESERVE_SHARE)
        run = _Run(
            request=request,
            request_id=request_id,
            language=request.language or detect(request.query),
            tell=told.put_nowait,
            streamed=streamed,
            began=began,
            deadline=began + self._options.timeout_s - reserve,
        )
        task = asyncio.create_task(self._run(run))
        task.add_done_callback(lambda done: _end(done, told))
        try:
            while (event := await told.get()) is not None:
                yield event
            task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    async def _run(self, run: _Run) -> None:
        run.tell(Started(request_id=run.request_id))
        planned = await self._plan(run)
        async with self._warmed_up(run):
            gathered = await self._gather(run, planned)
        sources, raw = number(fuse(gathered.answers, self._source_limit(run)))
        self._tell_sources(run, sources)
        await self._held.set(run.request_id, HeldSources(sources=sources), HELD_FOR_S)
        written = await self._write(run, sources)
        response = respond(
            Researched(run.request, run.request_id, run.own_language, planned, gathered, sources, raw, written),
            last_resort=self._last_resort.name,
            latency_s=asyncio.get_running_loop().time() - run.began,
        )
        log.info(
            "research done",
            extra={"depth": run.request.depth, "sources": len(sources), "latency_ms": response.metadata.latency_ms},
        )
        run.tell(Done(request_id=run.request_id, response=response))

    async def _plan(self, run: _Run) -> Plan:
        if run.request.depth == "shallow":
            return Plan((run.request.query,))
        try:
            async with asyncio.timeout(self._options.timeout_s * PLAN_SHARE):
                planned = await plan(run.request.query, run.own_language, self._planner)
        except TimeoutError:
            planned = replace(
                await plan(run.request.query, run.own_language, None),
                spent=Spending(calls=1),  # it may have written, but nobody will ever tell how much
                degraded=(Degraded(component="plan", reason=LATE_PLAN),),
            )
        run.tell(Planned(request_id=run.request_id, questions=planned.questions))
        return planned

    @asynccontextmanager
    async def _warmed_up(self, run: _Run) -> AsyncGenerator[None, None]:
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

    async def _gather(self, run: _Run, planned: Plan) -> Gathered:
        gathered = await self._search_all(run, planned.questions)
        empty = sum(not answer.results for answer in gathered.answers)
        if run.request.depth == "shallow" or not empty:
            return gathered
        # A question that found nothing is replaced by what the engines themselves suggest.
        suggested = (suggestion for answer in gathered.answers for suggestion in answer.suggestions)
        instead = distinct(suggested, run.own_language, taken=planned.questions, limit=min(empty, QUESTIONS))
        if not instead:
            return gathered
        run.tell(Planned(request_id=run.request_id, questions=(*planned.questions, *instead)))
        try:
            return gathered + await self._search_all(run, instead)
        except AppException as error:
            return gathered + Gathered((), (Degraded.of("search/suggested", error),), len(instead))

    async def _search_all(self, run: _Run, questions: Sequence[str]) -> Gathered:
        def found(request: WebSearchRequest, answer: WebSearchResponse) -> None:
            run.tell(
                Searched(
                    request_id=run.request_id,
                    query=request.query,
                    provider=answer.provider,
                    count=len(answer.results),
                    cached=answer.cached,
                )
            )

        requests = [self._to_search(run, question) for question in questions]
        return await gather(requests, self._search, run.deadline, found)

    def _to_search(self, run: _Run, question: str) -> WebSearchRequest:
        asked = run.request
        return WebSearchRequest(
            query=question,
            count=self._options.results_per_search,
            sources=asked.sources,
            language=run.language,
            time_range=asked.time_range,
            domains=asked.domains,
        )

    def _source_limit(self, run: _Run) -> int:
        return self._options.results_per_search if run.request.depth == "shallow" else MAX_SOURCES

    def _tell_sources(self, run: _Run, sources: Sequence[Source]) -> None:
        kept = tuple(Kept(url=source.url, title=source.title) for source in sources)
        run.tell(Ranked(request_id=run.request_id, query=run.request.query, kept=kept))
        run.tell(SourcesNumbered(request_id=run.request_id, sources=tuple(map(reference, sources))))

    async def _write(self, run: _Run, sources: tuple[Source, ...]) -> Written | None:
        if not sources:
            run.tell(Token(request_id=run.request_id, text=nothing_found(run.request.depth, run.own_language)))
            return None
        order = Order(
            question=run.request.query,
            sources=sources,
            language=run.own_language,
            max_tokens=self._options.max_tokens,
            writer=self._writer,
            last_resort=self._last_resort,
            deadline=run.deadline,
            offer_deep=run.request.depth == "shallow",
            by_model=self._planner is not None,
        )
        return await write(
            order,
            run.streamed,
            show=lambda text: run.tell(Token(request_id=run.request_id, text=text)),
            take_back=lambda reason: run.tell(Reset(request_id=run.request_id, reason=reason)),
        )


def _end(task: asyncio.Task[None], told: asyncio.Queue[ResearchEvent | None]) -> None:
    if not task.cancelled():
        task.exception()  # looked at here, so that a reader who has gone leaves no complaint behind
    told.put_nowait(None)


def new_request_id() -> str:
    """An identifier that nobody can guess: the texts behind an answer are asked for by it."""
    return uuid.uuid4().hex
