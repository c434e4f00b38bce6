"""What a running research tells, in order (docs/reference/http.md). Readers must accept types that they do not know."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from modules.llm_platform.domain.dtos.research_dtos import ResearchResponse, SourceRef


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True)

    request_id: str


class Started(_Event):
    """First of all: the request was accepted."""

    type: Literal["started"] = "started"


class Planned(_Event):
    """The questions that will be searched; told again, whole, when more are added."""

    type: Literal["planned"] = "planned"
    questions: tuple[str, ...]


class Searched(_Event):
    """One search came back with `count` results."""

    type: Literal["searched"] = "searched"
    query: str
    provider: str
    count: int
    cached: bool


class Kept(BaseModel):
    """A result that goes on; `score` is the mean of the five criteria in a report, else None."""

    model_config = ConfigDict(frozen=True)

    url: str
    title: str
    score: float | None = None


class Ranked(_Event):
    """The results that go on, best first; `defaulted` counts those that got a stand-in score."""

    type: Literal["ranked"] = "ranked"
    query: str
    kept: tuple[Kept, ...]
    defaulted: int = 0


class Read(_Event):
    """A page of a report was opened: `chars` of text are there, or `status` is the code of the error."""

    type: Literal["read"] = "read"
    url: str
    status: str
    chars: int


class Summarized(_Event):
    """A page of a report has its summary."""

    type: Literal["summarized"] = "summarized"
    url: str


class SourcesNumbered(_Event):
    """The numbers that the answer will cite; they never change."""

    type: Literal["sources"] = "sources"
    sources: tuple[SourceRef, ...]


class Token(_Event):
    """The next piece of the answer, sanitised."""

    type: Literal["token"] = "token"
    text: str


class Reset(_Event):
    """A writer failed half-way: the tokens so far are void."""

    type: Literal["reset"] = "reset"
    reason: str


class Done(_Event):
    """Last: the whole answer. Its `synthesis` is the tokens since the last reset."""

    type: Literal["done"] = "done"
    response: ResearchResponse


class Failed(_Event):
    """Last: why there is no answer, as a problem object (RFC 9457)."""

    type: Literal["failed"] = "failed"
    problem: dict[str, Any]


ResearchEvent = Started | Planned | Searched | Ranked | Read | Summarized | SourcesNumbered | Token | Reset | Done | Failed
