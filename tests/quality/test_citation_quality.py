"""The citation checker holds its bars on pairs of sentences and sources that people have labelled."""

from __future__ import annotations

import pytest
from scripts import quality

THREE_CLASS = 0.75  # supported, partial, unsupported: told right
FLAGGED = 0.88  # unsupported sentences that are not called supported
FACTS = 0.95  # the same where a number, date, name or identifier was changed
MIN_PAIRS = 60
PAGE_BARS = {  # three classes, flagged, numbers, names, false alarms: whole pages, where most facts stand somewhere
    quality.PAGES: (0.91, 0.90, 0.95, 0.87, 0.09),
    quality.HELD_PAGES: (0.82, 0.88, 0.90, 0.78, 0.25),
}
MIN_STRAYS = 70  # wrong facts that stand elsewhere on their page
KINDS = {"true", "paraphrase", "partial", "wrong_source", "number", "date", "name", "identifier", "negation"}


SETS = ("tuned on", "written last", "second author", "second author, later")


@pytest.fixture(scope="module")
def sets() -> dict[str, list[quality.Pair]]:
    return quality.load()


def test_the_pairs_are_many_and_various(sets: dict[str, list[quality.Pair]]) -> None:
    """Enough pairs of each kind in each set, in several languages; no two have one name."""
    assert tuple(sets) == (*SETS, quality.UNSEEN, *PAGE_BARS)
    assert len(sets["tuned on"]) >= MIN_PAIRS
    pairs = [pair for some in sets.values() for pair in some]
    assert {"en", "de", "ru", "zh"} <= {pair.language for pair in pairs}
    kinds = {name: KINDS | {"split", "distant"} if name in PAGE_BARS else KINDS for name in sets}
    assert all({pair.kind for pair in some} == kinds[name] for name, some in sets.items())
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


@pytest.mark.parametrize("name", PAGE_BARS)
def test_the_bars_of_pages_hold(sets: dict[str, list[quality.Pair]], name: str) -> None:
    """On sentences about whole pages, whose wrong facts stand elsewhere on the page. The pages held back are the harder."""
    figures = quality.measure(sets[name])
    three_class, flagged, numbers, names, false_alarms = PAGE_BARS[name]
    assert figures.three_class >= three_class
    assert figures.flagged >= flagged
    assert figures.numbers >= numbers
    assert figures.names >= names
    assert figures.false_alarms <= false_alarms
    assert figures.verbatim == 1


def test_wrong_facts_stand_elsewhere_on_the_page() -> None:
    """What makes a page hard: the wrong figure or name is there, only not where the sentence puts it."""
    strays = quality.strays()
    assert len(strays) >= MIN_STRAYS
    assert all(fact.lower() in page.lower() for fact, page in strays)


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
