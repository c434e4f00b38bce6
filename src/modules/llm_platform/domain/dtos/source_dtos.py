"""The sources of an answer: as writers cite them, as the answer lists them, and as the store holds them."""

import hashlib
from datetime import datetime
from typing import Literal, Self

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from modules.llm_platform.domain.dtos import web_search_dtos as dtos
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow
from modules.llm_platform.domain.text.language import detect_certain_language
from modules.llm_platform.domain.text.page_starts import PageStarts

TextKind = Literal["page", "snippet", "document"]
DETECT_CHARS = 500  # the beginning of a text from which its language is detected
READ_IN_PART = 0.25  # a share of a page's visible text; menus and teasers alone are often half of it


class Source(BaseModel, frozen=True):
    """A numbered text that an answer may cite. Offsets of quotes point into `text`, in Unicode code points.

    - `text_kind` is `page` for a page that was read, `snippet` for an excerpt by a search engine, and `document` for a
      document of the operator.
    - `extraction` is the share of the page's visible text that was kept, 0 to 1; None if no page was read, or if its reader
      does not tell.
    - `pages` says where the pages of a PDF begin in `text`.
    - `is_whole` is True if `text` is known to be a whole document: its tables have all their rows.
    - `excerpt` is the part of a whole document that the search found; None if `text` is all that it found. It is not stored.
    - `read_at` and `media_type` say when the page was read, and what its server called it; None if no page was read.
    """

    index: int
    title: str
    url: str
    text: str
    published: str | None = None
    text_kind: TextKind = "page"
    extraction: float | None = None
    pages: PageStarts = ()
    is_whole: bool = False
    excerpt: SkipJsonSchema[str | None] = Field(default=None, exclude=True, repr=False)
    read_at: datetime | None = Field(default=None, exclude_if=lambda value: value is None)
    media_type: str | None = Field(default=None, exclude_if=lambda value: value is None)

    @property
    def sha256(self) -> str:
        """The hex digest of the text in UTF-8."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    def keep_found(self) -> Self:
        """Return the source with what the search found as its text, for a choice by words; mostly the source itself.

        A title gives every passage of its document words of the question, so words cannot choose among all of them.
        """
        return self if self.excerpt is None else self.model_copy(update={"text": self.excerpt, "excerpt": None})

    @property
    def is_read_page(self) -> bool:
        """True if most of the text of a page was kept, so that its tables count as whole."""
        return self.text_kind == "page" and (self.extraction is None or self.extraction >= READ_IN_PART)


class SourceRef(BaseModel, frozen=True):
    """A source as an answer lists it.

    - `extraction` is the share of the page's visible text that was kept, 0 to 1.
    - `language` is the language of its text, as a subtag such as `de`; None if it is not certain.
    """

    index: int
    title: str
    url: str
    extraction: float | None = Field(default=None, ge=0, le=1)
    language: str | None = Field(default=None, pattern="^[a-z]{2,3}$")

    @property
    def is_read_in_part(self) -> bool:
        """True if so little of the page was kept that the rest may contain what `text` lacks."""
        return self.extraction is not None and self.extraction < READ_IN_PART

    @classmethod
    def of(cls, source: Source) -> Self:
        return cls(
            index=source.index,
            title=source.title,
            url=source.url,
            extraction=source.extraction,
            language=detect_certain_language(source.text[:DETECT_CHARS]),
        )


class RawResult(BaseModel, frozen=True):
    """One search result as the answer shows it.

    - `content` is the stored text that quotes point into.
    - `pages` says where the pages of a document begin in `content`, `is_whole` is as for a search result, and `excerpt` as for a
      source. None of them is part of the JSON.
    """

    title: str
    url: str
    content: str
    source: str | None = None
    score: float | None = None
    published: str | None = None
    pages: SkipJsonSchema[PageStarts] = Field(default=(), exclude=True, repr=False)
    is_whole: SkipJsonSchema[bool] = Field(default=False, exclude=True, repr=False)
    excerpt: SkipJsonSchema[str | None] = Field(default=None, exclude=True, repr=False)

    @classmethod
    def of(cls, item: dtos.WebSearchResultItem) -> Self:
        has_document = item.document_text is not None
        return cls(
            title=item.title,
            url=item.url,
            content=item.document_text or item.text,
            source=item.source,
            score=item.score,
            published=item.published_date,
            pages=item.document_pages if has_document else item.pages,
            is_whole=item.is_whole or has_document,
            excerpt=item.text if has_document else None,
        )


class HeldSource(BaseModel, frozen=True):
    """A stored source as it was read. `sha256` is the hex digest of its text in UTF-8."""

    index: int
    url: str
    title: str
    text: str
    text_kind: TextKind = "page"
    sha256: str


class StoredSources(BaseModel, frozen=True):
    """The sources of one research run, and its evidence after the run has ended."""

    sources: tuple[Source, ...]
    evidence: tuple[EvidenceRow, ...] = ()

    def find(self, index: int) -> HeldSource | None:
        """Return source number `index`; None if the run had no such source."""
        for source in self.sources:
            if source.index == index:
                return HeldSource(
                    index=index,
                    url=source.url,
                    title=source.title,
                    text=source.text,
                    text_kind=source.text_kind,
                    sha256=source.sha256,
                )
        return None
