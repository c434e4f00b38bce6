"""domain/merge_passages.py"""

from __future__ import annotations

import pytest

from modules.llm_platform.domain.chunking import split_chunks
from modules.llm_platform.domain.dtos.retrieval_dtos import FoundPassage, Passage
from modules.llm_platform.domain.merge_passages import merge_document_text, merge_passages

TEXT = "\n\n".join(f"## H{number}\n\n" + " ".join([f"Word {number} here."] * 30) for number in range(6))
SPANS = split_chunks(TEXT)
PASSAGES = [
    Passage(id=str(n), doc_id="a", title="A", text=TEXT[span.start : span.end], start=span.start)
    for n, span in enumerate(SPANS)
]


def found(scores: dict[int, float]) -> list[FoundPassage]:
    """Best first, as a search gives them."""
    best = sorted(scores, key=lambda number: -scores[number])
    return [FoundPassage(passage=PASSAGES[number], score=scores[number]) for number in best]


@pytest.mark.parametrize(
    ("scores", "shown"),
    [
        ({3: 0.8}, (3, 3)),
        ({3: 0.8, 2: 0.75, 4: 0.7, 1: 0.65}, (2, 3)),
        ({3: 0.8, 2: 0.3, 4: 0.59}, (3, 3)),
        ({3: 0.8, 5: 0.8, 1: 0.8}, (3, 3)),
        ({0: 0.8, 1: 0.65, 2: 0.7, 3: 0.75}, (0, 1)),
        ({5: 0.0, 4: 0.0}, (4, 5)),
    ],
)
def test_neighbours_that_answer_too_are_shown_together(scores: dict[int, float], shown: tuple[int, int]) -> None:
    """One stretch of the document: its best passage, and one that adjoins it and is nearly as good."""
    first, last = shown
    assert merge_passages(found(scores)) == TEXT[SPANS[first].start : SPANS[last].end]
    assert merge_passages(found(scores)) in merge_document_text(PASSAGES)


def test_what_two_passages_share_is_there_once() -> None:
    """Where a section was cut by its length, they overlap."""
    text = " ".join(f"Sentence number {number} says something of its own about the gateway." for number in range(60))
    spans = split_chunks(text, overlap=30)
    assert spans[1].start < spans[0].end
    passages = [
        Passage(id=str(n), doc_id="a", title="A", text=text[span.start : span.end], start=span.start)
        for n, span in enumerate(spans[:2])
    ]
    best = [FoundPassage(passage=passage, score=0.9) for passage in passages]
    assert merge_passages(best) == text[: spans[1].end]
    assert merge_passages(best[::-1]) == text[: spans[1].end]
