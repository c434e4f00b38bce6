"""Search all questions side by side (research-bridge.md §3.2, search_multi; interface.md, events)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import ResearchTimeoutError
from shared.exceptions import AppException

SEARCHES_AT_ONCE = 4
FUSED = "+"  # between the names of providers that made one answer together
RECENT = "month"  # research-bridge.md §13: time_range month for recent content

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
class Gathered:
    """The answers in the order of the questions that had one; `searches` counts the requests that went to providers."""

    answers: tuple[WebSearchResponse, ...]
    degraded: tuple[Degraded, ...]
    searches: int

    def __add__(self, other: Gathered) -> Gathered:
        return Gathered(self.answers + other.answers, self.degraded + other.degraded, self.searches + other.searches)


def providers_of(answer: WebSearchResponse) -> tuple[str, ...]:
    """Who answered: two where a folder and the web were asked side by side."""
    return tuple(name for name in answer.provider.split(FUSED) if name)


def wants_latest(question: str) -> bool:
    """Whether the question asks for what is new and names no time of its own."""
    return bool(_WANTS_LATEST.search(question)) and not _NAMES_TIME.search(question)


async def gather(
    requests: Sequence[WebSearchRequest],
    search: WebSearchService,
    deadline: float,
    found: Callable[[WebSearchRequest, WebSearchResponse], None],
) -> Gathered:
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
    dated = request.time_range or request.freshness or request.sources == ("documents",)  # which are not searched by date
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
) -> Gathered:
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
    return Gathered(tuple(answers), tuple(dict.fromkeys(degraded)), searches)
