"""Research runs in the background: what their callers see, and what workers exchange with the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.request_dtos import Depth, ResearchRequest
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS

ResearchStatus = Literal["queued", "running", "done", "failed", "cancelled"]
FinalStatus = Literal["done", "failed"]
WebhookStatus = Literal["pending", "delivered", "failed"]

MAX_UNCLEAN_ENDS = 2  # a run whose server ended so often, with nothing stored in between, is not started again
MAX_LISTED = 100  # research runs of one page
MAX_TITLE_CHARS = MAX_QUERY_CHARS  # longest title of a thread, which is its first question until somebody renames it
MAX_SEARCH_CHARS = 200  # longest text that threads are searched for
LAST_EVENTS = frozenset({"done", "failed"})  # types of the last event of a research run


JobKind = Literal["research", "verification", "crawl", "watch"]
# The field of `client_request` with the request of a run of another kind than research. VERIFY and WATCH are `api`, too.
VERIFY: Final = "verify"
CRAWL: Final = "crawl"
WATCH: Final = "watch"


def kind_of_job(api: str, client_request: Mapping[str, Any]) -> JobKind:
    """Return what a stored run does."""
    if CRAWL in client_request:
        return "crawl"
    if api == WATCH or WATCH in client_request:
        return "watch"
    return "verification" if api == VERIFY or VERIFY in client_request else "research"


class ResearchProgress(BaseModel, frozen=True):
    """The progress of the current attempt. `step` is the type of its last event, and `planned` counts sub-questions."""

    step: str | None = None
    planned: int = 0
    searched: int = 0
    read: int = 0
    summarized: int = 0


class WebhookState(BaseModel, frozen=True):
    """The delivery of a webhook: `pending` until it is delivered, after `attempts`, and `failed` when it is given up."""

    status: WebhookStatus
    attempts: int = 0


class ResearchJob(BaseModel, frozen=True):
    """A stored research run. `attempts` counts starts: more than one after a crash of a server.

    `api` names the compatible API that it was submitted through; such an API stores foreground answers too. Empty: POST
    /research, the command line, or Python. A thread is a question with its follow-up questions: `previous_id` is the
    run that this one follows, `thread_id` the first one of the thread that is stored.
    """

    id: str
    status: ResearchStatus
    query: str
    depth: Depth
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempts: int = 0
    progress: ResearchProgress = ResearchProgress()
    webhook: WebhookState | None = None
    api: str = ""
    previous_id: str | None = None
    thread_id: str = ""


class ResearchJobDetail(ResearchJob, frozen=True):
    """A research run with its request, and its answer (`done`) or its problem (`failed`, `cancelled`).

    `client_request` is what `api` stored of the request of its client, and not part of the JSON.
    """

    request: ResearchRequest
    client_request: SkipJsonSchema[dict[str, Any]] = Field(default={}, exclude=True)
    response: ResearchResponse | None = None
    problem: dict[str, Any] | None = None

    @property
    def kind(self) -> JobKind:
        return kind_of_job(self.api, self.client_request)


class ResearchJobPage(BaseModel, frozen=True):
    """Research runs, newest first. `next` is the `before` of the next page, or null on the last page."""

    researches: tuple[ResearchJob, ...]
    next: str | None = Field(default=None)


class AnswerEvidence(BaseModel, frozen=True):
    """A summary of how well the sources support an answer.

    - `strip` has a block character for each sentence, in their order: `▁` supported, `▄` partly supported, `█` not supported,
      `░` without a source, `▒` not checked. If there are more than 48 sentences, each character is the worst one of several.
    - `supported` is the number of sentences that a source supports, of `sentences`.
    - `quoted_sources` is the number of cited sources if the answer consists of quotes alone, which no language model chose;
      0 for other answers.
    """

    strip: str
    supported: int
    sentences: int
    quoted_sources: int = 0


class ResearchThread(BaseModel, frozen=True):
    """A question with its follow-up questions.

    - `title` is the first question unless it was renamed.
    - `status` is the status of the newest run.
    - `running` is the number of runs that have not ended.
    - `evidence` belongs to the newest run's answer; None if the answer has no checked sentences.
    """

    id: str
    title: str
    status: ResearchStatus
    created_at: datetime
    updated_at: datetime
    runs: int = 1
    running: int = 0
    evidence: AnswerEvidence | None = None


class ResearchThreadDetail(ResearchThread, frozen=True):
    """A thread with its research runs, the oldest first. If it has more than 100, only the newest 100 are listed."""

    researches: tuple[ResearchJob, ...]


class ResearchThreadPage(BaseModel, frozen=True):
    """Threads, the one with the newest run first. `next` is the `before` of the next page, or null on the last page."""

    threads: tuple[ResearchThread, ...]
    next: str | None = Field(default=None)


def _remove_nul(title: object) -> object:
    """PostgreSQL stores no NUL."""
    return title.replace("\x00", "") if isinstance(title, str) else title


class ThreadChange(BaseModel):
    """A new title of a thread."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)

    title: Annotated[str, BeforeValidator(_remove_nul)] = Field(min_length=1, max_length=MAX_TITLE_CHARS)


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A stored event of a research run. `number` counts up from 1; `data` is its JSON."""

    number: int
    type: str
    data: str

    def model_dump_json(self) -> str:
        return self.data


@dataclass(frozen=True, slots=True)
class EventPage:
    """A page of events in their order. `is_last` is True if the run has ended and no events follow these."""

    events: tuple[JobEvent, ...]
    is_last: bool


@dataclass(frozen=True, slots=True)
class NewResearchJob:
    """A run to store.

    - `owner` is the caller that may see it, and `label` the label of the API key.
    - `traceparent` is the W3C trace header of the request.
    - `thread_id` is a run whose thread it joins; without one it joins the thread of the run that it follows.
    - `api` and `client_request` are described in ResearchJobDetail.
    """

    id: str
    request: ResearchRequest
    owner: str = ""
    label: str = ""
    webhook: str | None = None
    traceparent: str = ""
    thread_id: str | None = None
    api: str = ""
    client_request: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A run that this worker has claimed.

    - `token` proves its lease.
    - `last_event` is the number of the last stored event.
    - `client_request` is described in ResearchJobDetail.
    - `is_finish_asked` is True if the caller asked for the text before the search has ended.
    - `unclean_ends` is the number of attempts whose worker vanished since the run last stored a finished item.
    - `is_readable` is False if this program cannot read the stored request, which `request` then does not have.
    """

    number: int
    token: str
    id: str
    owner: str
    label: str
    request: ResearchRequest
    attempts: int
    last_event: int
    traceparent: str = ""
    client_request: Mapping[str, Any] = field(default_factory=dict)
    is_finish_asked: bool = False
    unclean_ends: int = 0
    is_readable: bool = True

    @property
    def kind(self) -> JobKind:
        return kind_of_job("", self.client_request)

    @property
    def is_suspect(self) -> bool:
        """True if its last worker vanished: the run may have ended it."""
        return self.unclean_ends > 0

    @property
    def is_given_up(self) -> bool:
        """True if the run must not be started again."""
        return self.unclean_ends >= MAX_UNCLEAN_ENDS


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """A due webhook. `attempt` counts from 1; `result` is the last event of the research as decoded JSON."""

    number: int
    url: str
    attempt: int
    job: ResearchJob
    result: Mapping[str, Any]
