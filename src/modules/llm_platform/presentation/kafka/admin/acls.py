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

from modules.llm_platform.application.services.doctor_service import CheckResult
from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.presentation.kafka.contract.requests import FAILED_TOPIC, REQUEST_TOPICS, RESULT_TOPICS
from modules.llm_platform.presentation.kafka.worker.clients import NOT_KEPT, NoAdminReply

# To read and to write implies to describe: who may not describe a thing may not use it.
_MAY_NOT_SEE: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})
_ANY_USER: Final = "…"


@dataclass(frozen=True, slots=True)
class RequiredAcl:
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
    return isinstance(told, NoAdminReply) and told.code in _MAY_NOT_SEE


def of_topics(wanted: RequiredAcl, told: Mapping[str, TopicDescription | NoAdminReply]) -> Iterator[CheckResult]:
    """To read requests and to write outcomes."""
    for topic, said in told.items():
        need = AclOperation.READ if topic in wanted.read else AclOperation.WRITE
        yield _right(f"right to {need.name.lower()} {topic}", need, said, _remedy(wanted, need, f"--topic {topic}"))


def of_group(wanted: RequiredAcl, told: ConsumerGroupDescription | NoAdminReply) -> CheckResult:
    """To be a member, and to commit."""
    remedy = _remedy(wanted, AclOperation.READ, f"--group {wanted.group_id}")
    return _right(f"right to read as group {wanted.group_id}", AclOperation.READ, told, remedy)


def of_producer(wanted: RequiredAcl, refused: NoAdminReply | None) -> CheckResult:
    """To write idempotently: `refused` is what the brokers said instead of giving a producer id."""
    what = "right to write idempotently"
    if refused is None:
        return CheckResult(what, "ok", "granted")
    if refused.code != KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return CheckResult(what, "warning", refused.words)
    remedy = f"{_add(wanted)} --operation IdempotentWrite --cluster"
    return CheckResult(
        what, "failed", f"is missing: since Kafka 2.8 it comes with any right to write, before that {remedy}"
    )


def _right(
    what: str, need: AclOperation, told: TopicDescription | ConsumerGroupDescription | NoAdminReply, remedy: str
) -> CheckResult:
    if may_not_see(told):
        return CheckResult(what, "failed", remedy)
    if isinstance(told, NoAdminReply):
        return CheckResult(what, "warning", told.words)
    allowed = told.authorized_operations
    if not allowed:
        return CheckResult(what, "warning", NOT_KEPT.words)
    if need in allowed or AclOperation.ALL in allowed:
        return CheckResult(what, "ok", "granted")
    return CheckResult(what, "failed", remedy)


def _remedy(wanted: RequiredAcl, need: AclOperation, resource: str) -> str:
    return f"is missing: {_add(wanted)} --operation {need.name.capitalize()} {resource}"


def _add(wanted: RequiredAcl) -> str:
    return f"kafka-acls.sh --add --allow-principal User:{wanted.user or _ANY_USER}"
