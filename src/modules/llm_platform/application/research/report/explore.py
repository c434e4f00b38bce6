"""From the question to ranked results (requirements MS1 to MS3): plan, queries, searches, ranking.

Nothing waits for the last of its kind: a sub-question is searched as soon as its line is written, and what a search finds is
ranked while the others are still under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from modules.llm_platform.application.research.budget import ExpectedCalls
from modules.llm_platform.application.research.events import Planned, Searched
from modules.llm_platform.application.research.plan import (
    LATE_PLAN,
    PLAN_VERSION,
    QUESTIONS,
    Plan,
    is_query,
    sub_questions,
)
from modules.llm_platform.application.research.report.queries import (
    QUERIES_VERSION,
    query_language,
    query_languages,
    search_queries,
)
from modules.llm_platform.application.research.report.rank import RankScheduler, SearchState
from modules.llm_platform.application.research.report.run import ReportRun
from modules.llm_platform.application.research.search import (
    DOCUMENTS,
    providers_of,
    search_latest_first,
    usable_results,
)
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.report_dtos import (
    RankedCandidate,
    ResearchPlan,
    Score,
    SearchQueries,
)
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.web_search_dtos import (
    SourceKind,
    WebSearchRequest,
    WebSearchResponse,
)
from modules.llm_platform.domain.exceptions import ResearchTimeoutError
from modules.llm_platform.domain.text.tokens import words
from shared.exceptions import AppException

BATCH = 10  # results ranked in one call (requirement MS3)
SEARCH_VERSION = "1"  # of what is kept of a search
SEARCHES_AT_ONCE = 8  # of one report; each service has a pace of its own beside it
RANKS_AT_ONCE = 16
LATE_SEARCHES = "timeout: {count} searches had no answer in the time for them"
LATE = "timeout: what was not ranked in time was scored by keywords"

RankedSoFar = Callable[[Sequence[RankedCandidate], int], None]


@dataclass(slots=True)
class Explored:
    """What was found. `answers` are those of the searches, `stood_in` counts the scores that stand in for a model's."""

    questions: tuple[str, ...]
    ranked: tuple[RankedCandidate, ...]
    answers: tuple[WebSearchResponse, ...]
    searches: int
    stood_in: int


