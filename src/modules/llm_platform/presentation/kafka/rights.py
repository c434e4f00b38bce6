"""Which rights a worker needs, which of them its user has, and the line that gives it a missing one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it names them without exporting them
    AclOperation,
    ConsumerGroupDescription,
    TopicDescription,
)

from modules.llm_platform.application.services.doctor_service import Finding
from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.presentation.kafka.told import NOT_KEPT, NotTold
from modules.llm_platform.presentation.kafka.topics import FAILED_TOPIC, REQUEST_TOPICS, RESULT_TOPICS

# To read and to write implies to describe: who may not describe a thing may not use it.
_MAY_NOT_SEE: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})
_ANY_USER: Final = "…"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the worker would be started with. `outcome_bytes`: the longest record that it produces. `user`: who it logs in as,
    where KAFKA_CONFIG says so.
    """

    group_id: str
    stages: Sequence[RagStage]
    outcome_bytes: int
    user: str | None = None

    @property
    def read(self) -> list[str]:
        """Topics that requests come from."""
        return [REQUEST_TOPICS[stage] for stage in self.stages]

    @property
    def written(self) -> list[str]:
        """Topics that outcomes go to."""
        return [*(RESULT_TOPICS[stage] for stage in self.stages), FAILED_TOPIC]


def may_not_see(told: object) -> bool:
    """Whether the brokers refuse even to describe it."""
    return isinstance(told, NotTold) and told.code in _MAY_NOT_SEE


def of_topics(wanted: Wanted, told: Mapping[str, TopicDescription | NotTold]) -> Iterator[Finding]:
    """To read requests and to write outcomes."""
    for topic, said in told.items():
        need = AclOperation.READ if topic in wanted.read else AclOperation.WRITE
        yield _right(f"right to {need.name.lower()} {topic}", need, said, _remedy(wanted, need, f"--topic {topic}"))


def of_group(wanted: Wanted, told: ConsumerGroupDescription | NotTold) -> Finding:
    """To be a member, and to commit."""
    remedy = _remedy(wanted, AclOperation.READ, f"--group {wanted.group_id}")
    return _right(f"right to read as group {wanted.group_id}", AclOperation.READ, told, remedy)


def of_producer(wanted: Wanted, refused: NotTold | None) -> Finding:
    """To write idempotently: `refused` is what the brokers said instead of giving a producer id."""
    what = "right to write idempotently"
    if refused is None:
        return Finding(what, "ok", "granted")
    if refused.code != KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return Finding(what, "warning", refused.words)
    remedy = f"{_add(wanted)} --operation IdempotentWrite --cluster"
    return Finding(
        what, "failed", f"is missing: since Kafka 2.8 it comes with any right to write, before that {remedy}"
    )


def _right(
    what: str, need: AclOperation, told: TopicDescription | ConsumerGroupDescription | NotTold, remedy: str
) -> Finding:
    if may_not_see(told):
        return Finding(what, "failed", remedy)
    if isinstance(told, NotTold):
        return Finding(what, "warning", told.words)
    allowed = told.authorized_operations
    if not allowed:
        return Finding(what, "warning", NOT_KEPT.words)
    if need in allowed or AclOperation.ALL in allowed:
        return Finding(what, "ok", "granted")
    return Finding(what, "failed", remedy)


def _remedy(wanted: Wanted, need: AclOperation, resource: str) -> str:
    return f"is missing: {_add(wanted)} --operation {need.name.capitalize()} {resource}"


def _add(wanted: Wanted) -> str:
    return f"kafka-acls.sh --add --allow-principal User:{wanted.user or _ANY_USER}"
