"""The contract of `IResearchStore`."""

import asyncio
from pathlib import Path
from typing import Final, get_args

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.store_dtos import EndsTopic, Imported, StoredTopic, StoreStage, Topic
from modules.llm_platform.domain.exceptions import StoreError, TopicNotFoundError
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.testing.page_reader import sample_page
from modules.llm_platform.testing.waiting import Elapse, error_of

DAY_S: Final = 86_400
TTL_DAYS: Final = 30.0  # lifetime in the stores under test
UNKNOWN_TOPICS: Final = (
    "",
    ".",
    "..",
    "../x",
    "/etc",
    "a/b",
    "a\\b",
    "c:",
    "a\0b",
    "a b",
    "\u202ex",
    "x" * 300,
    "unheard-of-0123456789",
)

_FIRST: Final = make_topic("What is the first question?")
_SECOND: Final = make_topic("А это второй вопрос?")
_STAGES: Final[tuple[StoreStage, ...]] = get_args(StoreStage)


class ResearchStoreContract:
    """Subclass it and add these fixtures.

    `store` and `other_store`: two empty stores with TTL_DAYS and one clock · `elapse`: advances the clock by seconds.
    """

    async def test_value_is_returned_unchanged(self, store: IResearchStore) -> None:
        """A value is returned unchanged, only under its topic, stage and key."""
        await store.put(_FIRST, "docs", "a", _page("ünïcode 日本語"))
        assert await store.get(_FIRST, "docs", "a", Page) == _page("ünïcode 日本語")
        assert await store.get(_FIRST, "docs", "b", Page) is None
        assert await store.get(_FIRST, "summaries", "a", Page) is None
        assert await store.get(_SECOND, "docs", "a", Page) is None

    async def test_large_value_is_stored(self, store: IResearchStore) -> None:
        """A page of two megabytes is stored like any other."""
        large = _page("many words " * 200_000)
        await store.put(_FIRST, "docs", "a", large)
        assert await store.get(_FIRST, "docs", "a", Page) == large

    async def test_second_value_replaces_the_first(self, store: IResearchStore) -> None:
        """Putting a key again replaces its value."""
        await store.put(_FIRST, "docs", "a", _page("old"))
        await store.put(_FIRST, "docs", "a", _page("new"))
        assert await store.get(_FIRST, "docs", "a", Page) == _page("new")
        assert len(await store.entries(_FIRST.name)) == 1

    async def test_calls_can_run_concurrently(self, store: IResearchStore) -> None:
        """Each key has its own value after concurrent calls."""
        keys = [f"k{number}" for number in range(20)]
        await asyncio.gather(*(store.put(_FIRST, "docs", key, _page(key)) for key in keys))
        found = await asyncio.gather(*(store.get(_FIRST, "docs", key, Page) for key in keys))
        assert found == [_page(key) for key in keys]

    async def test_value_of_another_type_is_missing(self, store: IResearchStore) -> None:
        """An entry that cannot be parsed as the requested type is missing, and can be replaced."""
        await store.put(_FIRST, "docs", "a", _FIRST)
        assert await store.get(_FIRST, "docs", "a", Page) is None
        assert await store.values(_FIRST, "docs", Page) == ()
        await store.put(_FIRST, "docs", "a", _page("x"))
        assert await store.get(_FIRST, "docs", "a", Page) == _page("x")

    async def test_values_are_sorted_by_age(self, store: IResearchStore, elapse: Elapse) -> None:
        """`values` returns all values of one stage of one topic, oldest first."""
        for key in ("c", "a", "b"):
            await store.put(_FIRST, "docs", key, _page(key))
            await elapse(1)
        await store.put(_FIRST, "summaries", "x", _page("x"))
        await store.put(_SECOND, "docs", "x", _page("x"))
        assert await store.values(_FIRST, "docs", Page) == tuple(map(_page, "cab"))
        assert await store.values(_SECOND, "answers", Page) == ()

    async def test_expired_entry_is_missing(self, store: IResearchStore, elapse: Elapse) -> None:
        """An expired entry is missing, and `clean` removes only expired entries."""
        await store.put(_FIRST, "docs", "old", _page("old"))
        await elapse(TTL_DAYS * DAY_S)
        await store.put(_FIRST, "docs", "new", _page("new"))
        assert await store.get(_FIRST, "docs", "old", Page) == _page("old")
        await elapse(1)
        assert await store.get(_FIRST, "docs", "old", Page) is None
        assert await store.values(_FIRST, "docs", Page) == (_page("new"),)
        assert (await store.clean(), await store.clean()) == (1, 0)
        assert [entry.key for entry in await store.entries(_FIRST.name)] == ["new"]

    async def test_topics_are_sorted_by_last_change(self, store: IResearchStore, elapse: Elapse) -> None:
        """The topic that changed last is first; each has its query, size, dates and whether it is finished."""
        assert await store.topics() == ()
        await store.put(_FIRST, "docs", "a", _page("x"))
        await elapse(5)
        await store.put(_SECOND, "docs", "a", _page("x"))
        await elapse(5)
        await store.put(_FIRST, "answers", "a", _Report())
        first, second = await store.topics()
        assert (first.name, first.query, first.entries, first.finished) == (*_name_and_query(_FIRST), 2, True)
        assert (second.name, second.query, second.entries, second.finished) == (*_name_and_query(_SECOND), 1, False)
        assert (first.newest - first.oldest).total_seconds() == 10
        assert first.bytes > second.bytes > 0

    async def test_only_an_ending_value_finishes_a_topic(self, store: IResearchStore) -> None:
        """A topic is finished while it has a value of a type that ends it, whatever the stage."""
        await store.put(_FIRST, "answers", "text", _page("a text that was written before the end"))
        assert [topic.finished for topic in await store.topics()] == [False]
        await store.put(_FIRST, "answers", "report", _Report())
        assert [topic.finished for topic in await store.topics()] == [True]
        await store.put(_FIRST, "answers", "report", _page("x"))
        assert [topic.finished for topic in await store.topics()] == [False]

    async def test_case_and_spaces_do_not_change_the_topic(self, store: IResearchStore) -> None:
        """Questions that differ in case or spaces have the same topic."""
        await store.put(_FIRST, "docs", "a", _page("x"))
        assert await store.get(make_topic(" what is  the FIRST question? "), "docs", "a", Page) == _page("x")

    async def test_entries_are_sorted_by_stage(self, store: IResearchStore) -> None:
        """Entries are listed in the order of the stages, whatever the order in which they were put."""
        for stage in reversed(_STAGES):
            await store.put(_FIRST, stage, "a", _page("x"))
        entries = await store.entries(_FIRST.name)
        assert [entry.stage for entry in entries] == list(_STAGES)
        assert all(entry.bytes > 0 and entry.made_at.tzinfo for entry in entries)

    async def test_unknown_topic_is_an_error(self, store: IResearchStore, tmp_path: Path) -> None:
        """A call with the name of an unknown topic is an error and changes nothing."""
        await store.put(_FIRST, "docs", "a", _page("x"))
        for name in UNKNOWN_TOPICS:
            await error_of(store.entries(name), TopicNotFoundError)
            await error_of(store.clear(name), TopicNotFoundError)
            await error_of(store.export(tmp_path / "x.zip", name), TopicNotFoundError)
        assert await store.get(_FIRST, "docs", "a", Page) == _page("x")
        assert not (tmp_path / "x.zip").exists()

    async def test_clear_removes_entries(self, store: IResearchStore) -> None:
        """One topic, or all; how many entries that were."""
        for topic in (_FIRST, _SECOND):
            await store.put(topic, "docs", "a", _page("x"))
            await store.put(topic, "answers", "a", _page("x"))
        assert await store.clear(_FIRST.name) == 2
        assert [topic.name for topic in await store.topics()] == [_SECOND.name]
        assert (await store.clear(), await store.clear()) == (2, 0)
        assert await store.topics() == ()

    async def test_stats_count_entries_hits_and_misses(self, store: IResearchStore) -> None:
        """Each stage has entries, bytes, age, hits and misses; `values` counts one hit per value, or one miss."""
        await store.put(_FIRST, "docs", "a", _page("x"))
        await store.put(_SECOND, "docs", "a", _page("x"))
        for key in ("a", "a", "b"):
            await store.get(_FIRST, "docs", key, Page)
        stats = await store.stats()
        assert [stage.stage for stage in stats.stages] == list(_STAGES)
        docs = next(stage for stage in stats.stages if stage.stage == "docs")
        assert (docs.entries, docs.hits, docs.misses, stats.topics, stats.damaged) == (2, 2, 1, 2, 0)
        assert docs.bytes > 0
        assert docs.oldest is not None
        await store.values(_FIRST, "docs", Page)
        await store.put(_FIRST, "docs", "b", _page("x"))
        await store.values(_FIRST, "docs", Page)
        await store.values(_SECOND, "summaries", Page)
        lookups = {stage.stage: (stage.hits, stage.misses) for stage in (await store.stats()).stages}
        assert (lookups["docs"], lookups["summaries"]) == ((2 + 1 + 2, 1), (0, 1))
        empty = next(stage for stage in stats.stages if stage.stage == "answers")
        assert (empty.entries, empty.bytes, empty.oldest, empty.hits, empty.misses) == (0, 0, None, 0, 0)

    async def test_export_and_import_copy_all_entries(
        self, store: IResearchStore, other_store: IResearchStore, elapse: Elapse, tmp_path: Path
    ) -> None:
        """Exported and imported entries are unchanged, including their dates."""
        for topic in (_FIRST, _SECOND):
            await store.put(topic, "docs", "a", _page(topic.query))
            await store.put(topic, "answers", "b", _page("large " * 100_000))
        await store.put(_FIRST, "answers", "end", _Report())
        await elapse(1000)
        assert await store.export(tmp_path / "all.zip") == 5
        assert await other_store.import_(tmp_path / "all.zip") == Imported(added=5, skipped=0)
        assert _dates(await other_store.topics()) == _dates(await store.topics())
        for topic in (_FIRST, _SECOND):
            assert await other_store.values(topic, "docs", Page) == await store.values(topic, "docs", Page)
            assert await other_store.values(topic, "answers", Page) == await store.values(topic, "answers", Page)

    async def test_export_can_select_a_topic(
        self, store: IResearchStore, other_store: IResearchStore, tmp_path: Path
    ) -> None:
        """Other topics are not exported; an existing archive is replaced."""
        (tmp_path / "one.zip").write_text("an earlier one")
        await store.put(_FIRST, "docs", "a", _page("x"))
        await store.put(_SECOND, "docs", "a", _page("x"))
        assert await store.export(tmp_path / "one.zip", _SECOND.name) == 1
        await other_store.import_(tmp_path / "one.zip")
        assert [topic.query for topic in await other_store.topics()] == [_SECOND.query]

    async def test_import_keeps_newer_entries(
        self, store: IResearchStore, other_store: IResearchStore, elapse: Elapse, tmp_path: Path
    ) -> None:
        """An import replaces only older entries."""
        await other_store.put(_FIRST, "docs", "a", _page("older"))
        await elapse(1)
        await store.put(_FIRST, "docs", "a", _page("newer"))
        await store.put(_FIRST, "docs", "b", _page("older"))
        await elapse(1)
        await other_store.put(_FIRST, "docs", "b", _page("newer"))
        await store.export(tmp_path / "x.zip")
        assert await other_store.import_(tmp_path / "x.zip") == Imported(added=1, skipped=1)
        assert await other_store.import_(tmp_path / "x.zip") == Imported(added=0, skipped=2)
        assert set(await other_store.values(_FIRST, "docs", Page)) == {_page("newer")}

    async def test_expired_entries_are_not_transferred(
        self, store: IResearchStore, other_store: IResearchStore, elapse: Elapse, tmp_path: Path
    ) -> None:
        """Expired entries are not exported, and not imported from an older archive."""
        await store.put(_FIRST, "docs", "a", _page("x"))
        assert await store.export(tmp_path / "x.zip") == 1
        await elapse(TTL_DAYS * DAY_S + 1)
        assert await store.export(tmp_path / "y.zip") == 0
        assert await other_store.import_(tmp_path / "x.zip") == Imported(added=0, skipped=0, expired=1)
        assert await other_store.import_(tmp_path / "y.zip") == Imported(added=0, skipped=0)

    async def test_invalid_archive_is_an_error(self, store: IResearchStore, tmp_path: Path) -> None:
        """A missing, empty or invalid file is an error, and so is a path that cannot be written."""
        (tmp_path / "empty.zip").touch()
        (tmp_path / "text.zip").write_text("PK not really" * 100)
        for name in ("missing.zip", "empty.zip", "text.zip", "."):
            await error_of(store.import_(tmp_path / name), StoreError)
        await error_of(store.export(tmp_path / "no such folder" / "x.zip"), StoreError)
        assert await store.topics() == ()


class _Report(EndsTopic, frozen=True):
    text: str = "finished"


def _page(text: str) -> Page:
    return sample_page("https://example.org/page", text)


def _name_and_query(topic: Topic) -> tuple[str, str]:
    return topic.name, topic.query


def _dates(topics: tuple[StoredTopic, ...]) -> list[tuple[object, ...]]:
    return sorted((topic.name, topic.entries, topic.oldest, topic.newest, topic.finished) for topic in topics)
