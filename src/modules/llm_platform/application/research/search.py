"""Search all questions side by side (requirement RB6)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.canonical_url import canonical_url, is_openable, is_web_url
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.research_dtos import RawResult, Source
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import ResearchTimeoutError
from shared.exceptions import AppException

SEARCHES_AT_ONCE = 4
FUSED = "+"  # between the names of providers that made one answer together
RECENT = "month"  # requirement RB17: time_range month for recent content

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


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The answers in the order of the questions that had one; `searches` counts the requests that went to providers."""

    answers: tuple[WebSearchResponse, ...]
    degraded: tuple[Degraded, ...]
    searches: int

    def __add__(self, other: SearchResults) -> SearchResults:
        return SearchResults(
            self.answers + other.answers, self.degraded + other.degraded, self.searches + other.searches
        )


def providers_of(answer: WebSearchResponse) -> tuple[str, ...]:
    """Who answered: two where a folder and the web were asked side by side."""
    return tuple(name for name in answer.provider.split(FUSED) if name)


def wants_latest(question: str) -> bool:
    """Whether the question asks for what is new and names no time of its own."""
    return bool(_WANTS_LATEST.search(question)) and not _NAMES_TIME.search(question)


async def search_questions(
    requests: Sequence[WebSearchRequest],
    search: WebSearchService,
    deadline: float,
    found: Callable[[WebSearchRequest, WebSearchResponse], None],
) -> SearchResults:
    """Search all at once, tell each answer through `found`, and take what is there at `deadline` (event loop time).

    A search that failed stands in `degraded`. All failed: the last error is raised. None came in time: ResearchTimeoutError.
    """
    at_once = asyncio.Semaphore(SEARCHES_AT_ONCE)

    async def one(request: WebSearchRequest) -> tuple[WebSearchResponse, int]:
        async with at_once:
            answer, searches = await search_latest_first(request, search)
        found(request, answer)
        return answer, searches

    tasks = [asyncio.create_task(one(request)) for request in requests]
    try:
        await asyncio.wait(tasks, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
    finally:
        late = [task for task in tasks if not task.done()]
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
    return _collect(requests, tasks)


async def search_latest_first(request: WebSearchRequest, search: WebSearchService) -> tuple[WebSearchResponse, int]:
    """The answer, and how many requests it took: what asks for the latest is looked for in the last month first."""
    dated = (
        request.time_range or request.freshness or request.sources == ("documents",)
    )  # which are not searched by date
    if not dated and wants_latest(request.query):
        recent = await search.search(request.with_(time_range=RECENT))
        if recent.results:
            return recent, _asked(recent)
        answer = await search.search(request)
        return answer, _asked(recent) + _asked(answer)
    answer = await search.search(request)
    return answer, _asked(answer)


def _asked(answer: WebSearchResponse) -> int:
    """The requests that this answer took."""
    return 0 if answer.cached else max(1, len(providers_of(answer)))


def _collect(
    requests: Sequence[WebSearchRequest], tasks: Sequence[asyncio.Task[tuple[WebSearchResponse, int]]]
) -> SearchResults:
    answers: list[WebSearchResponse] = []
    degraded: list[Degraded] = []
    searches = 0
    last: AppException = ResearchTimeoutError()
    for number, task in enumerate(tasks, 1):
        name = "search" if len(requests) == 1 else f"search/{number}"
        if task.cancelled():
            degraded.append(Degraded(component=name, reason="timeout: no answer before the deadline of the research"))
            searches += 1
        elif isinstance(error := task.exception(), AppException):
            degraded.append(Degraded.of(name, error))
            last, searches = error, searches + 1
        else:
            answer, asked = task.result()
            answers.append(answer)
            degraded.extend(answer.degraded)
            searches += asked
    if not answers:
        raise last
    return SearchResults(tuple(answers), tuple(dict.fromkeys(degraded)), searches)


# Fuse what several searches found into one list of numbered sources, best first.


RRF_K = 60  # Cormack, Clarke, Büttcher 2009: reciprocal rank fusion


def fuse_results(answers: Sequence[WebSearchResponse], limit: int) -> list[WebSearchResultItem]:
    """The best `limit` results by reciprocal rank, each canonical address once, with the longest text that came for it."""
    scores: dict[str, float] = {}
    best: dict[str, WebSearchResultItem] = {}
    for answer in answers:
        for rank, item in enumerate(answer.results, 1):
            key = canonical_url(item.url)
            scores[key] = scores.get(key, 0.0) + 1.0 / (RRF_K + rank)
            held = best.get(key)
            if held is None or len(item.text) > len(held.text):
                best[key] = item
    order = sorted(best, key=lambda key: -scores[key])  # stable: of equals the one found first
    return [best[key] for key in order[:limit]]


def number_sources(items: Sequence[WebSearchResultItem]) -> tuple[tuple[Source, ...], tuple[RawResult, ...]]:
    """Sources 1, 2, 3… and the raw results beside them: `raw_results[n - 1].content` is the text of source n."""
    raw = tuple(RawResult.of(item) for item in items)
    sources = tuple(
        Source(index=index, title=item.title, url=item.url, text=item.content, published=item.published)
        for index, item in enumerate(raw, 1)
    )
    return sources, raw


# What of a provider's answer a report goes on with: a provider may be anybody's code, its results are strangers', and
# what the store kept of them may have been carried here from elsewhere.


MAX_TITLE_CHARS = 300  # of a result, as of a page
MAX_RESULT_CHARS = 20_000  # of what a provider says of a result: a long summary
DOCUMENTS = "documents"


def usable_results(answer: WebSearchResponse, count: int) -> tuple[WebSearchResultItem, ...]:
    """At most so many results as were asked for, none longer than a result is. Only the documents may name a document:
    what stands on a list of results of the web must not have a file read.
    """
    documents = DOCUMENTS in providers_of(answer)
    may_be_read = is_openable if documents else is_web_url
    items = (item for item in answer.results if may_be_read(item.url))
    return tuple(_cut(item) for item in islice(items, count))


def _cut(item: WebSearchResultItem) -> WebSearchResultItem:
    if len(item.title) <= MAX_TITLE_CHARS and max(len(item.snippet), len(item.summary or "")) <= MAX_RESULT_CHARS:
        return item
    summary = item.summary and item.summary[:MAX_RESULT_CHARS]
    short = {"title": item.title[:MAX_TITLE_CHARS], "snippet": item.snippet[:MAX_RESULT_CHARS], "summary": summary}
    return item.model_copy(update=short)
