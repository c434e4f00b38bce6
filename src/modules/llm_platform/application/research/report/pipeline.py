"""From a question to a structured report (requirements MS1 to MS7): this page is the pipeline, each stage has its own file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from modules.llm_platform.application.research.events import Kept, Ranked, Reset, SourcesNumbered, Token
from modules.llm_platform.application.research.plan import Plan
from modules.llm_platform.application.research.report.explore import Explored, Explorer, RankedSoFar
from modules.llm_platform.application.research.report.rank import BATCH, RANK_VERSION, rank_summaries
from modules.llm_platform.application.research.report.read import DOCUMENTS, OpenPage, ReadScheduler, WantedPage
from modules.llm_platform.application.research.report.run import ReportRun, Shortfall, is_late
from modules.llm_platform.application.research.report.sources import (
    ReportSources,
    from_pages,
    from_results,
    raw_results,
)
from modules.llm_platform.application.research.response import ResearchResult, build_response, source_ref
from modules.llm_platform.application.research.search import SearchResults
from modules.llm_platform.application.research.verification import Verification
from modules.llm_platform.application.research.writing import StoredTextWriter, WritingRequest, WrittenAnswer, write
from modules.llm_platform.domain.canonical_url import canonical_url
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT
from modules.llm_platform.domain.dtos.report_dtos import KeptSynthesis, RankedCandidate, RankedSummaries, Summary
from modules.llm_platform.domain.dtos.research_dtos import CitedClaim, JudgedClaims, ResearchResponse, Source
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.domain.ranking import pick_top
from modules.llm_platform.domain.text.messages import messages_for

FINAL_PAGES = 5  # a report is written from the full texts of so many (requirement MS6), or of all that a person gave
STAND_INS = 10  # further results that may be read where the best cannot
EARLY_SHARE = 0.5  # of the results ranked, before the best so far are read (REPORT_READ_EARLY)
MIN_ANSWER_TOKENS = 16  # what the smallest setting allows; a call for which that is too dear is refused by the budget
PATIENCE_S = 30.0  # with summaries, when the text is there and they have no part in it any more
UNFINISHED = "unfinished: {count} summaries were not there when the text was; they have no part in it"
CUT_SUMMARIES = "page_cut: {count} summaries know only the beginning of their page"


@dataclass(frozen=True, slots=True)
class ReportMade:
    """The answer, and the texts that its quotes point into. `whole`: all who should have a part in it had. `lasting`: it is
    whole and worth keeping, since nothing in it can have changed by tomorrow, as a file of one's own may.
    """

    response: ResearchResponse
    sources: tuple[Source, ...]
    whole: bool
    lasting: bool


async def make_report(run: ReportRun) -> ReportMade:
    """Plan, search, rank, read, summarise, write, check. Raises the AppException that left nothing to write from."""
    async with ReadScheduler(run) as desk:
        given = [WantedPage(url=url, title=url, question=run.request.query) for url in dict.fromkeys(run.request.urls)]
        for wanted in given:
            desk.begin(wanted)
        explored = await Explorer(run, _early_reading(run, desk)).explore()
        best = pick_top(explored.ranked, len(explored.ranked), explored.questions, first=run.options.pages)
        pages = await desk.collect([*given, *_wanted(run, best, given)], max(run.options.pages, len(given)))
        pages = await _best_by_summary(run, desk, pages, max(FINAL_PAGES, len(given)))
        material = from_pages(pages) if pages else from_results(best, run.options.pages, DOCUMENTS)
        if not material.sources and not explored.answers:
            raise desk.failure  # nobody searched, and of the pages that were asked for none could be read
        _tell_sources(run, material.sources, pages)
        await run.order.hold(material.sources)
        written = await _write(run, explored, material.sources)
        summaries = await _last_summaries(run, desk, pages)
    return _made(run, explored, best, material, written, summaries)


def _early_reading(run: ReportRun, desk: ReadScheduler) -> RankedSoFar | None:
    """Reads the best so far from the middle of the ranking on, where the operator wants that."""

    def look(ranked: Sequence[RankedCandidate], known: int) -> None:
        if len(ranked) >= known * EARLY_SHARE:
            for wanted in _wanted(run, pick_top(ranked, run.options.pages, ()), ()):
                desk.begin(wanted)

    return look if run.options.read_early else None


def _wanted(run: ReportRun, best: Sequence[RankedCandidate], given: Sequence[WantedPage]) -> list[WantedPage]:
    """The results to read, best first: as many as there shall be pages, and those that may stand in for them."""
    taken = {canonical_url(each.url) for each in given}
    room = max(0, run.options.pages - len(given))
    limit = room + STAND_INS if room else 0
    return [
        WantedPage(url=item.url, title=item.title, question=each.candidate.question, score=each.score.value)
        for each in best[:limit]
        if canonical_url((item := each.candidate.item).url) not in taken
    ]


async def _best_by_summary(run: ReportRun, desk: ReadScheduler, pages: list[OpenPage], count: int) -> list[OpenPage]:
    """The `count` pages whose summaries rank best; so many or fewer need no ranking (requirement MS6)."""
    if len(pages) <= count:
        return pages
    run.budget.expect("rank", -(-len(pages) // BATCH))
    summaries = await desk.summaries(run.budget.until("collect_summaries"))
    there = [each for each in pages if each.page.url in summaries]
    texts = [summaries[each.page.url] for each in there]
    key = run.stage_key("rank", RANK_VERSION, query=run.request.query, summaries=[each.text for each in texts])
    kept = await run.shelf.get("ranked_summaries", key, RankedSummaries)
    if kept is None or len(kept.scores) != len(there):
        made = await rank_summaries(texts, run.request.query, run.llm("rank", "rank_summaries"))
        run.note(*made.degraded)
        kept = RankedSummaries(urls=tuple(each.url for each in texts), scores=made.scores)
        if not made.defaulted:
            await run.shelf.put("ranked_summaries", key, kept)
    order = sorted(zip(there, kept.scores, strict=True), key=lambda pair: -pair[1].value)
    late = [each for each in pages if each.page.url not in summaries]
    return [*(page for page, _ in order), *late][:count]


def _tell_sources(run: ReportRun, sources: Sequence[Source], pages: Sequence[OpenPage]) -> None:
    scores = {each.wanted.url: each.wanted.score for each in pages}
    kept = tuple(Kept(url=each.url, title=each.title, score=scores.get(each.url)) for each in sources)
    run.tell(Ranked(request_id=run.request_id, query=run.request.query, kept=kept))
    run.tell(SourcesNumbered(request_id=run.request_id, sources=tuple(map(source_ref, sources))))


async def _write(run: ReportRun, explored: Explored, sources: tuple[Source, ...]) -> WrittenAnswer | None:
    if not sources:
        run.tell(Token(request_id=run.request_id, text=messages_for(run.language).nothing_found))
        return None
    max_tokens = max(MIN_ANSWER_TOKENS, run.budget.answer_tokens("write", run.options.max_tokens))
    writer = run.tools.writer(run.llm("write"), run.context_tokens("write", max_tokens))
    key = run.stage_key(
        "write", writer.version, query=run.request.query, questions=explored.questions,
        instructions=run.request.instructions, sources=[(each.title, each.url, each.text) for each in sources],
    )  # fmt: skip
    kept = await run.shelf.get("answers", key, KeptSynthesis)
    written = await write(
        _order(run, explored, sources, StoredTextWriter(kept.synthesis) if kept else writer, max_tokens),
        run.order.streamed,
        show=lambda text: run.tell(Token(request_id=run.request_id, text=text)),
        take_back=lambda reason: run.tell(Reset(request_id=run.request_id, reason=reason)),
    )
    if run.tools.llms and not kept and _by_the_right_one(run, written):  # quotes cost nothing: they need no keeping
        synthesis = written.synthesis.model_copy(update={"spent": NOTHING_SPENT, "cached": True})
        await run.shelf.put("answers", key, KeptSynthesis(synthesis=synthesis))
    return written


def _order(
    run: ReportRun, explored: Explored, sources: tuple[Source, ...], writer: ISynthesizer, max_tokens: int
) -> WritingRequest:
    return WritingRequest(
        question=run.request.query,
        sources=sources,
        language=run.language,
        max_tokens=max_tokens,
        writer=writer,
        last_resort=run.tools.last_resort,
        deadline=run.budget.until("write"),
        offer_deep=False,
        questions=explored.questions,
        instructions=run.request.instructions,
        verification=_verification(run),
    )


def _by_the_right_one(run: ReportRun, written: WrittenAnswer) -> bool:
    """Not the last resort's text where a model should have written."""
    return not run.tools.llms or written.synthesis.synthesizer != run.tools.last_resort.name


