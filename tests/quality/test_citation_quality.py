"""The citation checker holds its bars on pairs of sentences and sources that people have labelled."""

from __future__ import annotations

import pytest
from scripts import quality

MIN_PAIRS = 60
FLAGGED = 0.88
BARS = {  # three classes, unsupported ones flagged, numbers, names, supported ones called supported, copies
    "tuned on": (0.87, 0.95, 1, 1, 0.83, 1),
    "written last": (0.81, 0.91, 1, 1, 0.74, 1),
    "second author": (0.73, 0.82, 1, 1, 0.88, 1),
    "second author, later": (0.77, 0.89, 1, 1, 0.81, 1),
    quality.UNSEEN: (0.71, 0.89, 1, 0.75, 0.77, 1),
    quality.PAGES: (0.9, 0.89, 1, 0.81, 0.94, 1),
    quality.HELD_PAGES: (0.82, 0.83, 0.95, 0.64, 0.88, 1),
    quality.DOCUMENTATION: (0.77, 0.86, 0.94, 0.88, 0.8, 1),
    quality.EDITED: (0.86, 0.95, 0.94, 0.9, 1, 1),
    quality.DOCUMENTATION_PAGES: (0.77, 0.83, 0.94, 0.81, 0.81, 0.999),
    quality.LAST: (0.69, 0.8, 0.88, 0.78, 0.75, 1),
    quality.LAST_EDITED: (0.88, 1, 1, 1, 1, 1),
}
MIN_STRAYS = 70  # wrong facts that stand elsewhere on their page
KINDS = {"true", "paraphrase", "partial", "wrong_source", "number", "date", "name", "identifier", "negation"}
ON_PAGES = {quality.PAGES: KINDS | {"split", "distant"}, quality.HELD_PAGES: KINDS | {"split", "distant"}}
EDITED = KINDS - {"paraphrase", "date", "name"}
EDITS = {quality.EDITED: EDITED, quality.LAST_EDITED: EDITED}


@pytest.fixture(scope="module")
def sets() -> dict[str, list[quality.Pair]]:
    return quality.load()


def test_the_pairs_are_many_and_various(sets: dict[str, list[quality.Pair]]) -> None:
    """Enough pairs of each kind in each set, in several languages; no two have one name."""
    assert tuple(sets) == tuple(BARS)
    assert len(sets["tuned on"]) >= MIN_PAIRS
    pairs = [pair for some in sets.values() for pair in some]
    assert {"en", "de", "ru", "zh"} <= {pair.language for pair in pairs}
    kinds = {**dict.fromkeys(sets, KINDS), **ON_PAGES, **EDITS}
    assert all({pair.kind for pair in some} == kinds[name] for name, some in sets.items())
    assert len({pair.id for pair in pairs}) == len(pairs)


@pytest.mark.parametrize("name", BARS)
def test_the_bars_hold(sets: dict[str, list[quality.Pair]], name: str) -> None:
    """On each set. A guard against getting worse: it holds what was measured, and the script says who looked at what."""
    figures = quality.measure(sets[name])
    three_class, flagged, numbers, names, supported, verbatim = BARS[name]
    assert figures.three_class >= three_class
    assert figures.flagged >= flagged
    assert figures.numbers >= numbers
    assert figures.names >= names
    assert figures.supported >= supported
    assert figures.verbatim >= verbatim


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
