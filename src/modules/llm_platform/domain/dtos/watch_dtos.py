"""Watched questions: what a run found, what changed, and what workers exchange with the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import NAMESPACE_OID, uuid5

from pydantic import BaseModel, ConfigDict, Field, computed_field

from modules.llm_platform.domain.dtos import web_search_dtos
from modules.llm_platform.domain.dtos.citation_dtos import Verdict
from modules.llm_platform.domain.dtos.report_dtos import ReportAmounts
from modules.llm_platform.domain.dtos.request_dtos import MAX_URLS, Depth, GivenUrl, Question, ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import FinalStatus
from modules.llm_platform.domain.dtos.source_dtos import Source

ChangeKind = Literal["changed", "new", "gone", "disputed"]
WatchState = Literal["active", "paused"]
PauseReason = Literal["refused", "budget"]
NoticeChannel = Literal["webhook", "mail"]
NoticeStatus = Literal["pending", "delivered", "failed"]

WATCH_ID_PATTERN: Final = r"^[0-9a-f]{32}$"
WATCH_CURSOR_PATTERN: Final = r"^[0-9a-f]{32}(@[0-9.]{1,18})?$"  # `next` of a page, or an id
MIN_EVERY_S: Final = 15 * 60  # shortest time from one run of a watch to the next
MAX_EVERY_S: Final = 366 * 24 * 3600
MAX_REFUSALS: Final = 3  # failed runs in a row after which a watch is paused
BUDGET_DAYS: Final = 30  # `max_cost_usd` of a watch counts the runs of this many days
MAX_REREAD_PAGES: Final = 10  # pages of the earlier runs that a run reads first; those with facts come first
REMEDIES: Final[Mapping[PauseReason, str]] = {
    "refused": f"{MAX_REFUSALS} runs in a row failed: correct what `problem` names, then run the watch to resume it",
    "budget": f"the runs of {BUDGET_DAYS} days have cost `max_cost_usd`: run the watch to resume it, or add it again with more",
}


class LedgerFact(BaseModel, frozen=True):
    """A sentence of a source that a run quotes, as a row of the evidence or as the quote of a citation.

    - `verdict` is the verdict on the sentence of the answer that cites it; `supported` for a quote of the evidence.
    - `is_answer` is True if the quotes of its question answer it. Other quotes are the nearest ones.
    - `dispute` is the number of the evidence row whose sources contradict each other; None if it is not a side of one.
    """

    quote: str
    url: str
    published: str | None = None
    verdict: Verdict = "supported"
    is_answer: bool = True
    dispute: int | None = None


class WatchedPages(BaseModel, frozen=True):
    """What a run of a watch reads before it searches: `urls`, in this order. With `are_all` it searches nothing."""

    urls: tuple[str, ...] = ()
    are_all: bool = False


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


class WatchRequest(BaseModel):
    """A question to watch.

    - `every_s` is the time from one run to the next, in seconds.
    - `depth`, `sources` and `language` mean the same as in a ResearchRequest.
    - `urls` are pages that each run reads first. Only these are read, unless `sources` is given too.
    - `webhook` is an address to notify of changes.
    - `max_cost_usd` is the most that the runs of 30 days may cost, in US dollars.
    """

    model_config = ConfigDict(frozen=True)

    query: Question
    every_s: int = Field(ge=MIN_EVERY_S, le=MAX_EVERY_S, strict=True)
    depth: Depth = "deep"
    sources: tuple[web_search_dtos.SourceKind, ...] | None = Field(default=None, min_length=1, max_length=4)
    urls: tuple[GivenUrl, ...] = Field(default=(), max_length=MAX_URLS)
    language: web_search_dtos.Language | None = None
    webhook: GivenUrl | None = None
    max_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class Watch(BaseModel, frozen=True):
    """A watched question as its owner sees it.

    - `sources` is None if only `urls` are read.
    - `paused_because` is None while it is active, and `remedy` says how to resume a paused one.
    - `problem` says why the last run failed; None if it did not.
    - `is_running` is True from the moment at which a run is asked for until it is compared.
    - `next_at` is when it is asked next, or when its current run is looked at again; None while it is paused.
    - `runs` counts the finished runs, `changes` what all of them reported, and `refusals` the failed runs since the last good
      one.
    - `undelivered` counts the notices that wait for another try or were given up.
    - `cost_usd` is what the runs of the last 30 days cost, and `max_cost_usd` the most that they may cost.
    """

    id: str
    query: str
    depth: Depth
    every_s: int
    created_at: datetime
    sources: tuple[web_search_dtos.SourceKind, ...] | None = None
    urls: tuple[str, ...] = ()
    language: str | None = None
    state: WatchState = "active"
    paused_because: PauseReason | None = None
    problem: str | None = None
    is_running: bool = False
    next_at: datetime | None = None
    last_run_at: datetime | None = None
    runs: int = 0
    changes: int = 0
    refusals: int = 0
    undelivered: int = 0
    cost_usd: float = 0.0
    max_cost_usd: float | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def remedy(self) -> str | None:
        return REMEDIES[self.paused_because] if self.paused_because else None


class WatchAmounts(BaseModel, frozen=True):
    """Upper bounds of a watch: for one run, and for the runs of 30 days."""

    run: ReportAmounts
    days_30: ReportAmounts


class WatchRun(BaseModel, frozen=True):
    """A finished run of a watch. `number` counts from 1, `job_id` is its research run, and `problem` says why it failed."""

    number: int
    job_id: str
    at: datetime
    status: FinalStatus
    cost_usd: float = 0.0
    facts: tuple[LedgerFact, ...] = ()
    problem: str | None = None


class WatchDetail(Watch, frozen=True):
    """A watched question with what it takes at most, and its newest runs."""

    at_most: WatchAmounts
    last_runs: tuple[WatchRun, ...] = ()


class WatchPage(BaseModel, frozen=True):
    """Watched questions, newest first. `next` is the `before` of the next page, or null on the last page."""

    watches: tuple[Watch, ...]
    next: str | None = Field(default=None)


class FoundChange(WatchChange, frozen=True):
    """A change with its number among all changes of its watch, the number of the run that found it, and when it did."""

    number: int
    run: int
    at: datetime


class ChangePage(BaseModel, frozen=True):
    """Changes of a watch, newest first. `next` is the `before` of the next page, or null on the last page."""

    changes: tuple[FoundChange, ...]
    next: int | None = Field(default=None)


def job_id_of_run(watch_id: str, run: int) -> str:
    """Return the id of the background run, the same for whoever claims this run: it is stored once, so it is asked once."""
    return uuid5(NAMESPACE_OID, f"watch {watch_id} {run}").hex


@dataclass(frozen=True, slots=True)
class NewWatch:
    """A watch to store.

    - `request` is asked at each run.
    - `urls` are read first. With `is_only_urls` nothing else is read.
    """

    id: str
    request: ResearchRequest
    every_s: int
    urls: tuple[str, ...] = ()
    is_only_urls: bool = False
    owner: str = ""
    label: str = ""
    webhook: str | None = None
    max_cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class ClaimedWatch:
    """A watch that a worker has claimed.

    - `token` proves its lease.
    - `run` is the number of the run to make, and `is_asked` is True if its question was asked already.
    - `created_at` is when the watch was added, and `now` the time of the claim, both in seconds since 1970.
    - `urls` and `is_only_urls` are described in NewWatch.
    - `cost_usd` is what the runs of the last 30 days cost.
    """

    number: int
    token: str
    id: str
    request: ResearchRequest
    every_s: int
    run: int
    is_asked: bool
    created_at: float
    now: float
    urls: tuple[str, ...] = ()
    is_only_urls: bool = False
    owner: str = ""
    label: str = ""
    webhook: str | None = None
    refusals: int = 0
    cost_usd: float = 0.0
    max_cost_usd: float | None = None

    @property
    def job_id(self) -> str:
        return job_id_of_run(self.id, self.run)


@dataclass(frozen=True, slots=True)
class NextRun:
    """What follows a run: the next one `delay_s` seconds from now, or a pause."""

    delay_s: float
    refusals: int = 0
    paused_because: PauseReason | None = None


@dataclass(frozen=True, slots=True)
class WatchNotice:
    """A due notice of a run that found changes, or that paused its watch.

    `id` is the same at each attempt. `attempt` counts from 1, and `url` is the webhook of the watch.
    """

    number: int
    channel: NoticeChannel
    attempt: int
    watch: Watch
    run: int
    changes: tuple[FoundChange, ...]
    url: str | None = None

    @property
    def id(self) -> str:
        return f"{self.watch.id}.{self.run}"
