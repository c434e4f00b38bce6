"""Follow-up questions are understood by rules as often as docs/howto/ask-follow-up-questions.md says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modules.llm_platform.domain.dtos.request_dtos import Turn
from modules.llm_platform.domain.research.follow_up import standalone_by_rules

ROOT = Path(__file__).parents[2]
ROWS = [json.loads(line) for line in (ROOT / "tests/quality/follow_ups.jsonl").read_text(encoding="utf-8").splitlines()]
NAMES = {"tuned": "used to tune the rules", "unseen": "not used for tuning"}


def understood(row: dict[str, object]) -> bool:
    """Return whether a follow-up got its topic, or another question stayed as it was."""
    question = str(row["question"])
    turn = Turn(question=str(row["previous"]), answer=str(row["answer"]))
    found = standalone_by_rules(question, [turn], str(row["language"]))
    if not row["follow_up"]:
        return found == question
    topic = row["topic"]
    assert isinstance(topic, list)
    return found != question and all(word.casefold() in found.casefold() for word in topic)


@pytest.mark.parametrize("name", NAMES)
def test_the_figures_of_the_docs_are_true(name: str) -> None:
    """The row of the set in the table has what is measured now; no change of topic is glued to the old topic."""
    rows = [row for row in ROWS if row["set"] == name]
    follow_ups = [understood(row) for row in rows if row["follow_up"]]
    others = [understood(row) for row in rows if not row["follow_up"]]
    assert all(others)
    page = (ROOT / "docs/howto/ask-follow-up-questions.md").read_text(encoding="utf-8")
    row = f"| {NAMES[name]} | {sum(follow_ups)} of {len(follow_ups)} | {sum(others)} of {len(others)} |"
    assert row in page


def test_every_language_has_both_kinds() -> None:
    """English, German, Russian and Chinese; about half of the questions change the topic."""
    for language in ("en", "de", "ru", "zh"):
        kinds = [row["follow_up"] for row in ROWS if row["language"] == language]
        assert 0.3 < sum(kinds) / len(kinds) < 0.7
