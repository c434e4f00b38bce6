"""What a report takes at most, in the line between its plan and the menu."""

from __future__ import annotations

from typing import Any

import pytest

from modules.llm_platform.domain.dtos.report_dtos import ReportAmounts, ReportEstimate
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.presentation.cli.render.terminal import estimate_line

PRICED = ReportEstimate(
    at_most=ReportAmounts(searches=24, pages=10, llm_calls=30, tokens=90_000, cost_usd=0.6),
    per_question=ReportAmounts(searches=8, llm_calls=9, tokens=20_000, cost_usd=0.1),
    max_seconds=1200.0,
)
WITHOUT_MODEL = ReportEstimate(
    at_most=ReportAmounts(searches=24, pages=1), per_question=ReportAmounts(searches=8), max_seconds=600.0
)
UNKNOWN_PRICE = PRICED.model_copy(update={"at_most": PRICED.at_most.model_copy(update={"cost_usd": None})})


@pytest.mark.parametrize(
    ("estimate", "more", "limits", "told"),
    [
        (PRICED, 0, {}, "24 searches · 10 pages · 30 calls of language models · 90000 tokens · $0.60 · 20 min"),
        (PRICED, 1, {}, "32 searches · 10 pages · 39 calls of language models · 110000 tokens · $0.70 · 20 min"),
        (PRICED, -2, {}, "8 searches · 10 pages · 12 calls of language models · 50000 tokens · $0.40 · 20 min"),
        (
            PRICED,
            0,
            {"max_llm_calls": 5, "max_cost_usd": 0.25, "max_seconds": 300.0},
            "24 searches · 10 pages · 5 calls of language models · 90000 tokens · $0.25 · 5 min",
        ),
        (PRICED, 0, {"max_llm_calls": 0}, "24 searches · 10 pages · 20 min"),
        (
            UNKNOWN_PRICE,
            1,
            {},
            "32 searches · 10 pages · 39 calls of language models · 110000 tokens · price not known · 20 min",
        ),
        (WITHOUT_MODEL, 0, {}, "24 searches · 1 page · 10 min"),
    ],
)
def test_amounts_follow_the_plan_and_stay_within_the_limits(
    estimate: ReportEstimate, more: int, limits: dict[str, Any], told: str
) -> None:
    """Amounts follow the plan within the limits. Without a model no model cost is shown."""
    request = ResearchRequest(query="What is asyncio?", depth="report", **limits)
    assert estimate_line(estimate, more, request) == f"At most: {told}"
