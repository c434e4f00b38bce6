"""TLS, client certificates, SCRAM and ACLs on a real Kafka, with the documented files of deploy/kafka."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.integration.test_worker_dependencies import PATIENCE_S, QUESTION, Running, environment, index, until, worker
from tests.kafka.broker import ROOT
from tests.kafka.reference_client import SEARCH, TOPICS, ReferenceClient
from tests.kafka.secure_broker import DEPLOY, HOST, KEY_PASSWORD, PASSWORD, USER, SecureBroker
from tests.services.test_rights import NEEDED
from tests.support.forked_command import COMMAND_LINE, run_forked
from tests.support.patient_command import KAFKA_LIMITS, patient

pytestmark = pytest.mark.services

FILES = ("worker-certificate.json", "worker-password.json")
PORTS = {"worker-certificate.json": "ssl_port", "worker-password.json": "sasl_port"}
GROUP = "rag-core"
WRONG = "not the password"
# Attempts of a check that waits seconds for silent brokers. A busy machine may not find the cause in time.
TRIES = 5


@pytest.fixture(scope="module")
def broker() -> Iterator[SecureBroker]:
    with SecureBroker(TOPICS) as kafka:
        for needed in NEEDED.values():
            kafka.allow(*needed)
        yield kafka


class Machine:
    """The settings of a worker's machine: one of the documented files with the passwords of this test."""

    def __init__(self, broker: SecureBroker, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        self.passwords = {"sasl.password": PASSWORD, "ssl.key.password": KEY_PASSWORD}

    def variables(self, name: str, **changes: str) -> dict[str, str]:
        """Return the variables.

        `changes` are options of the file or KAFKA_BOOTSTRAP_SERVERS, and an empty value removes an option.
        """
        options = json.loads(self.broker.adapt((DEPLOY / name).read_text("utf-8")))
        options |= {option: text for option, text in self.passwords.items() if option in options}
        servers = changes.pop("KAFKA_BOOTSTRAP_SERVERS", f"{HOST}:{getattr(self.broker, PORTS[name])}")
        quick = {"group.protocol": "consumer", "reconnect.backoff.max.ms": 250}
        used = {option: text for option, text in {**quick, **options, **changes}.items() if text != ""}
        file = self.folder / "kafka.json"
        file.write_text(json.dumps(used), "utf-8")
        ours = {"KAFKA_BOOTSTRAP_SERVERS": servers, "KAFKA_CONFIG": str(file)}
        return {**environment(self.broker, self.folder), **ours}


@pytest.fixture
def machine(broker: SecureBroker, tmp_path: Path) -> Machine:
    return Machine(broker, tmp_path)


def check(
    variables: Mapping[str, str], program: str = patient(KAFKA_LIMITS)
) -> tuple[int, dict[str, tuple[str, str]], str]:
    """Return the exit code, the verdict and text of each subject, and the whole output."""
    done = run_forked(program, "worker", "--check", "--json", env=variables, timeout=PATIENCE_S)
    found = json.loads(done.stdout)["checks"] if done.stdout else []
    verdicts = {result["subject"]: (result["verdict"], result["text"]) for result in found}
    return done.returncode, verdicts, done.stdout + done.stderr


async def answers(broker: SecureBroker, running: Running, name: str) -> None:
    until(lambda: running.ready()[0] == 200)
    async with ReferenceClient(broker.bootstrap, GROUP) as client:
        await client.send(SEARCH, {"request_id": name, "query": QUESTION})
        assert len((await client.settled())[name]) == 1


@pytest.mark.parametrize("file", FILES)
async def test_documented_files_connect_a_worker(machine: Machine, file: str) -> None:
    """With the minimal ACLs `--check` finds nothing missing, a request is answered, and no secret is printed."""
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
    """With the same options."""
    variables = machine.variables("worker-password.json", **{"sasl.mechanism": mechanism})
    _, verdicts, printed = check(variables)
    assert verdicts["brokers"] == ("ok", "1 reached")
    assert PASSWORD not in printed


NAMES = "unknown CA, or a certificate for another name"
FAULTS: Mapping[str, tuple[str, dict[str, str], str]] = {
    "wrong password": ("worker-password.json", {"sasl.password": WRONG}, "wrong user name or password"),
    "wrong CA": ("worker-password.json", {"ssl.ca.location": "{other}/ca.pem"}, NAMES),
    "wrong name": ("worker-password.json", {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:{sasl_port}"}, NAMES),
    "no TLS": (
        "worker-password.json",
        {"security.protocol": "SASL_PLAINTEXT", "ssl.ca.location": ""},
        "security.protocol",
    ),
    "no certificate": (
        "worker-certificate.json",
        {"ssl.certificate.location": "", "ssl.key.location": "", "ssl.key.password": ""},
        "ssl.certificate.location",
    ),
    "a certificate of another CA": (
        "worker-certificate.json",
        {"ssl.certificate.location": "{other}/worker.crt.pem", "ssl.key.location": "{other}/worker.key.pem"},
        "ssl.certificate.location",
    ),
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_wrong_credentials_are_named(machine: Machine, fault: str) -> None:
    """`--check` fails with a message, and the worker is not ready and logs the same message."""
    file, changes, words = FAULTS[fault]
    broker = machine.broker
    positions = {"other": str(broker.other_tls), "sasl_port": str(broker.sasl_port)}
    variables = machine.variables(file, **{name: value.format(**positions) for name, value in changes.items()})
    for _ in range(TRIES):
        code, verdicts, printed = check(variables, COMMAND_LINE)
        if words in verdicts["brokers"][1]:
            break
    assert (code, verdicts["brokers"][0]) == (1, "failed")
    assert words in verdicts["brokers"][1], verdicts["brokers"]
    with worker(variables, machine.folder) as running:
        until(lambda: running.waits_for(words))
        until(lambda: any(words in str(line.get("remedy")) for line in running.lines))
        printed += running.log.read_text("utf-8")
    assert not any(secret in printed for secret in (PASSWORD, KEY_PASSWORD, WRONG))


def test_unusable_key_ends_the_start(machine: Machine) -> None:
    """Waiting cannot repair a wrong key password."""
    code, _, printed = check(machine.variables("worker-certificate.json", **{"ssl.key.password": WRONG}))
    assert code != 0
    assert "ssl.key.location" in printed
    assert WRONG not in printed


async def test_right_password_is_accepted_after_a_restart(machine: Machine) -> None:
    """After the remedy the same file works."""
    index(machine.variables("worker-password.json"), machine.folder)
    variables = machine.variables("worker-password.json", **{"sasl.password": WRONG})
    with worker(variables, machine.folder) as running:
        until(lambda: running.waits_for("wrong user name or password"))
    machine.variables("worker-password.json")
    with worker(variables, machine.folder) as running:
        await answers(machine.broker, running, "mended")


def test_page_shows_the_tested_files() -> None:
    """The page contains the files unchanged, and its ACLs are those of the tests."""
    page = (ROOT / "docs/howto/secure-kafka.md").read_text("utf-8")
    blocks = re.findall(r"```\w+\n(.*?)```", page, re.S)
    for name in (*FILES, "broker-security.properties"):
        assert (DEPLOY / name).read_text("utf-8") in blocks, name
    for operation, kind, name in NEEDED.values():
        assert f"--allow-principal User:{USER} --operation {operation} --{kind} {name}" in page
    assert HOST not in page.replace("kafka.example.org", "")
