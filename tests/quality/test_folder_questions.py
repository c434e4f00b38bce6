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

NUMBERS = {
    "folder": 80,
    "long1": 80,
    "long2": 80,
    "long3": 90,
    "days2": 45,
    "prose3": 50,
    "mixed2": 60,
    "mixed6": 80,
    "mixed7": 100,
    "mixed8": 80,
    "mixed9": 80,
    "mixed10": 80,
    "mixed11": 80,
    "mixed12": 80,
    "several2": 110,
    "tables": 90,
    "rows": 140,
    "limits": 160,
    "plain": 72,
}


class Bar(NamedTuple):
    """Of every `step`-th question, the least that are right, the least that are right or shown, and the most that are wrong."""

    step: int
    right: int
    right_or_shown: int
    wrong: int


BARS: dict[tuple[str, Depth], Bar] = {
    ("folder", "shallow"): Bar(4, right=9, right_or_shown=12, wrong=3),
    ("folder", "deep"): Bar(8, right=5, right_or_shown=8, wrong=2),
    ("long2", "shallow"): Bar(4, right=12, right_or_shown=15, wrong=4),
    ("long2", "deep"): Bar(8, right=5, right_or_shown=6, wrong=3),
    ("long3", "shallow"): Bar(4, right=10, right_or_shown=11, wrong=5),
    ("days2", "shallow"): Bar(2, right=10, right_or_shown=13, wrong=6),
    ("prose3", "shallow"): Bar(2, right=4, right_or_shown=8, wrong=7),
    ("mixed2", "shallow"): Bar(3, right=6, right_or_shown=11, wrong=4),
    ("mixed6", "shallow"): Bar(3, right=10, right_or_shown=16, wrong=4),
    ("mixed7", "shallow"): Bar(4, right=9, right_or_shown=14, wrong=5),
    ("mixed8", "shallow"): Bar(3, right=18, right_or_shown=20, wrong=2),
    ("mixed9", "shallow"): Bar(4, right=9, right_or_shown=13, wrong=4),
    ("mixed10", "shallow"): Bar(4, right=9, right_or_shown=13, wrong=3),
    ("mixed11", "shallow"): Bar(4, right=9, right_or_shown=14, wrong=2),
    ("mixed12", "shallow"): Bar(4, right=9, right_or_shown=10, wrong=4),
    ("several2", "shallow"): Bar(3, right=7, right_or_shown=19, wrong=4),
    ("tables", "shallow"): Bar(4, right=8, right_or_shown=10, wrong=4),
    ("tables", "deep"): Bar(9, right=7, right_or_shown=7, wrong=1),
    ("rows", "shallow"): Bar(5, right=12, right_or_shown=13, wrong=6),
    ("limits", "shallow"): Bar(5, right=16, right_or_shown=18, wrong=1),
    ("plain", "shallow"): Bar(3, right=22, right_or_shown=22, wrong=2),
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
