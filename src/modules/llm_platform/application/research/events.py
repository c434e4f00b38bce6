"""The events of a research run, in order (docs/reference/http.md).

`ResearchEvent` is their registry. Each reader in this project matches on it and ends in `assert_never`, so mypy names the
readers that a new event still lacks (docs/howto/change-the-code.md). A client of another version must accept unknown types.
The first paragraph of a docstring and the descriptions of the fields are the row of the event in the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow
from modules.llm_platform.domain.dtos.source_dtos import Source, SourceRef
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResultItem
from modules.llm_platform.domain.llm.model_progress import ModelProgress

MAX_SNIPPET_CHARS = 300  # longest snippet in an event


class _Event(BaseModel, frozen=True):
    request_id: str


class Started(_Event, frozen=True):
    """The request was accepted. This is the first event."""

    type: Literal["started"] = "started"


class Planned(_Event, frozen=True):
    """The questions that will be searched. When questions are added, the event is sent again with all of them. Deep runs,
    reports, follow-up questions and questions with a context send it.
    """

    type: Literal["planned"] = "planned"
    questions: tuple[str, ...]
    standalone_query: str | None = Field(
        default=None,
        description="the rewritten follow-up question, or the question that was found in `context`; else null",
    )


class FoundResult(BaseModel, frozen=True):
    """A result of a search, with the beginning of its snippet."""

    url: str
    title: str
    snippet: str = ""
    published: str | None = None

    @classmethod
    def of(cls, item: WebSearchResultItem) -> FoundResult:
        return cls(
            url=item.url, title=item.title, snippet=item.snippet[:MAX_SNIPPET_CHARS], published=item.published_date
        )


class Searched(_Event, frozen=True):
    """One search returned `count` results."""

    type: Literal["searched"] = "searched"
    query: str
    provider: str
    count: int
    cached: bool
    results: tuple[FoundResult, ...] = Field(
        default=(),
        description=f"`{{url, title, snippet, published}}`, a snippet of at most {MAX_SNIPPET_CHARS} characters",
    )
    question: str | None = Field(default=None, description="the sub-question of a report that it is for, else null")


class RankedResult(BaseModel, frozen=True):
    """A selected result; `score` is the mean of the five criteria in a report, else None."""

    url: str
    title: str
    score: float | None = None


class Ranked(_Event, frozen=True):
    """The selected results, best first: once, in a report for each batch of results and at the end."""

    type: Literal["ranked"] = "ranked"
    query: str
    kept: tuple[RankedResult, ...] = Field(
        description="`{url, title, score}`; `score` is the mean of the five criteria in a report, else null"
    )
    defaulted: int = Field(default=0, description="number of results without a score from a model")


class Read(_Event, frozen=True):
    """A page was read, or could not be read."""

    type: Literal["read"] = "read"
    url: str
    status: str = Field(description="`read`, `stored`, or the code of the error")
    chars: int


class Summarized(_Event, frozen=True):
    """A page of a report has its summary."""

    type: Literal["summarized"] = "summarized"
    url: str


class ModelProgressed(_Event, frozen=True):
    """A language model reads its prompt, or writes. The event is sent every five seconds of a call. Tokens are estimates."""

    type: Literal["model_progress"] = "model_progress"
    model: str
    phase: Literal["reading", "writing"] = Field(description="`reading`, `writing`")
    prompt_tokens: int
    completion_tokens: int
    elapsed_s: float = Field(description="since the beginning of the call")
    tokens_per_s: float | None = Field(default=None, description="null while it reads")

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
    """A further round of search begins."""

    type: Literal["round"] = "round"
    number: int = Field(description="from 1")
    of: int | None = Field(
        default=None,
        description="the further rounds that the run may make; null in an event that an older version stored",
    )
    open: tuple[str, ...] = Field(description="the questions")
    queries: tuple[str, ...]
    why: str = Field(default="", description="words that no quote contains")
    evidence: tuple[EvidenceRow, ...] = Field(
        default=(), description="the ledger as it is now, as in the answer: of each question its state and best quotes"
    )

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
    """The sources that may be cited, with their final numbers. The event is sent once, before the first token."""

    type: Literal["sources"] = "sources"
    sources: tuple[SourceRef, ...] = Field(description="`{index, title, url, extraction, language}`")
    excerpts: tuple[str, ...] = Field(
        default=(), description=f"the first {MAX_SNIPPET_CHARS} characters of each text that is held then"
    )

    @classmethod
    def of(cls, request_id: str, sources: Sequence[Source]) -> SourcesNumbered:
        return cls(
            request_id=request_id,
            sources=tuple(map(SourceRef.of, sources)),
            excerpts=tuple(source.text[:MAX_SNIPPET_CHARS] for source in sources),
        )


class Token(_Event, frozen=True):
    """The next sanitised part of the text, up to the end of a sentence."""

    type: Literal["token"] = "token"
    text: str


class Reset(_Event, frozen=True):
    """A model failed half-way: all tokens so far are void."""

    type: Literal["reset"] = "reset"
    reason: str


class Verified(_Event, frozen=True):
    """A model verifies citations: emitted with the lexical verdicts, then with the final ones, which count.

    A background run that is cancelled while its text is written emits it once, with the lexical verdicts on that text.
    """

    type: Literal["verified"] = "verified"
    citations: tuple[Citation, ...]
    pending: int = Field(default=0, description="citations that the model still verifies, at the end 0")


class Done(_Event, frozen=True):
    """Last: the whole answer. Its `synthesis` is the tokens since the last `reset`."""

    type: Literal["done"] = "done"
    response: ResearchResponse


class Failed(_Event, frozen=True):
    """Last: why there is no answer, a problem object (RFC 9457)."""

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
