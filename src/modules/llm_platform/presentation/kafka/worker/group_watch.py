"""Watch the worker's consumer group at the brokers: its members, missing topics, and commits of another outcome store.

Workers of one group that do not share an outcome store may give a duplicate request two outcomes. Every commit carries the id
of the store in its metadata, so that such workers are detected even when they never run at the same time.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import ClusterMetadata, ConsumerGroupDescription  # type: ignore[attr-defined]  # it does not export these names

from modules.llm_platform.domain.dtos.health_dtos import CheckResult
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.presentation.kafka.worker.clients import AdminFailure
from modules.llm_platform.presentation.kafka.worker.known_brokers import GroupReader
from modules.llm_platform.presentation.kafka.worker.offsets import Partition

log = logging.getLogger(__name__)

QUERY_TIMEOUT_S: Final = 3.0
CHECK_INTERVAL_S: Final = 30.0
SHOWN_STORE_CHARS: Final = 8
_STORE_PREFIX: Final = "store="


def commit_metadata(store_id: str) -> str:
    return f"{_STORE_PREFIX}{store_id}"


@dataclass(frozen=True, slots=True)
class StoreCommit:
    """The last commit of a partition, with the id of the committing worker's outcome store."""

    store_id: str
    offset: int


@dataclass(slots=True)
class GroupWatch:
    """Checks the group every CHECK_INTERVAL_S, and logs changes. `store_id` is the id of this worker's outcome store."""

    reader: GroupReader
    group_id: str
    request_topics: Sequence[str]
    outcome_topics: Sequence[str]
    store_id: str
    _missing_topics: set[str] = field(default_factory=set)
    _other_commits: dict[Partition, StoreCommit] | None = None  # None before the first check
    _logged_stores: set[str] = field(default_factory=set)

    async def watch(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.to_thread(self.check)
            await asyncio.sleep(CHECK_INTERVAL_S)

    def check(self) -> None:
        """Check once. With unreachable brokers this takes some seconds and logs nothing: the clients log those errors."""
        client = self.reader.client()
        try:
            cluster = client.list_topics(timeout=QUERY_TIMEOUT_S)
        except KafkaException:
            return
        topics = (*self.request_topics, *self.outcome_topics)
        missing = {name for name in topics if not _exists(cluster, name)}
        if new := missing - self._missing_topics:
            log.error("topics are missing: create them, see `worker --check`", extra={"topics": sorted(new)})
        if created := self._missing_topics - missing:
            log.info("missing topics exist now", extra={"topics": sorted(created)})
        self._missing_topics = missing
        commits = _store_commits(client, cluster, self.request_topics, QUERY_TIMEOUT_S)
        if commits is not None:
            self._log_other_stores(_of_other_stores(commits, self.store_id))

    def _log_other_stores(self, commits: dict[Partition, StoreCommit]) -> None:
        """Commits from before the first check may belong to a folder that is no longer used, so they are a warning."""
        previous, self._other_commits = self._other_commits, commits
        if previous is None:
            if commits:
                log.warning(
                    "a worker with another outcome store has committed for this group; unless it no longer runs, give "
                    "all workers the same DATABASE_URL or, on one machine, LLM_PLATFORM_DATA_DIR",
                    extra=self._log_fields(commits),
                )
            return
        new = {partition: commit for partition, commit in commits.items() if previous.get(partition) != commit}
        if {commit.store_id for commit in new.values()} - self._logged_stores:
            self._logged_stores |= {commit.store_id for commit in new.values()}
            log.error(
                "two outcome stores are in use in this group: duplicates of a request may get different outcomes; give "
                "all workers the same DATABASE_URL or, on one machine, LLM_PLATFORM_DATA_DIR",
                extra=self._log_fields(new),
            )

    def _log_fields(self, commits: Mapping[Partition, StoreCommit]) -> dict[str, object]:
        return {
            "group": self.group_id,
            "store": self.store_id[:SHOWN_STORE_CHARS],
            "other_stores": _store_names(commits),
            "partitions": _name_partitions(commits),
        }


def check_members(group_id: str, group: ConsumerGroupDescription | AdminFailure) -> CheckResult:
    subject = f"group {group_id}"
    if isinstance(group, AdminFailure):
        return CheckResult(subject, "warning", f"active members: {group.text}")
    if not group.members:
        return CheckResult(subject, "ok", "no active member")
    names = "; ".join(
        sorted(
            f"{member.client_id} at {str(member.host).lstrip('/')}, "
            + format_count(len(member.assignment.topic_partitions) if member.assignment else 0, "partition")
            for member in group.members
        )
    )
    return CheckResult(subject, "ok", f"{len(group.members)} active: {names}")


def check_stores(client: Consumer, topics: Sequence[str], store_id: str, timeout_s: float) -> Iterator[CheckResult]:
    """Yield whether all workers of the group share one outcome store. Yield nothing if no commit names a store."""
    try:
        cluster = client.list_topics(timeout=timeout_s)
    except KafkaException:
        return
    commits = _store_commits(client, cluster, topics, timeout_s)
    if not commits:
        return
    others = _of_other_stores(commits, store_id)
    if not others:
        yield CheckResult("outcome store", "ok", "all commits of the group are from workers with this store")
        return
    yield CheckResult(
        "outcome store",
        "warning",
        f"the group has commits of another one (store {', '.join(_store_names(others))}, here "
        f"{store_id[:SHOWN_STORE_CHARS]}; {', '.join(_name_partitions(others))}): give all workers the same "
        "DATABASE_URL or, on one machine, LLM_PLATFORM_DATA_DIR",
    )


def _store_commits(
    client: Consumer, cluster: ClusterMetadata, topics: Sequence[str], timeout_s: float
) -> dict[Partition, StoreCommit] | None:
    """Return the last commits that name a store, or None if the brokers do not reply."""
    partitions = [
        TopicPartition(topic, number)
        for topic in topics
        if _exists(cluster, topic)
        for number in cluster.topics[topic].partitions
    ]
    if not partitions:
        return {}
    try:
        committed = client.committed(partitions, timeout=timeout_s)
    except KafkaException:
        return None
    return {
        (partition.topic, partition.partition): StoreCommit(
            partition.metadata.removeprefix(_STORE_PREFIX), partition.offset
        )
        for partition in committed
        if partition.metadata and partition.metadata.startswith(_STORE_PREFIX)
    }


def _of_other_stores(commits: Mapping[Partition, StoreCommit], store_id: str) -> dict[Partition, StoreCommit]:
    return {partition: commit for partition, commit in commits.items() if commit.store_id != store_id}


def _store_names(commits: Mapping[Partition, StoreCommit]) -> list[str]:
    return sorted({commit.store_id[:SHOWN_STORE_CHARS] for commit in commits.values()})


def _name_partitions(commits: Mapping[Partition, StoreCommit]) -> list[str]:
    return [f"{topic}/{number}" for topic, number in sorted(commits)]


def _exists(cluster: ClusterMetadata, topic: str) -> bool:
    metadata = cluster.topics.get(topic)
    return metadata is not None and metadata.error is None
