"""Further rounds of a run: search for what the first search left unanswered, using what it found.

A ledger has a row for each question, with the quotes that answer it (docs/explanation/rounds.md). After each search, the run
asks `FurtherRounds` for the next queries. It stops searching when there are none.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from modules.llm_platform.application.research.events import RoundStarted
from modules.llm_platform.application.research.find.round_queries import RoundContext, RoundModel, ask_for_queries
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.domain.concurrency.long_work import run_in_thread_if_long
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow, Ledger, StopReason
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.page_dtos import Page, PageLink
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, WebSearchResultItem
from modules.llm_platform.domain.evidence.ledger import LedgerBuilder, LedgerRow, describe_missing_words, pick_queries
from modules.llm_platform.domain.research.decomposition import aspect_questions, decompose_question
from modules.llm_platform.domain.research.page_links import choose_links
from modules.llm_platform.domain.research.question_selector import is_query
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.text.tokens import normalize
from modules.llm_platform.domain.untrusted.untrusted_text import neutralise, one_line
from modules.llm_platform.domain.urls.canonical_url import admits_host, canonical_url, get_host

# Part of the keys of stored reports: raise it when the rules of the queries or of the quotes change.
ROUNDS_VERSION = "4"
MAX_ROWS = 6  # questions of one ledger
FIRST_ROUND_RESULTS_KEPT = 2  # this many of its best results stay, whatever later rounds find
TIME_FACTOR = 1.5  # a round starts only if the time left is this many times the duration of the last one
SPARE_QUERIES = 4  # extra candidates, because some queries may not be searched for
QUESTION_ENDS = " .?？؟。"  # removed from listed questions: the sentence around the list has its own end
MIN_GAIN = 0.01  # a smaller growth of a row's coverage is not progress


@dataclass(frozen=True, slots=True)
class RoundLimits:
    """The number of further rounds that a run may make, and the searches and pages of each round."""

    rounds: int
    searches: int = 4
    pages: int = 2


NO_ROUNDS = RoundLimits(0, 0, 0)
DEEP = RoundLimits(1)
REPORT = RoundLimits(2, pages=3)


def get_round_limits(run: Run) -> RoundLimits:
    """Return the limits of the depth, with the number of rounds that the request asks for."""
    default = {"deep": DEEP, "report": REPORT}.get(run.request.depth, NO_ROUNDS)
    wish = run.request.rounds
    return default if wish is None or default is NO_ROUNDS else RoundLimits(wish, default.searches, default.pages)


def select_ledger_questions(question: str, planned: Iterable[str], language: str) -> tuple[str, ...]:
    """Return the questions that get a row of the ledger: the reader's questions, then the model's.

    Aspects that rules add to a topic get none, because nobody asked about them.
    """
    clauses = aspect_questions(question, language)
    own = [clause for clause in clauses if clause.rstrip("?？").casefold() in question.casefold()]
    by_rules = {*clauses, *decompose_question(question, language)}
    by_model = [other for other in planned if other not in by_rules]
    return tuple(dict.fromkeys((*(own or [question]), *by_model)))[:MAX_ROWS]


class FurtherRounds:
    """Keeps the ledger of a run, and decides after each search what to search for next.

    - `deadline` is the event loop time by which the last round must end.
    - `model` is asked once a round. It adds queries to the queries of the rules.
    - `llm_may_stop` is True if the rounds end when the model says that nothing is missing.
    - `has_budget` returns whether the limits of the request allow another round.
    """

    def __init__(
        self,
        run: Run,
        limits: RoundLimits,
        deadline: float,
        model: RoundModel | None = None,
        *,
        llm_may_stop: bool = False,
        has_budget: Callable[[], bool] = lambda: True,
    ) -> None:
        self.limits = limits
        self.queries: list[str] = []  # the queries of all further rounds
        self.spent = NOTHING_SPENT
        self.degraded: tuple[Degraded, ...] = ()
        self._model, self._llm_may_stop, self._has_budget = model, llm_may_stop, has_budget
        self._sources: dict[str, Source] = {}  # canonical address -> what was read last
        self._run = run
        self._deadline = deadline
        self._began = asyncio.get_running_loop().time()
        self._builder: LedgerBuilder | None = None
        self._chars = 0  # the length of the texts that the builder compares with the questions
        self._rows: tuple[LedgerRow, ...] = ()
        self._rows_before: tuple[LedgerRow, ...] = ()  # the rows when the last round began
        self._rounds_of: dict[str, int] = {}  # the round that found each canonical address
        self._number = 0
        self._stopped: StopReason | None = None

    @property
    def ledger(self) -> Ledger:
        stopped: StopReason | None = "asked" if self._run.early_finish.is_due else self._stopped
        return Ledger(rows=tuple(read.row for read in self._rows), rounds=self._number, stopped=stopped)

    async def fill_ledger(self, questions: Sequence[str], sources: Sequence[Source]) -> None:
        """Fill the rows of these questions with quotes from the sources.

        A page that was read is quoted even if a later search returns only an excerpt of it.
        """
        if not self.limits.rounds:
            return
        pages = {address: source for address, source in self._sources.items() if source.text_kind == "page"}
        self._sources = {(address := canonical_url(source.url)): pages.get(address, source) for source in sources}
        for address in self._sources:
            self._rounds_of.setdefault(address, self._number)
        builder = self._builder = self._builder or LedgerBuilder(questions, self._run.language)
        known = tuple(self._sources.values())
        self._chars = sum(len(source.text) for source in known) * len(questions)
        self._rows = await run_in_thread_if_long(self._chars, builder.build_rows, known, self._rounds_of)

    async def plan_next_queries(self, searched: Iterable[str], *, is_refused: bool = False) -> list[str]:
        """Return the queries of the next round, and emit its event; empty if the run stops.

        - `searched` are the queries of the first search.
        - `is_refused` is True if a provider refused a query of the last round.
        """
        if not self.limits.rounds or not self._rows:
            return []
        queries = await self._choose_queries((*searched, *self.queries), is_refused=is_refused)
        if queries:
            self._number += 1
            self._rows_before, self._began = self._rows, asyncio.get_running_loop().time()
            self.queries += queries
            self._run.emit(
                RoundStarted(
                    request_id=self._run.request_id,
                    number=self._number,
                    of=self.limits.rounds,
                    open=self.ledger.open_questions,
                    queries=tuple(queries),
                    why=describe_missing_words(self._rows),
                    evidence=self.ledger.rows,
                )
            )
        return queries

    async def _choose_queries(self, searched: Sequence[str], *, is_refused: bool) -> list[str]:
        """Return the queries of the next round. If there are none, note why."""
        self._stopped = self._find_stop_reason(is_refused=is_refused)
        if self._stopped:
            return []
        asked = {normalize(query) for query in searched}
        limit = self.limits.searches + SPARE_QUERIES
        picked = await run_in_thread_if_long(self._chars, pick_queries, self._rows, asked, limit)
        by_rules = [query.text for query in picked if is_query(query.text, self._run.asked)]
        by_model = [query for query in await self._ask_model(searched) if normalize(query) not in asked]
        by_rules = by_rules[: self.limits.searches - len(by_model)]
        queries = list({normalize(query): query for query in (*by_model, *by_rules)}.values())
        if not queries or self._stopped:
            self._stopped = self._stopped or "nothing_new"
            return []
        return queries

    def _find_stop_reason(self, *, is_refused: bool) -> StopReason | None:
        """Return the first reason that forbids another round; None if there is none."""
        now = asyncio.get_running_loop().time()
        reasons: tuple[tuple[bool, StopReason], ...] = (
            (self._run.early_finish.is_due, "asked"),
            (not self.ledger.open_questions, "answered"),
            (self._run.given is not None and self._run.given.replaces_search, "rounds"),
            (is_refused, "refused"),
            (self._number not in self._rounds_of.values(), "nothing_new"),
            (self._number > 0 and not _has_gained(self._rows_before, self._rows), "no_gain"),
            (self._number >= self.limits.rounds, "rounds"),
            (self._deadline - now < TIME_FACTOR * (now - self._began), "time"),
            (not self._has_budget(), "budget"),
        )
        return next((reason for holds, reason in reasons if holds), None)

    async def _ask_model(self, searched: Sequence[str]) -> tuple[str, ...]:
        """Return the queries of the model; empty without a model, or if it fails or is late.

        If the caller asks for an early finish during the call, there are no further rounds. The call is counted.
        """
        if self._model is None:
            return ()
        quoted = [
            self._sources[key] for url in self.list_quoted_addresses() if (key := canonical_url(url)) in self._sources
        ]
        passages = [*quoted, *(source for source in self._sources.values() if source not in quoted)]
        context = RoundContext(
            question=self._run.request.query,
            rows=self.ledger.rows,
            passages=passages,
            missing=describe_missing_words(self._rows),
            searched=searched,
            count=self.limits.searches // 2,
            language=self._run.language,
            written=self._run.asked,
        )
        with suppress(TimeoutError):
            async with self._run.early_finish.limit():
                made = await ask_for_queries(self._model.ask, context)
                self.spent += made.spent
                self.degraded += made.degraded
                if made.is_done and self._llm_may_stop:
                    self._stopped = "answered"
                return made.queries
        self.spent += Spending.of_unfinished_call(is_free=self._model.is_free)
        self._stopped = "asked"
        return ()

    def choose_links(self, pages: Iterable[Page], known: Iterable[str]) -> list[PageLink]:
        """Return the links of the pages that promise most for open rows, at most half of the pages of a round.

        `known` are addresses that searches found already. A request with a time range follows no links, because the date of a
        linked page is not known.
        """
        request = self._run.request
        if request.time_range or request.freshness or set(request.sources) <= {DOCUMENTS}:
            return []
        addresses = {*self._rounds_of, *map(canonical_url, known)}
        return choose_links(pages, self._rows, addresses, request.domains, (self.limits.pages + 1) // 2)

    def admits(self, page: Page) -> bool:
        """Return whether the request allows the site of a linked page, after redirects."""
        return admits_host(get_host(page.url), self._run.request.domains)

    def write_message(self, language: str, text: str) -> str:
        """Return the paragraphs below a report.

        - Quotes that disagree, unless `text` already shows each of them with its number of sources.
        - Questions without an agreed answer, and the queries that looked for one.
        - Why the search ended.
        """
        messages = get_messages(language)
        paragraphs: list[str] = []
        for row in self.ledger.rows:
            notes = [
                (quote, messages.format_disputed_quote_note(quote.published, quote.voices))
                for quote in row.quotes
                if quote.voices
            ]
            if not all(note in text for _, note in notes):
                lines = [f"- {one_line(quote.text)} ({one_line(quote.title)}) {note}" for quote, note in notes]
                paragraphs.append("\n".join([messages.disagree, "", *lines]))
        missing = [row.question.rstrip(QUESTION_ENDS) for row in self.ledger.rows if row.state in ("open", "disagree")]
        if self._number and missing:
            note = messages.still_open.replace("{questions}", " · ".join(missing))
            paragraphs.append(one_line(note.replace("{queries}", " · ".join(self.queries))))
        if stopped := self.write_stop_note(language):
            paragraphs.append(stopped)
        return "".join(f"\n\n{neutralise(paragraph)}" for paragraph in paragraphs)

    def write_stop_note(self, language: str) -> str:
        """Return why the search ended; empty if it has not ended, or if the first search answered everything."""
        ledger = self.ledger
        is_shown = self._number or ledger.open_questions or ledger.stopped == "asked"
        return get_messages(language).get_stop_message(ledger.stopped) if ledger.stopped and is_shown else ""

    def select_best(self, items: Sequence[WebSearchResultItem], limit: int) -> list[WebSearchResultItem]:
        """Return at most `limit` results: the best of the first search, then the quoted ones, then the others in their order."""
        if not self._number:
            return list(items[:limit])
        first = [address for address, number in self._rounds_of.items() if not number]
        quoted = map(canonical_url, self.list_quoted_addresses())
        ranked = list(dict.fromkeys((*first[:FIRST_ROUND_RESULTS_KEPT], *quoted)))

        def order(item: WebSearchResultItem) -> int:
            address = canonical_url(item.url)
            return ranked.index(address) if address in ranked else len(ranked)

        return sorted(items, key=order)[:limit]

    def list_quoted_addresses(self) -> list[str]:
        """Return the addresses of all passages that match a row, quoted passages first."""
        quotes = [quote.url for read in self._rows for quote in read.row.quotes]
        return list(dict.fromkeys((*quotes, *(address for read in self._rows for address in read.addresses))))

    def list_evidence(self) -> tuple[EvidenceRow, ...]:
        """Return the rows with quotes if a further round ran and the answer needs sentences of several sources.

        The result is empty otherwise, and if quotes disagree. The writer then selects sentences itself.
        """
        rows = [row for row in self.ledger.rows if row.state != "open"]
        is_chain = self._number and any(row.is_chain for row in rows)
        if not is_chain or any(row.state == "disagree" for row in rows):
            return ()
        return tuple(rows)


def _has_gained(before: Sequence[LedgerRow], after: Sequence[LedgerRow]) -> bool:
    """Return whether the last round raised the coverage of a row, or found one of its missing words."""
    return any(
        new.row.coverage >= old.row.coverage + MIN_GAIN or new.matched_words - old.matched_words
        for old, new in zip(before, after, strict=False)
    )
