"""The request and the result of a verification: which sentences of a text its sources support."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, computed_field, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from modules.llm_platform.domain.dtos.citation_dtos import (
    SUPPORTING_VERDICTS,
    Citation,
    Difference,
    Finding,
    TextSpan,
    Verdict,
    classify_unsupported,
)
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.request_dtos import GivenUrl
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchStatus, WebhookState
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.dtos.source_dtos import TextKind
from modules.llm_platform.domain.dtos.web_search_dtos import Language

MAX_VERIFIED_CHARS: Final = 100_000  # longest text
MAX_VERIFIED_SOURCES: Final = 200  # sources of one text, given and named
MAX_SOURCE_INDEX: Final = 999
MAX_SOURCE_CHARS: Final = 200_000  # longest text of a given source
MAX_SOURCE_TITLE_CHARS: Final = 500

SourceState = Literal["read", "dead", "refused", "no_text", "late"]


def _reject_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain a NUL character")
    return text


def _require_word(text: str) -> str:
    if not any(map(str.isalnum, text)):
        raise ValueError("must contain a word")
    return _reject_nul(text)


class VerificationSource(BaseModel, frozen=True):
    """A source that is given beside the text: `index` is its number there. It has an address or a text."""

    index: int = Field(ge=1, le=MAX_SOURCE_INDEX, strict=True)
    url: GivenUrl | None = None
    text: Annotated[str, StringConstraints(max_length=MAX_SOURCE_CHARS), AfterValidator(_reject_nul)] | None = None
    title: Annotated[str, StringConstraints(max_length=MAX_SOURCE_TITLE_CHARS), AfterValidator(_reject_nul)] = ""

    @model_validator(mode="after")
    def _require_address_or_text(self) -> Self:
        if (self.url is None) == (self.text is None):
            raise PydanticCustomError("source", "needs either url or text")
        return self


def _require_distinct_numbers(sources: tuple[VerificationSource, ...]) -> tuple[VerificationSource, ...]:
    if len({source.index for source in sources}) < len(sources):
        raise ValueError("two sources have the same index: number them differently")
    return sources


class VerificationRequest(BaseModel):
    """A text with citations, Markdown or plain.

    - `sources` are given along with the text; they count before those that the text lists or links to.
    - `find_sources` searches the web for sentences that no source supports.
    - `language` is the language of the text; without it, it is detected.
    """

    model_config = ConfigDict(frozen=True)

    text: Annotated[str, StringConstraints(min_length=1, max_length=MAX_VERIFIED_CHARS), AfterValidator(_require_word)]
    sources: Annotated[tuple[VerificationSource, ...], AfterValidator(_require_distinct_numbers)] = Field(
        default=(), max_length=MAX_VERIFIED_SOURCES
    )
    find_sources: bool = Field(default=False, strict=True)
    language: Language | None = None


class VerifiedSource(BaseModel, frozen=True):
    """A source of the text, and whether it could be read.

    - `state` is `read`, or says why the source was not read: `dead` if there is no such page or server, `refused` if it may
      not be read or asks for a login, `no_text` if it has no text or the text names no address, `late` if it was not read in
      time.
    - `reason` says in words why it was not read.
    - `url` is None if the source has no address.
    - `pages` is the number of pages of a PDF.
    - `is_found` is True if a search found it and the text does not name it.
    """

    index: int
    url: str | None = None
    title: str = ""
    state: SourceState
    reason: str | None = None
    text_kind: TextKind = "page"
    published: str | None = None
    extraction: float | None = Field(default=None, ge=0, le=1)
    pages: int | None = None
    is_found: bool = False


class VerifiedSentence(BaseModel, frozen=True):
    """A sentence of the text. Offsets are code points of the text as sent, without the citations at its end.

    - `verdict` is the best one of the sources that the sentence cites. If it cites none, it is that of the source that fits
      it best, and `unchecked` if the sentence states nothing, such as a question, or if no source was read.
    - `is_cited` is True if the author names a source. Otherwise its citations are those that the platform found.
    - `difference` is what a source has otherwise, if one does.
    - `finding` says why a sentence is `unsupported`: a source `contradicts` it, or it is `absent` from the sources.
    """

    start: int
    end: int
    verdict: Verdict
    is_cited: bool
    citations: tuple[Citation, ...] = ()
    difference: Difference | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def finding(self) -> Finding | None:
        return classify_unsupported(self.verdict, self.difference)


class VerificationCounts(BaseModel, frozen=True):
    """The numbers of sentences by verdict, of statements that cite no source, and of sources by state.

    `unsupported` sentences are `contradicted` by a source or `absent` from the sources.
    """

    sentences: int = 0
    supported: int = 0
    partial: int = 0
    unsupported: int = 0
    contradicted: int = 0
    absent: int = 0
    unchecked: int = 0
    uncited: int = 0
    sources: int = 0
    read: int = 0
    dead: int = 0
    refused: int = 0
    no_text: int = 0
    late: int = 0

    @classmethod
    def of(cls, sentences: Iterable[VerifiedSentence], sources: Iterable[VerifiedSource], uncited: int) -> Self:
        """Return the counts. `uncited` counts statements: a question needs no source."""
        sentences = tuple(sentences)
        verdicts = [sentence.verdict for sentence in sentences]
        findings = [sentence.finding for sentence in sentences]
        states = [source.state for source in sources]
        names = {*verdicts, *states}
        counted = {name: verdicts.count(name) + states.count(name) for name in names}  # type: ignore[arg-type]
        return cls(
            sentences=len(verdicts),
            sources=len(states),
            uncited=uncited,
            contradicted=findings.count("contradicts"),
            absent=findings.count("absent"),
            **counted,
        )


class VerificationMetadata(BaseModel, frozen=True):
    """The cost and the course of a verification, in the words of ResearchMetadata."""

    latency_ms: int
    language: str = "en"
    request_id: str = ""
    tokens_used: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    llm_calls: int = 0
    searches: int = 0
    verdicts_changed: int = 0
    sent_to: tuple[Sent, ...] = ()
    cached_sent_to: tuple[Sent, ...] = ()


class VerifiedText(BaseModel, frozen=True):
    """The sentences of a text with their verdicts, and its sources with their states."""

    sentences: tuple[VerifiedSentence, ...]
    sources: tuple[VerifiedSource, ...]
    counts: VerificationCounts
    degraded: tuple[Degraded, ...] = ()
    metadata: VerificationMetadata
    # The number of sentences that were not compared in time. Such a sentence without citations is `unchecked`.
    late_sentences: SkipJsonSchema[int] = Field(default=0, exclude=True, repr=False)


class VerificationChange(BaseModel, frozen=True):
    """A citation of a stored answer on which the page says otherwise now than then.

    `sentence` is its place in the answer. `now` is None if the source no longer supports any part of the sentence.
    """

    sentence: TextSpan
    was: Citation
    now: Citation | None = None

    @property
    def is_lost(self) -> bool:
        """True if the source supported the sentence, at least in part, and does not any more."""
        supports = [one is not None and one.verdict in SUPPORTING_VERDICTS for one in (self.was, self.now)]
        return supports == [True, False]


class VerifiedAgain(VerifiedText, frozen=True):
    """A stored answer compared with today's pages.

    - `changed` are the citations with another verdict than at `answered_at`.
    - `no_longer_hold` counts the sentences among them that were supported, at least in part, and are not any more.
    """

    research_id: str
    query: str
    changed: tuple[VerificationChange, ...] = ()
    no_longer_hold: int = 0
    answered_at: datetime | None = None
    verified_at: datetime


class VerificationJob(BaseModel, frozen=True):
    """A verification in the background: its state, and its result (`done`) or problem. `read` counts the pages so far."""

    id: str
    status: ResearchStatus
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    read: int = 0
    webhook: WebhookState | None = None
    response: VerifiedAgain | VerifiedText | None = None
    problem: dict[str, Any] | None = None