class Explorer:
    """Explores one question. `ranked_so_far`, where somebody wants to know, is told after each batch what has a score, and
    how many results are known.
    """

    def __init__(self, run: ReportRun, ranked_so_far: RankedSoFar | None = None) -> None:
        self._run = run
        self._ranked_so_far = ranked_so_far
        self._ground = SearchState()
        self._desk = RankScheduler(run, self._ground)
        self._languages = query_languages(run.language, run.options.query_languages)
        # Where nobody knows the question's language, English is only that of our own words.
        self._possible = self._languages if run.order.detected or run.options.query_languages else ()
        self._kinds = _kinds(run.request)
        self._searches_at_once = asyncio.Semaphore(SEARCHES_AT_ONCE)
        self._ranks_at_once = asyncio.Semaphore(RANKS_AT_ONCE)
        each = len(self._languages) * run.options.queries_per_language * len(self._kinds)
        self._expecting = ExpectedCalls(run.budget, each)
        self._known: asyncio.Task[Mapping[str, Score]]
        self._group: asyncio.TaskGroup

    async def explore(self) -> Explored:
        """All that is found and ranked until the time for it is over.

        Where every search failed the last error is raised; where none came back in time, ResearchTimeoutError.
        """
        try:
            async with asyncio.timeout_at(self._run.budget.until("rank")):
                async with asyncio.TaskGroup() as self._group:
                    self._known = self._group.create_task(self._desk.scores_of_before())
                    await self._plan()
        except TimeoutError:
            self._run.note(Degraded(component="rank", reason=LATE))
            self._ground.score_the_rest(self._run.request.query, self._run.language)
        except ExceptionGroup as group:
            raise _first_of(group) from group
        self._expecting.nothing()
        self._complain()
        ground = self._ground
        return Explored(
            tuple(ground.questions), tuple(self._ranked()), tuple(ground.answers), ground.searches, ground.stood_in
        )

    def _ranked(self) -> list[RankedCandidate]:
        return self._ground.ranked(self._run.request.query, self._run.language)

    # --- plan -------------------------------------------------------------------------------------------------------

    async def _plan(self) -> None:
        run = self._run
        if run.request.plan:
            for question in dict.fromkeys(run.request.plan):
                self._begin(question)
            return
        key = run.stage_key("plan", PLAN_VERSION, query=run.request.query)
        if kept := await run.shelf.get("search_queries", key, ResearchPlan):
            for question in kept.questions[:QUESTIONS]:
                self._begin(question)
            return
        made = await self._sub_questions()
        if run.note_stage("plan", made.degraded):
            planner = run.tools.model_of("plan")
            value = ResearchPlan(
                query=run.request.query, language=run.language, questions=made.questions, planner=planner
            )
            await run.shelf.put("search_queries", key, value)

    async def _sub_questions(self) -> Plan:
        run = self._run
        try:
            async with asyncio.timeout_at(run.budget.until("plan")):
                return await sub_questions(run.request.query, run.language, run.llm("plan"), tell=self._begin)
        except TimeoutError:
            late = Degraded(component="plan", reason=LATE_PLAN)
            begun = tuple(self._ground.questions)
            if begun:  # those that came in time are searched already
                return Plan(begun, degraded=(late,))
            plain = await sub_questions(run.request.query, run.language, None, tell=self._begin)
            return replace(plain, degraded=(late,))

    def _begin(self, question: str) -> None:
        self._ground.questions.append(question)
        self._run.tell(Planned(request_id=self._run.request_id, questions=tuple(self._ground.questions)))
        if self._kinds:
            self._expecting.questions(+1)
            self._group.create_task(self._branch(question))

    # --- queries ----------------------------------------------------------------------------------------------------

    async def _branch(self, question: str) -> None:
        run = self._run
        languages, per_language = self._languages, run.options.queries_per_language
        key = run.stage_key("queries", QUERIES_VERSION, question=question, languages=languages, count=per_language)
        kept = await run.shelf.get("search_queries", key, SearchQueries)
        if kept:
            self._expecting.questions(-1)
            for query in filter(is_query, kept.queries[: len(languages) * per_language]):
                self._look(question, query)
            return
        made = await search_queries(
            run.request.query, question, languages, per_language, run.llm("queries"),
            tell=lambda query: self._look(question, query),
        )  # fmt: skip
        self._expecting.questions(-1)
        if run.note_stage("queries", made.degraded):
            await run.shelf.put("search_queries", key, SearchQueries(question=question, queries=made.queries))

    def _look(self, question: str, query: str) -> None:
        """Search for a query that nobody has searched for yet."""
        meaning = tuple(words(query)) or (query,)
        if meaning in self._ground.queries:
            return
        self._ground.queries.add(meaning)
        for kinds in self._kinds:
            self._expecting.batches(+1)
            self._group.create_task(self._search_and_rank(question, query, kinds))

    # --- searches ---------------------------------------------------------------------------------------------------

    async def _search_and_rank(self, question: str, query: str, kinds: tuple[SourceKind, ...]) -> None:
        answer = await self._search(query, kinds)
        found = self._ground.not_seen(answer.results, question, query) if answer else []
        batches = [found[start : start + BATCH] for start in range(0, len(found), BATCH)]
        self._expecting.batches(len(batches) - 1)  # one was expected of every search
        for batch in batches:
            self._group.create_task(self._rank(batch, question, query))

    async def _search(self, query: str, kinds: tuple[SourceKind, ...]) -> WebSearchResponse | None:
        run, ground = self._run, self._ground
        request = self._request(query, kinds)
        key = run.shelf.key(SEARCH_VERSION, run.tools.label("search"), request=request.model_dump(mode="json"))
        kept = await run.shelf.get("search_results", key, WebSearchResponse)
        found = kept or await self._asked(request)
        if found is None:
            return None
        usable = {"results": usable_results(found, request.count), "cached": found.cached or kept is not None}
        answer = found.model_copy(update=usable)
        ground.answers.append(answer)
        run.note(*answer.degraded)
        run.tell(
            Searched(
                request_id=run.request_id, query=query, provider=answer.provider,
                count=len(answer.results), cached=answer.cached,
            )
        )  # fmt: skip
        # A file may change at any time, so what was found in documents is not kept.
        if not kept and answer.results and DOCUMENTS not in providers_of(answer):
            await run.shelf.put("search_results", key, answer.model_copy(update={"raw": None}))
        return answer

    async def _asked(self, request: WebSearchRequest) -> WebSearchResponse | None:
        """What the providers say; None where they fail, or take longer than searching may."""
        run, ground = self._run, self._ground
        try:
            async with self._searches_at_once, asyncio.timeout_at(run.budget.until("search")):
                answer, asked = await search_latest_first(request, run.tools.search)
        except TimeoutError:
            ground.searches += 1
            ground.late += 1
            return None
        except AppException as error:
            ground.searches += 1
            ground.failures.append(error)
            run.note(Degraded.of("search", error))
            return None
        ground.searches += asked
        return answer

    def _request(self, query: str, kinds: tuple[SourceKind, ...]) -> WebSearchRequest:
        asked = self._run.request
        return WebSearchRequest(
            query=query,
            count=self._run.options.results_per_search,
            sources=kinds,
            language=query_language(query, self._possible),
            time_range=asked.time_range,
            domains=asked.domains,
        )

    async def _rank(self, addresses: Sequence[str], question: str, query: str) -> None:
        known = await self._known
        async with self._ranks_at_once:
            await self._desk.rank(addresses, question, query, known)
        self._expecting.batches(-1)
        if self._ranked_so_far:
            self._ranked_so_far(self._ranked(), len(self._ground.candidates))

    def _complain(self) -> None:
        """Searches that failed are no searches that found nothing."""
        if self._ground.late:
            self._run.note(Degraded(component="search", reason=LATE_SEARCHES.format(count=self._ground.late)))
        if self._ground.answers or not self._kinds or self._run.request.urls:
            return
        raise self._ground.failures[-1] if self._ground.failures else ResearchTimeoutError()


def _kinds(asked: ResearchRequest) -> tuple[tuple[SourceKind, ...], ...]:
    """The kinds of sources to search, those of the web together; none where only given addresses are asked for."""
    if asked.urls and "sources" not in asked.model_fields_set:
        return ()
    web = tuple(kind for kind in asked.sources if kind != DOCUMENTS)
    documents: tuple[SourceKind, ...] = (DOCUMENTS,) if DOCUMENTS in asked.sources else ()
    return tuple(kinds for kinds in (web, documents) if kinds)


def _first_of(group: ExceptionGroup) -> Exception:
    """The error itself: who calls a report knows nothing of the tasks inside it."""
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, ExceptionGroup) else first
