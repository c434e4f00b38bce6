"""`llm-platform doctor --json` with real Redis, PostgreSQL and Kafka, working and failing. It prints no password."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.kafka.real_broker import RealBroker
from tests.kafka.reference_client import TOPICS
from tests.services.postgres_server import PASSWORD, PostgresServer
from tests.support.forked_command import COMMAND_LINE, run_forked
from tests.support.patient_command import REDIS_LIMITS, patient
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.services

TIMEOUT_S = 120.0
REDIS_PASSWORD = "a-long-password"
WRONG = "an-even-longer-wrong-password"
NOBODY_LISTENS = "127.0.0.1:9"

Checks = Mapping[str, tuple[str, str]]


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), password=REDIS_PASSWORD) as server:
        yield server


@pytest.fixture(scope="module")
def kafka() -> Iterator[RealBroker]:
    with RealBroker(TOPICS) as broker:
        yield broker


def doctor(folder: Path, **values: str) -> Checks:
    """Return the verdict and the text of each subject, and check that no password is printed."""
    environment = {**os.environ, "LLM_PLATFORM_DATA_DIR": str(folder), **values}
    done = run_forked(patient(REDIS_LIMITS), "doctor", "--json", "--offline", env=environment, timeout=TIMEOUT_S)
    assert not any(secret in done.stdout + done.stderr for secret in (PASSWORD, REDIS_PASSWORD, WRONG))
    return {check["subject"]: (check["verdict"], check["text"]) for check in json.loads(done.stdout)["checks"]}


def test_services_that_answer(redis: RedisServer, postgres: PostgresServer, kafka: RealBroker, tmp_path: Path) -> None:
    """Each working service has the verdict ok."""
    database = {"DATABASE_URL": postgres.new_database()}
    store_migrate(**database)
    checks = doctor(tmp_path, REDIS_URL=redis.url, KAFKA_BOOTSTRAP_SERVERS=kafka.bootstrap, **database)
    assert {subject: checks[subject][0] for subject in ("redis", "store", "kafka")} == dict.fromkeys(
        ("redis", "store", "kafka"), "ok"
    )
    assert checks["store"][1] == "PostgreSQL answers"


@pytest.mark.parametrize("has_password", [True, False])
def test_services_that_cannot_be_used(
    redis: RedisServer, postgres: PostgresServer, tmp_path: Path, has_password: bool
) -> None:
    """The check of an unavailable service, or of one that refuses the password, fails and names the setting."""
    urls = {
        "REDIS_URL": redis.url.replace(REDIS_PASSWORD, WRONG),
        "DATABASE_URL": postgres.url(password=WRONG),
    }
    if not has_password:
        urls = {
            "REDIS_URL": f"redis://:{WRONG}@{NOBODY_LISTENS}/0",
            "DATABASE_URL": f"postgresql://platform:{WRONG}@{NOBODY_LISTENS}/x",
        }
    checks = doctor(tmp_path, KAFKA_BOOTSTRAP_SERVERS=NOBODY_LISTENS, QDRANT_URL=f"http://{NOBODY_LISTENS}", **urls)
    expected = {
        "redis": "REDIS_URL",
        "store": "DATABASE_URL",
        "kafka brokers": "KAFKA_BOOTSTRAP_SERVERS",
        "index": "QDRANT_URL",
    }
    for subject, setting in expected.items():
        verdict, text = checks[subject]
        assert verdict == "failed", (subject, text)
        assert setting in text


def store_migrate(**database: str) -> None:
    done = run_forked(COMMAND_LINE, "store", "migrate", env={**os.environ, **database}, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr


def test_tables_that_are_missing(postgres: PostgresServer, tmp_path: Path) -> None:
    """If the database lacks our tables, the message has the command that creates them."""
    verdict, text = doctor(tmp_path, DATABASE_URL=postgres.new_database())["store"]
    assert (verdict, "llm-platform store migrate" in text) == ("failed", True)