def _verification(run: ReportRun) -> Verification | None:
    judge = run.tools.judge(run.llm("judge")) if run.tools.judge else None
    return Verification(_KeptJudge(run, judge), run.budget.until("judge")) if judge else None


class _KeptJudge(ICitationJudge):
    """A judge whose verdicts are kept in the store: a text that comes from there is not judged, and paid for, again."""

    def __init__(self, run: ReportRun, judge: ICitationJudge) -> None:
        self.name, self.version = judge.name, judge.version
        self._run, self._judge = run, judge

    async def judge(self, question: str, claims: Sequence[CitedClaim]) -> JudgedClaims:
        shown = [(each.claim, each.quote, each.title) for each in claims]
        key = self._run.stage_key("judge", self.version, query=question, claims=shown)
        kept = await self._run.shelf.get("answers", key, JudgedClaims)
        if kept and len(kept.verdicts) == len(claims):
            return kept
        said = await self._judge.judge(question, claims)
        if any(said.verdicts):
            unpaid = said.model_copy(update={"spent": NOTHING_SPENT, "degraded": ()})
            await self._run.shelf.put("answers", key, unpaid)
        return said


async def _last_summaries(run: ReportRun, desk: ReadScheduler, pages: Sequence[OpenPage]) -> list[Summary]:
    """Those that were made beside the writing. Nobody waits long for one that hangs."""
    soon = asyncio.get_running_loop().time() + PATIENCE_S
    summaries = await desk.summaries(min(soon, run.budget.until("write")))
    if missing := {each.page.url for each in pages} - summaries.keys():
        run.note(Degraded(component="summarize", reason=UNFINISHED.format(count=len(missing))))
    return list(summaries.values())


