"""Check for `worker --check` whether brokers, topics, ACLs and topic settings fit the contract.

The check writes and consumes nothing. A missing requirement is a failure. Anything that the brokers do not report is a warning.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it does not export these names
    AclOperation,
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    ConsumerGroupDescription,
    ResourceType,
    TopicDescription,
)

from modules.llm_platform.domain.dtos.health_dtos import CheckResult
from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.presentation.kafka.contract.requests import CONTRACT_TOPICS, Topics
from modules.llm_platform.presentation.kafka.worker import clients
from modules.llm_platform.presentation.kafka.worker.group_watch import check_members

QUERY_TIMEOUT_S: Final = 5.0
ERROR_POLL_S: Final = 0.2
PRODUCER_POLL_S: Final = 0.1
MIN_RETENTION_MS: Final = 24 * 3_600_000  # a request must survive a night without a worker

# READ and WRITE imply DESCRIBE: a resource that must not be described must not be used either.
_HIDDEN: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})

QueryProducerId = Callable[[float], clients.AdminFailure | None]


@dataclass(frozen=True, slots=True)
class WorkerRequirements:
    """The requirements of the worker.

    - `record_bytes` is the size of its longest record.
    - `user` is the SASL user that the settings name, or None.
    """

    group_id: str
    stages: Sequence[RagStage]
    record_bytes: int
    user: str | None = None
    topics: Topics = CONTRACT_TOPICS

    @property
    def acl_command(self) -> str:
        """The start of the command that grants a right."""
        return f"kafka-acls.sh --add --allow-principal User:{self.user or '…'}"


def check_cluster(
    admin: AdminClient,
    needs: WorkerRequirements,
    query_producer_id: QueryProducerId,
    client_errors: Sequence[KafkaError] = (),
) -> Iterator[CheckResult]:
    """Query the brokers, each query within QUERY_TIMEOUT_S. `client_errors` fills while the admin client is polled."""
    try:
        cluster = admin.list_topics(timeout=QUERY_TIMEOUT_S)
    except KafkaException as error:
        admin.poll(ERROR_POLL_S)
        remedy = (
            clients.find_remedy(client_errors) or "check KAFKA_BOOTSTRAP_SERVERS and security.protocol of KAFKA_CONFIG"
        )
        yield CheckResult("brokers", "failed", f"cannot be reached ({error.args[0].name()}): {remedy}")
        return
    yield CheckResult("brokers", "ok", f"{len(cluster.brokers)} reached")
    readable = needs.topics.read_by(needs.stages)
    topics = _describe_topics(admin, [*readable, *needs.topics.written_by(needs.stages)])
    hidden = {topic for topic, description in topics.items() if _is_hidden(description)}
    yield from _check_existence(cluster, [topic for topic in topics if topic not in hidden])
    existing = [topic for topic in topics if topic in cluster.topics]
    for topic in topics:
        if topic in hidden or topic in existing:
            operation = AclOperation.READ if topic in readable else AclOperation.WRITE
            subject = f"right to {operation.name.lower()} {topic}"
            yield _check_acl(subject, needs, operation, f"--topic {topic}", topics[topic])
    futures = admin.describe_consumer_groups(
        [needs.group_id], include_authorized_operations=True, request_timeout=QUERY_TIMEOUT_S
    )
    group = clients.await_admin_reply(futures[needs.group_id], QUERY_TIMEOUT_S)
    subject = f"right to read as group {needs.group_id}"
    yield _check_acl(subject, needs, AclOperation.READ, f"--group {needs.group_id}", group)
    if not _is_hidden(group):
        yield check_members(needs.group_id, group)
    yield _check_producer_id(needs, query_producer_id(QUERY_TIMEOUT_S))
    if existing:
        for topic, settings in _query_topic_settings(admin, existing).items():
            yield from _check_settings(topic, settings, needs)


def query_producer_id(config: clients.Config, timeout_s: float) -> clients.AdminFailure | None:
    """Request a producer id as a worker does, without writing, and return the failure. Raises SettingsError.

    Since Kafka 2.8, the right to write to any topic suffices. Older brokers require IdempotentWrite on the cluster.
    """
    states: list[str] = []

    def add_state(statistics: str) -> None:
        states.append(json.loads(statistics).get("eos", {}).get("idemp_state", ""))

    interval = {"statistics.interval.ms": int(PRODUCER_POLL_S * 1000)}
    producer = clients.make_producer({**config, **interval}, {"stats_cb": add_state})
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            producer.poll(PRODUCER_POLL_S)
        except KafkaException as error:
            return clients.AdminFailure(error.args[0].code(), error.args[0].name())
        if "Assigned" in states:
            return None
    return clients.NO_REPLY


def _describe_topics(admin: AdminClient, topics: Sequence[str]) -> dict[str, TopicDescription | clients.AdminFailure]:
    futures = admin.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=QUERY_TIMEOUT_S
    )
    return {topic: clients.await_admin_reply(futures[topic], QUERY_TIMEOUT_S) for topic in topics}


def _is_hidden(description: object) -> bool:
    return isinstance(description, clients.AdminFailure) and description.code in _HIDDEN


def _check_existence(cluster: ClusterMetadata, topics: Sequence[str]) -> Iterator[CheckResult]:
    for topic in topics:
        metadata = cluster.topics.get(topic)
        if metadata is None or metadata.error is not None:
            yield CheckResult(f"topic {topic}", "failed", "does not exist: create it")
            continue
        replicas = min((len(partition.replicas) for partition in metadata.partitions.values()), default=0)
        detail = f"partitions: {len(metadata.partitions)}, replication factor: {replicas}"
        if replicas < 2:  # acks=all is as safe as the number of replicas
            remedy = "one lost disk loses the topic; use replication factor 3"
            yield CheckResult(f"topic {topic}", "warning", f"{detail}: {remedy}")
        else:
            yield CheckResult(f"topic {topic}", "ok", detail)


def _check_acl(
    subject: str,
    needs: WorkerRequirements,
    operation: AclOperation,
    resource: str,
    description: TopicDescription | ConsumerGroupDescription | clients.AdminFailure,
) -> CheckResult:
    missing = CheckResult(
        subject,
        "failed",
        f"is missing: {needs.acl_command} --operation {operation.name.capitalize()} {resource}",
    )
    if isinstance(description, clients.AdminFailure):
        return missing if _is_hidden(description) else CheckResult(subject, "warning", description.text)
    allowed = description.authorized_operations
    if not allowed:
        return CheckResult(subject, "warning", clients.NO_AUTHORIZER.text)
    if operation in allowed or AclOperation.ALL in allowed:
        return CheckResult(subject, "ok", "granted")
    return missing


def _check_producer_id(needs: WorkerRequirements, failure: clients.AdminFailure | None) -> CheckResult:
    subject = "right to write idempotently"
    if failure is None:
        return CheckResult(subject, "ok", "granted")
    if failure.code != KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return CheckResult(subject, "warning", failure.text)
    return CheckResult(
        subject,
        "failed",
        "is missing: since Kafka 2.8 any right to write includes it; before that, "
        f"{needs.acl_command} --operation IdempotentWrite --cluster",
    )


def _query_topic_settings(
    admin: AdminClient, topics: Sequence[str]
) -> Mapping[str, Mapping[str, str] | clients.AdminFailure]:
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    futures = admin.describe_configs(resources, request_timeout=QUERY_TIMEOUT_S)
    replies = {
        resource.name: clients.await_admin_reply(future, QUERY_TIMEOUT_S) for resource, future in futures.items()
    }
    return {
        topic: reply
        if isinstance(reply, clients.AdminFailure)
        else {name: str(entry.value) for name, entry in reply.items()}
        for topic, reply in replies.items()
    }


def _check_settings(
    topic: str, settings: Mapping[str, str] | clients.AdminFailure, needs: WorkerRequirements
) -> Iterator[CheckResult]:
    subject = f"settings of {topic}"
    if isinstance(settings, clients.AdminFailure):
        yield CheckResult(subject, "warning", settings.text)
        return
    problems = []
    if topic in needs.topics.read_by(needs.stages):
        if "compact" in settings.get("cleanup.policy", ""):
            remedy = "set it to delete: a later request of the same key would remove an unread one"
            problems.append(CheckResult(subject, "failed", f"cleanup.policy is compact: {remedy}"))
        retention_ms = int(settings.get("retention.ms", "-1"))
        if 0 <= retention_ms < MIN_RETENTION_MS:
            remedy = "raise it: requests that wait longer for a worker are never answered"
            problems.append(CheckResult(subject, "warning", f"retention.ms is {retention_ms}: {remedy}"))
    else:
        max_bytes = int(settings.get("max.message.bytes", needs.record_bytes))
        if max_bytes < needs.record_bytes:
            remedy = f"raise it to {needs.record_bytes}: longer outcomes become failures"
            problems.append(CheckResult(subject, "warning", f"max.message.bytes is {max_bytes}: {remedy}"))
    if settings.get("unclean.leader.election.enable") == "true":
        remedy = "set it to false: an out-of-sync replica may become the leader, and the records that it lacks are lost"
        problems.append(CheckResult(subject, "warning", f"unclean.leader.election.enable is true: {remedy}"))
    yield from problems or [CheckResult(subject, "ok", "fit")]
