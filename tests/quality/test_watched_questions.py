"""Two runs of a watched question report real edits of a page, and no cosmetic ones, without a language model.

The rules were made on the first set. The second one was written before them and read once, so its bars are what was measured.
"""

from __future__ import annotations

import pytest
from scripts import watch_edits

RECALL = {"first": 0.98, "unseen": 0.0}
RECALL_AMID = {"first": 0.98, "unseen": 0.0}
FALSE_ALARMS = {"first": 0.02, "unseen": 1.0}
SIZES = {"first": (40, 56), "unseen": (14, 21)}


@pytest.mark.parametrize("name", sorted(SIZES))
async def test_real_edits_are_reported(name: str) -> None:
    """Alone, and amid another layout, order and wording, advertisements and dates of the day. Nothing else is reported."""
    pages = watch_edits.read_pages(name)
    assert (len(pages), sum(len(page.edits) for page in pages)) == SIZES[name]
    alone = await watch_edits.measure_edits(pages, amid_cosmetic=False)
    amid = await watch_edits.measure_edits(pages, amid_cosmetic=True)
    assert watch_edits.share(alone) >= RECALL[name]
    assert watch_edits.share(amid) >= RECALL_AMID[name]


@pytest.mark.parametrize("name", sorted(SIZES))
async def test_cosmetic_edits_are_not_reported(name: str) -> None:
    pages = watch_edits.read_pages(name)
    outcomes = await watch_edits.measure_cosmetic(pages, watch_edits.VARIANTS[name])
    assert len(outcomes) == len(pages) * watch_edits.VARIANTS[name]
    assert 1 - watch_edits.share(outcomes) <= FALSE_ALARMS[name]
