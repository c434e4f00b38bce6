"""scripts/blind_scoring.py: sides become variants again, and chance is told from difference."""

from __future__ import annotations

from math import comb
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts.blind_scoring import lines, score, sign_test
from scripts.blind_sheet import Judgement, SheetError
from tests.support.cases import for_each

TOOK = {"seconds": 2.0, "tokens": 10, "writer": "extractive", "failed": False}


def key(*firsts: str, **took: Any) -> dict[str, Any]:
    rows = [{"question": "Why?", "first": first, "a": TOOK, "b": {**TOOK, **took}} for first in firsts]
    return {"variants": {"a": "depth=shallow", "b": "depth=report"}, "questions": rows}


def test_a_side_counts_for_the_variant_that_stood_there() -> None:
    """Answer 1 is A's where A stood first, and B's where B did; so are marks and citations."""
    judgements = {
        1: Judgement(better=1, quality={1: 5, 2: 1}, citations={1: (3, 3), 2: (0, 1)}),
        2: Judgement(better=1, quality={1: 4, 2: 2}, citations={1: (1, 1)}, ambiguity={1: True, 2: False}),
        3: Judgement(better=0),
    }
    result = score(key("a", "b", "b"), judgements)
    a, b = result.tallies["a"], result.tallies["b"]
    assert (a.wins, b.wins, result.ties) == (1, 1, 1)
    assert (a.quality, b.quality) == ([5, 2], [1, 4])
    assert ((a.citations_right, a.citations_seen), (b.citations_right, b.citations_seen)) == ((3, 3), (1, 2))
    assert (a.ambiguity, b.ambiguity) == ([False], [True])


def test_what_was_left_empty_counts_for_nothing() -> None:
    """An unjudged question is neither a tie nor a loss."""
    result = score(key("a", "b"), {1: Judgement(better=2), 2: Judgement()})
    assert (result.judged, result.asked, result.ties) == (1, 2, 0)
    assert result.tallies["b"].wins == 1
    assert result.tallies["a"].accuracy is None


def test_a_sheet_of_another_key_is_refused() -> None:
    """A judgement of a question that the key does not know cannot be given to anybody."""
    with pytest.raises(SheetError, match="key"):
        score(key("a"), {1: Judgement(), 2: Judgement(better=1)})


@for_each(
    ("wins", "losses", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (3, 3, 1.0), (5, 0, 0.0625), (6, 0, 0.03125), (15, 5, 0.04138946533203125)],
)
def test_the_sign_test_on_known_values(wins: int, losses: int, p: float) -> None:
    """Figures of any table of the binomial distribution."""
    assert sign_test(wins, losses) == sign_test(losses, wins) == pytest.approx(p)


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_is_a_probability(wins: int, losses: int) -> None:
    """It lies between 0 and 1 and is the share of all outcomes that are at least as uneven."""
    p, tosses = sign_test(wins, losses), wins + losses
    uneven = abs(wins - losses)
    share = sum(comb(tosses, heads) for heads in range(tosses + 1) if abs(2 * heads - tosses) >= uneven) / 2**tosses
    assert p == pytest.approx(share)
    assert 0 < p <= 1


def test_the_score_in_words() -> None:
    """All that was judged, what it took, who wrote, and whether it may be chance."""
    judgements = {
        number: Judgement(better=2, quality={1: 2, 2: 4}, citations={1: (9, 10), 2: (10, 10)}, ambiguity={2: True})
        for number in range(1, 7)
    }
    said = "\n".join(lines(score(key(*"aaaaaa", writer="kimi/kimi-for-coding", failed=True), judgements)))
    assert said.splitlines() == [
        "6 of 6 questions judged",
        "A  depth=shallow",
        "   better in 0 · quality 2.00 (of 6) · citations right 54 of 60 = 90%, not above 95%",
        "   2.0 s · 60 tokens · written by extractive (6)",
        "B  depth=report",
        "   better in 6 · quality 4.00 (of 6) · citations right 60 of 60 = 100%, above 95% · ambiguity handled in 6 of 6",
        "   2.0 s · 60 tokens · written by kimi/kimi-for-coding (6) · 6 failed",
        "ties: 0",
        "sign test over 6 decided questions: p = 0.031; B is better",
    ]


def test_few_judgements_prove_nothing() -> None:
    """Two wins of two may be chance, and the score says so."""
    result = score(key("a", "a"), {1: Judgement(better=1), 2: Judgement(better=1)})
    assert list(lines(result))[-1].endswith("p = 0.500; chance may show such a difference")
