"""Plain questions about an ordinary folder: an answer without a language model is seldom wrong, and shows what may answer.

Nothing is tuned on these questions, so the bars are what was measured, less what other processors change.
"""

from __future__ import annotations

import collections

import pytest
from scripts import folder_questions
from scripts.folder_questions import Depth

RIGHT: dict[Depth, int] = {"shallow": 18, "deep": 17}
RIGHT_OR_SHOWN: dict[Depth, int] = {"shallow": 38, "deep": 41}
WRONG: dict[Depth, int] = {"shallow": 8, "deep": 9}


@pytest.mark.parametrize("depth", ["shallow", "deep"])
async def test_a_folder_is_answered(depth: Depth) -> None:
    questions = folder_questions.read_questions()
    assert len({question["q"] for question in questions}) == len(questions) == 80
    found = await folder_questions.ask("on", depth, questions)
    counts = collections.Counter(asked.outcome for asked in found)
    assert counts["right"] >= RIGHT[depth], counts
    assert counts["right"] + counts["shown"] >= RIGHT_OR_SHOWN[depth], counts
    assert counts["wrong"] + counts["invented"] <= WRONG[depth], counts
