"""From passages that were found to the stretch of their document that is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import FoundPassage, Passage
from modules.llm_platform.domain.whole_text import whole_text

JOINS_FROM: Final = 0.75  # of the best passage's score: a neighbour that also answers is shown with it
MAX_JOINED: Final = 2  # passages; with 3, 48 of 84 questions instead of 47 have their answer shown, in a ninth more text
MAX_GAP: Final = 4  # characters: between two neighbours nothing but blanks


def joined(found: Sequence[FoundPassage]) -> str:
    """The best of a document's passages, which comes first, and what adjoins it and was found nearly as good; as it stands in
    the `whole_text` of the document.
    """
    best = found[0]
    good = sorted(
        (each.passage for each in found if each.score >= JOINS_FROM * best.score), key=lambda passage: passage.start
    )
    scores = {each.passage.id: each.score for each in found}
    first = last = next(place for place, passage in enumerate(good) if passage.id == best.passage.id)
    while last - first + 1 < MAX_JOINED:
        before = scores[good[first - 1].id] if first and _adjoin(good[first - 1], good[first]) else None
        after = scores[good[last + 1].id] if last + 1 < len(good) and _adjoin(good[last], good[last + 1]) else None
        if before is None and after is None:
            break
        if after is None or (before is not None and before >= after):
            first -= 1
        else:
            last += 1
    return whole_text(good[first : last + 1])


def _adjoin(one: Passage, following: Passage) -> bool:
    return following.start - (one.start + len(one.text)) <= MAX_GAP
