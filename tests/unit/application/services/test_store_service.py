"""Searching the store: a topic is found by its name or its question."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.domain.exceptions import StoreError, TopicNotFoundError
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.testing import MemoryResearchStore, sample_page

TIDES, TIDES_TOO, LOOPS = map(make_topic, ("What are tides?", "What are tides for?", "How do loops run?"))
PAGE = sample_page("https://example.org", "text")


@pytest.fixture
async def store() -> MemoryResearchStore:
    store = MemoryResearchStore()
    for topic in (TIDES, TIDES_TOO, LOOPS):
        await store.put(topic, "docs", "a", PAGE)
    return store


@pytest.fixture
def service(store: MemoryResearchStore) -> StoreService:
    return StoreService(store)


@pytest.mark.parametrize("asked", [LOOPS.name, "how-do", "  how do LOOPS run? ", LOOPS.name[:-1]])
async def test_topic_is_selected_by_name_prefix_or_question(asked: str, service: StoreService) -> None:
    """All three lead to it."""
    topic, entries = await service.show(asked)
    assert (topic.name, topic.query) == (LOOPS.name, LOOPS.query)
    assert [entry.key for entry in entries] == ["a"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [("", "topics list"), ("../x", "topics list"), ("tides", "topics list"), ("what-are", "2 topics begin like that")],
)
async def test_missing_or_ambiguous_topic_is_an_error(
    asked: str, says: str, service: StoreService, tmp_path: Path
) -> None:
    """Nothing is removed, written or shown by guessing."""
    for work in (service.show(asked), service.clear(asked), service.export(tmp_path / "x.zip", asked)):
        with pytest.raises(TopicNotFoundError, match=says):
            await work
    assert len(await service.topics()) == 3
    assert not (tmp_path / "x.zip").exists()


class Beside:
    """Counts what was removed in addition to the store's entries."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    async def clean(self) -> int:
        self.removed.append("old")
        return 2

    async def clear(self) -> int:
        self.removed.append("all")
        return 5


async def test_folder_indexes_are_removed_with_the_store(store: MemoryResearchStore) -> None:
    """Indexes of folders are cleaned and cleared with the research runs, and counted; one topic is nothing to them."""
    beside = Beside()
    service = StoreService(store, beside)
    assert await service.clear(LOOPS.name) == 1
    assert beside.removed == []
    assert (await service.clean(), await service.clear()) == (2, 7)
    assert beside.removed == ["old", "all"]


async def test_removing(service: StoreService) -> None:
    """One by the beginning of its name, then all."""
    assert await service.clear("how") == 1
    assert {topic.name for topic in await service.topics()} == {TIDES.name, TIDES_TOO.name}
    assert (await service.clean(), await service.clear()) == (0, 2)
    assert (await service.stats()).topics == 0


async def test_carrying(service: StoreService, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One topic, elsewhere; the log counts and names no question."""
    elsewhere = StoreService(MemoryResearchStore())
    with caplog.at_level(logging.INFO):
        assert await service.export(tmp_path / "x.zip", LOOPS.query) == 1
        assert (await elsewhere.import_(tmp_path / "x.zip")).added == 1
    assert [topic.query for topic in await elsewhere.topics()] == [LOOPS.query]
    assert caplog.messages == ["store exported", "store imported"]
    assert "loops" not in str([record.__dict__ for record in caplog.records if "store" in record.name])


class _Unusable(MemoryResearchStore):
    async def clean(self) -> int:
        raise StoreError


async def test_a_failed_cleanup_does_not_stop_other_work(
    service: StoreService, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed cleanup is logged and raises nothing."""
    await service.clean_quietly()
    assert not caplog.records or caplog.records[-1].levelno < logging.WARNING
    await StoreService(_Unusable()).clean_quietly()
    assert caplog.records[-1].message == "store not cleaned"
