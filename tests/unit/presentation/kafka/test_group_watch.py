"""What is said of the group: missing topics, and commits of workers with another store of outcomes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from modules.llm_platform.presentation.kafka.worker.group_watch import GroupWatch, commit_metadata, of_stores

READ, WRITTEN = ("rag_search_request",), ("rag_search_result", "rag_failed")
OURS, THEIRS = "a" * 32, "b" * 32


class FakeAdmin:
    """Brokers with these topics, of two partitions each. `commits`: of partitions of the request topic, metadata and offset."""

    def __init__(self) -> None:
        self.topics = {*READ, *WRITTEN}
        self.commits: dict[int, tuple[str, int]] = {}
        self.away: KafkaException | None = None

    def list_topics(self, timeout: float) -> SimpleNamespace:
        if self.away is not None:
            raise self.away
        topics = {name: SimpleNamespace(error=None, partitions={0: None, 1: None}) for name in self.topics}
        return SimpleNamespace(topics=topics)

    def list_consumer_group_offsets(self, asked: Sequence[Any], **_: object) -> Mapping[str, Future[Any]]:
        [group] = asked
        answer: Future[Any] = Future()
        found = [
            SimpleNamespace(topic=each.topic, partition=each.partition, metadata=metadata, offset=offset)
            for each in group.topic_partitions
            for metadata, offset in [self.commits.get(each.partition, (None, -1001))]
        ]
        answer.set_result(SimpleNamespace(topic_partitions=found))
        return {group.group_id: answer}


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


@pytest.fixture
def watch(admin: FakeAdmin, caplog: pytest.LogCaptureFixture) -> GroupWatch:
    caplog.set_level(logging.INFO)
    return GroupWatch(admin, "team", READ, WRITTEN, OURS)  # type: ignore[arg-type]


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Level and first words of each line, which are forgotten."""
    lines = [(entry.levelname, entry.message.partition(":")[0].partition(";")[0]) for entry in caplog.records]
    caplog.clear()
    return lines


def test_missing_topics_are_said_once(admin: FakeAdmin, watch: GroupWatch, caplog: pytest.LogCaptureFixture) -> None:
    """With the protocol of KIP-848 no error of the client tells: the brokers are asked. So is that they are there now."""
    admin.topics = {"rag_failed"}
    watch.look()
    assert caplog.records[0].__dict__["topics"] == ["rag_search_request", "rag_search_result"]
    watch.look()
    assert said(caplog) == [("ERROR", "topics are missing")]
    admin.topics |= {"rag_search_request"}
    watch.look()
    watch.look()
    assert said(caplog) == [("INFO", "topics are there now")]


def test_a_store_of_earlier_is_a_warning(admin: FakeAdmin, watch: GroupWatch, caplog: pytest.LogCaptureFixture) -> None:
    """It may be gone for good: said once, at the start, with both ids and the partitions."""
    admin.commits = {0: (commit_metadata(THEIRS), 7), 1: (commit_metadata(OURS), 9)}
    watch.look()
    about = caplog.records[0].__dict__
    assert (about["group"], about["store"], about["other_stores"]) == ("team", OURS[:8], [THEIRS[:8]])
    assert about["partitions"] == ["rag_search_request/0"]
    watch.look()
    assert said(caplog) == [("WARNING", "a worker with another data folder has worked for this group")]


def test_a_store_that_commits_now_is_an_error(
    admin: FakeAdmin, watch: GroupWatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two workers at work with a folder each: loudly, once for each store."""
    watch.look()
    admin.commits = {0: (commit_metadata(THEIRS), 7)}
    watch.look()
    admin.commits = {0: (commit_metadata(THEIRS), 8)}
    watch.look()
    assert said(caplog) == [("ERROR", "two data folders are in use in this group")]


def test_one_that_goes_on_committing_is_an_error_too(
    admin: FakeAdmin, watch: GroupWatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was a warning at the start, once it moves."""
    admin.commits = {0: (commit_metadata(THEIRS), 7)}
    watch.look()
    admin.commits = {0: (commit_metadata(THEIRS), 8)}
    watch.look()
    assert [level for level, _ in said(caplog)] == ["WARNING", "ERROR"]


def test_others_commits_are_nobodys(admin: FakeAdmin, watch: GroupWatch, caplog: pytest.LogCaptureFixture) -> None:
    """Of an earlier version, of another tool, or none: nothing is known, nothing is said. Nor while the brokers are away."""
    admin.commits = {0: ("", 7), 1: ("something else", 3)}
    watch.look()
    admin.away = KafkaException(KafkaError(KafkaError._TRANSPORT))
    watch.look()
    assert said(caplog) == []


def test_the_check_says_the_same(admin: FakeAdmin) -> None:
    """Nothing where nothing is known; a warning with the remedy where another folder is or was in use."""

    def found() -> list[tuple[str, str]]:
        return [(each.verdict, each.text) for each in of_stores(admin, "team", READ, OURS, 1.0)]  # type: ignore[arg-type]

    assert found() == []
    admin.commits = {0: (commit_metadata(OURS), 7)}
    assert [verdict for verdict, _ in found()] == ["ok"]
    admin.commits[1] = (commit_metadata(THEIRS), 7)
    [(verdict, text)] = found()
    assert verdict == "warning"
    assert "LLM_PLATFORM_DATA_DIR" in text
