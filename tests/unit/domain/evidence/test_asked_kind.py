"""A row is answered where its quotes have the kind of thing that the question asks for."""

from __future__ import annotations

import pytest

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.evidence.ledger import LedgerBuilder

ALBUM = "Transfiguration of Vincent, released in 2003, is the third studio album by singer-songwriter M. Ward."
STATE = "Singer-songwriter M. Ward, who wrote Transfiguration of Vincent, his third studio album, is from the state of Oregon."

# The word for the requested kind is in most sources, so it has little weight.
OTHERS = [
    Source(
        index=number, url=f"https://example.org/{number}", title=f"Town {number}", text=f"Town {number} is in a state."
    )
    for number in range(2, 30)
]


@pytest.mark.parametrize(
    ("question", "text", "state"),
    [
        (
            "Transfiguration of Vincent is the third studio album by a singer-songwriter from what state?",
            ALBUM,
            "partly",
        ),
        (
            "Transfiguration of Vincent is the third studio album by a singer-songwriter from which state?",
            ALBUM,
            "partly",
        ),
        (
            "Transfiguration of Vincent is the third studio album by a singer-songwriter from what state?",
            STATE,
            "answered",
        ),
        ("What is Transfiguration of Vincent, the third studio album by singer-songwriter M. Ward?", ALBUM, "answered"),
    ],
)
def test_a_sentence_on_the_subject_of_a_long_question_does_not_answer_it(question: str, text: str, state: str) -> None:
    """It has nearly all words of the question, but not the requested kind."""
    source = Source(index=1, url="https://example.org/a", title="Transfiguration of Vincent", text=text)
    [read] = LedgerBuilder([question], "en").build_rows([source, *OTHERS], {})
    assert read.row.state == state
