"""What a research run does with a store that fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from modules.llm_platform.application.research.report import checkpoint_store
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.testing import MemoryResearchStore, sample_page

TOPIC = make_topic("What is stored?")
PAGE = sample_page("https://example.org", "text")


class FailingStore(MemoryResearchStore):
    """Fails to write, or answers no write."""

    hangs = False
    writes = 0

    async def put(self, *_: Any) -> None:
        self.writes += 1
        if self.hangs:
            await asyncio.Event().wait()
        raise StoreError("its disk is full")


@pytest.mark.parametrize("hangs", [False, True])
async def test_what_is_stored_is_read_while_nothing_can_be_written(
    hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk can still be read. One write is tried, and a store that does not answer is not called again."""
    monkeypatch.setattr(checkpoint_store, "STORE_TIMEOUT_S", 0.05)
    store = FailingStore()
    store.hangs = hangs
    await MemoryResearchStore.put(store, TOPIC, "docs", "a", PAGE)
    checkpoints = CheckpointStore(store, TOPIC, "en", fresh=False)
    for name in "bc":
        await checkpoints.put("docs", name, PAGE)
    assert (store.writes, checkpoints.failure is not None) == (1, True)
    assert await checkpoints.get("docs", "a", Page) == (None if hangs else PAGE)
