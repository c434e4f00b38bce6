"""Research runs in the background: what their callers see, and what workers exchange with the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from modules.llm_platform.domain.dtos.research_dtos import Depth, ResearchRequest, ResearchResponse

ResearchStatus = Literal["queued", "running", "done", "failed", "cancelled"]
FinalStatus = Literal["done", "failed"]
WebhookStatus = Literal["pending", "delivered", "failed"]

LAST_EVENTS = frozenset({"done", "failed"})  # types of the last event of a research run


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class ResearchProgress(_Value):
    """What the current attempt has done so far. `step` is the type of its last event; `planned` counts sub-questions."""

    step: str | None = None
    planned: int = 0
    searched: int = 0
    read: int = 0
    summarized: int = 0


class WebhookState(_Value):
    """`pending`: not delivered yet, after this many attempts; `failed`: given up."""

    status: WebhookStatus
    attempts: int = 0


class ResearchJob(_Value):
    """A research run in the background. `attempts` counts starts: more than one after a crash of a server."""

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


class ResearchJobDetail(ResearchJob):
    """A research run with its request, and its answer (`done`) or its problem (`failed`, `cancelled`)."""

    request: ResearchRequest
    response: ResearchResponse | None = None
    problem: dict[str, Any] | None = None


class ResearchJobPage(_Value):
    """Research runs, newest first. `next` is the `before` of the next page; None: there is none."""

    researches: tuple[ResearchJob, ...]
    next: str | None = Field(default=None)


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A stored event of a research. `number` counts up from 1; `data` is its JSON."""

    number: int
    type: str
    data: str

    def model_dump_json(self) -> str:
        return self.data


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events, in order. `is_last`: the research has ended, and none comes after these."""

    events: tuple[JobEvent, ...]
    is_last: bool


@dataclass(frozen=True, slots=True)
class NewResearchJob:
    """A research run to store. `owner` is who may see it, `label` that of the API key, `traceparent` W3C's of the request."""

    id: str
    request: ResearchRequest
    owner: str = ""
    label: str = ""
    webhook: str | None = None
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A research run that this worker runs. `token` proves its lease; `last_event` is the number of the last stored event."""

    number: int
    token: str
    id: str
    owner: str
    label: str
    request: ResearchRequest
    attempts: int
    last_event: int
    traceparent: str = ""


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """A due webhook. `attempt` counts from 1; `result` is the last event of the research as decoded JSON."""

    number: int
    url: str
    attempt: int
    job: ResearchJob
    result: Mapping[str, Any]
