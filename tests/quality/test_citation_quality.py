"""The citation checker holds its bars on pairs of sentences and sources that people have labelled."""

from __future__ import annotations

import pytest
from scripts import quality

THREE_CLASS = 0.75  # supported, partial, unsupported: told right
FLAGGED = 0.88  # unsupported sentences that are not called supported
FACTS = 0.95  # the same where a number, date, name or identifier was changed
MIN_PAIRS = 60
KINDS = {"true", "paraphrase", "partial", "wrong_source", "number", "date", "name", "identifier", "negation"}


SETS = ("tuned on", "written last", "second author", "second author, later")


@pytest.fixture(scope="module")
def sets() -> dict[str, list[quality.Pair]]:
    return quality.load()


def test_the_pairs_are_many_and_various(sets: dict[str, list[quality.Pair]]) -> None:
    """Enough pairs of each kind in each set, in several languages; no two have one name."""
    assert tuple(sets) == (*SETS, quality.UNSEEN)
    assert len(sets["tuned on"]) >= MIN_PAIRS
    pairs = [pair for some in sets.values() for pair in some]
    assert {"en", "de", "ru", "zh"} <= {pair.language for pair in pairs}
    assert all({pair.kind for pair in some} == KINDS for some in sets.values())
    assert len({pair.id for pair in pairs}) == len(pairs)


@pytest.mark.parametrize("name", SETS)
def test_the_bars_hold(sets: dict[str, list[quality.Pair]], name: str) -> None:
    """On each set. A guard against getting worse: the wrong verdicts of all sets have been looked at (see the script)."""
    figures = quality.measure(sets[name])
    assert figures.three_class >= THREE_CLASS
    assert figures.flagged >= FLAGGED
    assert figures.numbers >= FACTS
    assert figures.names >= FACTS
    assert figures.verbatim == 1


def test_a_checker_that_approves_of_everything_fails(sets: dict[str, list[quality.Pair]]) -> None:
    """The figures tell a blind checker from a seeing one."""
    blind = [quality.Pair(**{**vars(pair), "source": pair.sentence}) for pair in sets["written last"]]
    assert quality.measure(blind).flagged < FLAGGED


def test_the_report_names_each_wrong_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """The printed figures say how many pairs there were and which of them went wrong."""
    pair = quality.Pair("x-1", "number", "The bridge is long.", "The bridge is long.", "unsupported", "en")
    quality.report("one", quality.measure([pair]))
    printed = capsys.readouterr().out
    assert "one: 1 pairs" in printed
    assert "x-1 (number): supported, should be unsupported" in printed
