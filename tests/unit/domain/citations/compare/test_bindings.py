"""A claim joins no words of a sentence that belong to different things there."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.citation_dtos import Verdict
from modules.llm_platform.domain.dtos.source_dtos import Source

OPTIONS = "`--no-ring` to ring no bell.\n`--beep` to ring it twice.\n`--quiet` to hide errors."
TABLE = "--keep    keeps temporary files\n--dry-run prints what would be done\n--quiet   prints nothing"


def verdict_of(claim: str, text: str) -> Verdict:
    source = Source(index=1, title="Notes", url="https://example.org/", text=text)
    return CitationChecker([source], "en").check(f"{claim} [1]").citations[-1].verdict


@for_each(
    ("claim", "text"),
    [
        ("Ina Berg was elected mayor.", "Ina Berg opened the meeting, in which Ole Hansen was elected mayor."),
        ("Ina Berg was elected mayor.", "Ina Berg resigned before Ole Hansen was elected mayor."),
        ("The school was destroyed by fire.", "The school stands beside the church, which was destroyed by fire."),
        ("`--quiet` to ring no bell.", OPTIONS),
        ("Use `--quiet` to ring no bell.", OPTIONS),
        ("The flag `--dry-run` keeps temporary files.", TABLE),
    ],
)
def test_words_of_different_things_support_no_sentence(claim: str, text: str) -> None:
    """Only word order tells who acts, and which option has which effect."""
    assert verdict_of(claim, text) != "supported"


@for_each(
    ("claim", "text"),
    [
        ("Ina Berg was elected mayor.", "Ina Berg, who opened the meeting, was elected mayor."),
        ("Ina Berg was elected mayor.", "Ina Berg opened the meeting that day and was elected mayor."),
        ("Ina Berg was elected mayor.", "Ina Berg opened the meeting, when Ole Hansen was ill, and was elected mayor."),
        ("Ina Berg was elected mayor.", "Ina Berg opened the meeting after she was elected mayor."),
        (
            "Ina Berg was elected mayor.",
            "Ina Berg opened a meeting, which Ole Hansen left. Ina Berg was elected mayor in it.",
        ),
        ("The company was sold in May.", "The company that Erik Dahl founded was sold in May."),
        ("The study found lead in the river.", "The study of researchers who examined fish found lead in the river."),
        ("Single-use plastics are made from oil.", "Single-use plastics are goods that are made from oil."),
        (
            "The council’s chair was elected mayor.",
            "The council’s chair, which Ole Hansen had held, was elected mayor.",
        ),
        ("`--no-ring` to ring no bell.", OPTIONS),
        ("Use `--quiet` to hide errors.", OPTIONS),
        ("The flag `--keep` keeps temporary files.", TABLE),
    ],
)
def test_words_of_one_thing_support_it(claim: str, text: str) -> None:
    """Clauses and entries in between do not matter when the words belong together."""
    assert verdict_of(claim, text) == "supported"


@for_each("unit", ["a which b, ", "`--a` a; ", "`--a` which\n", "the which "])
def test_hostile_sentences_take_linear_time(unit: str) -> None:
    """Sentences that repeat openers, options or entries cost no more than their length."""
    small, large = unit * 200, unit * 2000
    assert is_linear(lambda: verdict_of(small[:1900], small), lambda: verdict_of(large[:1900], large), 10)
