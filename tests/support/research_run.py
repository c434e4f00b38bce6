"""A research run for tests of single stages."""

from __future__ import annotations

from typing import Any

from modules.llm_platform.application.research.run import Run
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest


def make_run(events: list[Any], depth: str = "shallow", pages: int | None = None) -> Run:
    """Return a run without a deadline that adds its events to `events` and stores no sources."""
    request = ResearchRequest(query="How warm is the water?", depth=depth, pages=pages)
    return Run(request=request, original_request=request, request_id="r", detected="en", emit=events.append)
