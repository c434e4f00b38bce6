"""What the brokers know of the worker's group: its members, topics that are missing, and commits of another data folder.

Two workers of one group that do not share a store of outcomes give a repeated request two outcomes. Each commit carries the
id of the store, so that they find each other, also where they never run at the same time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it names them without exporting them
    AdminClient,
    ClusterMetadata,
    ConsumerGroupDescription,
    MemberDescription,
)

from modules.llm_platform.application.services.doctor_service import CheckResult
from modules.llm_platform.presentation.kafka.worker.clients import NoAdminReply, admin_reply
from modules.llm_platform.presentation.kafka.worker.consumer import Partition

log = logging.getLogger(__name__)

ASK_S: Final = 3.0  # for each question of a running worker
LOOK_EVERY_S: Final = 30.0
STORE_CHARS: Final = 8  # of an id, where people read it
_STORE: Final = "store="  # before the id in the metadata of a commit


def commit_metadata(store_id: str) -> str:
    """What a commit carries."""
    return f"{_STORE}{store_id}"


@dataclass(frozen=True, slots=True)
class Commit:
    """The last one of a partition: by whose store, and how far."""

    store_id: str
    offset: int


@dataclass(slots=True)
class GroupWatch:
    """Looks every `LOOK_EVERY_S` seconds, and logs what has changed. `store_id` is that of this worker's store."""

    admin: AdminClient
    group_id: str
    read: Sequence[str]
    written: Sequence[str]
    store_id: str
    _missing: set[str] = field(default_factory=set)
    _others: dict[Partition, Commit] | None = None  # of the last look; None before the first
    _named: set[str] = field(default_factory=set)

    async def watch(self) -> None:
        """Until this is cancelled."""
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self) -> None:
        """Once; it takes some seconds where the brokers are away, of which others tell."""
        try:
            cluster = self.admin.list_topics(timeout=ASK_S)
        except KafkaException:
            return
        self._note_missing({name for name in (*self.read, *self.written) if not _is_there(cluster, name)})
        commits = commits_of(self.admin, self.group_id, places_of(cluster, self.read), ASK_S)
        if not isinstance(commits, NoAdminReply):
            self._note_others({place: each for place, each in commits.items() if each.store_id != self.store_id})

    def _note_missing(self, missing: set[str]) -> None:
        if new := missing - self._missing:
            log.error("topics are missing: create them, see `worker --check`", extra={"topics": sorted(new)})
        if back := self._missing - missing:
            log.info("topics are there now", extra={"topics": sorted(back)})
        self._missing = missing

    def _note_others(self, others: dict[Partition, Commit]) -> None:
        """What was committed before this worker looked may be of a folder that nobody uses any more."""
        before, self._others = self._others, others
        if before is None:
            if others:
                log.warning(
                    "a worker with another data folder has worked for this group; unless it is gone for good, give all the "
                    "same LLM_PLATFORM_DATA_DIR",
                    extra=self._about(others),
                )
            return
        now = {place: each for place, each in others.items() if before.get(place) != each}
        if {each.store_id for each in now.values()} - self._named:
            self._named |= {each.store_id for each in now.values()}
            log.error(
                "two data folders are in use in this group: a repeated request may get two outcomes that differ; give all "
                "workers the same LLM_PLATFORM_DATA_DIR",
                extra=self._about(now),
            )

    def _about(self, others: Mapping[Partition, Commit]) -> dict[str, object]:
        return {
            "group": self.group_id,
            "store": self.store_id[:STORE_CHARS],
            "other_stores": sorted({each.store_id[:STORE_CHARS] for each in others.values()}),
            "partitions": _names(others),
        }


def commits_of(
    admin: AdminClient, group_id: str, places: Sequence[TopicPartition], within_s: float
) -> dict[Partition, Commit] | NoAdminReply:
    """The last commits that carry the id of a store."""
    if not places:
        return {}
    asked = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group_id, list(places))], request_timeout=within_s
    )
    answer = admin_reply(asked[group_id], within_s)
    if isinstance(answer, NoAdminReply):
        return answer
    return {
        (each.topic, each.partition): Commit(each.metadata.removeprefix(_STORE), each.offset)
        for each in answer.topic_partitions or ()
        if each.metadata and each.metadata.startswith(_STORE)
    }


def places_of(cluster: ClusterMetadata, topics: Sequence[str]) -> list[TopicPartition]:
    """All partitions of those topics that are there."""
    return [
        TopicPartition(topic, number)
        for topic in topics
        if _is_there(cluster, topic)
        for number in cluster.topics[topic].partitions
    ]


def of_members(group_id: str, said: ConsumerGroupDescription | NoAdminReply) -> CheckResult:
    """Who is active in the group, for `--check`."""
    what = f"group {group_id}"
    if isinstance(said, NoAdminReply):
        return CheckResult(what, "warning", f"its active members: {said.words}")
    if not said.members:
        return CheckResult(what, "ok", "no active member")
    names = "; ".join(sorted(map(_member, said.members)))
    return CheckResult(what, "ok", f"{len(said.members)} active: {names}")


def of_stores(
    admin: AdminClient, group_id: str, topics: Sequence[str], store_id: str, within_s: float
) -> Iterator[CheckResult]:
    """Whether all workers of the group share one store of outcomes, for `--check`. Nothing where nothing is known."""
    try:
        cluster = admin.list_topics(timeout=within_s)
    except KafkaException:
        return
    commits = commits_of(admin, group_id, places_of(cluster, topics), within_s)
    if isinstance(commits, NoAdminReply) or not commits:
        return
    others = {place: each for place, each in commits.items() if each.store_id != store_id}
    if not others:
        yield CheckResult("data folder", "ok", "all commits of the group are by workers with this one")
        return
    stores = ", ".join(sorted({each.store_id[:STORE_CHARS] for each in others.values()}))
    yield CheckResult(
        "data folder", "warning",
        f"another one is or was in use in the group (store {stores}, here {store_id[:STORE_CHARS]}; "
        f"{', '.join(_names(others))}): give all workers the same LLM_PLATFORM_DATA_DIR",
    )  # fmt: skip


def _member(member: MemberDescription) -> str:
    count = len(member.assignment.topic_partitions) if member.assignment else 0
    return f"{member.client_id} at {str(member.host).lstrip('/')}, {count} partitions"


def _names(places: Mapping[Partition, Commit]) -> list[str]:
    return [f"{topic}/{number}" for topic, number in sorted(places)]


def _is_there(cluster: ClusterMetadata, topic: str) -> bool:
    found = cluster.topics.get(topic)
    return found is not None and found.error is None
