"""Questions that compare rows, or want a yes or no: most are decided, and hardly any wrongly.

The bars are what was measured, less a few.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from scripts import decided_questions


class Bar(NamedTuple):
    """Of every `step`-th question, the least that are right and the most that are wrong or decided without an answer."""

    step: int
    right: int
    wrong: int


BARS = {1: Bar(3, 20, 1), 2: Bar(3, 10, 1), 3: Bar(3, 26, 1)}


@pytest.mark.parametrize("number", BARS)
async def test_rows_decide(number: int) -> None:
    questions, bar = decided_questions.read_questions(number), BARS[number]
    assert len({question["q"] for question in questions}) == len(questions) == (120 if number == 3 else 90)
    found = await decided_questions.ask(questions[:: bar.step])
    known = decided_questions.count(found, has_answer=True)
    unknown = decided_questions.count(found, has_answer=False)
    assert known.get("right", 0) >= bar.right, known
    assert known.get("wrong", 0) + unknown.get("wrong", 0) <= bar.wrong, (known, unknown)
