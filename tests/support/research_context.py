"""A research run whose stages are tested one by one."""

from __future__ import annotations

from typing import Any

from modules.llm_platform.application.research.context import ResearchContext
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest, Source
from modules.llm_platform.domain.privacy.egress_log import EgressLog


def context(events: list[Any], depth: str = "shallow", pages: int | None = None) -> ResearchContext:
    """Return a run without a deadline that adds its events to `events` and stores no sources."""

    async def store(sources: tuple[Source, ...]) -> None:
        return

    return ResearchContext(
        request=ResearchRequest(query="How warm is the water?", depth=depth, pages=pages), request_id="r", detected="en",
        emit=events.append, store_sources=store, streamed=False, began=0.0, egress_log=EgressLog(),
    )
