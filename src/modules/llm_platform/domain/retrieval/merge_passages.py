"""Join the found passages of one document into the text that is shown as a source.

The best passage comes with a neighbour that scores nearly as high, and with passages that have the exact terms of the question.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from modules.llm_platform.domain.dtos.retrieval_dtos import FoundPassage, Passage
from modules.llm_platform.domain.extractive.question import list_exact_terms, remove_name_ampersands
from modules.llm_platform.domain.text.page_starts import PageStarts, cut_page_starts

GAP: Final = "\n\n"  # between passages that are not adjacent
LINE_END: Final = 1  # characters between two passages that were cut between two lines
MIN_NEIGHBOUR_SCORE: Final = 0.75  # share of the best passage's score: such a neighbour is shown with it
# A limit of 3 shows the answer to 48 of 84 questions instead of 47, in a ninth more text.
MAX_MERGED: Final = 2
MAX_EXACT: Final = 3  # further passages that have the options, symbols and identifiers of the question
MAX_SHORT_CHARS: Final = 8_000  # of a document from which an answer may quote all sentences, about three printed pages
MAX_WHOLE: Final = 5  # the first documents of a search that may come whole
MAX_GAP_CHARS: Final = 4  # neighbours have at most this many characters, all spaces, between them


class MergedText(NamedTuple):
    """The text of passages, and where the pages of their document begin in it."""

    text: str
    pages: PageStarts = ()


def merge_document_text(passages: Iterable[Passage], limit: int | None = None) -> MergedText:
    """Return the text that consecutive passages were cut from, without repeating their overlap; at most `limit` characters."""
    text, end = "", 0  # `end` is the offset in the document up to which the text reaches
    pages: list[tuple[int, int]] = []
    for passage in passages:
        overlap = max(0, end - passage.start)
        shared = passage.text[:overlap]
        if passage.start <= end and (not shared or text[-overlap:].startswith(shared)):
            added = passage.text[len(shared) :]
        else:
            added = passage.text
            is_next_line = passage.start - end == LINE_END
            text += ("\n" if is_next_line else GAP) if text else ""
        skipped = len(passage.text) - len(added)
        pages += cut_page_starts(passage.pages, skipped, len(passage.text), len(text))
        text += added
        end = max(end, passage.start + len(passage.text))
        if limit is not None and len(text) >= limit:
            break
    return MergedText(text[:limit], tuple(pages))


def merge_short_document(passages: Iterable[Passage]) -> MergedText | None:
    """Return the whole text of a document of at most MAX_SHORT_CHARS, from all of its passages; None for a longer one.

    The sentence that answers a question may have none of its words, so that no search finds its passage.
    """
    merged = merge_document_text(passages, MAX_SHORT_CHARS + 1)
    return merged if 0 < len(merged.text) <= MAX_SHORT_CHARS else None


def merge_passages(found: Sequence[FoundPassage], question: str = "") -> MergedText:
    """Return the best passage of a document, joined with neighbours that score nearly as high. `found` has the best one first.

    An option, a sign or an identifier of the question (`--onto`, `$*`) is often in the synopsis and is explained elsewhere.
    So the best MAX_EXACT further passages that have all of them are shown, too. The text keeps the order of the document.
    """
    shown = _add_neighbours(found)
    shown += _find_exact_passages(
        found, list_exact_terms(remove_name_ampersands(question)), {passage.id for passage in shown}
    )
    return merge_document_text(sorted(shown, key=lambda passage: passage.start))


def _add_neighbours(found: Sequence[FoundPassage]) -> list[Passage]:
    """Return the best passage and its neighbours, up to MAX_MERGED passages. Of two neighbours the better one comes first."""
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
    return good[first : last + 1]


def _find_exact_passages(found: Sequence[FoundPassage], exact: frozenset[str], shown: Collection[str]) -> list[Passage]:
    """Return the best further passages that have all of these terms; none without terms."""
    others = (hit.passage for hit in found if exact and hit.passage.id not in shown)
    return list(islice((passage for passage in others if exact <= list_exact_terms(passage.text)), MAX_EXACT))


def _are_adjacent(one: Passage, following: Passage) -> bool:
    return following.start - (one.start + len(one.text)) <= MAX_GAP_CHARS
