"""The report pipeline: plan, search, rank, read, summarize, write, verify. Each stage has its own module."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from modules.llm_platform.application.research import events
from modules.llm_platform.application.research.plan import Plan
from modules.llm_platform.application.research.read_pages import ReadCounts
from modules.llm_platform.application.research.report.explore import Exploration, Explorer
from modules.llm_platform.application.research.report.further import (
    Found,
    has_budget,
    search_open_questions,
    stored_model,
)
from modules.llm_platform.application.research.report.rank import BATCH, RANK_VERSION, rank_summaries
from modules.llm_platform.application.research.report.read import PageRequest, ReadPage, ReadScheduler
from modules.llm_platform.application.research.report.run import ReportRun, Shortfall, is_timed_out
from modules.llm_platform.application.research.report.sources import (
    ReportSources,
    from_pages,
    from_results,
    raw_results,
)
from modules.llm_platform.application.research.report.stored_writer import StoredWriter
from modules.llm_platform.application.research.response import ResearchResult, build_response
from modules.llm_platform.application.research.rounds import FurtherRounds, get_round_limits
from modules.llm_platform.application.research.search import SearchResults
from modules.llm_platform.application.research.verification import CachedCitationJudge, Verification
from modules.llm_platform.application.research.writing import UNFINISHED, WritingRequest, WrittenAnswer, write_events
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow, StopReason
from modules.llm_platform.domain.dtos.report_dtos import RankedCandidate, RankedSummaries, Summary
from modules.llm_platform.domain.dtos.research_dtos import ResearchResponse, Source, StoredVerdicts
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.domain.retrieval.ranking import pick_top
from modules.llm_platform.domain.text.messages import messages_for
from modules.llm_platform.domain.urls.canonical_url import canonical_url

FINAL_PAGES = 5  # pages whose full text the writer gets, unless the request names more addresses
SPARE_PAGES = 10  # further results that are read when better ones cannot be read
MIN_ANSWER_TOKENS = 16  # the budget refuses a call for which even this is too expensive
SUMMARY_WAIT_S = 30.0  # wait for summaries that are not finished when the text is
SUMMARIES_LATE = "unfinished: {count} summaries were not ready when the text was; it does not use them"
CUT_SUMMARIES = "page_cut: {count} summaries cover only the beginning of their page"


@dataclass(frozen=True, slots=True)
class FinishedReport:
    """The response and the texts that its quotes point into.

    - `is_complete` is True if the expected writer wrote it and no limit cut it short.
    - `is_storable` is True if it is complete and uses no documents, which may change at any time.
    """

    response: ResearchResponse
    sources: tuple[Source, ...]
    is_complete: bool
    is_storable: bool


async def make_report(run: ReportRun) -> FinishedReport:
    """Run the pipeline. Raises the AppException that left no source to write from."""
    async with ReadScheduler(run) as reader:
        given = [PageRequest(url=url, title=url, question=run.request.query) for url in dict.fromkeys(run.request.urls)]
        for page_request in given:
            reader.start(page_request)
        rounds = FurtherRounds(
            run,
            get_round_limits(run),
            run.budget.phase_end("search"),
            stored_model(run),
            llm_may_stop=run.options.model_ends_rounds,
            has_budget=partial(has_budget, run),
        )
        explorer = Explorer(run)
        explored = await explorer.explore()
        best = pick_top(explored.ranked, len(explored.ranked), explored.questions, first=run.options.pages)
        pages = await reader.collect([*given, *_page_requests(run, best, given)], max(run.options.pages, len(given)))
        page_limit = max(FINAL_PAGES, len(given))
        try:
            async with run.early_finish.limit():
                pages = await _rank_by_summary(run, reader, pages, page_limit)
        except TimeoutError:  # the caller asked for the text
            pages = pages[:page_limit]
        found = await search_open_questions(run, rounds, explorer, reader, Found(explored, best, pages), page_limit)
        run.early_finish.close()
        explored, best, pages = found.explored, found.best, found.pages
        report_sources = from_pages(pages) if pages else from_results(best, run.options.pages)
        if not report_sources.sources and not explored.answers:
            raise reader.failure  # no search, and none of the requested pages could be read
        scores = {read_page.request.url: read_page.request.score for read_page in pages}
        kept = tuple(
            events.RankedResult(url=source.url, title=source.title, score=scores.get(source.url))
            for source in report_sources.sources
        )
        run.emit(events.Ranked(request_id=run.request_id, query=run.request.query, kept=kept))
        run.emit(events.SourcesNumbered.of(run.request_id, report_sources.sources))
        await run.store_sources(report_sources.sources)
        answer = await _write(run, explored, report_sources.sources, rounds.evidence())
        summaries = await _remaining_summaries(run, reader, pages)
    return _finish(run, explored, best, report_sources, answer, summaries, rounds)


def _page_requests(run: ReportRun, best: Sequence[RankedCandidate], given: Sequence[PageRequest]) -> list[PageRequest]:
    """Return the results to read, best first, and spare ones. Addresses of the request are not repeated."""
    requested = {canonical_url(request.url) for request in given}
    room = max(0, run.options.pages - len(given))
    limit = room + SPARE_PAGES if room else 0
    return [
        PageRequest(url=item.url, title=item.title, question=ranked.candidate.question, score=ranked.score.value)
        for ranked in best[:limit]
        if canonical_url((item := ranked.candidate.item).url) not in requested
    ]


async def _rank_by_summary(run: ReportRun, reader: ReadScheduler, pages: list[ReadPage], count: int) -> list[ReadPage]:
    """Return the `count` pages with the best summaries, then pages without a summary. `count` or fewer are not ranked."""
    if len(pages) <= count:
        return pages
    run.budget.expect_calls("rank", -(-len(pages) // BATCH))
    summaries = await reader.summaries(run.budget.phase_end("collect_summaries"))
    summarized = [read_page for read_page in pages if read_page.page.url in summaries]
    texts = [summaries[read_page.page.url] for read_page in summarized]
    key = run.stage_key("rank", RANK_VERSION, query=run.request.query, summaries=[summary.text for summary in texts])
    stored = await run.checkpoints.get("ranked_summaries", key, RankedSummaries)
    if stored is None or len(stored.scores) != len(summarized):
        ranking = await rank_summaries(texts, run.request.query, run.llm("rank", "rank_summaries"))
        urls = tuple(summary.url for summary in texts)
        stored = RankedSummaries(urls=urls, scores=ranking.scores, degraded=ranking.degraded)
        if run.record_stage("rank", ranking.degraded):
            await run.checkpoints.put("ranked_summaries", key, stored)
    else:
        run.add_degraded(*stored.degraded)
    order = sorted(zip(summarized, stored.scores, strict=True), key=lambda pair: -pair[1].value)
    late = [read_page for read_page in pages if read_page.page.url not in summaries]
    return [*(page for page, _ in order), *late][:count]


async def _write(
    run: ReportRun, explored: Exploration, sources: tuple[Source, ...], evidence: tuple[EvidenceRow, ...]
) -> WrittenAnswer | None:
    if not sources:
        run.emit(events.Token(request_id=run.request_id, text=messages_for(run.language).nothing_found))
        return None
    max_tokens = max(MIN_ANSWER_TOKENS, run.budget.max_answer_tokens("write", run.options.max_tokens))
    writer = run.tools.writer(run.llm("write"), run.context_tokens("write", max_tokens))
    key = run.stage_key(
        "write",
        writer.report_version,
        query=run.request.query,
        questions=explored.questions,
        instructions=run.request.instructions,
        context=run.request.context,
        sources=[(source.title, source.url, source.text) for source in sources],
        quotes=[quote.text for row in evidence for quote in row.quotes],
    )
    if run.tools.llms:  # an extractive text costs nothing to make again
        writer = StoredWriter(run, writer, key)
    return await write_events(run, _writing_request(run, explored, sources, writer, max_tokens, evidence))


def _writing_request(
    run: ReportRun,
    explored: Exploration,
    sources: tuple[Source, ...],
    writer: ISynthesizer,
    max_tokens: int,
    evidence: tuple[EvidenceRow, ...],
) -> WritingRequest:
    verification: Verification | None = None
    if run.tools.judge and (judge := run.tools.judge(run.llm("judge"))):
        stored = CachedCitationJudge(judge, _CheckpointedVerdicts(run), math.inf, run.tools.label("judge"))
        verification = Verification(stored, run.budget.phase_end("judge"))
    return WritingRequest(
        question=run.request.query,
        sources=sources,
        language=run.language,
        max_tokens=max_tokens,
        writer=writer,
        fallback=run.tools.fallback,
        deadline=run.budget.phase_end("write"),
        offer_deep=False,
        questions=explored.questions,
        instructions=run.request.instructions,
        context=run.request.context,
        verification=verification,
        evidence=evidence,
    )


class _CheckpointedVerdicts(ICache[StoredVerdicts]):
    """The verdicts in the checkpoints of a run, until the store removes them."""

    def __init__(self, run: ReportRun) -> None:
        self._checkpoints = run.checkpoints

    async def get(self, key: str) -> StoredVerdicts | None:
        return await self._checkpoints.get("answers", key, StoredVerdicts)

    async def set(self, key: str, value: StoredVerdicts, ttl_s: float) -> None:
        await self._checkpoints.put("answers", key, value)


async def _remaining_summaries(run: ReportRun, reader: ReadScheduler, pages: Sequence[ReadPage]) -> list[Summary]:
    """Return the summaries that are finished within SUMMARY_WAIT_S; the others are reported as degraded."""
    soon = asyncio.get_running_loop().time() + SUMMARY_WAIT_S
    summaries = await reader.summaries(min(soon, run.budget.phase_end("write")))
    missing = {read_page.page.url for read_page in pages} - summaries.keys()
    if missing and not run.early_finish.is_due:
        run.add_degraded(Degraded(component="summarize", reason=SUMMARIES_LATE.format(count=len(missing))))
    return list(summaries.values())


def _finish(
    run: ReportRun,
    explored: Exploration,
    best: Sequence[RankedCandidate],
    report_sources: ReportSources,
    answer: WrittenAnswer | None,
    summaries: Sequence[Summary],
    rounds: FurtherRounds,
) -> FinishedReport:
    short = _shortfall(run, explored, answer, rounds.ledger.stopped)
    _record_degraded(run, report_sources, short, summaries)
    if answer and (more := rounds.message(run.language, answer.text) + short.message(run.language)):
        run.emit(events.Token(request_id=run.request_id, text=more))
        answer = replace(answer, text=answer.text + more)
    response = build_response(
        ResearchResult(
            run=run,
            planned=Plan(explored.questions, degraded=tuple(run.degraded)),
            gathered=SearchResults(explored.answers, (), explored.searches),
            sources=report_sources.sources,
            raw=raw_results(best, report_sources),
            written=answer,
            spent=run.budget.spent,
            reads=ReadCounts(**run.reads),
            ledger=rounds.ledger,
        ),
        fallback=run.tools.fallback.name,
    )
    cut_tokens = (
        response.metadata.truncated_tokens
        + report_sources.cut_tokens
        + sum(summary.cut_tokens for summary in summaries)
    )
    report_metadata = {"plan": explored.questions, "topic": run.checkpoints.topic.name, "truncated_tokens": cut_tokens}
    response = response.model_copy(update={"metadata": response.metadata.model_copy(update=report_metadata)})
    complete = False
    if answer is not None and not short.is_caused_by_limits:
        is_by_fallback = bool(run.tools.llms) and answer.synthesis.synthesizer == run.tools.fallback.name
        complete = not is_by_fallback and answer.synthesis.finish_reason not in UNFINISHED
    return FinishedReport(
        response, report_sources.sources, is_complete=complete, is_storable=complete and not report_sources.documents
    )


def _shortfall(
    run: ReportRun, explored: Exploration, answer: WrittenAnswer | None, stopped: StopReason | None
) -> Shortfall:
    """Return what limits and failures left out. Without a model no scores of a model are missing."""
    return Shortfall(
        left_out=run.budget.refused_calls,
        fallback_scores=explored.fallback_scores if run.tools.llms else 0,
        results=len(explored.ranked),
        late=is_timed_out([*run.degraded, *(answer.degraded if answer else ())]),
        fewer_rounds=stopped in ("budget", "asked") or (stopped == "time" and run.request.max_seconds is not None),
    )


def _record_degraded(
    run: ReportRun, report_sources: ReportSources, short: Shortfall, summaries: Sequence[Summary]
) -> None:
    run.add_degraded(*report_sources.degraded, *short.degraded())
    if cut := sum(summary.cut_tokens > 0 for summary in summaries):
        run.add_degraded(Degraded(component="summarize", reason=CUT_SUMMARIES.format(count=cut)))
    if run.checkpoints.failure:
        run.add_degraded(Degraded.of("store", run.checkpoints.failure))
