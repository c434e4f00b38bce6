"""A number that follows from two numbers of the source is not found in it, and is not contradicted either."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.contradictions import cite

LAMP = "The new lamp cost £412; the maker refunds £60."
DEPOSIT = "The deposit is two rents of 160 euros each."


@for_each(
    ("text", "sentence", "finding"),
    [
        (LAMP, "The new lamp cost £352.", "absent"),
        (DEPOSIT, "The deposit is 320 euros.", "absent"),
        (LAMP, "The new lamp cost £353.", "contradicts"),
        (DEPOSIT, "The deposit is 340 euros.", "contradicts"),
    ],
)
def test_a_computed_number_is_absent(text: str, sentence: str, finding: str) -> None:
    assert cite(sentence, text).finding == finding
