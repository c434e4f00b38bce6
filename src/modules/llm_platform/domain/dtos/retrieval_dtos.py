"""Passages of indexed documents, what is asked of them, and what is answered from them."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.web_search_dtos import Language, clean_query
from modules.llm_platform.domain.text.page_starts import PageStarts

Filters = dict[str, tuple[str, ...]]  # any of the values, all of the keys; an empty tuple is not a filter
Vector = Sequence[float]
RagStage = Literal["search", "answer"]
RagText = Annotated[str, AfterValidator(clean_query)]  # of any length
TopK = Annotated[int, Field(ge=1)]


class Passage(BaseModel, frozen=True):
    """A stretch of a document.

    - `id` is a UUID that stays the same while document and text do.
    - `start` is its place in the document in code points.
    - `fields` are what can be filtered by: every scalar or list field of the document, as text.
    - `pages` says where the pages of the document begin in `text`; empty without pages, and where an older version
      stored it.

    `label` are the title and the headings that lead to it, as far as its beginning does not say them. They count as its
    words, and its vector covers both.
    """

    id: str
    doc_id: str
    title: str
    text: str
    start: int = 0
    url: str | None = None
    source: str | None = None
    lang: str | None = None
    fields: dict[str, tuple[str, ...]] = {}
    label: str = ""
    pages: PageStarts = ()

    @property
    def searched(self) -> str:
        """The text that finds it, by words as by meaning."""
        return f"{self.label}\n{self.text}" if self.label else self.text


@dataclass(frozen=True, slots=True)
class EmbeddedPassage:
    """A passage with its dense vector; None where no embedder could make one, and BM25 alone finds it."""

    passage: Passage
    vector: Vector | None


class FoundPassage(BaseModel, frozen=True):
    """A passage that was found, with a score from 0 to 1."""

    passage: Passage
    score: float


class IndexedDocument(BaseModel, frozen=True):
    """The record of a document in a collection. It shows whether the document changed, and how to cite it.

    - `origin` is the folder that the document came from, see `FoundDocument`.
    - `embedded` is false while its passages wait for their vectors.
    - `form` is the version of the rules that made its passages; empty where an older version stored it.
    """

    doc_id: str
    sha256: str
    passages: int
    title: str = ""
    url: str | None = None
    origin: str | None = None
    embedded: bool = True
    form: str = ""

    def came_from_elsewhere(self, origins: Container[str | None]) -> bool:
        """Return whether it is known to have come from none of these folders."""
        return self.origin is not None and self.origin not in origins


class Collection(BaseModel, frozen=True):
    """A collection's own facts: which embedder made its vectors, their length, and the mean that is subtracted from them."""

    name: str
    embedder: str
    dimension: int
    mean: tuple[float, ...] = ()


class Hit(BaseModel, frozen=True):
    """One document that was found, with its best passage as snippet.

    `pages` says where the pages of the document begin in the snippet. It is not part of the JSON.
    """

    doc_id: str
    score: float
    title: str | None = None
    snippet: str | None = None
    source: str | None = None
    url: str | None = None
    pages: SkipJsonSchema[PageStarts] = Field(default=(), exclude=True, repr=False)


class RagSearch(BaseModel, frozen=True):
    """A search in a collection.

    - `top_k` None is the number of the platform's settings.
    - `keyword_fallback` lets words serve alone if no vector could be made. Do not set it for a stored outcome.
    """

    query: RagText
    top_k: TopK | None = None
    filters: Filters = {}
    keyword_fallback: bool = True


class RagHits(BaseModel, frozen=True):
    """One hit for each document, best first. `query_cut` says that the embedder read only the query's beginning."""

    hits: tuple[Hit, ...]
    query_cut: bool = False
    degraded: tuple[Degraded, ...] = ()


class ContextItem(BaseModel, frozen=True):
    """A piece of context that the asker brings: words, or an address to read."""

    doc_id: str | None = None
    snippet: str | None = None
    url: str | None = None


class RagQuestion(BaseModel, frozen=True):
    """A question to answer. The given context comes first, and retrieval adds passages up to `top_k` (None: the default)."""

    question: RagText
    context: tuple[ContextItem, ...] = ()
    top_k: TopK | None = None
    filters: Filters = {}
    language: Language | None = None


class RagCitation(BaseModel, frozen=True):
    """A document that a checked sentence of the answer cites, or, on request, one of the closest passages below a refusal.

    `page` is the page of a PDF, from 1, at which the first quote begins.
    """

    doc_id: str | None = None
    title: str | None = None
    url: str | None = None
    page: int | None = None


class RagAnswer(BaseModel, frozen=True):
    """The answer, the documents that it cites, and what it took. `[n]` in the text is the n-th of the citations."""

    answer: str
    citations: tuple[RagCitation, ...] = ()
    answered: bool = True
    synthesizer: str = ""
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()


# The one outcome of a request, as it went out.


class Outcome(NamedTuple):
    """The outcome of a request. Nothing of the request is stored but its id and its hash.

    - `body` has the bytes of the message.
    - `request_sha256` is the hash of the request's bytes, which shows whether an id is used with another payload.
    - `tenant` is the owner of the id, if each tenant has ids of its own.
    """

    stage: RagStage
    request_id: str
    kind: Literal["result", "failed"]
    body: bytes
    request_sha256: str
    tenant: str = ""


class StoredOutcome(NamedTuple):
    """An outcome with the time at which it was stored, in seconds since 1970."""

    outcome: Outcome
    stored_at: float


class OutcomeFilter(NamedTuple):
    """Selects outcomes of a store; None selects any. Ages are in seconds, by the clock of the store."""

    stage: RagStage | None = None
    kind: Literal["result", "failed"] | None = None
    request_id: str | None = None
    tenant: str | None = None
    min_age_s: float = 0.0
    max_age_s: float | None = None


class FailedRequest(NamedTuple):
    """The record of a request that failed, which can be sent again.

    `stored_at` is in seconds since 1970, by the clock of the store.
    """

    stage: RagStage
    request_id: str
    tenant: str
    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    stored_at: float = 0.0


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """A document of a request, by its index there. `score` is 0 to 1, relative to the other documents of the request."""

    index: int
    score: float
