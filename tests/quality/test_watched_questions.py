"""Two runs of a watched question report real edits of a page, and no cosmetic ones, without a language model.

The bars are what was measured, less one edit. The rules were made on the first set. The second one was written before them and
read once: 16 of 21 edits alone and amid cosmetic ones, and 6 of 210 cosmetic edits reported. What that showed was then changed.
The last set was written after the rules, and was never used to change them.
"""

from __future__ import annotations

import pytest
from scripts import watch_edits

SIZES = {"first": (40, 56), "second": (14, 21), "last": (11, 20)}  # pages, edits
REPORTED = {"first": 54, "second": 15, "last": 19}
FALSE_ALARMS = {"first": 0.005, "second": 0.015, "last": 0.005}  # shares


@pytest.mark.parametrize("name", sorted(SIZES))
async def test_real_edits_are_reported(name: str) -> None:
    """Alone, and amid another layout, order and wording, advertisements and dates of the day. Nothing else is reported."""
    pages = watch_edits.read_pages(name)
    assert (len(pages), sum(len(page.edits) for page in pages)) == SIZES[name]
    alone = await watch_edits.measure_edits(pages, amid_cosmetic=False)
    amid = await watch_edits.measure_edits(pages, amid_cosmetic=True)
    for outcomes in (alone, amid):
        assert sum(outcome.is_right for outcome in outcomes) >= REPORTED[name]


@pytest.mark.parametrize("name", sorted(SIZES))
async def test_cosmetic_edits_are_not_reported(name: str) -> None:
    """Each run tries a third of the variants: `python scripts/watch_edits.py` tries all."""
    pages, variants = watch_edits.read_pages(name), watch_edits.VARIANTS[name] // 3
    outcomes = await watch_edits.measure_cosmetic(pages, variants)
    assert len(outcomes) == len(pages) * variants
    assert 1 - watch_edits.share(outcomes) <= FALSE_ALARMS[name]
