"""Watched questions: what a run found, what changed, and what workers exchange with the store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import NAMESPACE_OID, uuid5

from pydantic import BaseModel

from modules.llm_platform.domain.dtos.citation_dtos import Verdict
from modules.llm_platform.domain.dtos.request_dtos import Depth, ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import FinalStatus
from modules.llm_platform.domain.dtos.source_dtos import Source

ChangeKind = Literal["changed", "new", "gone", "disputed"]
WatchState = Literal["active", "paused"]
PauseReason = Literal["refused", "budget", "asked"]

MIN_EVERY_S: Final = 15 * 60  # shortest time from one run of a watch to the next
MAX_EVERY_S: Final = 366 * 24 * 3600
MAX_REFUSALS: Final = 3  # failed runs in a row after which a watch is paused
BUDGET_DAYS: Final = 30  # `max_cost_usd` of a watch counts the runs of this many days


class LedgerFact(BaseModel, frozen=True):
    """A sentence of a source that a run quotes, as a row of the evidence or as the quote of a citation.

    - `verdict` is the verdict on the sentence of the answer that cites it; `supported` for a quote of the evidence.
    - `is_answer` is True if the quotes of its question answer it. Other quotes are the nearest ones.
    - `dispute` is the number of the evidence row whose sources contradict each other, of which this is one side; None for any
      other fact.
    """

    quote: str
    url: str
    published: str | None = None
    verdict: Verdict = "supported"
    is_answer: bool = True
    dispute: int | None = None


class WatchReading(BaseModel, frozen=True):
    """What one run of a watch found: the facts of its ledger, and the texts of the sources that it read.

    `language` is the language of the answer.
    """

    at: datetime
    language: str
    facts: tuple[LedgerFact, ...] = ()
    sources: tuple[Source, ...] = ()


class FactAt(BaseModel, frozen=True):
    """A fact at the time of a run.

    - `value` is the part of the quote that differs from the other run: a number, a date, a name or a few words. It is empty if
      no part is shorter than the quote.
    - `source` is the address of the page that has the quote, and `at` the time of the run that read it.
    """

    value: str
    quote: str
    source: str
    at: datetime


class WatchChange(BaseModel, frozen=True):
    """A difference between the ledgers of two runs.

    - `changed`: the page of the quote says otherwise than before.
    - `new`: no page of the run before has it. `was` is None.
    - `gone`: its page was read again, and says nothing in its place. `now` is None.
    - `disputed`: a source contradicts another one that still says `was`.

    `fact` says what the change is about: the later quote without its value.
    """

    kind: ChangeKind
    fact: str
    was: FactAt | None = None
    now: FactAt | None = None


class Watch(BaseModel, frozen=True):
    """A watched question as its owner sees it.

    - `paused_because` is None while it is active.
    - `next_at` is when it is asked next, or when its current run is looked at again; None while it is paused.
    - `runs` counts the finished runs, `changes` what all of them reported, and `refusals` the failed runs since the last good
      one.
    - `cost_usd` is what the runs of the last 30 days cost, and `max_cost_usd` the most that they may cost.
    """

    id: str
    query: str
    depth: Depth
    every_s: int
    created_at: datetime
    state: WatchState = "active"
    paused_because: PauseReason | None = None
    next_at: datetime | None = None
    last_run_at: datetime | None = None
    runs: int = 0
    changes: int = 0
    refusals: int = 0
    cost_usd: float = 0.0
    max_cost_usd: float | None = None


class WatchRun(BaseModel, frozen=True):
    """A finished run of a watch. `number` counts from 1, `job_id` is its research run, and `problem` says why it failed."""

    number: int
    job_id: str
    at: datetime
    status: FinalStatus
    cost_usd: float = 0.0
    facts: tuple[LedgerFact, ...] = ()
    problem: str | None = None


class FoundChange(BaseModel, frozen=True):
    """A change with its number among all changes of its watch, and the run that found it."""

    number: int
    run: int
    at: datetime
    change: WatchChange


@dataclass(frozen=True, slots=True)
class NewWatch:
    """A watch to store. `request` is asked at each run, and limits what one run may take."""

    id: str
    request: ResearchRequest
    every_s: int
    owner: str = ""
    label: str = ""
    webhook: str | None = None
    max_cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class ClaimedWatch:
    """A watch that a worker has claimed.

    - `token` proves its lease.
    - `run` is the number of the run to make, and `is_asked` is True if its question was asked already.
    - `due_at` is when the run was due, and `now` the time of the claim, both in seconds since 1970.
    - `cost_usd` is what the runs of the last 30 days cost.
    """

    number: int
    token: str
    id: str
    request: ResearchRequest
    every_s: int
    run: int
    is_asked: bool
    due_at: float
    now: float
    owner: str = ""
    label: str = ""
    webhook: str | None = None
    refusals: int = 0
    cost_usd: float = 0.0
    max_cost_usd: float | None = None

    @property
    def job_id(self) -> str:
        """The id of the research run, the same for whoever claims this run: it is stored once, so it is asked once."""
        return uuid5(NAMESPACE_OID, f"watch {self.id} {self.run}").hex


@dataclass(frozen=True, slots=True)
class NextRun:
    """What follows a run: the next one `in_s` seconds from now, or a pause."""

    in_s: float
    refusals: int = 0
    paused_because: PauseReason | None = None
