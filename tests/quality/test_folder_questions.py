"""Plain questions about an ordinary folder: an answer without a language model is seldom wrong, and shows what may answer.

The bars are what was measured, less what other processors change.
"""

from __future__ import annotations

import collections

import pytest
from scripts import folder_questions
from scripts.folder_questions import Depth

NUMBERS = {"folder": 80, "tables": 90, "rows": 140, "plain": 72}
RIGHT = {("folder", "shallow"): 18, ("folder", "deep"): 17, ("tables", "shallow"): 42, ("tables", "deep"): 41}
RIGHT |= {("rows", "shallow"): 71, ("plain", "shallow"): 47}
RIGHT_OR_SHOWN = {("folder", "shallow"): 38, ("folder", "deep"): 41, ("tables", "shallow"): 46, ("tables", "deep"): 48}
RIGHT_OR_SHOWN |= {("rows", "shallow"): 74, ("plain", "shallow"): 49}
WRONG = {("folder", "shallow"): 8, ("folder", "deep"): 9, ("tables", "shallow"): 7, ("tables", "deep"): 6}
WRONG |= {("rows", "shallow"): 22, ("plain", "shallow"): 13}


@pytest.mark.parametrize(("name", "depth"), RIGHT)
async def test_a_folder_is_answered(name: str, depth: Depth) -> None:
    folder = folder_questions.FOLDERS / name
    questions = folder_questions.read_questions(folder)
    assert len({question["q"] for question in questions}) == len(questions) == NUMBERS[name]
    found = await folder_questions.ask(folder, "on", depth, questions)
    counts = collections.Counter(asked.outcome for asked in found)
    assert counts["right"] >= RIGHT[name, depth], counts
    assert counts["right"] + counts["shown"] >= RIGHT_OR_SHOWN[name, depth], counts
    assert counts["wrong"] + counts["invented"] <= WRONG[name, depth], counts
