"""What the check is known to get wrong is kept and counted, and what it once got wrong stays right."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from scripts import quality

HERE = Path(__file__).parent
DOCUMENTATION = HERE.parents[1] / "docs" / "explanation" / "citations.md"
COUNTS = re.compile(
    r"has (\d+) false positives: (\d+) involve a subject, (\d+) an option of a program, (\d+) a fact .*?, "
    r"(\d+) a dropped .*?, and (\d+) a negation, a preference, a quantity or a cause\."
)


def rows(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def verdict_on(row: dict[str, str]) -> str:
    return quality.verdict_of(row["sentence"], row["source"], row["language"])


def test_known_failures_are_failures_of_today() -> None:
    """Each has the verdict that is noted, which is not its label. One that is won belongs into joined_pairs.jsonl."""
    known = rows("known_failures")
    assert all(row["label"] == "unsupported" for row in known)
    assert {row["id"]: verdict_on(row) for row in known} == {row["id"]: row["verdict"] for row in known}
    assert {row["verdict"] for row in known} == {"supported"}


def test_the_documentation_counts_them() -> None:
    """The total, and the number of each kind."""
    counted = COUNTS.search(DOCUMENTATION.read_text(encoding="utf-8"))
    kinds = Counter(row["kind"] for row in rows("known_failures"))
    others = sum(kinds[name] for name in ("negation", "preference", "quantity", "cause"))
    stated = [kinds.total(), *(kinds[name] for name in ("subject", "option", "joined", "hedge")), others]
    assert counted is not None
    assert [*map(int, counted.groups())] == stated
    assert sum(stated[1:]) == kinds.total()


def test_sentences_that_join_words_of_different_things_are_not_supported() -> None:
    """An act of a subordinate clause that is given to the subject of the main one; an option with another's description."""
    won = rows("joined_pairs")
    assert Counter(row["kind"] for row in won) == {"subject": 21, "option": 16, "quantity": 1}
    assert [row["id"] for row in won if verdict_on(row) == "supported"] == []
