"""ACLs of a real Kafka: what `worker --check` reports about each, and that the page on tenants lists the right ones."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka.broker import ROOT, wait_until
from tests.kafka.guarded_broker import GuardedBroker
from tests.kafka.reference_client import TOPICS
from tests.support.forked_command import run_forked
from tests.support.patient_command import KAFKA_LIMITS, patient

from modules.llm_platform.presentation.kafka.worker.clients import make_consumer, make_consumer_config

pytestmark = pytest.mark.services

PATIENCE_S = 180
PAGE = ROOT / "docs/howto/several-tenants.md"
NEEDED = {
    "right to read rag_search_request": ("Read", "topic", "rag_search_request"),
    "right to read rag_answer_request": ("Read", "topic", "rag_answer_request"),
    "right to write rag_search_result": ("Write", "topic", "rag_search_result"),
    "right to write rag_answer_result": ("Write", "topic", "rag_answer_result"),
    "right to write rag_failed": ("Write", "topic", "rag_failed"),
    "right to read as group rag-core": ("Read", "group", "rag-core"),
}
SHIM = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.kafka.acl_tool import main
main(sys.argv[1:])
"""

Verdicts = dict[str, tuple[str, str]]


@pytest.fixture(scope="module")
def broker() -> Iterator[GuardedBroker]:
    with GuardedBroker(TOPICS) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def data(broker: GuardedBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with an index, without which the check fails, whatever the ACLs are."""
    notes, folder = tmp_path_factory.mktemp("notes"), tmp_path_factory.mktemp("data")
    (notes / "topics.md").write_text("A topic has partitions.\n", "utf-8")
    assert llm_platform(broker, "rag-worker", folder, "index", str(notes)).returncode == 0
    return folder


@pytest.fixture(autouse=True)
def _no_rights_at_first(broker: GuardedBroker) -> None:
    broker.forget_rights()


def llm_platform(
    broker: GuardedBroker,
    user: str,
    folder: Path,
    *arguments: str,
) -> subprocess.CompletedProcess[str]:
    """Return the command with this user's login."""
    environment = {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": broker.guarded,
        "KAFKA_CONFIG": json.dumps(broker.login(user)),
        "LLM_PLATFORM_DATA_DIR": str(folder),
        "EMBEDDER": "none",
    }
    return run_forked(patient(KAFKA_LIMITS), *arguments, env=environment, timeout=PATIENCE_S)


def checked(broker: GuardedBroker, user: str, folder: Path) -> tuple[int, Verdicts]:
    """Return the exit code, and the verdict and text of each subject."""
    done = llm_platform(broker, user, folder, "worker", "--check", "--json")
    checks = json.loads(done.stdout)["checks"]
    return done.returncode, {check["subject"]: (check["verdict"], check["text"]) for check in checks}


def of_rights(verdicts: Verdicts) -> Verdicts:
    return {subject: said for subject, said in verdicts.items() if subject.startswith("right to")}


def test_each_missing_right_is_named(broker: GuardedBroker, data: Path) -> None:
    """The exit code is 1, and each missing right has the ACL to add."""
    code, verdicts = checked(broker, "stranger", data)
    said = of_rights(verdicts)
    assert code == 1
    assert set(said) == {*NEEDED, "right to write idempotently"}
    assert {verdict for verdict, _ in said.values()} == {"failed"}
    for subject, (operation, kind, name) in NEEDED.items():
        remedy = f"kafka-acls.sh --add --allow-principal User:stranger --operation {operation} --{kind} {name}"
        assert said[subject][1].endswith(remedy)
    assert not [subject for subject in verdicts if subject.startswith("topic ")]  # it is unknown whether they exist


def test_named_rights_are_sufficient(broker: GuardedBroker, data: Path) -> None:
    """With the ACLs of the messages the worker works. Without one of them, exactly its check fails."""
    for operation, kind, name in [*NEEDED.values()][1:]:
        broker.allow("rag-worker", operation, kind, name)
    code, verdicts = checked(broker, "rag-worker", data)
    assert code == 1
    assert [subject for subject, (verdict, _) in verdicts.items() if verdict == "failed"] == [next(iter(NEEDED))]
    broker.allow("rag-worker", *NEEDED[next(iter(NEEDED))])
    code, verdicts = checked(broker, "rag-worker", data)
    assert code == 0
    assert {verdict for verdict, _ in of_rights(verdicts).values()} == {"ok"}


def test_active_group_members_are_named(broker: GuardedBroker, data: Path) -> None:
    """Members are listed by client, machine and share, for both group protocols."""
    for needed in NEEDED.values():
        broker.allow("rag-worker", *needed)
    assert checked(broker, "rag-worker", data)[1]["group rag-core"] == ("ok", "no active member")
    config = make_consumer_config([broker.bootstrap], "rag-core", broker.client)
    member = make_consumer(config, {})
    member.subscribe(["rag_search_request"])
    try:
        wait_until(
            lambda: member.poll(0.1) is None and len(member.assignment()) == TOPICS["rag_search_request"], "to join"
        )
        verdict, text = checked(broker, "rag-worker", data)[1]["group rag-core"]
    finally:
        member.close()
    partitions = TOPICS["rag_search_request"]
    assert (verdict, text) == ("ok", f"1 active: llm-platform-worker at 127.0.0.1, {partitions} partitions")


def test_describe_does_not_imply_use(broker: GuardedBroker, data: Path) -> None:
    """A right to describe does not replace the right to use."""
    for _, kind, name in NEEDED.values():
        broker.allow("stranger", "Describe", kind, name)
    _, verdicts = checked(broker, "stranger", data)
    assert {verdict for verdict, _ in of_rights(verdicts).values()} == {"failed"}
    assert verdicts["topic rag_failed"][0] != "failed"


def test_unreadable_topic_settings_are_a_warning(broker: GuardedBroker, data: Path) -> None:
    """The settings are optional. With DescribeConfigs they are checked."""
    for needed in NEEDED.values():
        broker.allow("rag-worker", *needed)
    code, verdicts = checked(broker, "rag-worker", data)
    assert (code, verdicts["settings of rag_failed"][0]) == (0, "warning")
    assert "could not be checked" in verdicts["settings of rag_failed"][1]
    broker.allow("rag-worker", "DescribeConfigs", "topic", "rag_failed")
    assert checked(broker, "rag-worker", data)[1]["settings of rag_failed"] == ("ok", "fit")


def test_documented_rights_are_complete(broker: GuardedBroker, data: Path, tmp_path: Path) -> None:
    """The documented commands, run unchanged, let a worker work and a gateway send and read, and nothing more."""
    shim = tmp_path / "kafka-acls.sh"
    shim.write_text(SHIM, "utf-8")
    shim.chmod(stat.S_IRWXU)
    (commands,) = (
        block for block in re.findall(r"```bash\n(.*?)```", PAGE.read_text("utf-8"), re.S) if "acl()" in block
    )
    done = subprocess.run(
        ["bash", "-euc", commands.replace("kafka:9092", broker.bootstrap)],
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert checked(broker, "rag-worker", data)[0] == 0
    sent = llm_platform(broker, "gateway", data, "kafka", "send", "--wait", "0", "anybody there?")
    assert (sent.returncode, "sent to rag_search_request/" in sent.stderr) == (0, True)
    tailed = llm_platform(broker, "gateway", data, "kafka", "tail", "--seconds", "0.5")
    assert (tailed.returncode, tailed.stderr) == (0, "")
    assert llm_platform(broker, "rag-worker", data, "kafka", "send", "--wait", "0", "mine?").returncode == 1
    code, verdicts = checked(broker, "gateway", data)
    assert code == 1
    assert verdicts["right to read rag_search_request"][0] == "failed"
