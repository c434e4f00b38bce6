"""Which documents an answer cites, and the answer with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.application.answering.pieces import Piece
from modules.llm_platform.application.research.write import Written
from modules.llm_platform.domain.answer_text import sanitize
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.dtos.retrieval_dtos import RagCitation
from modules.llm_platform.domain.markdown.renumbering import renumbered

HOLDS: Final = ("supported", "partial")  # the verdicts with which a document counts as cited


@dataclass(frozen=True, slots=True)
class Cited:
    """`[n]` in the text is the n-th of the citations; `degraded` says how many statements their sources do not hold."""

    text: str
    citations: tuple[RagCitation, ...]
    degraded: tuple[Degraded, ...]


def cited(written: Written, pieces: Sequence[Piece]) -> Cited:
    """The documents that checked sentences cite, each once, in the order of the text.

    Pieces that belong to one document share its number. A marker whose document is not among them goes.
    """
    documents: dict[tuple[str, str], RagCitation] = {}
    for citation in sorted(written.checked.citations, key=lambda each: each.start):
        piece = pieces[citation.source_index - 1]
        if citation.verdict in HOLDS and piece.key is not None:
            documents.setdefault(piece.key, piece.document)
    places = {key: place for place, key in enumerate(documents, 1)}
    numbers = {number: places[piece.key] for number, piece in enumerate(pieces, 1) if piece.key in places}
    citations = tuple(documents.values())
    return Cited(_with_numbers(written, numbers, citations), citations, _unsupported(written))


def _with_numbers(written: Written, numbers: dict[int, int], citations: Sequence[RagCitation]) -> str:
    shown = written.checked.cited
    if all(numbers.get(number) == number for number in shown) and len(shown) == len(citations):
        return written.text
    # What a marker kept apart may come together when it goes, so the text is made safe anew.
    sources = [Source(index=place, title="", url=each.url or "", text="") for place, each in enumerate(citations, 1)]
    return sanitize(renumbered(written.text, numbers), sources)


def _unsupported(written: Written) -> tuple[Degraded, ...]:
    verdicts = [citation.verdict for citation in written.checked.citations]
    failed = sum(verdict not in HOLDS for verdict in verdicts)
    if not failed:
        return ()
    reason = f"unsupported: {failed} of {len(verdicts)} citations were not found in the documents that they name"
    return (Degraded(component=written.synthesis.synthesizer, reason=reason),)
