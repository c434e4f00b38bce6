"""Make the further rounds of a report: search for what the pages left unanswered, and read the pages that may answer it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from modules.llm_platform.application.research.find.round_queries import (
    MAX_ANSWER_TOKENS,
    MAX_PROMPT_TOKENS,
    ROUND_QUERIES_VERSION,
    RoundModel,
    ask_model,
)
from modules.llm_platform.application.research.find.rounds import (
    FIRST_ROUND_RESULTS_KEPT,
    MAX_ROWS,
    FurtherRounds,
    select_ledger_questions,
)
from modules.llm_platform.application.research.report.explore import Exploration, Explorer
from modules.llm_platform.application.research.report.read import PageRequest, ReadPage, ReadScheduler
from modules.llm_platform.application.research.report.run import ReportRun
from modules.llm_platform.application.research.report.sources import MAX_SOURCE_CHARS
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, LLMRequest
from modules.llm_platform.domain.dtos.report_dtos import RankedCandidate, RoundAnswer
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.research.source_date import choose_source_date
from modules.llm_platform.domain.retrieval.ranking import pick_top
from modules.llm_platform.domain.urls.canonical_url import canonical_url


@dataclass(frozen=True, slots=True)
class Collected:
    """What a report has collected: all results, the best of them in order, and the pages that were read."""

    explored: Exploration
    best: Sequence[RankedCandidate]
    pages: Sequence[ReadPage]


def make_stored_model(run: ReportRun) -> RoundModel | None:
    """Return the model of the rounds, which answers a repeated request from the checkpoints; None without a model."""
    llm = run.get_llm("queries", "search")
    if llm is None:
        return None

    async def ask(request: LLMRequest) -> RoundAnswer:
        prompt = [message.content for message in request.messages]
        key = run.make_stage_key("queries", ROUND_QUERIES_VERSION, prompt=prompt, max_tokens=request.max_tokens)
        if stored := await run.checkpoints.get("search_queries", key, RoundAnswer):
            run.add_degraded(*stored.degraded)
            return stored
        made = await ask_model(llm, request)
        if run.record_stage("queries", made.degraded):
            await run.checkpoints.put("search_queries", key, made.model_copy(update={"spent": NOTHING_SPENT}))
        return made

    return RoundModel(ask, llm.is_free)


def has_budget(run: ReportRun) -> bool:
    """Return whether the limits of the request allow a call for a round in addition to the calls of the later stages."""
    return not run.tools.llms or run.budget.can_afford("queries", MAX_PROMPT_TOKENS, MAX_ANSWER_TOKENS)


class OpenQuestionSearch:
    """Makes the further rounds of a report, with the explorer and the reader of its first round."""

    def __init__(self, run: ReportRun, rounds: FurtherRounds, explorer: Explorer, reader: ReadScheduler) -> None:
        self._run, self._rounds, self._explorer, self._reader = run, rounds, explorer, reader

    async def extend(self, collected: Collected, page_limit: int) -> Collected:
        """Return everything collected, with at most `page_limit` pages, those with quotes first."""
        run, rounds = self._run, self._rounds
        if not self._explorer.has_searches or not rounds.limits.rounds:
            return collected
        query = run.request.query
        # If the request has a plan, its questions get the rows. The topic above them seldom has an answer of its own.
        asked = run.request.plan or select_ledger_questions(query, collected.explored.questions, run.language)
        ledger_questions = asked[:MAX_ROWS]
        await rounds.fill_ledger(ledger_questions, _list_texts(collected))
        is_refused = False
        while queries := await rounds.plan_next_queries((), is_refused=is_refused):
            explored, is_refused = await self._explorer.search_further(query, queries)
            best = pick_top(explored.ranked, len(explored.ranked), explored.questions, first=run.options.pages)
            collected = Collected(explored, best, collected.pages)
            await rounds.fill_ledger(ledger_questions, _list_texts(collected))
            if pages := await self._read_quoted(collected):
                collected = replace(collected, pages=[*collected.pages, *pages])
                await rounds.fill_ledger(ledger_questions, _list_texts(collected))
        return replace(collected, pages=_put_quoted_first(rounds, collected.pages)[:page_limit])

    async def _read_quoted(self, collected: Collected) -> list[ReadPage]:
        """Read linked pages and search results that may answer open rows, at most as many as a round may read."""
        limit = min(self._rounds.limits.pages, self._run.options.pages)
        if not limit:
            return []
        digests = {page.page.sha256 for page in collected.pages}
        results = {canonical_url(ranked.candidate.item.url): ranked for ranked in collected.best}
        links = self._rounds.choose_links((page.page for page in collected.pages), results)
        linked = [PageRequest(link.url, link.text, self._run.request.query) for link in links]
        requests = [*linked, *self._list_quoted_results(collected, results)[:limit]]
        pages = await self._reader.collect(requests, limit) if requests else []
        return [
            page
            for page in pages
            if page.page.sha256 not in digests and (page.request not in linked or self._rounds.admits(page.page))
        ]

    def _list_quoted_results(self, collected: Collected, results: Mapping[str, RankedCandidate]) -> list[PageRequest]:
        """Return the results that rows of the ledger quote and whose pages have not been read. `results` has their addresses."""
        known = {canonical_url(page.request.url) for page in collected.pages}
        quoted = map(canonical_url, self._rounds.list_quoted_addresses())
        unread = [results[address] for address in quoted if address in results and address not in known]
        return [
            PageRequest(item.url, item.title, ranked.candidate.question, ranked.score.value)
            for ranked in unread
            for item in (ranked.candidate.item,)
        ]


def _put_quoted_first(rounds: FurtherRounds, pages: Sequence[ReadPage]) -> list[ReadPage]:
    """Return the pages with quotes in the order of the quotes, then the others.

    Among the others, the best pages of the first round (FIRST_ROUND_RESULTS_KEPT) come first.
    """
    quoted = [canonical_url(url) for url in rounds.list_quoted_addresses()]
    best = pages[:FIRST_ROUND_RESULTS_KEPT]

    def order(page: ReadPage) -> tuple[int, int]:
        address = canonical_url(page.request.url)
        if address in quoted:
            return 0, quoted.index(address)
        return (1 if page in best else 2), 0

    return sorted(pages, key=order) if rounds.ledger.rounds else list(pages)


def _list_texts(collected: Collected) -> list[Source]:
    """Return the pages as sources, followed by the results that were not read, with the texts of the search engine."""
    items = {canonical_url(ranked.candidate.item.url): ranked.candidate.item for ranked in collected.best}
    texts: list[tuple[str, str, str, str | None]] = []
    for page in collected.pages:
        item = items.pop(canonical_url(page.request.url), None)
        published = choose_source_date(page.page.published, item.published_date if item else None)
        texts.append(
            (page.request.url, page.page.title or page.request.title, page.page.text[:MAX_SOURCE_CHARS], published)
        )
    texts += [(item.url, item.title, item.text, item.published_date) for item in items.values()]
    return [
        Source(index=number, url=url, title=title, text=text, published=published)
        for number, (url, title, text, published) in enumerate(texts, 1)
    ]
