"""`worker --check`: does what is there fit what the contract needs? Nothing is written and nothing is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it names them without exporting them
    AclOperation,
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    ConsumerGroupDescription,
    ResourceType,
    TopicDescription,
)

from modules.llm_platform.application.services.doctor_service import Finding
from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.presentation.kafka.topics import FAILED_TOPIC, REQUEST_TOPICS, RESULT_TOPICS

ASK_S: Final = 5.0  # for each question
SHORT_RETENTION_MS: Final = 24 * 3_600_000  # a request must outlive a night without a worker

Result = TypeVar("Result")

_NOT_TOLD: Final = "the brokers do not say"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the worker would be started with. `outcome_bytes`: the longest record that it produces."""

    group_id: str
    stages: Sequence[RagStage]
    outcome_bytes: int

    @property
    def read(self) -> list[str]:
        """Topics that requests come from."""
        return [REQUEST_TOPICS[stage] for stage in self.stages]

    @property
    def written(self) -> list[str]:
        """Topics that outcomes go to."""
        return [*(RESULT_TOPICS[stage] for stage in self.stages), FAILED_TOPIC]


def findings(admin: AdminClient, wanted: Wanted) -> Iterator[Finding]:
    """Asks the brokers, each question for a few seconds at most; what they refuse to tell is a warning."""
    try:
        cluster = admin.list_topics(timeout=ASK_S)
    except KafkaException as error:
        remedy = "is KAFKA_BOOTSTRAP_SERVERS right, and does KAFKA_CONFIG say how to log in?"
        yield Finding("brokers", "failed", f"cannot be reached ({error.args[0].name()}): {remedy}")
        return
    yield Finding("brokers", "ok", f"{len(cluster.brokers)} reached")
    yield from _topics_there(cluster, wanted)
    there = [topic for topic in (*wanted.read, *wanted.written) if topic in cluster.topics]
    if there:
        yield from _rights(admin, wanted, there)
        for topic, config in _configs(admin, there).items():
            yield from _config_of(topic, config, wanted)


def _topics_there(cluster: ClusterMetadata, wanted: Wanted) -> Iterator[Finding]:
    for topic in (*wanted.read, *wanted.written):
        found = cluster.topics.get(topic)
        if found is None or found.error is not None:
            yield Finding(f"topic {topic}", "failed", "is not there: create it, or allow this user to describe it")
            continue
        copies = min((len(each.replicas) for each in found.partitions.values()), default=0)
        detail = f"{len(found.partitions)} partitions, {copies} copies"
        if copies < 2:  # acks=all is as good as the copies that there are
            yield Finding(f"topic {topic}", "warning", f"{detail}: one lost disk loses them, use replication factor 3")
        else:
            yield Finding(f"topic {topic}", "ok", detail)


# --- rights -------------------------------------------------------------------------------------------------------------


def _rights(admin: AdminClient, wanted: Wanted, there: Sequence[str]) -> Iterator[Finding]:
    asked = admin.describe_topics(
        TopicCollection(list(there)), include_authorized_operations=True, request_timeout=ASK_S
    )
    for topic in there:
        need = AclOperation.READ if topic in wanted.read else AclOperation.WRITE
        yield _right(f"right to {need.name.lower()} {topic}", need, _told(asked[topic]))
    group = admin.describe_consumer_groups(
        [wanted.group_id], include_authorized_operations=True, request_timeout=ASK_S
    )[wanted.group_id]
    yield _right(f"right to read as group {wanted.group_id}", AclOperation.READ, _told(group))


def _right(what: str, need: AclOperation, told: TopicDescription | ConsumerGroupDescription | str) -> Finding:
    if isinstance(told, str):
        return Finding(what, "warning", told)
    allowed = told.authorized_operations
    if not allowed:
        return Finding(what, "warning", _NOT_TOLD)
    if need in allowed or AclOperation.ALL in allowed:
        return Finding(what, "ok", "granted")
    return Finding(what, "failed", f"is missing: grant {need.name} to the user of KAFKA_CONFIG")


# --- what the topics are set to -----------------------------------------------------------------------------------------


def _configs(admin: AdminClient, topics: Sequence[str]) -> Mapping[str, Mapping[str, str] | str]:
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    asked = admin.describe_configs(resources, request_timeout=ASK_S)
    told = {resource.name: _told(answer) for resource, answer in asked.items()}
    return {
        topic: config if isinstance(config, str) else {name: str(entry.value) for name, entry in config.items()}
        for topic, config in told.items()
    }


def _config_of(topic: str, config: Mapping[str, str] | str, wanted: Wanted) -> Iterator[Finding]:
    what = f"settings of {topic}"
    if isinstance(config, str):
        yield Finding(what, "warning", config)
        return
    wrong = list(_wrong_of_requests(what, config) if topic in wanted.read else _wrong_of_outcomes(what, config, wanted))
    if config.get("unclean.leader.election.enable") == "true":
        remedy = "set it to false: a broker that lags behind may become the leader, and what it lacks is gone"
        wrong.append(Finding(what, "warning", f"unclean.leader.election.enable is true: {remedy}"))
    yield from wrong or [Finding(what, "ok", "fit")]


def _wrong_of_requests(what: str, config: Mapping[str, str]) -> Iterator[Finding]:
    if "compact" in config.get("cleanup.policy", ""):
        remedy = "set it to delete: a later request of the same key would remove one that nobody has read"
        yield Finding(what, "failed", f"cleanup.policy is compact: {remedy}")
    retention = int(config.get("retention.ms", "-1"))
    if 0 <= retention < SHORT_RETENTION_MS:
        remedy = "raise it: requests that wait longer than that for a worker are never answered"
        yield Finding(what, "warning", f"retention.ms is {retention}: {remedy}")


def _wrong_of_outcomes(what: str, config: Mapping[str, str], wanted: Wanted) -> Iterator[Finding]:
    taken = int(config.get("max.message.bytes", wanted.outcome_bytes))
    if taken < wanted.outcome_bytes:
        remedy = f"raise it to {wanted.outcome_bytes}: longer outcomes become failures"
        yield Finding(what, "warning", f"max.message.bytes is {taken}: {remedy}")


def _told(answer: Future[Result]) -> Result | Any:
    """The answer, or why there is none."""
    try:
        return answer.result(ASK_S)
    except KafkaException as error:
        return f"{_NOT_TOLD} ({error.args[0].name()})"
    except TimeoutError:
        return f"{_NOT_TOLD} (no answer)"
