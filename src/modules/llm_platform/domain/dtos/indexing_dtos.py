"""Documents on their way into a collection, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel

from modules.llm_platform.domain.text.page_starts import PageStarts

ORIGIN_FIELD: Final = "llm-platform:origin"  # a filter that every passage with an origin has


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of a document, as it is cut into passages.

    - `fields` are the values that searches can filter by.
    - `note` says what is missing of it.
    - `pages` says where its pages begin, if it has pages.
    """

    title: str
    text: str
    url: str | None = None
    source: str | None = None
    lang: str | None = None
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    note: str | None = None
    pages: PageStarts = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or a line that cannot be indexed.

    - `where` names it and the reason says why, in words for its owner, without its content.
    - `hides` is how the ids of documents begin that it may contain: `""` matches any id, `None` none.
    """

    where: str
    reason: str
    hides: str | None = None


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document that was found and not read yet.

    - `digest` changes with the content, and `where` names the document to people.
    - `read` blocks.
    - `position` is the number of bytes that have been gone through when this document is done.
    - `origin` is the folder or source that it comes from, as a digest.
    - `unchanged` is True if the source knows that the collection has the document as it is.
    - `qualified` gives the document under another id, for a collection that has another origin's document under `doc_id`;
      None if ids are the documents' own, so that the newer document replaces the older one.
    """

    doc_id: str
    digest: str
    where: str
    position: int
    read: Callable[[], DocumentText | LeftOut]
    origin: str | None = None
    unchanged: bool = False
    qualified: Callable[[], FoundDocument] | None = None


class IndexProblem(BaseModel, frozen=True):
    """A file or a line that was left out, or read in part."""

    where: str
    reason: str


class IndexProgress(BaseModel, frozen=True):
    """The progress of an indexing: documents looked at, passages written, and bytes done of all bytes."""

    documents: int
    passages: int
    done_bytes: int
    total_bytes: int


class IndexReport(BaseModel, frozen=True):
    """The result of an indexing run: the numbers of documents by what happened to them.

    - `unchanged` documents cost nothing.
    - `failed` documents were left out.
    - `removed` documents were pruned.
    - `passages` is the number of passages that were written.
    - `problems` describes the first problems, and `problem_count` is the number of all.
    - `displaced` is the number of changed documents that replaced a document of another folder with the same id.
    - `removed_elsewhere` is the number of removed documents that came from a folder that this run was not given.
    """

    collection: str
    embedder: str
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    failed: int = 0
    removed: int = 0
    displaced: int = 0
    removed_elsewhere: int = 0
    passages: int = 0
    problems: tuple[IndexProblem, ...] = ()
    problem_count: int = 0

    @property
    def documents(self) -> int:
        """The number of given documents that are in the collection now."""
        return self.added + self.changed + self.unchanged
