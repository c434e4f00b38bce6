"""Search stage: search for the questions of a plan concurrently, and number the results as sources."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import ceil
from typing import Any

from modules.llm_platform.application.research.events import FoundResult, Planned, Searched
from modules.llm_platform.application.research.find.read_pages import PageReads
from modules.llm_platform.application.research.run import FollowUp, Run
from modules.llm_platform.domain.concurrency.deadline import Deadline, set_deadline
from modules.llm_platform.domain.concurrency.early_finish import EarlyFinish
from modules.llm_platform.domain.concurrency.long_work import run_in_thread_if_long
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import RawResult, Source, TextKind
from modules.llm_platform.domain.exceptions import ResearchTimeoutError, WebSearchBlockedError
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.selection import select_quotes
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.ports.web_search import MAX_CONCURRENT_SEARCHES, IWebSearchProvider
from modules.llm_platform.domain.research.question_selector import MAX_QUESTIONS, select_questions
from modules.llm_platform.domain.retrieval.ranking import score_by_keywords
from modules.llm_platform.domain.search.request_count import RequestCount
from modules.llm_platform.domain.urls.canonical_url import canonical_url, is_openable, is_web_url
from shared.exceptions import AppException

PROVIDER_SEPARATOR = "+"  # joins the names of the providers of one answer
RECENT = "month"  # the `time_range` that is tried first if a question asks for the latest
RRF_K = 60  # the constant of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009)
MAX_TITLE_CHARS = 300
MAX_RESULT_CHARS = 20_000  # a snippet or summary
MAX_REUSED = 5  # sources of the earlier run that a follow-up question may use
MIN_REUSED_SCORE = 3.0  # a keyword score, 0 to 10
CONCURRENT_FURTHER = 2  # small, because one provider answers all queries of a further round
LATE = "timeout: no answer before the deadline of the research run"

_WANTS_LATEST = re.compile(
    r"\b(?:latest|newest|recent(?:ly)?|current(?:ly)?|up[- ]to[- ]date|breaking"
    r"|neueste\w*|aktuell\w*|jüngste\w*|derni[eè]re?s?|r[eé]cent\w*|actualit\w*|[uú]ltim[oa]s?|reciente\w*|recenti?|atuais?"
    r"|последн\w*|свеж\w*|новейш\w*|останн\w*|najnowsz\w*)\b|最新|最近|近期",
    re.I,
)
_NAMES_TIME = re.compile(
    r"\b(?:19|20)\d\d\b|\b(?:today|yesterday|week|month|year|century|heute|gestern|woche|monat|jahr|semaine|mois|ann[eé]e|semana|mes|a[nñ]o"
    r"|недел\w*|месяц\w*|год\w*|вчера|сегодня)\b|[年月週周]",
    re.I,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResults:
    """The results of all searches.

    - `answers` are in the order of their questions.
    - `degraded` reports the searches that failed.
    - `searches` counts the requests to providers.
    - `earlier` are the reused sources of an earlier run. If there are any, one of the answers wraps them.
    """

    answers: tuple[dtos.WebSearchResponse, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    searches: int = 0
    earlier: tuple[Source, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(item.url for answer in self.answers for item in answer.results)

    def __add__(self, other: SearchResults) -> SearchResults:
        return SearchResults(
            answers=self.answers + other.answers,
            degraded=self.degraded + other.degraded,
            searches=self.searches + other.searches,
            earlier=self.earlier + other.earlier,
        )


NOTHING_SEARCHED = SearchResults()


def list_providers(answer: dtos.WebSearchResponse) -> tuple[str, ...]:
    """Return the names of the providers of an answer. There are two if documents and the web were searched together."""
    return tuple(name for name in answer.provider.split(PROVIDER_SEPARATOR) if name)


def wants_latest(question: str) -> bool:
    """Return whether the question asks for the latest information and names no time."""
    return bool(_WANTS_LATEST.search(question)) and not _NAMES_TIME.search(question)


async def run_searches(
    run: Run, questions: Sequence[str], provider: IWebSearchProvider, count: int, reads: PageReads
) -> SearchResults:
    """Search for all questions, `count` results each, and begin to read the first pages found.

    - A run with given pages also searches, unless these pages are its only sources.
    - A follow-up question reuses matching sources of the earlier run. If they answer a shallow question, nothing is searched.

    A failed search fails the run only if it has neither given pages nor reused sources.
    """
    search = partial(_search_and_replace, run, questions, provider, count, reads)
    if run.given is not None:
        given = make_results_of_pages(reads.list_given())
        if run.given.replaces_search:
            return given
        return given + await (_report_failure(search(), len(questions)) if given.answers else search())
    follow_up = run.follow_up
    earlier = select_reusable_sources(follow_up, run.language) if follow_up else ()
    if follow_up is None or not earlier:
        return await search()
    reused = SearchResults(answers=(make_response_of_sources(earlier),), earlier=earlier)
    if run.request.depth == "shallow" and await is_answered(follow_up, earlier, run.language):
        return reused
    return await _report_failure(search(), len(questions)) + reused


async def _report_failure(found: Awaitable[SearchResults], searches: int) -> SearchResults:
    """Return what was found, or no results with the error in `degraded`."""
    try:
        return await found
    except AppException as error:
        return SearchResults(degraded=(Degraded.of("search", error),), searches=searches)


async def _search_and_replace(
    run: Run, questions: Sequence[str], provider: IWebSearchProvider, count: int, reads: PageReads
) -> SearchResults:
    """Search for the questions. In a deep run, suggestions of the engines replace questions without results."""
    found = await _search_all(run, questions, provider, count, reads)
    empty = sum(not answer.results for answer in found.answers)
    if run.request.depth == "shallow" or not empty:
        return found
    suggested = (suggestion for answer in found.answers for suggestion in answer.suggestions)
    limit = min(empty, MAX_QUESTIONS)
    replacements = select_questions(suggested, run.language, taken=questions, limit=limit, written=run.asked)
    if not replacements:
        return found
    run.emit(Planned(request_id=run.request_id, questions=(*questions, *replacements)))
    try:
        return found + await _search_all(run, replacements, provider, count, reads)
    except AppException as error:
        return found + SearchResults(degraded=(Degraded.of("search/suggested", error),), searches=len(replacements))


async def search_further(
    run: Run, queries: Sequence[str], provider: IWebSearchProvider, count: int
) -> tuple[SearchResults, bool]:
    """Search for the queries of a further round; the second value is True if a provider refused one.

    A failure does not fail the run. After a refusal, the remaining queries are left out.
    """
    found = NOTHING_SEARCHED
    for start in range(0, len(queries), CONCURRENT_FURTHER):
        asked = queries[start : start + CONCURRENT_FURTHER]
        try:
            found += await _search_all(run, asked, provider, count, None)
        except WebSearchBlockedError as error:
            return found + SearchResults(degraded=(Degraded.of("search/further", error),), searches=len(asked)), True
        except AppException as error:
            found += SearchResults(degraded=(Degraded.of("search/further", error),), searches=len(asked))
    return found, False


def pass_named_sources(request: ResearchRequest, kinds: Sequence[dtos.SourceKind]) -> Mapping[str, Any]:
    """Return the field `sources` of a search, or no field if the request names no sources.

    A platform without a web search reports only the sources that a request names.
    """
    return {"sources": kinds} if "sources" in request.model_fields_set else {}


async def _search_all(
    run: Run, questions: Sequence[str], provider: IWebSearchProvider, count: int, reads: PageReads | None
) -> SearchResults:
    research = run.request
    requests = [
        dtos.WebSearchRequest(
            query=question,
            count=count,
            language=run.detected,
            time_range=research.time_range,
            freshness=research.freshness,
            domains=research.domains,
            **pass_named_sources(research, research.sources),
        )
        for question in questions
    ]

    def on_answer(request: dtos.WebSearchRequest, answer: dtos.WebSearchResponse) -> None:
        run.emit(
            Searched(
                request_id=run.request_id,
                query=request.query,
                provider=answer.provider,
                count=len(answer.results),
                cached=answer.cached,
                results=tuple(map(FoundResult.of, answer.results)),
            )
        )
        if reads is not None:
            urls = (item.url for item in answer.results if item.source != dtos.DOCUMENTS)
            reads.start(urls, ceil(reads.limit / len(questions)))
        if answer.results:
            run.early_finish.found()

    return await search_questions(requests, provider, run.deadline, on_answer, run.early_finish)


async def search_questions(
    requests: Sequence[dtos.WebSearchRequest],
    search: IWebSearchProvider,
    deadline: float,
    on_answer: Callable[[dtos.WebSearchRequest, dtos.WebSearchResponse], None],
    early_finish: EarlyFinish,
) -> SearchResults:
    """Search concurrently until `deadline` (event loop time) or an early finish.

    `on_answer` is called with each answer when it arrives. Failed searches are in `degraded` of the result. If all fail, the
    last error is raised; ResearchTimeoutError if none ended in time.
    """
    slots = asyncio.Semaphore(MAX_CONCURRENT_SEARCHES)
    count = RequestCount()

    async def search_one(request: dtos.WebSearchRequest) -> dtos.WebSearchResponse:
        set_deadline(Deadline(deadline))
        async with slots:
            answer = await search_latest_first(request, search, count)
        on_answer(request, answer)
        return answer

    tasks = [asyncio.create_task(search_one(request)) for request in requests]
    try:
        await early_finish.wait(tasks, deadline)
    finally:
        await cancel_and_wait(*tasks)
    return _collect(requests, tasks, count, is_ended_early=early_finish.is_due)


@stage("search")
async def search_latest_first(
    request: dtos.WebSearchRequest, search: IWebSearchProvider, count: RequestCount
) -> dtos.WebSearchResponse:
    """Return the answer, and count the requests it took. A query for the latest searches the last month first."""
    has_own_range = request.time_range or request.freshness
    if not has_own_range and request.sources != (dtos.DOCUMENTS,) and wants_latest(request.query):
        recent = await count.search(search, request.with_(time_range=RECENT))
        if recent.results:
            return recent
    return await count.search(search, request)


def _collect(
    requests: Sequence[dtos.WebSearchRequest],
    tasks: Sequence[asyncio.Task[dtos.WebSearchResponse]],
    count: RequestCount,
    *,
    is_ended_early: bool,
) -> SearchResults:
    answers: list[dtos.WebSearchResponse] = []
    degraded: list[Degraded] = []
    last: AppException = ResearchTimeoutError()
    for number, task in enumerate(tasks, 1):
        name = "search" if len(requests) == 1 else f"search/{number}"
        if task.cancelled():
            if not is_ended_early:  # a caller who asked for an early end expects unfinished searches
                degraded.append(Degraded(component=name, reason=LATE))
        elif isinstance(error := task.exception(), AppException):
            degraded.append(Degraded.of(name, error))
            last = error
        else:
            answers.append(answer := task.result())
            degraded.extend(answer.degraded)
    if not answers:
        raise last
    return SearchResults(answers=tuple(answers), degraded=tuple(dict.fromkeys(degraded)), searches=count.requests)


def select_reusable_sources(follow_up: FollowUp, language: str) -> tuple[Source, ...]:
    """Return the earlier sources of the web that match the question, best first, each cut at MAX_RESULT_CHARS.

    Documents are searched again, which costs nothing and finds their other passages and newer documents.
    """
    web = [source for source in follow_up.sources if source.text_kind != "document"]
    short = [source.model_copy(update={"text": source.text[:MAX_RESULT_CHARS]}) for source in web]
    query = follow_up.query
    scores = {source.index: score_by_keywords(query, query, source.title, source.text, language) for source in short}
    matching = [source for source in short if scores[source.index] >= MIN_REUSED_SCORE]
    return tuple(sorted(matching, key=lambda source: -scores[source.index])[:MAX_REUSED])


async def is_answered(follow_up: FollowUp, sources: Sequence[Source], language: str) -> bool:
    """Return whether sentences of the sources answer the question. A question about the latest is never answered.

    They must answer the question both as asked and as understood. The question as understood is not enough: it repeats the
    topic, which the earlier sources are about anyway.
    """
    if not sources or wants_latest(follow_up.asked) or wants_latest(follow_up.query):
        return False
    questions = [read_question(text, language) for text in dict.fromkeys((follow_up.asked, follow_up.query))]

    def has_quotes() -> bool:
        return all(select_quotes(question, sources) for question in questions)

    return await run_in_thread_if_long(sum(len(source.text) for source in sources), has_quotes)


def make_response_of_sources(sources: Sequence[Source]) -> dtos.WebSearchResponse:
    """Return the sources of an earlier run as the answer of a search."""
    items = tuple(
        dtos.WebSearchResultItem(
            title=source.title, url=source.url, snippet=source.text, published_date=source.published
        )
        for source in sources
    )
    return dtos.WebSearchResponse(query="", results=items)


def make_results_of_pages(items: Sequence[dtos.WebSearchResultItem]) -> SearchResults:
    """Return pages that no search found, linked or given ones, as search results. They count no request."""
    if not items:
        return NOTHING_SEARCHED
    return SearchResults(answers=(dtos.WebSearchResponse(query="", results=tuple(items)),))


def fuse_results(answers: Sequence[dtos.WebSearchResponse], limit: int) -> list[dtos.WebSearchResultItem]:
    """Return the best `limit` results by reciprocal rank fusion. Results with the same canonical URL count as one, with the
    longest of their texts.
    """
    scores: dict[str, float] = {}
    best: dict[str, dtos.WebSearchResultItem] = {}
    for answer in answers:
        for rank, item in enumerate(answer.results, 1):
            key = canonical_url(item.url)
            scores[key] = scores.get(key, 0.0) + 1.0 / (RRF_K + rank)
            known = best.get(key)
            if known is None or len(item.text) > len(known.text):
                best[key] = item
    order = sorted(best, key=lambda key: -scores[key])  # the sort is stable: equal scores keep the order of the results
    return [best[key] for key in order[:limit]]


def fuse_answers(request: dtos.WebSearchRequest, answers: Sequence[dtos.WebSearchResponse]) -> dtos.WebSearchResponse:
    """Join the answers of several providers to one request. At equal ranks, the first provider leads."""
    first = answers[0]
    # A name may come twice, because the web may fail over to documents.
    names = dict.fromkeys(name for answer in answers for name in list_providers(answer))
    return dtos.WebSearchResponse(
        query=request.query,
        results=tuple(fuse_results(answers, request.count)),
        provider=PROVIDER_SEPARATOR.join(names),
        degraded=tuple(entry for answer in answers for entry in answer.degraded),
        correction=next(filter(None, (answer.correction for answer in answers)), None),
        suggestions=next(filter(None, (answer.suggestions for answer in answers)), ()),
        cached=all(answer.cached for answer in answers),
        raw=first.raw if len(answers) == 1 else None,
    )


def number_sources(
    items: Sequence[dtos.WebSearchResultItem], known: Sequence[Source] = ()
) -> tuple[tuple[Source, ...], tuple[RawResult, ...]]:
    """Return the sources, numbered from 1, and their raw results: `raw_results[n - 1].content` is the text of source n.

    `known` are sources of an earlier run. An item that is one of them keeps the kind of its text: a page that was read then is
    still a page.
    """
    raw = tuple(RawResult.of(item) for item in items)
    known_sources = {(source.url, source.text): source for source in known}
    return tuple(
        _make_source(index, item, known_sources.get((item.url, item.content))) for index, item in enumerate(raw, 1)
    ), raw


def _make_source(index: int, item: RawResult, known: Source | None) -> Source:
    is_snippet = is_web_url(item.url) and item.source != dtos.DOCUMENTS
    text_kind: TextKind = "snippet" if is_snippet else "document"
    return Source(
        index=index,
        title=item.title,
        url=item.url,
        text=item.content,
        published=item.published,
        text_kind=known.text_kind if known else text_kind,
        extraction=known.extraction if known else None,
        pages=known.pages if known else item.pages,
        is_whole=item.is_whole,
        excerpt=item.excerpt,
        read_at=known.read_at if known else None,
        media_type=known.media_type if known else None,
    )


def list_raw_results(sources: Sequence[Source], raw: Sequence[RawResult]) -> tuple[RawResult, ...]:
    """Return the raw results in the order of the sources, each with the text that quotes point into, and the source's date."""
    by_url = {result.url: result for result in raw}
    return tuple(
        by_url[source.url].model_copy(update={"content": source.text, "published": source.published})
        for source in sources
    )


def select_usable_results(answer: dtos.WebSearchResponse, count: int) -> tuple[dtos.WebSearchResultItem, ...]:
    """Return at most `count` results of an answer, with titles and texts cut at their limits.

    Only the documents provider may return a document: a result of the web must not make the reader open a file.
    """
    documents = dtos.DOCUMENTS in list_providers(answer)
    is_allowed = is_openable if documents else is_web_url
    items = (item for item in answer.results if is_allowed(item.url))
    return tuple(_shorten(item) for item in islice(items, count))


def _shorten(item: dtos.WebSearchResultItem) -> dtos.WebSearchResultItem:
    if len(item.title) <= MAX_TITLE_CHARS and max(len(item.snippet), len(item.summary or "")) <= MAX_RESULT_CHARS:
        return item
    summary = item.summary and item.summary[:MAX_RESULT_CHARS]
    short = {"title": item.title[:MAX_TITLE_CHARS], "snippet": item.snippet[:MAX_RESULT_CHARS], "summary": summary}
    return item.model_copy(update=short)
