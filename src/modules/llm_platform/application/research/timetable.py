"""When each phase of a report must end, so that the later ones have time and an answer is still written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from modules.llm_platform.domain.dtos.report_dtos import LLMStage

Phase = LLMStage | Literal["search", "read", "collect_summaries", "rank_summaries"]

WRITING_SHARE: Final = 0.2  # of the time, kept for the writing
WRITING_MAX_S: Final = 180.0  # no text takes longer
LAST_RESORT_SHARE: Final = 0.1  # of the time, kept for the extractive text where the model's is late
LAST_RESORT_MAX_S: Final = 3.0
ENDS: Final[Mapping[Phase, float]] = {  # shares of the time before the writing
    "plan": 0.2,
    "queries": 0.35,
    "search": 0.5,
    "rank": 0.625,  # half of the whole
    "read": 0.8125,  # 65 % of the whole
    "collect_summaries": 0.9,  # which are ranked, where more pages are read than written from
    "summarize": 1.0,
    "rank_summaries": 1.0,
}


def end_of(phase: Phase, began: float, deadline: float) -> float:
    """The time by which a phase must end, on the clock of the other two; after the writing, and the judging of it, the last
    resort has its time.
    """
    allowed = max(0.0, deadline - began)
    if phase in ("write", "judge"):
        return began + allowed - min(allowed * LAST_RESORT_SHARE, LAST_RESORT_MAX_S)
    return began + (allowed - min(allowed * WRITING_SHARE, WRITING_MAX_S)) * ENDS[phase]
