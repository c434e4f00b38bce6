"""The promises that every store of researches keeps, for those who write one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias, get_args

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.store_dtos import EndsTopic, Imported, StoredTopic, StoreStage, Topic
from modules.llm_platform.domain.exceptions import StoreError, TopicNotFoundError
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.store_key import topic_of
from modules.llm_platform.testing.page_reader import made_up_page
from shared.exceptions import AppException

Elapse: TypeAlias = Callable[[float], Awaitable[None]]

DAY_S: Final = 86_400
KEPT_DAYS: Final = 30.0  # by the stores of the contract
NO_TOPICS: Final = (
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

_FIRST: Final = topic_of("What is the first question?")
_SECOND: Final = topic_of("А это второй вопрос?")
_STAGES: Final[tuple[StoreStage, ...]] = get_args(StoreStage)


class ResearchStoreContract:
    """Subclass, give `store` and `elsewhere` (two empty stores of KEPT_DAYS on one clock) and `elapse` (lets seconds pass on
    it).
    """

    async def test_what_was_put_is_there(self, store: IResearchStore) -> None:
        """The value comes back as it was, under its topic, stage and key and nowhere else."""
        await store.put(_FIRST, "docs", "a", _page("ünïcode 日本語"))
        assert await store.get(_FIRST, "docs", "a", Page) == _page("ünïcode 日本語")
        assert await store.get(_FIRST, "docs", "b", Page) is None
        assert await store.get(_FIRST, "summaries", "a", Page) is None
        assert await store.get(_SECOND, "docs", "a", Page) is None

    async def test_a_large_value(self, store: IResearchStore) -> None:
        """A page of two megabytes is kept like any other."""
        large = _page("many words " * 200_000)
        await store.put(_FIRST, "docs", "a", large)
        assert await store.get(_FIRST, "docs", "a", Page) == large

    async def test_the_last_value_counts(self, store: IResearchStore) -> None:
        """Putting a key again replaces its value."""
        await store.put(_FIRST, "docs", "a", _page("old"))
        await store.put(_FIRST, "docs", "a", _page("new"))
        assert await store.get(_FIRST, "docs", "a", Page) == _page("new")
        assert len(await store.entries(_FIRST.name)) == 1

    async def test_callers_side_by_side(self, store: IResearchStore) -> None:
        """Many at once end with each key holding its own value."""
        keys = [f"k{number}" for number in range(20)]
        await asyncio.gather(*(store.put(_FIRST, "docs", key, _page(key)) for key in keys))
        found = await asyncio.gather(*(store.get(_FIRST, "docs", key, Page) for key in keys))
        assert found == [_page(key) for key in keys]

    async def test_another_shape_is_not_there(self, store: IResearchStore) -> None:
        """An entry whose value cannot be read as what is wanted does not serve, and can be put anew."""
        await store.put(_FIRST, "docs", "a", _FIRST)
        assert await store.get(_FIRST, "docs", "a", Page) is None
        assert await store.values(_FIRST, "docs", Page) == ()
        await store.put(_FIRST, "docs", "a", _page("x"))
        assert await store.get(_FIRST, "docs", "a", Page) == _page("x")

    async def test_values_come_oldest_first(self, store: IResearchStore, elapse: Elapse) -> None:
        """All of one stage of one topic, in the order in which they were made."""
        for key in ("c", "a", "b"):
            await store.put(_FIRST, "docs", key, _page(key))
            await elapse(1)
        await store.put(_FIRST, "summaries", "x", _page("x"))
        await store.put(_SECOND, "docs", "x", _page("x"))
        assert await store.values(_FIRST, "docs", Page) == tuple(map(_page, "cab"))
        assert await store.values(_SECOND, "answers", Page) == ()

    async def test_what_is_old_does_not_serve(self, store: IResearchStore, elapse: Elapse) -> None:
        """After its days an entry is not given any more, and `clean` removes it alone."""
        await store.put(_FIRST, "docs", "old", _page("old"))
        await elapse(KEPT_DAYS * DAY_S)
        await store.put(_FIRST, "docs", "new", _page("new"))
        assert await store.get(_FIRST, "docs", "old", Page) == _page("old")
        await elapse(1)
        assert await store.get(_FIRST, "docs", "old", Page) is None
        assert await store.values(_FIRST, "docs", Page) == (_page("new"),)
        assert (await store.clean(), await store.clean()) == (1, 0)
        assert [entry.key for entry in await store.entries(_FIRST.name)] == ["new"]

    async def test_topics(self, store: IResearchStore, elapse: Elapse) -> None:
        """The one that was worked on last comes first; each with its question, its size and whether it is finished."""
        assert await store.topics() == ()
        await store.put(_FIRST, "docs", "a", _page("x"))
        await elapse(5)
        await store.put(_SECOND, "docs", "a", _page("x"))
        await elapse(5)
        await store.put(_FIRST, "answers", "a", _Report())
        first, second = await store.topics()
        assert (first.name, first.query, first.entries, first.finished) == (*_both(_FIRST), 2, True)
        assert (second.name, second.query, second.entries, second.finished) == (*_both(_SECOND), 1, False)
        assert (first.newest - first.oldest).total_seconds() == 10
        assert first.bytes > second.bytes > 0

    async def test_an_answer_alone_finishes_nothing(self, store: IResearchStore) -> None:
        """A topic is finished by a value that ends it, not by what lies in a stage; without it, it is so no more."""
        await store.put(_FIRST, "answers", "text", _page("a text that was written before the end"))
        assert [topic.finished for topic in await store.topics()] == [False]
        await store.put(_FIRST, "answers", "report", _Report())
        assert [topic.finished for topic in await store.topics()] == [True]
        await store.put(_FIRST, "answers", "report", _page("x"))
        assert [topic.finished for topic in await store.topics()] == [False]

    async def test_the_same_question_is_the_same_topic(self, store: IResearchStore) -> None:
        """Case and blanks make no difference."""
        await store.put(_FIRST, "docs", "a", _page("x"))
        assert await store.get(topic_of(" what is  the FIRST question? "), "docs", "a", Page) == _page("x")

    async def test_entries_in_the_order_of_the_stages(self, store: IResearchStore) -> None:
        """As a research goes, whatever the order in which they were put."""
        for stage in reversed(_STAGES):
            await store.put(_FIRST, stage, "a", _page("x"))
        entries = await store.entries(_FIRST.name)
        assert [entry.stage for entry in entries] == list(_STAGES)
        assert all(entry.bytes > 0 and entry.made_at.tzinfo for entry in entries)

    async def test_no_such_topic(self, store: IResearchStore, tmp_path: Path) -> None:
        """Whatever is asked for by a name that is no topic's, nothing happens."""
        await store.put(_FIRST, "docs", "a", _page("x"))
        for name in NO_TOPICS:
            assert await _failed(store.entries(name)) is TopicNotFoundError, name
            assert await _failed(store.clear(name)) is TopicNotFoundError, name
            assert await _failed(store.export(tmp_path / "x.zip", name)) is TopicNotFoundError, name
        assert await store.get(_FIRST, "docs", "a", Page) == _page("x")
        assert not (tmp_path / "x.zip").exists()

    async def test_clearing(self, store: IResearchStore) -> None:
        """One topic, or all; how many entries that were."""
        for topic in (_FIRST, _SECOND):
            await store.put(topic, "docs", "a", _page("x"))
            await store.put(topic, "answers", "a", _page("x"))
        assert await store.clear(_FIRST.name) == 2
        assert [topic.name for topic in await store.topics()] == [_SECOND.name]
        assert (await store.clear(), await store.clear()) == (2, 0)
        assert await store.topics() == ()

    async def test_statistics(self, store: IResearchStore) -> None:
        """Entries, bytes, age, hits and misses of every stage; of all values at once each is a hit, none is one miss."""
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
        asked = {stage.stage: (stage.hits, stage.misses) for stage in (await store.stats()).stages}
        assert (asked["docs"], asked["summaries"]) == ((2 + 1 + 2, 1), (0, 1))
        empty = next(stage for stage in stats.stages if stage.stage == "answers")
        assert (empty.entries, empty.bytes, empty.oldest, empty.hits, empty.misses) == (0, 0, None, 0, 0)

    async def test_carried_elsewhere(
        self, store: IResearchStore, elsewhere: IResearchStore, elapse: Elapse, tmp_path: Path
    ) -> None:
        """What is exported and imported is there as it was, with its dates."""
        for topic in (_FIRST, _SECOND):
            await store.put(topic, "docs", "a", _page(topic.query))
            await store.put(topic, "answers", "b", _page("large " * 100_000))
        await store.put(_FIRST, "answers", "end", _Report())
        await elapse(1000)
        assert await store.export(tmp_path / "all.zip") == 5
        assert await elsewhere.import_(tmp_path / "all.zip") == Imported(taken=5, kept=0)
        assert _dates(await elsewhere.topics()) == _dates(await store.topics())
        for topic in (_FIRST, _SECOND):
            assert await elsewhere.values(topic, "docs", Page) == await store.values(topic, "docs", Page)
            assert await elsewhere.values(topic, "answers", Page) == await store.values(topic, "answers", Page)

    async def test_one_topic_carried(self, store: IResearchStore, elsewhere: IResearchStore, tmp_path: Path) -> None:
        """The others stay at home; an archive that is there already is replaced."""
        (tmp_path / "one.zip").write_text("an earlier one")
        await store.put(_FIRST, "docs", "a", _page("x"))
        await store.put(_SECOND, "docs", "a", _page("x"))
        assert await store.export(tmp_path / "one.zip", _SECOND.name) == 1
        await elsewhere.import_(tmp_path / "one.zip")
        assert [topic.query for topic in await elsewhere.topics()] == [_SECOND.query]

    async def test_the_newer_one_stays(
        self, store: IResearchStore, elsewhere: IResearchStore, elapse: Elapse, tmp_path: Path
    ) -> None:
        """An import replaces what is older here and leaves what is as new."""
        await elsewhere.put(_FIRST, "docs", "a", _page("older"))
        await elapse(1)
        await store.put(_FIRST, "docs", "a", _page("newer"))
        await store.put(_FIRST, "docs", "b", _page("older"))
        await elapse(1)
        await elsewhere.put(_FIRST, "docs", "b", _page("newer"))
        await store.export(tmp_path / "x.zip")
        assert await elsewhere.import_(tmp_path / "x.zip") == Imported(taken=1, kept=1)
        assert await elsewhere.import_(tmp_path / "x.zip") == Imported(taken=0, kept=2)
        assert set(await elsewhere.values(_FIRST, "docs", Page)) == {_page("newer")}

    async def test_what_is_old_is_not_carried(
        self, store: IResearchStore, elsewhere: IResearchStore, elapse: Elapse, tmp_path: Path
    ) -> None:
        """Neither exported nor, when it has become old in its archive, imported."""
        await store.put(_FIRST, "docs", "a", _page("x"))
        assert await store.export(tmp_path / "x.zip") == 1
        await elapse(KEPT_DAYS * DAY_S + 1)
        assert await store.export(tmp_path / "y.zip") == 0
        assert await elsewhere.import_(tmp_path / "x.zip") == Imported(taken=0, kept=0, expired=1)
        assert await elsewhere.import_(tmp_path / "y.zip") == Imported(taken=0, kept=0)

    async def test_files_that_are_none(self, store: IResearchStore, tmp_path: Path) -> None:
        """A file that is missing, empty or something else is an error; so is a place that cannot be written to."""
        (tmp_path / "empty.zip").touch()
        (tmp_path / "text.zip").write_text("PK not really" * 100)
        for name in ("missing.zip", "empty.zip", "text.zip", "."):
            assert await _failed(store.import_(tmp_path / name)) is StoreError, name
        assert await _failed(store.export(tmp_path / "no such folder" / "x.zip")) is StoreError
        assert await store.topics() == ()


class _Report(EndsTopic):
    text: str = "finished"


async def _failed(work: Awaitable[object]) -> type[AppException] | None:
    """The error that it raised."""
    try:
        await work
    except AppException as error:
        return type(error)
    return None


def _page(text: str) -> Page:
    return made_up_page("https://example.org/page", text)


def _both(topic: Topic) -> tuple[str, str]:
    return topic.name, topic.query


def _dates(topics: tuple[StoredTopic, ...]) -> list[tuple[object, ...]]:
    return sorted((topic.name, topic.entries, topic.oldest, topic.newest, topic.finished) for topic in topics)
