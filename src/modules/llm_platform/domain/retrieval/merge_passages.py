"""Join passages of one document to the text that is shown."""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import FoundPassage, Passage
from modules.llm_platform.domain.extractive.question import exact_terms

GAP: Final = "\n\n"  # passages are separated by blanks only
MIN_NEIGHBOUR_SCORE: Final = 0.75  # share of the best passage's score: such a neighbour is shown with it
# With 3, 48 of 84 questions instead of 47 have their answer shown, in a ninth more text.
MAX_MERGED: Final = 2
MAX_EXACT: Final = 3  # further passages that have the options, signs and identifiers of the question
MAX_GAP_CHARS: Final = 4  # two neighbours have nothing but blanks between them


def merge_document_text(passages: Iterable[Passage], limit: int | None = None) -> str:
    """Return the text that consecutive passages were cut from, without repeating their overlap; at most `limit` characters."""
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


def merge_passages(found: Sequence[FoundPassage], question: str = "") -> str:
    """Return the best of a document's passages, which comes first, joined with neighbours that score nearly as high.

    An option, a sign or an identifier of the question (`--onto`, `$*`) often stands in the synopsis and is explained elsewhere:
    the best MAX_EXACT further passages that have all of them are shown, too. Passages are in the order of the document.
    """
    best = found[0]
    good = sorted(
        (hit.passage for hit in found if hit.score >= MIN_NEIGHBOUR_SCORE * best.score),
        key=lambda passage: passage.start,
    )
    scores = {hit.passage.id: hit.score for hit in found}
    first = last = next(position for position, passage in enumerate(good) if passage.id == best.passage.id)
    while last - first + 1 < MAX_MERGED:
        before = scores[good[first - 1].id] if first and _are_adjacent(good[first - 1], good[first]) else None
        after = (
            scores[good[last + 1].id] if last + 1 < len(good) and _are_adjacent(good[last], good[last + 1]) else None
        )
        if before is None and after is None:
            break
        if after is None or (before is not None and before >= after):
            first -= 1
        else:
            last += 1
    shown = good[first : last + 1]
    shown += _with_exact_terms(found, exact_terms(question), {passage.id for passage in shown})
    return merge_document_text(sorted(shown, key=lambda passage: passage.start))


def _with_exact_terms(found: Sequence[FoundPassage], exact: frozenset[str], shown: Collection[str]) -> list[Passage]:
    """Return the best further passages that have all of these terms; none without terms."""
    others = (hit.passage for hit in found if exact and hit.passage.id not in shown)
    return list(islice((passage for passage in others if exact <= exact_terms(passage.text)), MAX_EXACT))


def _are_adjacent(one: Passage, following: Passage) -> bool:
    return following.start - (one.start + len(one.text)) <= MAX_GAP_CHARS
