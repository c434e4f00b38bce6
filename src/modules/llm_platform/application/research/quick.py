"""Shallow and deep research: search, read the best pages, and write a checked answer from them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from modules.llm_platform.application.research import events
from modules.llm_platform.application.research.budget import Price
from modules.llm_platform.application.research.check.judge_task import JudgeTask
from modules.llm_platform.application.research.find.files import FilesSearch, OpenedFiles
from modules.llm_platform.application.research.find.found import FoundSources, Writers, announce_sources
from modules.llm_platform.application.research.find.read_pages import PageReads, SourcesBeingRead
from modules.llm_platform.application.research.find.rounds import (
    FurtherRounds,
    get_round_limits,
    select_ledger_questions,
)
from modules.llm_platform.application.research.find.search import (
    SearchResults,
    fuse_results,
    list_raw_results,
    make_results_of_pages,
    number_sources,
    run_searches,
    search_further,
)
from modules.llm_platform.application.research.quick_estimate import estimate_quick
from modules.llm_platform.application.research.quick_tools import QuickTools
from modules.llm_platform.application.research.response import build_response, write_nothing_found
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.application.research.structured_output import compute_output_seconds
from modules.llm_platform.application.research.write.writing import WrittenAnswer, write_and_check
from modules.llm_platform.domain.dtos.report_dtos import ReportAmounts
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import RawResult, Source
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResultItem
from modules.llm_platform.domain.research.follow_up import has_content_words

log = logging.getLogger(__name__)

MAX_FUSED = 200  # results of all rounds together; the sources are chosen from these
MAX_SOURCES = 20  # up to 30 are found; the last ones cost tokens and are seldom cited
RESERVE_SHARE = 0.1  # the share of the time limit that is kept for the fallback, at most RESERVE_MAX_S
RESERVE_MAX_S = 3.0
PLAN_SHARE = 0.3  # the share of the time limit that the model may take to plan
MAX_WAIT_SHARE = {"shallow": 0.02, "deep": 0.05}  # a whole answer waits this share of its writing time


class QuickResearch:
    """Answers questions from search results and the best of their pages, with one set of tools.

    A shallow run makes one search, a deep run up to three at once.
    """

    def __init__(self, tools: QuickTools) -> None:
        self._tools = tools

    def with_files(self, files: OpenedFiles, *, beside_sources: bool) -> QuickResearch:
        """Return a copy that searches these files. With `beside_sources`, it searches the other sources too."""
        search = FilesSearch(files, self._tools.search if beside_sources else None)
        return QuickResearch(replace(self._tools, search=search))

    def compute_deadline(self, run: Run) -> float:
        """Return the deadline of the whole run, in event loop time.

        `Run.deadline` is earlier: it leaves time for the fallback and the output.
        """
        return run.began + self._tools.options.timeout_s

    def estimate(
        self, request: ResearchRequest, price: Price | None, context_tokens: int, *, searches_nothing: bool
    ) -> ReportAmounts:
        """Return the upper bound of a run, excluding the pages that it is given."""
        return estimate_quick(self._tools, request, price, context_tokens, searches_nothing=searches_nothing)

    async def answer(self, run: Run) -> None:
        """Carry out the run, and emit its events up to Done. The service has already emitted Started.

        Raises an AppException only if nothing is left to answer from.
        """
        options = self._tools.options
        timeout_s = options.timeout_s - compute_output_seconds(run.request, options.timeout_s)
        run.deadline = run.began + timeout_s - min(RESERVE_MAX_S, options.timeout_s * RESERVE_SHARE)
        pages, seconds = options.reading.get_page_limit(run.request), options.reading.calculate_seconds(run, timeout_s)
        async with PageReads(self._tools.pages, run, pages, seconds) as reads:
            found = await self._find(run, reads)
            await announce_sources(run, found)
            answer = await self._write_and_check(run, found)
            sources = answer.sources if answer else found.sources
            found = replace(found, raw=list_raw_results(sources, found.raw))
            spent = found.spent + answer.spent if answer else found.spent
            read_counts = reads.end()  # cancels the reads that nothing waits for any more
            response = build_response(
                run, found, answer, spent=spent, reads=read_counts, fallback=self._tools.fallback.name
            )
        log.info(
            "research done",
            extra={
                "depth": run.request.depth,
                "sources": len(sources),
                "latency_ms": response.metadata.latency_ms,
            },
        )
        run.emit(events.Done(request_id=run.request_id, response=response))

    async def _find(self, run: Run, reads: PageReads) -> FoundSources:
        """Search and read the best pages, then search again, in rounds, for what is still unanswered."""
        tools, count = self._tools, self._tools.options.results_per_search
        planned = await tools.planner.plan(run, tools.options.timeout_s * PLAN_SHARE)
        questions = planned.questions
        max_sources = (count if run.request.depth == "shallow" else MAX_SOURCES) + len(reads.list_given())
        rounds = self._make_rounds(run)  # measures from now on how long a round takes, and the first search is one
        tools.begin_loading()
        results = await run_searches(run, questions, tools.search, count, reads)
        sources, raw, excerpts = await _read_sources(reads, fuse_results(results.answers, max_sources), results.earlier)
        ledger_questions = select_ledger_questions(run.request.query, questions, run.language)
        await rounds.fill_ledger(ledger_questions, excerpts)
        is_refused = False
        while queries := await rounds.plan_next_queries(questions, is_refused=is_refused):
            further, is_refused = await self._search_further(run, queries, rounds, reads)
            results += further
            fused = fuse_results(results.answers, MAX_FUSED)
            await rounds.fill_ledger(ledger_questions, number_sources(fused, known=results.earlier)[0])
            sources, raw, excerpts = await _read_sources(reads, rounds.select_best(fused, max_sources), results.earlier)
            if reads.get_pages():  # fill the ledger again: pages say more than the excerpts above
                await rounds.fill_ledger(ledger_questions, excerpts)
        run.early_finish.close()
        return FoundSources(
            question=self._choose_question(run),
            sources=sources,
            questions=questions,
            results=results,
            raw=raw,
            excerpts=excerpts,
            pages_being_read=SourcesBeingRead(sources, reads, run.store_sources),
            ledger=rounds.ledger,
            evidence=rounds.list_evidence(),
            stop_note=rounds.write_stop_note(run.language),
            spent=planned.spent + rounds.spent,
            degraded=(*planned.degraded, *rounds.degraded),
        )

    def _make_rounds(self, run: Run) -> FurtherRounds:
        return FurtherRounds(
            run,
            get_round_limits(run),
            run.deadline,
            self._tools.planner.make_round_model(),
            llm_may_stop=self._tools.options.model_ends_rounds,
        )

    async def _search_further(
        self, run: Run, queries: Sequence[str], rounds: FurtherRounds, reads: PageReads
    ) -> tuple[SearchResults, bool]:
        """Search for the queries of a round, and read pages to which the pages read so far link.

        The second value is True if a provider refused a query.
        """
        tools = self._tools
        found, is_refused = await search_further(run, queries, tools.search, tools.options.results_per_search)
        reads.allow(rounds.limits.pages)
        links = rounds.choose_links((read.page for read in reads.get_pages().values()), found.addresses)
        return found + make_results_of_pages(await reads.follow(links, rounds.admits)), is_refused

    def _choose_question(self, run: Run) -> str:
        """Return the question that the writer answers: for a model, the standalone question.

        Without a model, a follow-up with the topic in front is answered as it was asked, if it has content words. All sources
        have the words of the topic, so they would outweigh the words of the follow-up itself.
        """
        follow_up = run.follow_up
        has_topic = follow_up is not None and follow_up.query.endswith(follow_up.asked)
        if follow_up and has_topic and not self._tools.has_llm and has_content_words(follow_up.asked, run.language):
            return follow_up.asked
        return run.request.query

    async def _write_and_check(self, run: Run, found: FoundSources) -> WrittenAnswer | None:
        """Return the checked answer. If nothing was found, emit a text that says so, and return None."""
        if not found.sources:
            text = write_nothing_found(run.request.depth, run.language)
            run.emit(events.Token(request_id=run.request_id, text=text))
            return None
        return await write_and_check(run, found, self._choose_writers(run, found))

    def _choose_writers(self, run: Run, found: FoundSources) -> Writers:
        tools = self._tools
        return Writers(
            writer=tools.writer,
            fallback=tools.fallback,
            max_tokens=tools.options.max_tokens,
            counts_late_text=tools.has_llm,
            completes_fallback=tools.has_llm,  # without a model, the fallback is the only writer, and sets all markers
            judge_task=self._make_judge_task(run, found),
            support_model=tools.support_model,
        )

    def _make_judge_task(self, run: Run, found: FoundSources) -> JudgeTask | None:
        """Return the task of the judge; None without a judge.

        A judge of the doubted citations alone is optional: a whole answer waits only briefly for it, and its late calls are
        not repeated.
        """
        tools = self._tools
        if tools.judge is None:
            return None
        judge_task = JudgeTask(tools.judge, run.deadline, found.question, run.language, found.sources)
        if tools.options.judges_supported:
            return judge_task
        return replace(
            judge_task,
            skips_supported=True,
            max_wait_share=None if run.is_streamed else MAX_WAIT_SHARE[run.request.depth],
            late_claims=tools.late_claims,
        )


async def _read_sources(
    reads: PageReads, chosen: Sequence[WebSearchResultItem], earlier: Sequence[Source]
) -> tuple[tuple[Source, ...], tuple[RawResult, ...], tuple[Source, ...]]:
    """Number the chosen results, and read their pages. Returns the sources, their raw results and what a writer reads."""
    numbered, raw = number_sources(chosen, known=earlier)
    sources, excerpts = await reads.read_sources(numbered)
    return sources, raw, excerpts