def _made(
    run: ReportRun,
    explored: Explored,
    best: Sequence[RankedCandidate],
    material: ReportSources,
    written: WrittenAnswer | None,
    summaries: Sequence[Summary],
) -> ReportMade:
    short = _shortfall(run, explored, written)
    _note_all(run, material, short, summaries)
    if written and (more := short.in_words(run.language)):
        run.tell(Token(request_id=run.request_id, text=more))
        written = replace(written, text=written.text + more)
    response = build_response(
        ResearchResult(
            request=run.request,
            request_id=run.request_id,
            language=run.language,
            planned=Plan(explored.questions, degraded=tuple(run.degraded)),
            gathered=SearchResults(explored.answers, (), explored.searches),
            sources=material.sources,
            raw=raw_results(best, material),
            written=written,
            spent=run.budget.spent,
        ),
        last_resort=run.tools.last_resort.name,
        latency_s=asyncio.get_running_loop().time() - run.order.began,
    )
    cut_tokens = response.metadata.truncated_tokens + material.cut_tokens + sum(each.cut_tokens for each in summaries)
    of_a_report = {"plan": explored.questions, "topic": run.shelf.topic.name, "truncated_tokens": cut_tokens}
    response = response.model_copy(update={"metadata": response.metadata.model_copy(update=of_a_report)})
    whole = written is not None and _by_the_right_one(run, written) and not short.is_of_the_limits
    return ReportMade(response, material.sources, whole=whole, lasting=whole and not material.documents)


def _shortfall(run: ReportRun, explored: Explored, written: WrittenAnswer | None) -> Shortfall:
    """What the limits and the model left undone; without a model nobody expects its marks."""
    return Shortfall(
        left_out=run.budget.left_out,
        stood_in=explored.stood_in if run.tools.llms else 0,
        results=len(explored.ranked),
        late=is_late([*run.degraded, *(written.degraded if written else ())]),
    )


def _note_all(run: ReportRun, material: ReportSources, short: Shortfall, summaries: Sequence[Summary]) -> None:
    run.note(*material.degraded, *short.degraded())
    if cut := sum(each.cut_tokens > 0 for each in summaries):
        run.note(Degraded(component="summarize", reason=CUT_SUMMARIES.format(count=cut)))
    if run.shelf.trouble:
        run.note(Degraded.of("store", run.shelf.trouble))
