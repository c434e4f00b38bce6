"""TLS, client certificates, SCRAM and ACLs on a real Kafka, with the files of deploy/kafka that the how-to shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.integration.test_worker_dependencies import PATIENCE_S, QUESTION, Running, environment, index, until, worker
from tests.kafka.broker import ROOT
from tests.kafka.reference_client import SEARCH, TOPICS, ReferenceClient
from tests.kafka.secure_broker import DEPLOY, HOST, KEY_PASSWORD, PASSWORD, USER, SecureBroker
from tests.services.test_rights import NEEDED

pytestmark = pytest.mark.services

FILES = ("worker-certificate.env", "worker-password.env")
GROUP = "rag-core"
WRONG = "not the password"


@pytest.fixture(scope="module")
def broker() -> Iterator[SecureBroker]:
    with SecureBroker(TOPICS) as kafka:
        for needed in NEEDED.values():
            kafka.allow(*needed)
        yield kafka


class Machine:
    """The machine of a worker: its secrets in files, and its variables from one of the documented files."""

    def __init__(self, broker: SecureBroker, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        self.secret("kafka-password", PASSWORD)
        self.secret("worker-key-password", KEY_PASSWORD)

    def secret(self, name: str, text: str) -> None:
        (self.folder / name).write_text(f"{text}\n", "utf-8")

    def variables(self, file: str, **changes: str) -> dict[str, str]:
        text = self.broker.adapt((DEPLOY / file).read_text("utf-8")).replace("/run/secrets", str(self.folder))
        documented = dict(line.split("=", 1) for line in text.splitlines())
        quick = json.dumps({"group.protocol": "consumer", "reconnect.backoff.max.ms": 250})
        ours = {**environment(self.broker, self.folder), "KAFKA_CONFIG": quick, **documented, **changes}
        return {name: value for name, value in ours.items() if value}


@pytest.fixture
def machine(broker: SecureBroker, tmp_path: Path) -> Machine:
    return Machine(broker, tmp_path)


def check(variables: Mapping[str, str]) -> tuple[int, dict[str, tuple[str, str]], str]:
    """Exit code, verdict and text of each subject, and everything that was printed."""
    command = [sys.executable, "-m", "modules.llm_platform", "worker", "--check", "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=dict(variables), timeout=PATIENCE_S, check=False
    )
    found = json.loads(done.stdout)["checks"] if done.stdout else []
    verdicts = {each["subject"]: (each["verdict"], each["text"]) for each in found}
    return done.returncode, verdicts, done.stdout + done.stderr


async def answers(broker: SecureBroker, running: Running, name: str) -> None:
    until(lambda: running.ready()[0] == 200)
    async with ReferenceClient(broker.bootstrap, GROUP) as client:
        await client.send(SEARCH, {"request_id": name, "query": QUESTION})
        assert len((await client.settled())[name]) == 1


@pytest.mark.parametrize("file", FILES)
async def test_documented_files_connect_a_worker(machine: Machine, file: str) -> None:
    """With the minimal ACLs: `--check` finds nothing missing, a request is answered, and no secret is printed."""
    variables = machine.variables(file)
    index(variables, machine.folder)
    code, verdicts, printed = check(variables)
    assert code == 0, verdicts
    assert {verdicts[subject][0] for subject in NEEDED} == {"ok"}
    with worker(variables, machine.folder) as running:
        await answers(machine.broker, running, f"with-{file}")
        printed += running.log.read_text("utf-8")
    assert PASSWORD not in printed
    assert KEY_PASSWORD not in printed


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_other_mechanisms_connect(machine: Machine, mechanism: str) -> None:
    """With the password in the variable."""
    variables = machine.variables(
        "worker-password.env", KAFKA_SASL_MECHANISM=mechanism, KAFKA_SASL_PASSWORD=PASSWORD, KAFKA_SASL_PASSWORD_FILE=""
    )
    _, verdicts, printed = check(variables)
    assert verdicts["brokers"] == ("ok", "1 reached")
    assert PASSWORD not in printed


NAMES = "unknown CA, or a certificate for another name"
FAULTS: Mapping[str, tuple[str, dict[str, str], str]] = {
    "wrong password": (
        "worker-password.env", {"KAFKA_SASL_PASSWORD": WRONG, "KAFKA_SASL_PASSWORD_FILE": ""}, "wrong user name or password",
    ),
    "wrong user": ("worker-password.env", {"KAFKA_SASL_USERNAME": "nobody"}, "wrong user name or password"),
    "wrong CA": ("worker-password.env", {"KAFKA_SSL_CA_FILE": "{other}/ca.pem"}, NAMES),
    "wrong name": ("worker-password.env", {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:{sasl_port}"}, NAMES),
    "no TLS": (
        "worker-password.env",
        {"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SSL_CA_FILE": ""},
        "KAFKA_SECURITY_PROTOCOL",
    ),
    "no certificate": (
        "worker-certificate.env",
        {"KAFKA_SSL_CERTIFICATE_FILE": "", "KAFKA_SSL_KEY_FILE": "", "KAFKA_SSL_KEY_PASSWORD_FILE": ""},
        "KAFKA_SSL_CERTIFICATE_FILE",
    ),
    "a certificate of another CA": (
        "worker-certificate.env",
        {"KAFKA_SSL_CERTIFICATE_FILE": "{other}/worker.crt.pem", "KAFKA_SSL_KEY_FILE": "{other}/worker.key.pem"},
        "KAFKA_SSL_CERTIFICATE_FILE",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_wrong_credentials_are_named(machine: Machine, fault: str) -> None:
    """By `--check`, which fails, and by the worker: it is not ready with the same words, which it logs too."""
    file, changes, words = FAULTS[fault]
    broker = machine.broker
    places = {"other": str(broker.other_tls), "sasl_port": str(broker.sasl_port)}
    variables = machine.variables(file, **{name: value.format(**places) for name, value in changes.items()})
    code, verdicts, printed = check(variables)
    assert (code, verdicts["brokers"][0]) == (1, "failed")
    assert words in verdicts["brokers"][1], verdicts["brokers"]
    with worker(variables, machine.folder) as running:
        until(lambda: words in running.ready()[1])
        assert running.ready()[0] == 503
        printed += running.log.read_text("utf-8")
        assert any(words in str(line.get("remedy")) for line in running.lines)
    assert not any(secret in printed for secret in (PASSWORD, KEY_PASSWORD, WRONG))


def test_unusable_key_ends_the_start(machine: Machine) -> None:
    """A wrong password of the key cannot be mended by waiting."""
    machine.secret("worker-key-password", WRONG)
    code, _, printed = check(machine.variables("worker-certificate.env"))
    assert code != 0
    assert "ssl.key.location" in printed
    assert WRONG not in printed


async def test_right_password_is_accepted_after_a_restart(machine: Machine) -> None:
    """The remedy of the fault works, with the same file."""
    variables = machine.variables("worker-password.env")
    index(variables, machine.folder)
    machine.secret("kafka-password", WRONG)
    with worker(variables, machine.folder) as running:
        until(lambda: "wrong user name or password" in running.ready()[1])
    machine.secret("kafka-password", PASSWORD)
    with worker(variables, machine.folder) as running:
        await answers(machine.broker, running, "mended")


def test_page_shows_the_tested_files() -> None:
    """Word for word, and the ACLs are those that the tests grant."""
    page = (ROOT / "docs/howto/secure-kafka.md").read_text("utf-8")
    blocks = re.findall(r"```\w+\n(.*?)```", page, re.S)
    for name in (*FILES, "broker-security.properties"):
        assert (DEPLOY / name).read_text("utf-8") in blocks, name
    for operation, kind, name in NEEDED.values():
        assert f"--allow-principal User:{USER} --operation {operation} --{kind} {name}" in page
    assert HOST not in page.replace("kafka.example.org", "")
