"""`worker --check` on brokers that tell everything; the mock cluster tells little, the real broker is asked in services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from modules.llm_platform.application.services.doctor_service import CheckResult
from modules.llm_platform.presentation.kafka.admin.acls import RequiredAcl
from modules.llm_platform.presentation.kafka.admin.check import check_results
from modules.llm_platform.presentation.kafka.worker.clients import NoAdminReply

READ = ("rag_search_request", "rag_answer_request")
WRITTEN = ("rag_search_result", "rag_answer_result", "rag_failed")
WANTED = RequiredAcl("team", ("search", "answer"), outcome_bytes=1_000_000, user="rag-worker")
GOOD = {"cleanup.policy": "delete", "retention.ms": "604800000", "max.message.bytes": "1048588"}


def told(value: object) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


class FakeAdmin:
    """Brokers on which all is well, but for what a test says."""

    def __init__(self) -> None:
        self.copies = 3
        self.missing: set[str] = set()
        self.rights: dict[str, object] = {}
        self.settings: dict[str, Mapping[str, str]] = {}
        self.config_error: Exception | None = None
        self.no_producer_id: NoAdminReply | None = None
        self.members: list[SimpleNamespace] = []
        self.away: KafkaException | None = None

    def poll(self, timeout: float) -> None:
        """Its complaints are there already."""

    def list_topics(self, timeout: float) -> SimpleNamespace:
        if self.away is not None:
            raise self.away
        partition = SimpleNamespace(replicas=list(range(self.copies)))
        topics = {
            name: SimpleNamespace(error=None, partitions={0: partition, 1: partition})
            for name in (*READ, *WRITTEN)
            if name not in self.missing
        }
        return SimpleNamespace(brokers={1: None, 2: None}, topics=topics)

    def describe_topics(self, topics: Any, **_: object) -> dict[str, Future[Any]]:
        return {name: told(self._right(name)) for name in (*READ, *WRITTEN)}

    def describe_consumer_groups(self, groups: Sequence[str], **_: object) -> dict[str, Future[Any]]:
        return {name: told(self._right(name)) for name in groups}

    def describe_configs(self, resources: Sequence[Any], **_: object) -> dict[Any, Future[Any]]:
        return {resource: told(self.config_error or self._config(resource.name)) for resource in resources}

    def _right(self, name: str) -> object:
        right = self.rights.get(name, [AclOperation.ALL])
        return right if isinstance(right, Exception) else SimpleNamespace(
            authorized_operations=right, members=self.members
        )

    def _config(self, topic: str) -> dict[str, SimpleNamespace]:
        return {
            name: SimpleNamespace(value=value) for name, value in (GOOD | dict(self.settings.get(topic, {}))).items()
        }


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


def found(admin: FakeAdmin, wanted: RequiredAcl = WANTED) -> list[CheckResult]:
    return list(check_results(admin, wanted, lambda _: admin.no_producer_id))  # type: ignore[arg-type]


def bad(admin: FakeAdmin, wanted: RequiredAcl = WANTED) -> list[tuple[str, str, str]]:
    return [(each.verdict, each.subject, each.text) for each in found(admin, wanted) if each.verdict != "ok"]


def refusal(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def test_all_is_well(admin: FakeAdmin) -> None:
    """A line for each thing, none of them a complaint."""
    assert bad(admin) == []
    assert len(found(admin)) == 1 + 5 + 7 + 1 + 5


def test_the_groups_active_members_are_named(admin: FakeAdmin) -> None:
    """Who else works for this group, on which machine, with how much of it; or that nobody does."""
    named = {each.subject: each.text for each in found(admin)}
    assert named["group team"] == "no active member"
    assignment = SimpleNamespace(topic_partitions=[None] * 12)
    admin.members = [
        SimpleNamespace(client_id="mine", host="/10.0.0.1", assignment=assignment),
        SimpleNamespace(client_id="another", host="/10.0.0.2", assignment=None),
    ]
    named = {each.subject: each.text for each in found(admin)}
    assert named["group team"] == "2 active: another at 10.0.0.2, 0 partitions; mine at 10.0.0.1, 12 partitions"


def complaint(code: int, words: str) -> KafkaError:
    return KafkaError(code, f"sasl_ssl://broker:9092/bootstrap: {words} (after 3ms)")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (complaint(KafkaError._AUTHENTICATION, "SASL authentication error: Authentication failed: Invalid username"),
         "wrong user name or password"),
        (complaint(KafkaError._AUTHENTICATION, "SASL SCRAM-SHA-512 mechanism handshake failed: Broker: Unsupported SASL "
                   "mechanism: broker's supported mechanisms: PLAIN"), "(they offer: PLAIN): check sasl.mechanism"),
        (complaint(KafkaError._SSL, "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker "
                   "certificate could not be verified"), "unknown CA"),
        (complaint(KafkaError._SSL, "SSL handshake failed: something else"), "TLS fails"),
        (complaint(KafkaError._RESOLVE, "Failed to resolve 'kafak:9092': Name or service not known"),
         "unknown host: kafak:9092 has no address"),
        (complaint(KafkaError._TRANSPORT, "Disconnected: SSL connection closed by peer"), "no TLS is spoken there"),
        (complaint(KafkaError._TRANSPORT, "Connect to ipv4#10.0.0.1:9092 failed: Connection refused"), "nothing listens there"),
        (complaint(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"), "is KAFKA_BOOTSTRAP_SERVERS right"),
    ],
)  # fmt: skip
def test_brokers_that_cannot_be_reached_have_a_cause(admin: FakeAdmin, error: KafkaError, words: str) -> None:
    """What the client complained about while it tried says more than the error of the call."""
    admin.away = KafkaException(KafkaError(KafkaError._TRANSPORT))
    complaints = [complaint(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"), error]
    [brokers] = check_results(admin, WANTED, lambda _: None, complaints)  # type: ignore[arg-type]
    assert (brokers.subject, brokers.verdict) == ("brokers", "failed")
    assert words in brokers.text


def test_one_stage_needs_its_topics_alone(admin: FakeAdmin) -> None:
    """Who only searches needs no topic of answers."""
    admin.missing = {"rag_answer_request", "rag_answer_result"}
    assert bad(admin, RequiredAcl("team", ("search",), 1)) == []


def test_a_missing_right_is_a_failure(admin: FakeAdmin) -> None:
    """To read requests, to write outcomes, to be in the group; the right of the other kind does not do."""
    admin.rights = {
        "rag_search_request": [AclOperation.DESCRIBE, AclOperation.WRITE],
        "rag_failed": [AclOperation.READ],
        "team": [AclOperation.DESCRIBE],
        "rag_search_result": [AclOperation.WRITE],
    }
    assert [each[:2] for each in bad(admin)] == [
        ("failed", "right to read rag_search_request"),
        ("failed", "right to write rag_failed"),
        ("failed", "right to read as group team"),
    ]


def test_what_is_not_told_is_a_warning(admin: FakeAdmin) -> None:
    """No answer, a refusal, or a broker that keeps no rights; each line says that it is not known."""
    no_version, not_now = refusal(KafkaError._UNSUPPORTED_FEATURE), refusal(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    admin.rights = {"rag_failed": [], "team": no_version, "rag_search_result": TimeoutError()}
    admin.config_error = not_now
    admin.no_producer_id = NoAdminReply(None, "no answer")
    told_nothing = bad(admin)
    assert {each[0] for each in told_nothing} == {"warning"}
    assert len(told_nothing) == 5 + 5
    assert all("could not be found out" in each[2] for each in told_nothing)


@pytest.mark.parametrize(
    ("name", "code", "subject", "remedy"),
    [
        ("team", KafkaError.GROUP_AUTHORIZATION_FAILED, "right to read as group team", "--operation Read --group team"),
        (
            "rag_answer_request", KafkaError.TOPIC_AUTHORIZATION_FAILED, "right to read rag_answer_request",
            "--operation Read --topic rag_answer_request",
        ),
        (
            "rag_failed", KafkaError.TOPIC_AUTHORIZATION_FAILED, "right to write rag_failed",
            "--operation Write --topic rag_failed",
        ),
    ],
)  # fmt: skip
def test_what_may_not_even_be_seen_may_not_be_used(
    admin: FakeAdmin, name: str, code: int, subject: str, remedy: str
) -> None:
    """To read and to write implies to describe. The line holds the ACL to add; nobody says that a hidden topic is gone."""
    admin.rights = {name: refusal(code)}
    admin.missing = {name}
    assert bad(admin) == [
        ("failed", subject, f"is missing: kafka-acls.sh --add --allow-principal User:rag-worker {remedy}")
    ]


def test_an_unknown_user_is_left_open(admin: FakeAdmin) -> None:
    """Who logs in by a certificate or a token knows the name; we do not."""
    admin.rights = {"team": [AclOperation.DESCRIBE]}
    [(_, _, text)] = bad(admin, RequiredAcl("team", ("search",), 1))
    assert "--allow-principal User:… --operation Read --group team" in text


def test_a_topic_that_is_not_there(admin: FakeAdmin) -> None:
    """Nothing is said of rights to it, and the rest is looked at."""
    admin.missing = {"rag_failed"}
    admin.rights = {"rag_failed": refusal(KafkaError.UNKNOWN_TOPIC_OR_PART)}
    assert [each[:2] for each in bad(admin)] == [("failed", "topic rag_failed")]


def test_no_producer_id_is_a_failure(admin: FakeAdmin) -> None:
    """Without one nothing can be written as the promise needs it; the remedy differs by the age of the brokers."""
    admin.no_producer_id = NoAdminReply(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "CLUSTER_AUTHORIZATION_FAILED")
    [(verdict, subject, text)] = bad(admin)
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
        ("rag_failed", "unclean.leader.election.enable", "true", "warning", "gone"),
    ],
)
def test_topics_that_do_not_fit(
    admin: FakeAdmin, topic: str, setting: str, value: str, verdict: str, word: str
) -> None:
    """What loses requests is a failure, what may is a warning; each says what to do."""
    admin.settings = {topic: {setting: value}}
    [(said, subject, text)] = bad(admin)
    assert (said, subject) == (verdict, f"settings of {topic}")
    assert word in text


def test_for_ever_is_long_enough(admin: FakeAdmin) -> None:
    """A retention of -1 is none."""
    admin.settings = {"rag_search_request": {"retention.ms": "-1"}}
    assert bad(admin) == []


def test_one_copy_is_a_risk(admin: FakeAdmin) -> None:
    """acks=all is as good as the copies that there are."""
    admin.copies = 1
    assert {each[0] for each in bad(admin)} == {"warning"}
    assert len(bad(admin)) == 5
