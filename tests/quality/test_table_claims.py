"""Claims about the rows of tables: the true ones are supported more often than before, the false ones seldom.

The bars are what was measured, less a few.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from scripts import table_claims


class Bar(NamedTuple):
    """The least true claims that are supported, the most that are contradicted, and the same for false ones, of 72 each."""

    supported: int
    contradicted: int
    false_contradicted: int
    false_supported: int


BARS = {1: Bar(49, 4, 42, 3), 2: Bar(42, 4, 16, 5), 3: Bar(28, 5, 20, 3), 4: Bar(42, 5, 33, 6)}


@pytest.mark.parametrize("number", BARS)
def test_verdicts_follow_the_cells(number: int) -> None:
    claims, bar = table_claims.read_claims(number), BARS[number]
    assert len({claim["claim"] for claim in claims}) == len(claims) == 160
    counts = table_claims.count(table_claims.check(claims))
    assert counts.get(("true", "supported"), 0) >= bar.supported, counts
    assert counts.get(("true", "contradicted"), 0) <= bar.contradicted, counts
    assert counts.get(("false", "contradicted"), 0) >= bar.false_contradicted, counts
    assert counts.get(("false", "supported"), 0) <= bar.false_supported, counts
