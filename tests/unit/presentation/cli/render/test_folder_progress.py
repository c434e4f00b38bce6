"""Progress of the reading of a folder"""

from __future__ import annotations

import io
from typing import Any

import pytest
from tests.unit.presentation.rest.fake_platform import FakeServices, platform_of

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.domain.dtos.indexing_dtos import IndexProgress
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.render.progress import report_folder_progress
from modules.llm_platform.testing.waiting import becomes_true

SOON_S = 0.001
PATIENCE_S = 60.0


class Stream(io.StringIO):
    """A stream that is a terminal or not."""

    def __init__(self, *, watched: bool) -> None:
        super().__init__()
        self.watched = watched

    def isatty(self) -> bool:
        return self.watched


def reading(progress: IndexProgress | None) -> LLMPlatform:
    platform = platform_of(FakeServices())
    parts: dict[str, Any] = {name: getattr(platform, name) for name in platform.__dataclass_fields__}
    return LLMPlatform(**{**parts, "_reading": lambda: progress})


async def test_progress_has_documents_and_share_of_bytes() -> None:
    """The documents that were read, and the share of all bytes."""
    stream = Stream(watched=True)
    progress = IndexProgress(documents=2300, passages=9000, done_bytes=23, total_bytes=100)
    async with report_folder_progress(Console(err=stream), reading(progress), SOON_S):
        assert await becomes_true(lambda: bool(stream.getvalue()), PATIENCE_S)
    assert stream.getvalue().splitlines()[0] == "reading the documents: 2,300 so far (23%) …"


@pytest.mark.parametrize(
    ("watched", "progress"),
    [(True, None), (False, IndexProgress(documents=1, passages=1, done_bytes=1, total_bytes=1))],
)
async def test_no_progress_without_a_terminal_or_a_reading(watched: bool, progress: IndexProgress | None) -> None:
    """Nothing is printed without a terminal, or if no file is being read."""
    stream = Stream(watched=watched)
    requested: list[bool] = []

    def now() -> IndexProgress | None:
        requested.append(True)
        return progress

    platform = reading(None)
    parts: dict[str, Any] = {name: getattr(platform, name) for name in platform.__dataclass_fields__}
    async with report_folder_progress(Console(err=stream), LLMPlatform(**{**parts, "_reading": now}), SOON_S):
        assert await becomes_true(lambda: len(requested) > 2, PATIENCE_S) if watched else not requested
    assert stream.getvalue() == ""
