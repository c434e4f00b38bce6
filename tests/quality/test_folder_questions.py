"""Plain questions about an ordinary folder: an answer without a language model is seldom wrong, and shows what may answer.

Each run asks a part of the questions, because all of them take a quarter of an hour on a slow processor:
`python scripts/folder_questions.py` asks all. The bars are what was measured, less what other processors change.
"""

from __future__ import annotations

import collections
from typing import NamedTuple

import pytest
from scripts import folder_questions
from scripts.folder_questions import Depth

NUMBERS = {"folder": 80, "tables": 90, "rows": 140, "limits": 160, "plain": 72}


class Bar(NamedTuple):
    """Of every `step`-th question, the least that are right, the least that are right or shown, and the most that are wrong."""

    step: int
    right: int
    right_or_shown: int
    wrong: int


BARS: dict[tuple[str, Depth], Bar] = {
    ("folder", "shallow"): Bar(2, right=10, right_or_shown=17, wrong=8),
    ("folder", "deep"): Bar(5, right=2, right_or_shown=5, wrong=4),
    ("tables", "shallow"): Bar(2, right=18, right_or_shown=22, wrong=5),
    ("tables", "deep"): Bar(5, right=6, right_or_shown=7, wrong=3),
    ("rows", "shallow"): Bar(3, right=23, right_or_shown=24, wrong=10),
    ("limits", "shallow"): Bar(3, right=20, right_or_shown=24, wrong=2),
    ("plain", "shallow"): Bar(2, right=25, right_or_shown=26, wrong=6),
}


@pytest.mark.parametrize(("name", "depth"), BARS)
async def test_a_folder_is_answered(name: str, depth: Depth) -> None:
    folder, bar = folder_questions.FOLDERS / name, BARS[name, depth]
    questions = folder_questions.read_questions(folder)
    assert len({question["q"] for question in questions}) == len(questions) == NUMBERS[name]
    found = await folder_questions.ask(folder, "on", depth, questions[:: bar.step])
    counts = collections.Counter(asked.outcome for asked in found)
    assert counts["right"] >= bar.right, counts
    assert counts["right"] + counts["shown"] >= bar.right_or_shown, counts
    assert counts["wrong"] + counts["invented"] <= bar.wrong, counts
