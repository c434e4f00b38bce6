"""What an answer is written from: texts, and the documents that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from modules.llm_platform.domain.canonical_url import canonical_url, is_openable
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.dtos.retrieval_dtos import RagCitation
from shared.exceptions import AppException

MAX_TITLE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Piece:
    """A text, and its document as an answer cites it; without id, address and title it cannot be cited."""

    text: str
    document: RagCitation

    @property
    def key(self) -> tuple[str, str] | None:
        """Equal for pieces of one document; None for words that come from nowhere in particular."""
        document = self.document
        if document.doc_id:
            return "id", document.doc_id
        if document.url:
            return "url", canonical_url(document.url)
        return ("title", document.title) if document.title else None


@dataclass(slots=True)
class Collected:
    """The pieces so far, and what could not be had."""

    pieces: list[Piece] = field(default_factory=list)
    degraded: list[Degraded] = field(default_factory=list)
    failures: list[AppException] = field(default_factory=list)

    def failed(self, component: str, error: AppException) -> None:
        """A part that failed, though others may do."""
        self.degraded.append(Degraded.of(component, error))
        self.failures.append(error)


def document(doc_id: str | None, title: str | None, url: str | None) -> RagCitation:
    """A document as it is cited: title on one line, no address that nobody may open, nothing empty."""
    shown = " ".join((title or "").split())[:MAX_TITLE_CHARS]
    return RagCitation(doc_id=doc_id or None, title=shown or None, url=url if url and is_openable(url) else None)


def numbered(pieces: Sequence[Piece]) -> tuple[Source, ...]:
    """The pieces as sources, from 1."""
    return tuple(
        Source(index=number, title=piece.document.title or "", url=piece.document.url or "", text=piece.text)
        for number, piece in enumerate(pieces, 1)
    )
