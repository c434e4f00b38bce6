"""`worker --check` on fake brokers with full information.

The mock cluster reports little, and the service tests use real brokers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from modules.llm_platform.domain.dtos.health_dtos import CheckResult
from modules.llm_platform.presentation.kafka.admin.check import WorkerRequirements, check_cluster
from modules.llm_platform.presentation.kafka.worker.clients import AdminFailure

READ = ("rag_search_request", "rag_answer_request")
WRITTEN = ("rag_search_result", "rag_answer_result", "rag_failed")
NEEDS = WorkerRequirements("team", ("search", "answer"), record_bytes=1_000_000, user="rag-worker")
GOOD = {"cleanup.policy": "delete", "retention.ms": "604800000", "max.message.bytes": "1048588"}


def future_with(value: object) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


class FakeAdmin:
    """Healthy brokers, except for what a test changes."""

    def __init__(self) -> None:
        self.copies = 3
        self.missing: set[str] = set()
        self.rights: dict[str, object] = {}
        self.settings: dict[str, Mapping[str, str]] = {}
        self.config_error: Exception | None = None
        self.producer_id_failure: AdminFailure | None = None
        self.members: list[SimpleNamespace] = []
        self.error: KafkaException | None = None

    def poll(self, timeout: float) -> None:
        """Its client_errors are there already."""

    def list_topics(self, timeout: float) -> SimpleNamespace:
        if self.error is not None:
            raise self.error
        partition = SimpleNamespace(replicas=list(range(self.copies)))
        topics = {
            name: SimpleNamespace(error=None, partitions={0: partition, 1: partition})
            for name in (*READ, *WRITTEN)
            if name not in self.missing
        }
        return SimpleNamespace(brokers={1: None, 2: None}, topics=topics)

    def describe_topics(self, topics: Any, **_: object) -> dict[str, Future[Any]]:
        return {name: future_with(self._right(name)) for name in (*READ, *WRITTEN)}

    def describe_consumer_groups(self, groups: Sequence[str], **_: object) -> dict[str, Future[Any]]:
        return {name: future_with(self._right(name)) for name in groups}

    def describe_configs(self, resources: Sequence[Any], **_: object) -> dict[Any, Future[Any]]:
        return {resource: future_with(self.config_error or self._config(resource.name)) for resource in resources}

    def _right(self, name: str) -> object:
        right = self.rights.get(name, [AclOperation.ALL])
        return (
            right
            if isinstance(right, Exception)
            else SimpleNamespace(authorized_operations=right, members=self.members)
        )

    def _config(self, topic: str) -> dict[str, SimpleNamespace]:
        return {
            name: SimpleNamespace(value=value) for name, value in (GOOD | dict(self.settings.get(topic, {}))).items()
        }


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


def found(admin: FakeAdmin, wanted: WorkerRequirements = NEEDS) -> list[CheckResult]:
    return list(check_cluster(admin, wanted, lambda _: admin.producer_id_failure))  # type: ignore[arg-type]


def problems(admin: FakeAdmin, wanted: WorkerRequirements = NEEDS) -> list[tuple[str, str, str]]:
    return [(result.verdict, result.subject, result.text) for result in found(admin, wanted) if result.verdict != "ok"]


def refusal(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def test_fitting_cluster_has_no_findings(admin: FakeAdmin) -> None:
    """All checks of a fitting cluster are ok."""
    assert problems(admin) == []
    assert len(found(admin)) == 1 + 5 + 7 + 1 + 5


def test_active_members_are_listed(admin: FakeAdmin) -> None:
    """With client id, host and number of partitions."""
    named = {result.subject: result.text for result in found(admin)}
    assert named["group team"] == "no active member"
    assignment = SimpleNamespace(topic_partitions=[None] * 12)
    admin.members = [
        SimpleNamespace(client_id="mine", host="/10.0.0.1", assignment=assignment),
        SimpleNamespace(client_id="another", host="/10.0.0.2", assignment=None),
    ]
    named = {result.subject: result.text for result in found(admin)}
    assert named["group team"] == "2 active: another at 10.0.0.2, 0 partitions; mine at 10.0.0.1, 12 partitions"


def client_error(code: int, words: str) -> KafkaError:
    return KafkaError(code, f"sasl_ssl://broker:9092/bootstrap: {words} (after 3ms)")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            client_error(
                KafkaError._AUTHENTICATION, "SASL authentication error: Authentication failed: Invalid username"
            ),
            "wrong user name or password",
        ),
        (
            client_error(
                KafkaError._AUTHENTICATION,
                "SASL SCRAM-SHA-512 mechanism handshake failed: Broker: Unsupported SASL "
                "mechanism: broker's supported mechanisms: PLAIN",
            ),
            "(supported: PLAIN): check sasl.mechanism",
        ),
        (
            client_error(
                KafkaError._SSL,
                "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker "
                "certificate could not be verified",
            ),
            "unknown CA",
        ),
        (client_error(KafkaError._SSL, "SSL handshake failed: something else"), "TLS fails"),
        (
            client_error(KafkaError._RESOLVE, "Failed to resolve 'kafak:9092': Name or service not known"),
            "unknown host: kafak:9092 has no address",
        ),
        (
            client_error(KafkaError._TRANSPORT, "Disconnected: SSL connection closed by peer"),
            "the port does not use TLS",
        ),
        (
            client_error(KafkaError._TRANSPORT, "Connect to ipv4#10.0.0.1:9092 failed: Connection refused"),
            "nothing listens on",
        ),
        (client_error(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"), "check KAFKA_BOOTSTRAP_SERVERS"),
    ],
)
def test_unreachable_brokers_have_a_cause(admin: FakeAdmin, error: KafkaError, words: str) -> None:
    """The client's errors say more than the error of the call."""
    admin.error = KafkaException(KafkaError(KafkaError._TRANSPORT))
    client_errors = [client_error(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"), error]
    [brokers] = check_cluster(admin, NEEDS, lambda _: None, client_errors)  # type: ignore[arg-type]
    assert (brokers.subject, brokers.verdict) == ("brokers", "failed")
    assert words in brokers.text


def test_one_stage_needs_only_its_topics(admin: FakeAdmin) -> None:
    """A worker that only searches needs no answer topics."""
    admin.missing = {"rag_answer_request", "rag_answer_result"}
    assert problems(admin, WorkerRequirements("team", ("search",), 1)) == []


def test_missing_right_is_a_failure(admin: FakeAdmin) -> None:
    """To read requests, to write outcomes and to join the group; another operation does not suffice."""
    admin.rights = {
        "rag_search_request": [AclOperation.DESCRIBE, AclOperation.WRITE],
        "rag_failed": [AclOperation.READ],
        "team": [AclOperation.DESCRIBE],
        "rag_search_result": [AclOperation.WRITE],
    }
    assert [problem[:2] for problem in problems(admin)] == [
        ("failed", "right to read rag_search_request"),
        ("failed", "right to write rag_failed"),
        ("failed", "right to read as group team"),
    ]


def test_unknown_state_is_a_warning(admin: FakeAdmin) -> None:
    """No reply, a refusal, or a broker without authorizer."""
    no_version, not_now = refusal(KafkaError._UNSUPPORTED_FEATURE), refusal(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    admin.rights = {"rag_failed": [], "team": no_version, "rag_search_result": TimeoutError()}
    admin.config_error = not_now
    admin.producer_id_failure = AdminFailure(None, "no answer")
    unknown = problems(admin)
    assert {result[0] for result in unknown} == {"warning"}
    assert len(unknown) == 5 + 5
    assert all("could not be checked" in result[2] for result in unknown)


@pytest.mark.parametrize(
    ("name", "code", "subject", "remedy"),
    [
        ("team", KafkaError.GROUP_AUTHORIZATION_FAILED, "right to read as group team", "--operation Read --group team"),
        (
            "rag_answer_request",
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            "right to read rag_answer_request",
            "--operation Read --topic rag_answer_request",
        ),
        (
            "rag_failed",
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            "right to write rag_failed",
            "--operation Write --topic rag_failed",
        ),
    ],
)
def test_hidden_resource_is_a_missing_right(admin: FakeAdmin, name: str, code: int, subject: str, remedy: str) -> None:
    """READ and WRITE imply DESCRIBE. The line holds the ACL to add, and a hidden topic is not reported as missing."""
    admin.rights = {name: refusal(code)}
    admin.missing = {name}
    assert problems(admin) == [
        ("failed", subject, f"is missing: kafka-acls.sh --add --allow-principal User:rag-worker {remedy}")
    ]


def test_acl_command_without_user_has_a_placeholder(admin: FakeAdmin) -> None:
    """The user of a certificate or a token is not in KAFKA_CONFIG."""
    admin.rights = {"team": [AclOperation.DESCRIBE]}
    [(_, _, text)] = problems(admin, WorkerRequirements("team", ("search",), 1))
    assert "--allow-principal User:… --operation Read --group team" in text


def test_missing_topic_has_no_check_of_rights(admin: FakeAdmin) -> None:
    """The other checks run."""
    admin.missing = {"rag_failed"}
    admin.rights = {"rag_failed": refusal(KafkaError.UNKNOWN_TOPIC_OR_PART)}
    assert [problem[:2] for problem in problems(admin)] == [("failed", "topic rag_failed")]


def test_refused_producer_id_is_a_failure(admin: FakeAdmin) -> None:
    """The remedy differs by the version of the brokers."""
    admin.producer_id_failure = AdminFailure(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "CLUSTER_AUTHORIZATION_FAILED")
    [(verdict, subject, text)] = problems(admin)
    assert (verdict, subject) == ("failed", "right to write idempotently")
    assert "--operation IdempotentWrite --cluster" in text
    assert "Kafka 2.8" in text


@pytest.mark.parametrize(
    ("topic", "setting", "value", "verdict", "word"),
    [
        ("rag_search_request", "cleanup.policy", "compact", "failed", "same key"),
        ("rag_search_request", "cleanup.policy", "compact,delete", "failed", "same key"),
        ("rag_answer_request", "retention.ms", "60000", "warning", "never answered"),
        ("rag_answer_result", "max.message.bytes", "100000", "warning", "become failures"),
        ("rag_failed", "unclean.leader.election.enable", "true", "warning", "lost"),
    ],
)
def test_unfit_topic_setting_is_reported(
    admin: FakeAdmin, topic: str, setting: str, value: str, verdict: str, word: str
) -> None:
    """A setting that loses requests is a failure, one that may is a warning; each has a remedy."""
    admin.settings = {topic: {setting: value}}
    [(said, subject, text)] = problems(admin)
    assert (said, subject) == (verdict, f"settings of {topic}")
    assert word in text


def test_unlimited_retention_is_ok(admin: FakeAdmin) -> None:
    """A retention of -1 has no limit."""
    admin.settings = {"rag_search_request": {"retention.ms": "-1"}}
    assert problems(admin) == []


def test_single_replica_is_a_warning(admin: FakeAdmin) -> None:
    """acks=all is as safe as the number of replicas."""
    admin.copies = 1
    assert {problem[0] for problem in problems(admin)} == {"warning"}
    assert len(problems(admin)) == 5
