"""Join passages of one document to the text that is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import FoundPassage, Passage

GAP: Final = "\n\n"  # passages are separated by blanks only
MIN_NEIGHBOUR_SCORE: Final = 0.75  # of the best passage's score: such a neighbour is shown with it
# With 3, 48 of 84 questions instead of 47 have their answer shown, in a ninth more text.
MAX_MERGED: Final = 2
MAX_GAP_CHARS: Final = 4  # between two neighbours: nothing but blanks


def merge_document_text(passages: Iterable[Passage], limit: int | None = None) -> str:
    """The text that consecutive passages were cut from, without repeating their overlap; at most `limit` characters."""
    text, end = "", 0  # `end`: offset in the document
    for passage in passages:
        overlap = max(0, end - passage.start)
        shared = passage.text[:overlap]
        if passage.start <= end and (not shared or text[-overlap:].startswith(shared)):
            text += passage.text[len(shared) :]
        else:
            text += (GAP if text else "") + passage.text
        end = max(end, passage.start + len(passage.text))
        if limit is not None and len(text) >= limit:
            break
    return text[:limit]


def merge_passages(found: Sequence[FoundPassage]) -> str:
    """The best of a document's passages, which comes first, joined with neighbours that score nearly as high.

    The result is a part of what `merge_document_text` returns for all passages.
    """
    best = found[0]
    good = sorted(
        (each.passage for each in found if each.score >= MIN_NEIGHBOUR_SCORE * best.score),
        key=lambda passage: passage.start,
    )
    scores = {each.passage.id: each.score for each in found}
    first = last = next(place for place, passage in enumerate(good) if passage.id == best.passage.id)
    while last - first + 1 < MAX_MERGED:
        before = scores[good[first - 1].id] if first and _adjoin(good[first - 1], good[first]) else None
        after = scores[good[last + 1].id] if last + 1 < len(good) and _adjoin(good[last], good[last + 1]) else None
        if before is None and after is None:
            break
        if after is None or (before is not None and before >= after):
            first -= 1
        else:
            last += 1
    return merge_document_text(good[first : last + 1])


def _adjoin(one: Passage, following: Passage) -> bool:
    return following.start - (one.start + len(one.text)) <= MAX_GAP_CHARS
