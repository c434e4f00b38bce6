"""The report pipeline: plan, search, rank, read, summarize, write, verify. Each stage has its own module."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from modules.llm_platform.application.research import events
from modules.llm_platform.application.research.check.judge import CachedCitationJudge
from modules.llm_platform.application.research.check.judge_task import JudgeTask
from modules.llm_platform.application.research.find.found import FoundSources, Writers, announce_sources
from modules.llm_platform.application.research.find.read_pages import ReadCounts
from modules.llm_platform.application.research.find.rounds import FurtherRounds, get_round_limits
from modules.llm_platform.application.research.find.search import SearchResults
from modules.llm_platform.application.research.report.explore import Explorer
from modules.llm_platform.application.research.report.further import (
    Collected,
    OpenQuestionSearch,
    has_budget,
    make_stored_model,
)
from modules.llm_platform.application.research.report.rank import BATCH, RANK_VERSION, rank_summaries
from modules.llm_platform.application.research.report.read import PageRequest, ReadPage, ReadScheduler
from modules.llm_platform.application.research.report.run import ReportRun, Shortfall, is_timed_out
from modules.llm_platform.application.research.report.section_writer import (
    SECTIONS_VERSION,
    SectionWriter,
    list_section_questions,
)
from modules.llm_platform.application.research.report.sources import (
    ReportSources,
    list_raw_results,
    make_sources_from_pages,
    make_sources_from_results,
)
from modules.llm_platform.application.research.report.stored_writer import StoredWriter
from modules.llm_platform.application.research.response import build_response
from modules.llm_platform.application.research.write.writing import UNFINISHED, WrittenAnswer, write_and_check
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import StoredVerdicts
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.report_dtos import FINAL_PAGES, RankedCandidate, RankedSummaries, Score, Summary
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.retrieval.ranking import pick_top
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.urls.canonical_url import canonical_url

SPARE_PAGES = 10  # further results that are read when better ones cannot be read
MIN_ANSWER_TOKENS = 16  # the budget refuses a call for which even this is too expensive
SUMMARY_WAIT_S = 30.0  # wait for summaries that are not finished when the text is
SUMMARIES_LATE = "unfinished: {summaries} not ready when the text was, so the text does not use them"
CUT_SUMMARIES = "page_cut: {summaries} only the beginning of a page"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundReportSources(FoundSources):
    """The sources of a report.

    - `pages` are the pages that were read, and `numbered` the sources with what was cut off.
    - `rounds` has the quotes that disagree and the questions that stayed open.
    - `defaulted` of the `result_count` results have no score from the model.
    """

    pages: Sequence[ReadPage]
    numbered: ReportSources
    rounds: FurtherRounds
    defaulted: int
    result_count: int


async def make_report(run: ReportRun) -> FinishedReport:
    """Find sources, write the report from them and check it. Raises the AppException that left no source to write from."""
    async with ReadScheduler(run) as reader:
        found = await _find(run, reader)
        scores = {page.request.url: page.request.score for page in found.pages}
        await announce_sources(run, found, scores)
        answer = await _write_and_check(run, found)
        summaries = await _summarize_remaining(run, reader, found.pages)
    return _finish(run, found, answer, summaries)


async def _find(run: ReportRun, reader: ReadScheduler) -> FoundReportSources:
    """Search for the sub-questions, read the best pages, then search, in rounds, for what the pages leave open."""
    given = [PageRequest(url=url, title=url, question=run.request.query) for url in dict.fromkeys(run.request.urls)]
    for page_request in given:
        reader.start(page_request)
    rounds = _make_rounds(run)
    explorer = Explorer(run)
    explored = await explorer.explore()
    if run.writes_sections:
        run.budget.expect_calls("write", len(list_section_questions(run.request.query, explored.questions)))
    best = pick_top(explored.ranked, len(explored.ranked), explored.questions, first=run.options.pages)
    page_limit = max(FINAL_PAGES, len(given))
    pages = await _read_best_pages(run, reader, best, given, page_limit)
    search = OpenQuestionSearch(run, rounds, explorer, reader)
    collected = await search.extend(Collected(explored, best, pages), page_limit)
    run.early_finish.close()
    return _make_found(run, reader, rounds, collected)


def _make_rounds(run: ReportRun) -> FurtherRounds:
    return FurtherRounds(
        run,
        get_round_limits(run),
        run.budget.compute_phase_end("search"),
        make_stored_model(run),
        llm_may_stop=run.options.model_ends_rounds,
        has_budget=partial(has_budget, run),
    )


def _make_found(
    run: ReportRun, reader: ReadScheduler, rounds: FurtherRounds, collected: Collected
) -> FoundReportSources:
    """Number the sources: the pages or, if no page could be read, the texts of the search results.

    Raises the error of the last unreadable page if the request only names addresses and none of them could be read.
    """
    explored, best, pages = collected.explored, collected.best, collected.pages
    numbered = make_sources_from_pages(pages, best) if pages else make_sources_from_results(best, run.options.pages)
    if not numbered.sources and not explored.answers:
        raise reader.failure
    return FoundReportSources(
        question=run.request.query,
        sources=numbered.sources,
        questions=explored.questions,
        results=SearchResults(answers=explored.answers, searches=explored.searches),
        raw=list_raw_results(best, numbered),
        ledger=rounds.ledger,
        evidence=rounds.list_evidence(),
        pages=pages,
        numbered=numbered,
        rounds=rounds,
        defaulted=explored.defaulted,
        result_count=len(explored.ranked),
    )


async def _read_best_pages(
    run: ReportRun,
    reader: ReadScheduler,
    best: Sequence[RankedCandidate],
    given: Sequence[PageRequest],
    page_limit: int,
) -> list[ReadPage]:
    """Read the pages of the request and of the best results. Return at most `page_limit`, those with the best summaries first.

    If the caller asks for an early finish, the pages are not ranked by their summaries.
    """
    requests = [*given, *_list_page_requests(run, best, given)]
    pages = await reader.collect(requests, max(run.options.pages, len(given)))
    try:
        async with run.early_finish.limit():
            return await _rank_by_summary(run, reader, pages, page_limit)
    except TimeoutError:
        return pages[:page_limit]


def _list_page_requests(
    run: ReportRun, best: Sequence[RankedCandidate], given: Sequence[PageRequest]
) -> list[PageRequest]:
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
    """Return at most `count` pages, best summary first. Pages without a summary come last.

    If there are at most `count` pages, they keep their order and are not ranked.
    """
    if len(pages) <= count:
        return pages
    run.budget.expect_calls("rank", -(-len(pages) // BATCH))
    summaries = await reader.collect_summaries(run.budget.compute_phase_end("collect_summaries"))
    summarized = [read_page for read_page in pages if read_page.page.url in summaries]
    scores = await _score_summaries(run, [summaries[read_page.page.url] for read_page in summarized])
    order = sorted(zip(summarized, scores, strict=True), key=lambda pair: -pair[1].value)
    late = [read_page for read_page in pages if read_page.page.url not in summaries]
    return [*(page for page, _ in order), *late][:count]


async def _score_summaries(run: ReportRun, summaries: Sequence[Summary]) -> tuple[Score, ...]:
    """Return the score of each summary, from the checkpoints if an earlier attempt ranked the same texts."""
    key = run.make_stage_key(
        "rank", RANK_VERSION, query=run.request.query, summaries=[summary.text for summary in summaries]
    )
    stored = await run.checkpoints.get("ranked_summaries", key, RankedSummaries)
    if stored is not None and len(stored.scores) == len(summaries):
        run.add_degraded(*stored.degraded)
        return stored.scores
    ranking = await rank_summaries(summaries, run.request.query, run.get_llm("rank", "rank_summaries"))
    if run.record_stage("rank", ranking.degraded):
        urls = tuple(summary.url for summary in summaries)
        value = RankedSummaries(urls=urls, scores=ranking.scores, degraded=ranking.degraded)
        await run.checkpoints.put("ranked_summaries", key, value)
    return ranking.scores


async def _write_and_check(run: ReportRun, found: FoundReportSources) -> WrittenAnswer | None:
    """Return the checked report. If nothing was found, emit a text that says so, and return None."""
    if not found.sources:
        run.emit(events.Token(request_id=run.request_id, text=get_messages(run.language).nothing_found))
        return None
    run.deadline = run.budget.compute_phase_end("write")
    return await write_and_check(run, found, _choose_writers(run, found))


def _choose_writers(run: ReportRun, found: FoundReportSources) -> Writers:
    """Return the writer of the report, its fallback, and what verifies the citations."""
    max_tokens = max(MIN_ANSWER_TOKENS, run.budget.limit_answer_tokens("write", run.options.max_tokens))
    questions = list_section_questions(run.request.query, found.questions)
    calls = len(questions) if run.writes_sections else 1
    writer = run.tools.writer(run.get_llm("write"), run.compute_context_tokens("write", max_tokens, calls))
    if run.writes_sections and writer.writes_sections:
        version = f"{writer.version}/{SECTIONS_VERSION}"
        writer = SectionWriter(run, writer, lambda question: _make_text_key(run, found, version, question))
    elif run.tools.llms:  # an extractive text costs nothing to make again
        key = _make_text_key(run, found, writer.report_version, run.request.query, found.questions)
        writer = StoredWriter(run, writer, key)
    return Writers(
        writer=writer,
        fallback=run.tools.fallback,
        max_tokens=max_tokens,
        judge_task=_make_judge_task(run, found),
        support_model=run.tools.support_model,
    )


def _make_text_key(
    run: ReportRun, found: FoundReportSources, version: str, question: str, sub_questions: Sequence[str] = ()
) -> str:
    """Return the key of a text that answers these questions. It has everything that the prompt of the writer shows."""
    return run.make_stage_key(
        "write",
        version,
        query=question,
        questions=sub_questions,
        instructions=run.request.instructions,
        context=run.request.context,
        sources=[(source.title, source.url, source.published, source.text) for source in found.sources],
        quotes=[quote.text for row in found.evidence for quote in row.quotes],
    )


def _make_judge_task(run: ReportRun, found: FoundReportSources) -> JudgeTask | None:
    """Return the task of a judge that stores its verdicts in the checkpoints; None without a judge."""
    judge = run.tools.judge(run.get_llm("judge")) if run.tools.judge else None
    if judge is None:
        return None
    stored = CachedCitationJudge(judge, _CheckpointedVerdicts(run), math.inf, run.tools.get_label("judge"))
    return JudgeTask(stored, run.budget.compute_phase_end("judge"), found.question, run.language, found.sources)


class _CheckpointedVerdicts(ICache[StoredVerdicts]):
    """Caches verdicts in the checkpoints of a run. `ttl_s` is ignored: the store decides how long it keeps an entry."""

    def __init__(self, run: ReportRun) -> None:
        self._checkpoints = run.checkpoints

    async def get(self, key: str) -> StoredVerdicts | None:
        return await self._checkpoints.get("answers", key, StoredVerdicts)

    async def set(self, key: str, value: StoredVerdicts, ttl_s: float) -> None:
        await self._checkpoints.put("answers", key, value)


async def _summarize_remaining(run: ReportRun, reader: ReadScheduler, pages: Sequence[ReadPage]) -> list[Summary]:
    """Return the summaries that are ready within SUMMARY_WAIT_S. Summaries that are missing then are reported as degraded."""
    soon = asyncio.get_running_loop().time() + SUMMARY_WAIT_S
    summaries = await reader.collect_summaries(min(soon, run.budget.compute_phase_end("write")))
    missing = {read_page.page.url for read_page in pages} - summaries.keys()
    if missing and not run.early_finish.is_due:
        run.add_degraded(
            Degraded(
                component="summarize",
                reason=SUMMARIES_LATE.format(summaries=format_count(len(missing), "summary was", "summaries were")),
            )
        )
    return list(summaries.values())


def _finish(
    run: ReportRun, found: FoundReportSources, answer: WrittenAnswer | None, summaries: Sequence[Summary]
) -> FinishedReport:
    """Return the finished report. Paragraphs below its text say what it lacks."""
    shortfall = _find_shortfall(run, found, answer)
    _report_shortfall(run, found, shortfall, summaries)
    if answer:
        message = found.rounds.write_message(run.language, answer.text) + shortfall.write_message(run.language)
        answer = _add_message(run, answer, message)
    response = build_response(
        run,
        replace(found, degraded=tuple(run.degraded)),
        answer,
        spent=run.budget.spent,
        reads=ReadCounts(**run.reads),
        fallback=run.tools.fallback.name,
    )
    cut_tokens = (
        response.metadata.truncated_tokens
        + found.numbered.cut_tokens
        + sum(summary.cut_tokens for summary in summaries)
    )
    report_metadata = {"plan": found.questions, "topic": run.checkpoints.topic.name, "truncated_tokens": cut_tokens}
    response = response.model_copy(update={"metadata": response.metadata.model_copy(update=report_metadata)})
    is_complete = not shortfall.is_caused_by_limits and _is_text_complete(run, answer)
    return FinishedReport(
        response, found.sources, is_complete=is_complete, is_storable=is_complete and not found.numbered.documents
    )


def _add_message(run: ReportRun, answer: WrittenAnswer, message: str) -> WrittenAnswer:
    if message:
        run.emit(events.Token(request_id=run.request_id, text=message))
    return replace(answer, text=answer.text + message)


def _report_shortfall(
    run: ReportRun, found: FoundReportSources, shortfall: Shortfall, summaries: Sequence[Summary]
) -> None:
    """Add what the report lacks to the degradations of the run."""
    run.add_degraded(*found.numbered.degraded, *shortfall.list_degraded())
    if cut := sum(summary.cut_tokens > 0 for summary in summaries):
        run.add_degraded(
            Degraded(
                component="summarize",
                reason=CUT_SUMMARIES.format(summaries=format_count(cut, "summary covers", "summaries cover")),
            )
        )
    if run.checkpoints.failure:
        run.add_degraded(Degraded.of("store", run.checkpoints.failure))


def _is_text_complete(run: ReportRun, answer: WrittenAnswer | None) -> bool:
    """Return whether the expected writer wrote the text, and wrote it to its end."""
    if answer is None:
        return False
    is_by_fallback = bool(run.tools.llms) and answer.synthesis.synthesizer == run.tools.fallback.name
    return not (is_by_fallback or run.quoted_sections) and answer.synthesis.finish_reason not in UNFINISHED


def _find_shortfall(run: ReportRun, found: FoundReportSources, answer: WrittenAnswer | None) -> Shortfall:
    """Return what limits and failures left out. Scores by keywords are a shortfall only if a model should give them."""
    stopped = found.ledger.stopped
    return Shortfall(
        refused_calls=run.budget.refused_calls,
        defaulted=found.defaulted if "rank" in run.tools.llms else 0,
        results=found.result_count,
        late=is_timed_out([*run.degraded, *(answer.degraded if answer else ())]),
        fewer_rounds=stopped in ("budget", "asked") or (stopped == "time" and run.request.max_seconds is not None),
    )
