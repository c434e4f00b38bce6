"""The events of a research run, in order (docs/reference/http.md).

`ResearchEvent` is their registry. Each reader in this project matches on it and ends in `assert_never`, so mypy names the
readers that a new event still lacks (docs/howto/change-the-code.md). A client of another version must accept unknown types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow
from modules.llm_platform.domain.dtos.research_dtos import Citation, ResearchResponse, Source, SourceRef
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResultItem
from modules.llm_platform.domain.llm.model_progress import ModelProgress

MAX_SNIPPET_CHARS = 300  # longest snippet in an event


class _Event(BaseModel, frozen=True):
    request_id: str


class Started(_Event, frozen=True):
    """First: the request was accepted."""

    type: Literal["started"] = "started"


class Planned(_Event, frozen=True):
    """All questions that will be searched; emitted again when more are added.

    `standalone_query` is how a follow-up question was understood; None for every other one.
    """

    type: Literal["planned"] = "planned"
    questions: tuple[str, ...]
    standalone_query: str | None = None


class FoundResult(BaseModel, frozen=True):
    """A result of a search, with the beginning of its snippet."""

    url: str
    title: str
    snippet: str = ""
    published: str | None = None

    @classmethod
    def of(cls, item: WebSearchResultItem) -> FoundResult:
        return cls(url=item.url, title=item.title, snippet=item.snippet[:MAX_SNIPPET_CHARS], published=item.published_date)


class Searched(_Event, frozen=True):
    """One search returned `count` results. `question` is the sub-question of a report that it is for, else None."""

    type: Literal["searched"] = "searched"
    query: str
    provider: str
    count: int
    cached: bool
    results: tuple[FoundResult, ...] = ()
    question: str | None = None


class RankedResult(BaseModel, frozen=True):
    """A selected result; `score` is the mean of the five criteria in a report, else None."""

    url: str
    title: str
    score: float | None = None


class Ranked(_Event, frozen=True):
    """The selected results, best first; `defaulted` counts those without a score from the model."""

    type: Literal["ranked"] = "ranked"
    query: str
    kept: tuple[RankedResult, ...]
    defaulted: int = 0


class Read(_Event, frozen=True):
    """A page of a report was read: it has `chars` characters, or `status` is the code of the error."""

    type: Literal["read"] = "read"
    url: str
    status: str
    chars: int


class Summarized(_Event, frozen=True):
    """A page of a report was summarized."""

    type: Literal["summarized"] = "summarized"
    url: str


class ModelProgressed(_Event, frozen=True):
    """Every few seconds of a call of a language model: it reads its prompt, or writes with `tokens_per_s`.

    Tokens are estimates; `elapsed_s` counts from the beginning of the call.
    """

    type: Literal["model_progress"] = "model_progress"
    model: str
    phase: Literal["reading", "writing"]
    prompt_tokens: int
    completion_tokens: int
    elapsed_s: float
    tokens_per_s: float | None = None

    @classmethod
    def of(cls, request_id: str, progress: ModelProgress) -> ModelProgressed:
        speed = progress.tokens_per_s
        return cls(
            request_id=request_id,
            model=progress.model,
            phase="writing" if progress.completion_tokens else "reading",
            prompt_tokens=progress.prompt_tokens,
            completion_tokens=progress.completion_tokens,
            elapsed_s=round(progress.elapsed_s, 1),
            tokens_per_s=None if speed is None else round(speed, 1),
        )

    def describe(self) -> str:
        """Return one line for a person who waits."""
        if self.phase == "reading":
            return f"{self.model} reads {self.prompt_tokens:,} tokens of prompt, {self.elapsed_s:.0f} s so far"
        speed = f", {self.tokens_per_s:g} a second" if self.tokens_per_s else ""
        return f"{self.model} writes: {self.completion_tokens:,} tokens{speed}"


class RoundStarted(_Event, frozen=True):
    """A further round of search begins: the questions that are open, its queries, and in `why` the words without a quote.

    - `of` is how many further rounds the run may make; None in an event that an older version stored.
    - `evidence` is the ledger as it is now: for each question its state and its best quotes.
    """

    type: Literal["round"] = "round"
    number: int
    of: int | None = None
    open: tuple[str, ...]
    queries: tuple[str, ...]
    why: str = ""
    evidence: tuple[EvidenceRow, ...] = ()

    def describe(self) -> str:
        """Return one line for a person who waits."""
        missing = f" (no quote yet has: {self.why})" if self.why else ""
        return f"{self._position} searches for what is open{missing}: {' · '.join(self.queries)}"

    def summary(self) -> str:
        """Return the line that formats of other vendors show as reasoning."""
        return f"Search {self._position}. Open: {' · '.join(self.open)} Queries: {' · '.join(self.queries)}"

    @property
    def _position(self) -> str:
        return f"round {self.number} of {self.of}" if self.of else f"round {self.number}"


class SourcesNumbered(_Event, frozen=True):
    """The source numbers that the answer cites; they never change. `excerpts`: the beginning of each text that is held."""

    type: Literal["sources"] = "sources"
    sources: tuple[SourceRef, ...]
    excerpts: tuple[str, ...] = ()

    @classmethod
    def of(cls, request_id: str, sources: Sequence[Source]) -> SourcesNumbered:
        return cls(
            request_id=request_id,
            sources=tuple(map(SourceRef.of, sources)),
            excerpts=tuple(source.text[:MAX_SNIPPET_CHARS] for source in sources),
        )


class Token(_Event, frozen=True):
    """The next sanitised part of the answer."""

    type: Literal["token"] = "token"
    text: str


class Reset(_Event, frozen=True):
    """A writer failed: the tokens so far are void."""

    type: Literal["reset"] = "reset"
    reason: str


class Verified(_Event, frozen=True):
    """The citations of the complete text, and how many of them the model still verifies; the last event counts."""

    type: Literal["verified"] = "verified"
    citations: tuple[Citation, ...]
    pending: int = 0


class Done(_Event, frozen=True):
    """Last: the complete answer. Its `synthesis` is the tokens since the last reset."""

    type: Literal["done"] = "done"
    response: ResearchResponse


class Failed(_Event, frozen=True):
    """Last: why there is no answer, as a problem object (RFC 9457)."""

    type: Literal["failed"] = "failed"
    problem: dict[str, Any]


ResearchEvent = (
    Started
    | Planned
    | Searched
    | Ranked
    | Read
    | Summarized
    | ModelProgressed
    | RoundStarted
    | SourcesNumbered
    | Token
    | Reset
    | Verified
    | Done
    | Failed
)
# Only the interfaces of this platform show these; formats of other vendors have nothing for them.
PlatformEvent = Started | Ranked | Summarized | ModelProgressed | Verified
LastEvent = Done | Failed

EVENT_TYPES: Final[Mapping[str, type[ResearchEvent]]] = {
    event.model_fields["type"].default: event for event in get_args(ResearchEvent)
}
AnyEvent = Annotated[ResearchEvent, Field(discriminator="type")]  # the type that pydantic reads from JSON


@cache
def _any_event() -> TypeAdapter[ResearchEvent]:
    return TypeAdapter(AnyEvent)


def parse_event(data: str) -> ResearchEvent | None:
    """Return the event with this JSON; None if another version of the platform wrote a type or fields unknown here."""
    try:
        return _any_event().validate_json(data)
    except ValidationError:
        return None
