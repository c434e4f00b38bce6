"""Shallow and deep research: search, and write an answer from the search results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from cachetools import TTLCache

from modules.llm_platform.application.research import events
from modules.llm_platform.application.research.files import FilesSearch, OpenedFiles
from modules.llm_platform.application.research.plan import SearchPlanner
from modules.llm_platform.application.research.read_pages import (
    DEFAULT_READING,
    PageReads,
    ReadOptions,
    SourcesBeingRead,
)
from modules.llm_platform.application.research.response import ResearchResult, build_response, nothing_found_text
from modules.llm_platform.application.research.round_queries import AskModel, ask_model, cache_model
from modules.llm_platform.application.research.rounds import FurtherRounds, get_round_limits, select_ledger_questions
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.application.research.search import (
    SearchResults,
    fuse_results,
    list_raw_results,
    number_sources,
    run_searches,
    search_further,
    wrap_linked_results,
)
from modules.llm_platform.application.research.structured_output import output_seconds
from modules.llm_platform.application.research.verification import Verification
from modules.llm_platform.application.research.writing import WritingRequest, WrittenAnswer, write_events
from modules.llm_platform.domain.dtos.report_dtos import ResearchPlan, RoundAnswer
from modules.llm_platform.domain.dtos.research_dtos import CitedClaim, RawResult, Source
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.research.follow_up import has_content_words

log = logging.getLogger(__name__)

MAX_FUSED = 200  # the results of all rounds from which the sources are chosen
MAX_SOURCES = 20  # up to 30 are found; the last ones cost tokens and are seldom cited
RESERVE_SHARE = 0.1  # the share of the time that is kept for the extractive answer
RESERVE_MAX_S = 3.0
PLAN_SHARE = 0.3
NOT_JUDGED_AGAIN_S = 600.0  # the pause after a judge that was too late, because each try is paid for
MAX_LATE_CLAIMS = 1000
MAX_WAIT_SHARE = {"shallow": 0.02, "deep": 0.05}  # a whole answer waits this share of its writing time for the judge


@dataclass(frozen=True, slots=True)
class ResearchOptions:
    """Settings of shallow and deep runs.

    - `timeout_s` is the longest time of one run, in seconds.
    - `results_per_search` is the number of results of one search.
    - `max_tokens` is the longest length of one answer.
    - `plan_ttl_s` is how long a deep plan is cached, in seconds; 0 caches none.
    - `reading` says what is read before writing.
    - `judges_supported` is True if a judge also verifies the citations that the words support.
    - `model_ends_rounds` is True if a model that adds no query ends the further rounds.
    """

    timeout_s: float = 120.0
    results_per_search: int = 10
    max_tokens: int = DEFAULT_MAX_TOKENS
    plan_ttl_s: float = 0.0
    reading: ReadOptions = DEFAULT_READING
    judges_supported: bool = False
    model_ends_rounds: bool = False


@dataclass(frozen=True, slots=True)
class FoundSources:
    """The sources of a run.

    - `results` are all results of its searches.
    - `sources` are its numbered sources, and `raw` their raw results.
    - `excerpts` are the parts of the sources that a writer reads.
    """

    results: SearchResults
    sources: tuple[Source, ...]
    excerpts: tuple[Source, ...]
    raw: tuple[RawResult, ...]


def load_nothing() -> None:
    """Load nothing: no writer needs a slow library."""


class QuickResearch:
    """Answers questions from search results and the best of their pages.

    A shallow run makes one search, a deep run three concurrent ones.

    - `writer` writes the answer, and `fallback` does if that fails.
    - `plans` caches the questions of deep runs, and `round_answers` what the model adds to further rounds; None disables the
      cache.
    - `models` names the models that plan, for the keys of both caches.
    - `reader` reads pages; None reads none.
    - `begin_loading` loads in the background what the writer needs; it is called as the first search begins.
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
        round_answers: ICache[RoundAnswer] | None = None,
        begin_loading: Callable[[], None] = load_nothing,
    ) -> None:
        self._options = options = options or ResearchOptions()
        self._planner = SearchPlanner(planner, options.timeout_s * PLAN_SHARE, plans, options.plan_ttl_s, models)
        self._ask: AskModel | None = partial(ask_model, planner) if planner else None
        if planner and self._ask and round_answers is not None and options.plan_ttl_s > 0:
            self._ask = cache_model(self._ask, round_answers, options.plan_ttl_s, models or planner.name)
        self._begin_loading = begin_loading
        self._search = search
        self._reader = reader
        self._writer = writer
        self._fallback = fallback
        self._judge = judge
        self._late_claims: TTLCache[tuple[str, CitedClaim], bool] = TTLCache(MAX_LATE_CLAIMS, NOT_JUDGED_AGAIN_S)

    def with_files(self, files: OpenedFiles, *, beside_sources: bool) -> Self:
        """Return a copy that searches the files of the request, with `beside_sources` together with the sources."""
        other = copy(self)
        other._search = FilesSearch(files, self._search if beside_sources else None)
        return other

    def end(self, run: Run) -> float:
        """Return the event loop time by which the run has ended."""
        return run.began + self._options.timeout_s

    async def answer(self, run: Run) -> None:
        """Emit all events of the run except the first one, up to Done.

        Raises the AppException after which there is nothing to answer from.
        """
        options, asked = self._options, run.request
        timeout_s = options.timeout_s - output_seconds(asked, options.timeout_s)
        reserve_s = min(RESERVE_MAX_S, options.timeout_s * RESERVE_SHARE)
        run.deadline = run.began + timeout_s - reserve_s
        pages, seconds = options.reading.page_limit(run), options.reading.seconds_for(run, timeout_s)
        async with PageReads(self._reader, run, pages, seconds) as reads:
            planned = await self._planner.plan(run)
            rounds = FurtherRounds(
                run, get_round_limits(run), run.deadline, self._ask, llm_may_stop=options.model_ends_rounds
            )
            found = await self._search_and_read(run, planned.questions, rounds, reads)
            run.early_finish.close()
            ranked = tuple(events.RankedResult(url=source.url, title=source.title) for source in found.sources)
            run.emit(events.Ranked(request_id=run.request_id, query=asked.query, kept=ranked))
            run.emit(events.SourcesNumbered.of(run.request_id, found.sources))
            await run.store_sources(found.sources)  # quotes point into their texts
            written = await self._write_and_check(run, found, reads, rounds)
            sources = written.sources if written else found.sources
            result = ResearchResult(
                run=run,
                planned=replace(
                    planned, spent=planned.spent + rounds.spent, degraded=(*planned.degraded, *rounds.degraded)
                ),
                gathered=found.results,
                sources=sources,
                raw=list_raw_results(sources, found.raw),
                written=written,
                reads=reads.end(),
                ledger=rounds.ledger,
            )
            response = build_response(result, fallback=self._fallback.name, egress_log=run.egress_log)
            latency_ms = response.metadata.latency_ms
            log.info("research done", extra={"depth": asked.depth, "sources": len(sources), "latency_ms": latency_ms})
            run.emit(events.Done(request_id=run.request_id, response=response))

    async def _search_and_read(
        self, run: Run, questions: Sequence[str], rounds: FurtherRounds, reads: PageReads
    ) -> FoundSources:
        """Search for the questions and read the best pages, then search, round by round, for what these leave open."""
        count = self._options.results_per_search
        limit = count if run.request.depth == "shallow" else MAX_SOURCES
        self._begin_loading()
        results = await run_searches(run, questions, self._search, count, reads)
        numbered, raw = number_sources(fuse_results(results.answers, limit), known=results.earlier)
        sources, excerpts = await reads.read_sources(numbered)
        rows = select_ledger_questions(run.request.query, questions, run.language)
        await rounds.read(rows, excerpts)
        is_refused = False
        while queries := await rounds.next_queries(questions, is_refused=is_refused):
            further, is_refused = await search_further(run, queries, self._search, count)
            reads.allow(rounds.limits.pages)
            links = rounds.links_to_follow((read.page for read in reads.read().values()), further.addresses)
            results = results + further + wrap_linked_results(await reads.follow(links, rounds.admits))
            fused = fuse_results(results.answers, MAX_FUSED)
            await rounds.read(rows, number_sources(fused, known=results.earlier)[0])
            numbered, raw = number_sources(rounds.best_first(fused, limit), known=results.earlier)
            sources, excerpts = await reads.read_sources(numbered)
            if reads.read():  # the rows may be filled from pages now, in place of excerpts
                await rounds.read(rows, excerpts)
        return FoundSources(results, sources, excerpts, raw)

    async def _write_and_check(
        self,
        run: Run,
        found: FoundSources,
        reads: PageReads,
        rounds: FurtherRounds,
    ) -> WrittenAnswer | None:
        request, follow_up, by_model = run.request, run.follow_up, self._planner.llm is not None
        if not found.sources:
            text = nothing_found_text(request.depth, run.language)
            run.emit(events.Token(request_id=run.request_id, text=text))
            return None
        question = request.query
        if follow_up is not None and not by_model and has_content_words(follow_up.asked, run.language):
            # All sources are about the topic, whose words in the standalone question would outweigh the asked ones.
            question = follow_up.asked
        verification = None
        if self._judge is not None and self._options.judges_supported:
            verification = Verification(self._judge, run.deadline)
        elif self._judge is not None:
            wait_share = None if run.is_streamed else MAX_WAIT_SHARE[request.depth]
            verification = Verification(
                self._judge, run.deadline, doubted_only=True, max_wait_share=wait_share, cancelled=self._late_claims
            )
        writing = WritingRequest(
            question=question,
            sources=found.sources,
            language=run.language,
            max_tokens=self._options.max_tokens,
            writer=self._writer,
            fallback=self._fallback,
            deadline=run.deadline,
            offer_deep=request.depth == "shallow",
            by_model=by_model,
            instructions=request.instructions,
            context=request.context,
            verification=verification,
            excerpts=found.excerpts,
            evidence=rounds.evidence(),
            stop_note=rounds.stop_note(run.language),
            reading=SourcesBeingRead(found.sources, reads, run.store_sources),
        )
        return await write_events(run, writing)
