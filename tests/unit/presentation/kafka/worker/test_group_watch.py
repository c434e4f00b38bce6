"""Warnings about the group: missing topics, and commits of workers with another outcome store."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from modules.llm_platform.presentation.kafka.worker.group_watch import GroupWatch, check_stores, commit_metadata
from modules.llm_platform.presentation.kafka.worker.known_brokers import GroupReader

REQUEST_TOPICS, OUTCOME_TOPICS = ("rag_search_request",), ("rag_search_result", "rag_failed")
OURS, THEIRS = "a" * 32, "b" * 32


class FakeClient:
    """Brokers with these topics, of two partitions each. `commits`: of partitions of the request topic, metadata and offset."""

    def __init__(self) -> None:
        self.topics = {*REQUEST_TOPICS, *OUTCOME_TOPICS}
        self.commits: dict[int, tuple[str, int]] = {}
        self.error: KafkaException | None = None
        self.commits_error: KafkaException | None = None  # the coordinator is away

    def list_topics(self, timeout: float) -> SimpleNamespace:
        if self.error is not None:
            raise self.error
        topics = {name: SimpleNamespace(error=None, partitions={0: None, 1: None}) for name in self.topics}
        return SimpleNamespace(topics=topics)

    def poll(self, timeout: float) -> None:
        pass

    def committed(self, asked: Sequence[TopicPartition], timeout: float) -> list[SimpleNamespace]:
        if self.commits_error is not None:
            raise self.commits_error
        return [
            SimpleNamespace(topic=partition.topic, partition=partition.partition, metadata=metadata, offset=offset)
            for partition in asked
            for metadata, offset in [self.commits.get(partition.partition, (None, -1001))]
        ]


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def watch(client: FakeClient, caplog: pytest.LogCaptureFixture) -> GroupWatch:
    caplog.set_level(logging.INFO)
    return GroupWatch(GroupReader(lambda _: client), "team", REQUEST_TOPICS, OUTCOME_TOPICS, OURS)  # type: ignore[arg-type,return-value]


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return level and start of each line, and clear the log."""
    lines = [(entry.levelname, entry.message.partition(":")[0].partition(";")[0]) for entry in caplog.records]
    caplog.clear()
    return lines


def test_missing_topics_are_logged_once(
    client: FakeClient, watch: GroupWatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The clients report no error for them with KIP-848. Their creation is logged too."""
    client.topics = {"rag_failed"}
    watch.check()
    assert caplog.records[0].__dict__["topics"] == ["rag_search_request", "rag_search_result"]
    watch.check()
    assert logged(caplog) == [("ERROR", "topics are missing")]
    client.topics |= {"rag_search_request"}
    watch.check()
    watch.check()
    assert logged(caplog) == [("INFO", "missing topics exist now")]


def test_earlier_commit_of_another_store_is_a_warning(
    client: FakeClient, watch: GroupWatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That worker may no longer run: logged once, with both ids and the partitions."""
    client.commits = {0: (commit_metadata(THEIRS), 7), 1: (commit_metadata(OURS), 9)}
    watch.check()
    about = caplog.records[0].__dict__
    assert (about["group"], about["store"], about["other_stores"]) == ("team", OURS[:8], [THEIRS[:8]])
    assert about["partitions"] == ["rag_search_request/0"]
    watch.check()
    assert logged(caplog) == [("WARNING", "a worker with another outcome store has committed for this group")]


def test_new_commit_of_another_store_is_an_error(
    client: FakeClient, watch: GroupWatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two workers with different folders run: logged once for each store."""
    watch.check()
    client.commits = {0: (commit_metadata(THEIRS), 7)}
    watch.check()
    client.commits = {0: (commit_metadata(THEIRS), 8)}
    watch.check()
    assert logged(caplog) == [("ERROR", "two outcome stores are in use in this group")]


def test_continued_commits_of_another_store_are_an_error(
    client: FakeClient, watch: GroupWatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After the warning at the start."""
    client.commits = {0: (commit_metadata(THEIRS), 7)}
    watch.check()
    client.commits = {0: (commit_metadata(THEIRS), 8)}
    watch.check()
    assert [level for level, _ in logged(caplog)] == ["WARNING", "ERROR"]


def test_commits_without_a_store_are_ignored(
    client: FakeClient, watch: GroupWatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of an earlier version or another tool; unreachable brokers are ignored too."""
    client.commits = {0: ("", 7), 1: ("something else", 3)}
    watch.check()
    client.commits = {0: (commit_metadata(THEIRS), 7)}
    client.commits_error = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    watch.check()
    client.error = KafkaException(KafkaError(KafkaError._TRANSPORT))
    watch.check()
    assert logged(caplog) == []


def test_check_reports_other_stores(client: FakeClient) -> None:
    """Nothing without a known store, and a warning with the remedy for another one."""

    def found() -> list[tuple[str, str]]:
        return [(result.verdict, result.text) for result in check_stores(client, REQUEST_TOPICS, OURS, 1.0)]  # type: ignore[arg-type]

    assert found() == []
    client.commits = {0: (commit_metadata(OURS), 7)}
    assert [verdict for verdict, _ in found()] == ["ok"]
    client.commits[1] = (commit_metadata(THEIRS), 7)
    [(verdict, text)] = found()
    assert verdict == "warning"
    assert "LLM_PLATFORM_DATA_DIR" in text
