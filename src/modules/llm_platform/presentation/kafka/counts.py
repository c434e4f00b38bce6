"""What a handler has done, for metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage


@dataclass(slots=True)
class Counts:
    """Numbers that only grow, since the process began."""

    outcomes: Counter[tuple[RagStage, str]] = field(default_factory=Counter)  # first ones, by stage and code
    repeated: Counter[RagStage] = field(default_factory=Counter)  # requests that got an earlier outcome again
    reused: Counter[RagStage] = field(default_factory=Counter)  # those of them whose payload was another one
    store_waits: int = 0  # times that the store of outcomes could not be used and was waited for
