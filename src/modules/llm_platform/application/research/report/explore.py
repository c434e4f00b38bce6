"""Explore a question for a report: plan, queries, searches and ranking.

These stages overlap: a sub-question is searched as soon as the model has written its line, and the results of one search are
ranked while other searches run.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from modules.llm_platform.application.research.budget import ExpectedCalls
from modules.llm_platform.application.research.events import FoundResult, Planned, Searched
from modules.llm_platform.application.research.find.plan import LATE_PLAN, Plan
from modules.llm_platform.application.research.find.search import (
    CONCURRENT_FURTHER,
    list_providers,
    make_response_of_sources,
    pass_named_sources,
    search_latest_first,
    select_reusable_sources,
    select_usable_results,
)
from modules.llm_platform.application.research.report.planner import (
    SubQuestionTask,
    load_plan,
    name_planner,
    plan_sub_questions,
    store_plan,
)
from modules.llm_platform.application.research.report.queries import (
    QUERIES_VERSION,
    QueryTask,
    choose_query_languages,
    detect_query_language,
    plan_search_queries,
    select_source_kinds,
)
from modules.llm_platform.application.research.report.rank import BATCH, RankScheduler, SearchState
from modules.llm_platform.application.research.report.run import ReportRun
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.report_dtos import RankedCandidate, ResearchPlan, Score, SearchQueries
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, SourceKind, WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import WebSearchBlockedError
from modules.llm_platform.domain.research.question_selector import is_query
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.domain.text.tokens import split_words
from shared.exceptions import AppException

SEARCH_VERSION = "1"  # part of the keys of stored results: raise it when they change
CONCURRENT_SEARCHES = 8  # searches of one report; providers have rate limits of their own
CONCURRENT_RANKINGS = 16
SEARCH_TIMEOUT = "timeout: {searches} had no answer in time"
RANK_TIMEOUT = "timeout: results that were not ranked in time were scored by keywords"


@dataclass(slots=True)
class Exploration:
    """The results of an exploration.

    - `questions` are the sub-questions.
    - `ranked` are the results, best first.
    - `answers` are the answers of the providers.
    - `searches` counts the requests to providers.
    - `defaulted` counts the results that the model did not score.
    """

    questions: tuple[str, ...]
    ranked: tuple[RankedCandidate, ...]
    answers: tuple[WebSearchResponse, ...]
    searches: int
    defaulted: int


class Explorer:
    """Plans, searches and ranks for one report. `explore` is called once, then `search_further` for each further round."""

    def __init__(self, run: ReportRun) -> None:
        self._run = run
        self._state = SearchState()
        self._ranker = RankScheduler(run, self._state)
        self._languages = choose_query_languages(run.language, run.options.query_languages)
        # If the language of the question is unknown, `run.language` is only the language of messages.
        self._query_languages = self._languages if run.detected or run.options.query_languages else ()
        self._source_kinds = select_source_kinds(run.request)
        self._search_slots = asyncio.Semaphore(CONCURRENT_SEARCHES)
        self._rank_slots = asyncio.Semaphore(CONCURRENT_RANKINGS)
        per_round = len(self._languages) * len(self._source_kinds)
        self._expected = ExpectedCalls(run.budget, per_round)
        self._stored: asyncio.Task[Mapping[str, Score]]
        self._group: asyncio.TaskGroup

    async def explore(self) -> Exploration:
        """Return everything found and ranked until the deadline.

        If no search succeeded, raises the last search error, or ResearchTimeoutError if no search failed. Raises neither for a
        request with `urls`, which can be answered from its pages.
        """
        try:
            async with (
                self._run.early_finish.limit(self._run.budget.compute_phase_end("rank")),
                asyncio.TaskGroup() as self._group,
            ):
                self._stored = self._group.create_task(self._ranker.load_scores())
                await self._plan()
        except TimeoutError:
            remaining = self._state.score_remaining(self._run.request.query, self._run.language)
            if not self._run.early_finish.is_due:  # if the caller asked for an early finish, no score is missing
                self._state.defaulted += remaining
                self._run.add_degraded(Degraded(component="rank", reason=RANK_TIMEOUT))
        except ExceptionGroup as group:
            raise _find_first_error(group) from group  # callers do not handle exception groups
        self._expected.clear()
        state, run = self._state, self._run
        self._report_late(state.late)
        if not (state.candidates or state.answers or run.request.urls) and self._source_kinds:
            raise state.failures[-1] if state.failures else run.make_timeout_error()
        return self._make_exploration()

    @property
    def has_searches(self) -> bool:
        """True if the report searches, and not only reads `urls` of the request."""
        return bool(self._source_kinds)

    async def search_further(self, question: str, queries: Sequence[str]) -> tuple[Exploration, bool]:
        """Search for the queries of a further round, CONCURRENT_FURTHER at once, and score their results by keywords.

        Return everything found so far, and whether a provider refused a query. After a refusal, the remaining queries are not
        searched for.
        """
        state, run = self._state, self._run
        late, is_refused = state.late, False
        for start in range(0, len(queries), CONCURRENT_FURTHER):
            asked, failed = queries[start : start + CONCURRENT_FURTHER], len(state.failures)
            wanted = [(query, kinds) for query in asked for kinds in self._source_kinds]
            answers = await asyncio.gather(*(self._search(query, kinds) for query, kinds in wanted))
            for (query, _), answer in zip(wanted, answers, strict=True):
                state.add_results(answer.results if answer else (), question, query)
            if is_refused := any(isinstance(error, WebSearchBlockedError) for error in state.failures[failed:]):
                break
        self._report_late(state.late - late)
        state.score_remaining(run.request.query, run.language)  # not counted: no model was asked for these scores
        return self._make_exploration(), is_refused

    def _report_late(self, count: int) -> None:
        if count:
            reason = SEARCH_TIMEOUT.format(searches=format_count(count, "search", "searches"))
            self._run.add_degraded(Degraded(component="search", reason=reason))

    def _make_exploration(self) -> Exploration:
        state = self._state
        return Exploration(
            questions=tuple(state.questions),
            ranked=tuple(state.list_ranked(self._run.request.query, self._run.language)),
            answers=tuple(state.answers),
            searches=state.count.requests,
            defaulted=state.defaulted,
        )

    # --- plan -------------------------------------------------------------------------------------------------------

    async def _plan(self) -> None:
        run = self._run
        if run.request.plan:
            for question in dict.fromkeys(run.request.plan):
                self._start_question(question)
            return
        if stored := await load_plan(run.tools, run.checkpoints, run.request.query):
            run.add_degraded(*stored.degraded)
            for question in stored.questions:
                self._start_question(question)
            return
        made = await self._plan_sub_questions()
        if run.record_stage("plan", made.degraded):
            value = ResearchPlan(
                query=run.request.query,
                language=run.language,
                questions=made.questions,
                planner=name_planner(run.tools, made.degraded),
                degraded=made.degraded,
            )
            await store_plan(run.tools, run.checkpoints, value)

    async def _plan_sub_questions(self) -> Plan:
        run = self._run
        task = SubQuestionTask(
            run.request.query,
            run.language,
            run.options.sub_questions,
            names_topic=bool(run.options.section_tokens),
        )
        try:
            async with asyncio.timeout_at(run.budget.compute_phase_end("plan")):
                return await plan_sub_questions(task, run.get_llm("plan"), emit=self._start_question)
        except TimeoutError:
            late = Degraded(component="plan", reason=LATE_PLAN)
            begun = tuple(self._state.questions)
            if begun:  # their searches are running
                return Plan(begun, degraded=(late,))
            plain = await plan_sub_questions(task, None, emit=self._start_question)
            return replace(plain, degraded=(late,))

    def _start_question(self, question: str) -> None:
        self._state.questions.append(question)
        self._run.emit(Planned(request_id=self._run.request_id, questions=tuple(self._state.questions)))
        if self._source_kinds:
            if len(self._state.questions) == 1:
                self._add_earlier_sources(question)
            self._expected.add_questions(1)
            self._group.create_task(self._search_question(question))

    def _add_earlier_sources(self, question: str) -> None:
        """Rank the sources of an earlier run that match the first question, next to the results of its searches."""
        follow_up = self._run.follow_up
        found = select_reusable_sources(follow_up, self._run.language) if follow_up else ()
        if found:
            query = self._run.request.query
            addresses = self._state.add_results(make_response_of_sources(found).results, question, query)
            self._expected.add_batches(1)
            self._group.create_task(self._rank(addresses, question, query))

    # --- queries ----------------------------------------------------------------------------------------------------

    async def _search_question(self, question: str) -> None:
        run = self._run
        task = QueryTask(run.request.query, question, self._languages)
        key = run.make_stage_key("queries", QUERIES_VERSION, question=question, languages=self._languages, count=1)
        stored = await run.checkpoints.get("search_queries", key, SearchQueries)
        if stored:
            self._expected.add_questions(-1)
            run.add_degraded(*stored.degraded)
            for query in stored.queries[: len(task.languages)]:
                if is_query(query, task.written):
                    self._start_query(question, query)
            return
        made = await plan_search_queries(
            task, run.get_llm("queries"), emit=lambda query: self._start_query(question, query)
        )
        self._expected.add_questions(-1)
        if run.record_stage("queries", made.degraded):
            value = SearchQueries(question=question, queries=made.queries, degraded=made.degraded)
            await run.checkpoints.put("search_queries", key, value)

    def _start_query(self, question: str, query: str) -> None:
        """Start the searches for a query, unless an equal query was searched before."""
        normalized = tuple(split_words(query)) or (query,)
        if normalized in self._state.queries:
            return
        self._state.queries.add(normalized)
        for kinds in self._source_kinds:
            self._expected.add_batches(1)
            self._group.create_task(self._search_and_rank(question, query, kinds))

    # --- searches ---------------------------------------------------------------------------------------------------

    async def _search_and_rank(self, question: str, query: str, kinds: tuple[SourceKind, ...]) -> None:
        answer = await self._search(query, kinds, question)
        found = self._state.add_results(answer.results, question, query) if answer else []
        if found:
            self._run.early_finish.found()
        batches = [found[start : start + BATCH] for start in range(0, len(found), BATCH)]
        self._expected.add_batches(len(batches) - 1)  # each search was expected to give one batch
        for batch in batches:
            self._group.create_task(self._rank(batch, question, query))

    async def _search(
        self, query: str, kinds: tuple[SourceKind, ...], question: str | None = None
    ) -> WebSearchResponse | None:
        run, state = self._run, self._state
        request = self._request(query, kinds)
        key = run.checkpoints.make_key(
            SEARCH_VERSION, run.tools.get_label("search"), request=request.model_dump(mode="json")
        )
        stored = await run.checkpoints.get("search_results", key, WebSearchResponse)
        found = stored or await self._call_providers(request)
        if found is None:
            return None
        usable = {"results": select_usable_results(found, request.count), "cached": found.cached or stored is not None}
        answer = found.model_copy(update=usable)
        state.answers.append(answer)
        run.add_degraded(*answer.degraded)
        run.emit(
            Searched(
                request_id=run.request_id,
                query=query,
                provider=answer.provider,
                count=len(answer.results),
                cached=answer.cached,
                results=tuple(map(FoundResult.of, answer.results)),
                question=question,
            )
        )
        # Files may change at any time, so results from documents are not stored.
        if not stored and answer.results and DOCUMENTS not in list_providers(answer):
            await run.checkpoints.put("search_results", key, answer.model_copy(update={"raw": None}))
        return answer

    async def _call_providers(self, request: WebSearchRequest) -> WebSearchResponse | None:
        """Return the answer of the providers; None if they fail or have no answer before the phase ends."""
        run, state = self._run, self._state
        try:
            async with (
                self._search_slots,
                deadline_at(run.budget.compute_phase_end("search")),
                run.early_finish.limit(),
            ):
                return await search_latest_first(request, run.tools.search, state.count)
        except TimeoutError:
            state.late += not run.early_finish.is_due
            return None
        except AppException as error:
            state.failures.append(error)
            run.add_degraded(Degraded.of("search", error))
            return None

    def _request(self, query: str, kinds: tuple[SourceKind, ...]) -> WebSearchRequest:
        request = self._run.request
        return WebSearchRequest(
            query=query,
            count=self._run.options.results_per_search,
            language=detect_query_language(query, self._query_languages),
            time_range=request.time_range,
            freshness=request.freshness,
            domains=request.domains,
            **pass_named_sources(request, kinds),
        )

    async def _rank(self, addresses: Sequence[str], question: str, query: str) -> None:
        known = await self._stored
        async with self._rank_slots:
            await self._ranker.rank(addresses, question, query, known)
        self._expected.add_batches(-1)


def _find_first_error(group: ExceptionGroup) -> Exception:
    """Return the first error in a group and the groups inside it."""
    first = group.exceptions[0]
    return _find_first_error(first) if isinstance(first, ExceptionGroup) else first
