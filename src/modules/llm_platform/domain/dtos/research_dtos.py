"""A research: the question, the answer, and for each sentence where it stands (research-bridge.md §§4, 8; interface.md)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.web_search_dtos import (
    MAX_DOMAINS,
    MAX_QUERY_CHARS,
    Domain,
    Language,
    SourceKind,
    TimeRange,
    WebSearchResultItem,
    clean_query,
)

Depth = Literal["shallow", "deep"]
Verdict = Literal["supported", "partial", "unsupported", "unchecked"]

MIN_QUESTION_CHARS = 3
Question = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=MIN_QUESTION_CHARS, max_length=MAX_QUERY_CHARS),
    AfterValidator(clean_query),
]


class ResearchRequest(BaseModel):
    """A question. shallow: one search and one synthesis; deep: three searches side by side and one synthesis."""

    model_config = ConfigDict(frozen=True)

    query: Question
    depth: Depth = "shallow"
    sources: tuple[SourceKind, ...] = Field(default=("web",), min_length=1, max_length=4)
    language: Language | None = None
    omit_raw: bool = Field(default=False, strict=True)
    time_range: TimeRange | None = None
    domains: tuple[Domain, ...] = Field(default=(), max_length=MAX_DOMAINS)


class Source(BaseModel):
    """A numbered text that an answer may cite. Offsets of quotes point into `text`, in Unicode code points."""

    model_config = ConfigDict(frozen=True)

    index: int
    title: str
    url: str
    text: str
    published: str | None = None


class SourceRef(BaseModel):
    """A source as an answer lists it."""

    model_config = ConfigDict(frozen=True)

    index: int
    title: str
    url: str


class Citation(BaseModel):
    """One sentence of the answer and one source that it cites.

    `start`, `end` delimit the sentence in the answer without the markers at its end, `quote_start`, `quote_end` the best
    quote in the source's stored text, all in code points. The quote is empty and the offsets 0 where nothing fits.
    """

    model_config = ConfigDict(frozen=True)

    start: int
    end: int
    source_index: int
    quote: str = ""
    quote_start: int = 0
    quote_end: int = 0
    verdict: Verdict
    score: float


class Synthesis(BaseModel):
    """What a writer made of the sources. `answered` is False when it says that the sources do not answer."""

    model_config = ConfigDict(frozen=True)

    text: str
    synthesizer: str
    answered: bool = True
    truncated_tokens: int = 0
    finish_reason: str = "stop"
    cached: bool = False
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()


class SynthesisToken(BaseModel):
    """The next piece of an answer that is being written, not sanitised yet."""

    model_config = ConfigDict(frozen=True)

    text: str


class SynthesisReset(BaseModel):
    """A writer failed half-way: what it wrote is void, the next one begins."""

    model_config = ConfigDict(frozen=True)

    reason: str


SynthesisPart = SynthesisToken | SynthesisReset | Synthesis


class RawResult(BaseModel):
    """One hit as the answer shows it; `content` is the stored text that quotes point into (research-bridge.md §4)."""

    model_config = ConfigDict(frozen=True)

    title: str
    url: str
    content: str
    source: str | None = None
    score: float | None = None
    published: str | None = None

    @classmethod
    def of(cls, item: WebSearchResultItem) -> Self:
        return cls(
            title=item.title, url=item.url, content=item.text,
            source=item.source, score=item.score, published=item.published_date,
        )  # fmt: skip


class ResearchMetadata(BaseModel):
    """What the answer took. `searches` counts requests to providers; `cost_usd` is None when a price is not known."""

    model_config = ConfigDict(frozen=True)

    latency_ms: int
    cache_hit: bool = False
    tokens_used: int = 0
    cost_usd: float | None = 0.0
    searches: int = 0
    llm_calls: int = 0
    synthesizer: str = ""
    providers: tuple[str, ...] = ()
    language: str = "en"
    truncated_tokens: int = 0
    uncited_sentences: int = 0
    correction: str | None = None
    request_id: str = ""


class ResearchResponse(BaseModel):
    """The answer. `sources` keeps those that the text cites, under the numbers given before the first word was written."""

    model_config = ConfigDict(frozen=True)

    query: str
    depth: Depth
    synthesis: str
    sources: tuple[SourceRef, ...] = ()
    raw_results: tuple[RawResult, ...] | None = None
    citations: tuple[Citation, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    metadata: ResearchMetadata
