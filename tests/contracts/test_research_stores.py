"""The stores on disk and in memory fulfil the contract of the port.

The store that keeps nothing fulfils its applicable part.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.clock import Clock

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import StoreError, TopicNotFoundError
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.infrastructure.stores.research_runs.disk import DiskResearchStore, NoResearchStore
from modules.llm_platform.testing import MemoryResearchStore, ResearchStoreContract, sample_page
from modules.llm_platform.testing.research_store_contract import TTL_DAYS

TOPIC = make_topic("What is kept?")
DAY_S = 86_400


class TestDiskResearchStore(ResearchStoreContract):
    @pytest.fixture
    def store(self, clock: Clock, tmp_path: Path) -> IResearchStore:
        return DiskResearchStore(tmp_path / "here" / "store", TTL_DAYS, clock)

    @pytest.fixture
    def other_store(self, clock: Clock, tmp_path: Path) -> IResearchStore:
        return DiskResearchStore(tmp_path / "other_store", TTL_DAYS, clock)


class TestMemoryResearchStore(ResearchStoreContract):
    @pytest.fixture
    def store(self, clock: Clock) -> IResearchStore:
        return MemoryResearchStore(TTL_DAYS, clock)

    @pytest.fixture
    def other_store(self, clock: Clock) -> IResearchStore:
        return MemoryResearchStore(TTL_DAYS, clock)


async def test_an_entry_from_the_future_expires_in_time(clock: Clock, tmp_path: Path) -> None:
    """An archive from a machine with a fast clock is imported, and its entries do not outlive those of this machine."""
    ahead = MemoryResearchStore(TTL_DAYS, Clock(clock.now + 1000 * DAY_S))
    here = DiskResearchStore(tmp_path / "store", TTL_DAYS, clock)
    await ahead.put(TOPIC, "docs", "key", sample_page("https://example.org", "text"))
    await ahead.export(tmp_path / "x.zip")
    assert (await here.import_(tmp_path / "x.zip")).added == 1
    assert await here.get(TOPIC, "docs", "key", Page) is not None
    clock.now += TTL_DAYS * DAY_S + 1
    assert await here.get(TOPIC, "docs", "key", Page) is None


async def test_both_kinds_read_each_others_archives(clock: Clock, tmp_path: Path) -> None:
    """An archive does not depend on the kind of store."""
    disk, memory = DiskResearchStore(tmp_path / "store", TTL_DAYS, clock), MemoryResearchStore(TTL_DAYS, clock)
    await memory.put(TOPIC, "docs", "a", sample_page("https://example.org", "x"))
    await memory.export(tmp_path / "x.zip")
    await disk.import_(tmp_path / "x.zip")
    await disk.export(tmp_path / "y.zip")
    assert (await memory.clear(), (await memory.import_(tmp_path / "y.zip")).added) == (1, 1)
    assert await memory.get(TOPIC, "docs", "a", Page) == sample_page("https://example.org", "x")


async def test_the_store_that_keeps_nothing(tmp_path: Path) -> None:
    """The store accepts and returns nothing. Unsupported calls name the setting."""
    store = NoResearchStore()
    await store.put(TOPIC, "docs", "a", sample_page("https://example.org", "x"))
    assert await store.get(TOPIC, "docs", "a", Page) is None
    assert (await store.values(TOPIC, "docs", Page), await store.topics()) == ((), ())
    assert (await store.clear(), await store.clean(), (await store.stats()).topics) == (0, 0, 0)
    for name in (store.entries("x"), store.clear("x")):
        with pytest.raises(TopicNotFoundError):
            await name
    for carrying in (store.export(tmp_path / "x.zip"), store.import_(tmp_path / "x.zip")):
        with pytest.raises(StoreError, match="STORE_TTL_DAYS"):
            await carrying
