"""`worker --check`: does what is there fit what the contract needs? Nothing is written and nothing is read.

What is known to be missing is a failure; what the brokers do not tell is a warning that says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it names them without exporting them
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    ConsumerGroupDescription,
    ResourceType,
    TopicDescription,
)

from modules.llm_platform.application.services.doctor_service import CheckResult
from modules.llm_platform.presentation.kafka.admin import acls
from modules.llm_platform.presentation.kafka.admin.acls import RequiredAcl
from modules.llm_platform.presentation.kafka.worker.clients import Config, NoAdminReply, admin_reply, make_producer
from modules.llm_platform.presentation.kafka.worker.group_watch import of_members
from modules.llm_platform.presentation.kafka.worker.worker import cause_of

ASK_S: Final = 5.0  # for each question
POLL_S: Final = 0.2  # for the client to hand over what it complains about
SHORT_RETENTION_MS: Final = 24 * 3_600_000  # a request must outlive a night without a worker

ProducerIdRefused = Callable[[float], NoAdminReply | None]


def check_results(
    admin: AdminClient,
    wanted: RequiredAcl,
    producer_id_refused: ProducerIdRefused,
    complaints: Sequence[KafkaError] = (),
) -> Iterator[CheckResult]:
    """Asks the brokers, each question for a few seconds at most. `producer_id_refused` asks for a producer id for so many
    seconds: None, or what was said instead. `complaints` fills while the admin client is polled.
    """
    try:
        cluster = admin.list_topics(timeout=ASK_S)
    except KafkaException as error:
        admin.poll(POLL_S)
        remedy = cause_of(complaints) or "is KAFKA_BOOTSTRAP_SERVERS right, and does KAFKA_CONFIG say how to log in?"
        yield CheckResult("brokers", "failed", f"cannot be reached ({error.args[0].name()}): {remedy}")
        return
    yield CheckResult("brokers", "ok", f"{len(cluster.brokers)} reached")
    described = _described(admin, [*wanted.read, *wanted.written])
    hidden = {topic for topic, said in described.items() if acls.may_not_see(said)}
    yield from _topics_there(cluster, [topic for topic in described if topic not in hidden])
    there = [topic for topic in described if topic in cluster.topics]
    yield from acls.of_topics(wanted, {topic: described[topic] for topic in described if topic in {*there, *hidden}})
    group = _group(admin, wanted)
    yield acls.of_group(wanted, group)
    if not acls.may_not_see(group):
        yield of_members(wanted.group_id, group)
    yield acls.of_producer(wanted, producer_id_refused(ASK_S))
    if there:
        for topic, config in _configs(admin, there).items():
            yield from _config_of(topic, config, wanted)


def _described(admin: AdminClient, topics: Sequence[str]) -> dict[str, TopicDescription | NoAdminReply]:
    asked = admin.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=ASK_S
    )
    return {topic: admin_reply(asked[topic], ASK_S) for topic in topics}


def _group(admin: AdminClient, wanted: RequiredAcl) -> ConsumerGroupDescription | NoAdminReply:
    asked = admin.describe_consumer_groups([wanted.group_id], include_authorized_operations=True, request_timeout=ASK_S)
    return admin_reply(asked[wanted.group_id], ASK_S)


def _topics_there(cluster: ClusterMetadata, topics: Sequence[str]) -> Iterator[CheckResult]:
    for topic in topics:
        found = cluster.topics.get(topic)
        if found is None or found.error is not None:
            yield CheckResult(f"topic {topic}", "failed", "is not there: create it")
            continue
        copies = min((len(each.replicas) for each in found.partitions.values()), default=0)
        detail = f"{len(found.partitions)} partitions, {copies} copies"
        if copies < 2:  # acks=all is as good as the copies that there are
            yield CheckResult(
                f"topic {topic}", "warning", f"{detail}: one lost disk loses them, use replication factor 3"
            )
        else:
            yield CheckResult(f"topic {topic}", "ok", detail)


# --- what the topics are set to -----------------------------------------------------------------------------------------


def _configs(admin: AdminClient, topics: Sequence[str]) -> Mapping[str, Mapping[str, str] | NoAdminReply]:
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    asked = admin.describe_configs(resources, request_timeout=ASK_S)
    configs = {resource.name: admin_reply(answer, ASK_S) for resource, answer in asked.items()}
    return {
        topic: config
        if isinstance(config, NoAdminReply)
        else {name: str(entry.value) for name, entry in config.items()}
        for topic, config in configs.items()
    }


def _config_of(topic: str, config: Mapping[str, str] | NoAdminReply, wanted: RequiredAcl) -> Iterator[CheckResult]:
    what = f"settings of {topic}"
    if isinstance(config, NoAdminReply):
        yield CheckResult(what, "warning", config.words)
        return
    wrong = list(_wrong_of_requests(what, config) if topic in wanted.read else _wrong_of_outcomes(what, config, wanted))
    if config.get("unclean.leader.election.enable") == "true":
        remedy = "set it to false: a broker that lags behind may become the leader, and what it lacks is gone"
        wrong.append(CheckResult(what, "warning", f"unclean.leader.election.enable is true: {remedy}"))
    yield from wrong or [CheckResult(what, "ok", "fit")]


def _wrong_of_requests(what: str, config: Mapping[str, str]) -> Iterator[CheckResult]:
    if "compact" in config.get("cleanup.policy", ""):
        remedy = "set it to delete: a later request of the same key would remove one that nobody has read"
        yield CheckResult(what, "failed", f"cleanup.policy is compact: {remedy}")
    retention = int(config.get("retention.ms", "-1"))
    if 0 <= retention < SHORT_RETENTION_MS:
        remedy = "raise it: requests that wait longer than that for a worker are never answered"
        yield CheckResult(what, "warning", f"retention.ms is {retention}: {remedy}")


def _wrong_of_outcomes(what: str, config: Mapping[str, str], wanted: RequiredAcl) -> Iterator[CheckResult]:
    taken = int(config.get("max.message.bytes", wanted.outcome_bytes))
    if taken < wanted.outcome_bytes:
        remedy = f"raise it to {wanted.outcome_bytes}: longer outcomes become failures"
        yield CheckResult(what, "warning", f"max.message.bytes is {taken}: {remedy}")


# May this user produce idempotently? The brokers are asked for a producer id, as each worker does; nothing is written.
# Since Kafka 2.8 the right to write to any topic is enough; before, it took IdempotentWrite on the cluster. Whoever
# asks need not know which it is.


PRODUCER_ID_POLL_S: Final = 0.1
_ASSIGNED: Final = "Assigned"
_NO_ANSWER: Final = NoAdminReply(None, "no answer")


def producer_id_refused(config: Config, within_s: float) -> NoAdminReply | None:
    """None when there is an id to be had; else what the brokers said instead. Raises SettingsError."""
    states: list[str] = []

    def note(statistics: str) -> None:
        states.append(json.loads(statistics).get("eos", {}).get("idemp_state", ""))

    producer = make_producer({**config, "statistics.interval.ms": int(PRODUCER_ID_POLL_S * 1000)}, {"stats_cb": note})
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            producer.poll(PRODUCER_ID_POLL_S)
        except KafkaException as refused:
            return NoAdminReply(refused.args[0].code(), refused.args[0].name())
        if _ASSIGNED in states:
            return None
    return _NO_ANSWER
