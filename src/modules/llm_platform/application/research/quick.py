"""Shallow and deep research: search, read the best pages, and write a checked answer from them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from cachetools import TTLCache

from modules.llm_platform.application.research import events
from modules.llm_platform.application.research.budget import Price
from modules.llm_platform.application.research.check.verification import Verification
from modules.llm_platform.application.research.find.files import FilesSearch, OpenedFiles
from modules.llm_platform.application.research.find.found import Found, Writers, announce_sources
from modules.llm_platform.application.research.find.plan import SearchPlanner
from modules.llm_platform.application.research.find.read_pages import (
    DEFAULT_READING,
    PageReads,
    ReadOptions,
    SourcesBeingRead,
)
from modules.llm_platform.application.research.find.round_queries import AskModel, RoundModel, ask_model, cache_model
from modules.llm_platform.application.research.find.rounds import (
    FurtherRounds,
    get_round_limits,
    select_ledger_questions,
)
from modules.llm_platform.application.research.find.search import (
    fuse_results,
    list_raw_results,
    number_sources,
    run_searches,
    search_further,
    wrap_linked_results,
)
from modules.llm_platform.application.research.quick_estimate import QuickLimits, estimate_quick
from modules.llm_platform.application.research.response import build_response, write_nothing_found
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.application.research.structured_output import compute_output_seconds
from modules.llm_platform.application.research.write.draft import Draft
from modules.llm_platform.application.research.write.writing import write_and_check
from modules.llm_platform.domain.dtos.citation_dtos import CitedClaim
from modules.llm_platform.domain.dtos.report_dtos import ReportAmounts, ResearchPlan, RoundAnswer
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.research.follow_up import has_content_words

log = logging.getLogger(__name__)

MAX_FUSED = 200  # results of all rounds together; the sources are chosen from these
MAX_SOURCES = 20  # up to 30 are found; the last ones cost tokens and are seldom cited
RESERVE_SHARE = 0.1  # the share of the time limit that is kept for the fallback, at most RESERVE_MAX_S
RESERVE_MAX_S = 3.0
PLAN_SHARE = 0.3  # the share of the time limit that the model may take to plan
NOT_JUDGED_AGAIN_S = 600.0  # claims of a late call are not judged again for this long, because each call costs
MAX_LATE_CLAIMS = 1000
MAX_WAIT_SHARE = {"shallow": 0.02, "deep": 0.05}  # a whole answer waits this share of its writing time


@dataclass(frozen=True, slots=True)
class ResearchOptions:
    """Settings of shallow and deep runs.

    - `timeout_s` is the time limit of one run, in seconds.
    - `results_per_search` is the number of results of one search.
    - `max_tokens` limits the length of one answer.
    - `plan_ttl_s` is how long a deep plan is cached, in seconds; 0 caches none.
    - `reading` says how many pages are read, and for how long.
    - `judges_supported` is True if the judge also verifies citations that the comparison of words supports.
    - `model_ends_rounds` is True if the further rounds end when the model says that nothing is missing.
    """

    timeout_s: float = 120.0
    results_per_search: int = 10
    max_tokens: int = DEFAULT_MAX_TOKENS
    plan_ttl_s: float = 0.0
    reading: ReadOptions = DEFAULT_READING
    judges_supported: bool = False
    model_ends_rounds: bool = False


def load_nothing() -> None:
    """The default of `begin_loading`, if nothing has to be loaded."""


class QuickResearch:
    """Answers questions from search results and the best of their pages.

    A shallow run makes one search, a deep run up to three at once.

    - `writer` writes the answer. If it fails, `fallback` writes it.
    - `plans` caches the searches of deep runs, and `round_answers` caches the model's queries for further rounds. None
      caches nothing.
    - `models` names the models that plan. It is part of the keys of both caches.
    - `reader` reads pages. Without it, answers cite the excerpts of the search engines.
    - `begin_loading` is called when the first search begins, and loads slow libraries in the background.
    - `support_model` decides what the comparison of words leaves in doubt. It is loaded only if a language model writes.
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
        support_model: ISupportModel | None = None,
    ) -> None:
        self._options = options = options or ResearchOptions()
        self._planner = SearchPlanner(planner, options.timeout_s * PLAN_SHARE, plans, options.plan_ttl_s, models)
        self._round_model: RoundModel | None = None
        if planner is not None:
            ask: AskModel = partial(ask_model, planner)
            if round_answers is not None and options.plan_ttl_s > 0:
                ask = cache_model(ask, round_answers, options.plan_ttl_s, models or planner.name)
            self._round_model = RoundModel(ask, planner.is_free)
        self._begin_loading = begin_loading
        self._support_model = support_model
        self._search = search
        self._reader = reader
        self._writer = writer
        self._fallback = fallback
        self._judge = judge
        self._late_claims: TTLCache[tuple[str, CitedClaim], bool] = TTLCache(MAX_LATE_CLAIMS, NOT_JUDGED_AGAIN_S)

    def with_files(self, files: OpenedFiles, *, beside_sources: bool) -> Self:
        """Return a copy that searches these files. With `beside_sources`, it searches the other sources too."""
        other = copy(self)
        other._search = FilesSearch(files, self._search if beside_sources else None)
        return other

    def end(self, run: Run) -> float:
        """Return the time limit of the run, as event loop time."""
        return run.began + self._options.timeout_s

    def estimate(
        self, request: ResearchRequest, price: Price | None, context_tokens: int, *, searches_nothing: bool
    ) -> ReportAmounts:
        """Return what a run takes at most, besides the pages that it is given."""
        limits = QuickLimits(
            pages=0 if self._reader is None else self._options.reading.pages,
            max_tokens=self._options.max_tokens,
            context_tokens=context_tokens,
            has_model=self._planner.llm is not None,
            has_judge=self._judge is not None,
            price=price,
        )
        return estimate_quick(request, limits, searches_nothing=searches_nothing)

    async def answer(self, run: Run) -> None:
        """Carry out the run, and emit its events up to Done. The service has already emitted Started.

        Raises an AppException only if nothing is left to answer from.
        """
        options = self._options
        timeout_s = options.timeout_s - compute_output_seconds(run.request, options.timeout_s)
        run.deadline = run.began + timeout_s - min(RESERVE_MAX_S, options.timeout_s * RESERVE_SHARE)
        pages, seconds = options.reading.get_page_limit(run), options.reading.calculate_seconds(run, timeout_s)
        async with PageReads(self._reader, run, pages, seconds) as reads:
            found = await self._find(run, reads)
            await announce_sources(run, found)
            draft = await self._write_and_check(run, found)
            sources = draft.sources if draft else found.sources
            found = replace(found, raw=list_raw_results(sources, found.raw))
            spent = found.spent + draft.spent if draft else found.spent
            response = build_response(run, found, draft, spent=spent, reads=reads.end(), fallback=self._fallback.name)
        log.info(
            "research done",
            extra={
                "depth": run.request.depth,
                "sources": len(sources),
                "latency_ms": response.metadata.latency_ms,
            },
        )
        run.emit(events.Done(request_id=run.request_id, response=response))

    async def _find(self, run: Run, reads: PageReads) -> Found:
        """Search and read the best pages, then search again, in rounds, for what is still unanswered."""
        planned = await self._planner.plan(run)
        questions, count = planned.questions, self._options.results_per_search
        limit = (count if run.request.depth == "shallow" else MAX_SOURCES) + len(reads.list_given())
        rounds = FurtherRounds(
            run, get_round_limits(run), run.deadline, self._round_model, llm_may_stop=self._options.model_ends_rounds
        )
        self._begin_loading()
        self._writer.begin_loading()
        if self._support_model is not None and self._planner.llm is not None:  # quotes need no check
            self._support_model.begin_loading()
        results = await run_searches(run, questions, self._search, count, reads)
        numbered, raw = number_sources(fuse_results(results.answers, limit), known=results.earlier)
        sources, excerpts = await reads.read_sources(numbered)
        ledger_questions = select_ledger_questions(run.request.query, questions, run.language)
        await rounds.fill_ledger(ledger_questions, excerpts)
        is_refused = False
        while queries := await rounds.plan_next_queries(questions, is_refused=is_refused):
            further, is_refused = await search_further(run, queries, self._search, count)
            reads.allow(rounds.limits.pages)
            links = rounds.choose_links((read.page for read in reads.get_pages().values()), further.addresses)
            results = results + further + wrap_linked_results(await reads.follow(links, rounds.admits))
            fused = fuse_results(results.answers, MAX_FUSED)
            await rounds.fill_ledger(ledger_questions, number_sources(fused, known=results.earlier)[0])
            numbered, raw = number_sources(rounds.select_best(fused, limit), known=results.earlier)
            sources, excerpts = await reads.read_sources(numbered)
            if reads.get_pages():  # fill the ledger again: pages say more than the excerpts above
                await rounds.fill_ledger(ledger_questions, excerpts)
        run.early_finish.close()
        return Found(
            question=self._question_to_answer(run),
            sources=sources,
            questions=questions,
            results=results,
            raw=raw,
            excerpts=excerpts,
            reading=SourcesBeingRead(sources, reads, run.store_sources),
            ledger=rounds.ledger,
            evidence=rounds.list_evidence(),
            stop_note=rounds.write_stop_note(run.language),
            spent=planned.spent + rounds.spent,
            degraded=(*planned.degraded, *rounds.degraded),
        )

    def _question_to_answer(self, run: Run) -> str:
        """Return the question that the writer answers: for a model, the standalone question.

        Without a model, a follow-up is answered as it was asked, if it has content words. The standalone question adds the
        words of the topic, which all sources have, and so they would outweigh the words of the follow-up itself.
        """
        follow_up, by_model = run.follow_up, self._planner.llm is not None
        if follow_up is not None and not by_model and has_content_words(follow_up.asked, run.language):
            return follow_up.asked
        return run.request.query

    async def _write_and_check(self, run: Run, found: Found) -> Draft | None:
        """Return the checked answer. If nothing was found, emit a text that says so, and return None."""
        if not found.sources:
            text = write_nothing_found(run.request.depth, run.language)
            run.emit(events.Token(request_id=run.request_id, text=text))
            return None
        return await write_and_check(run, found, self._choose_writers(run, found))

    def _choose_writers(self, run: Run, found: Found) -> Writers:
        by_model = self._planner.llm is not None
        verification = None
        if self._judge is not None:
            verification = Verification(self._judge, run.deadline, found.question, run.language, found.sources)
            if not self._options.judges_supported:
                verification = replace(
                    verification,
                    doubted_only=True,
                    max_wait_share=None if run.is_streamed else MAX_WAIT_SHARE[run.request.depth],
                    cancelled=self._late_claims,
                )
        return Writers(
            self._writer, self._fallback, self._options.max_tokens, by_model, verification, self._support_model
        )
