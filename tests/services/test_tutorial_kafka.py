"""The worker's tutorial, run completely and unchanged in one shell, on librdkafka's mock cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.docs.pages import DOCS, sessions_in, shows, text_of
from tests.kafka.mock_cluster import MockCluster
from tests.kafka.reference_client import TOPICS

PAGE = "docs/tutorial-kafka.md"
BROKER = "localhost:9092"
MARK = "--- next command ---"
PATIENCE_S = 300.0
pytestmark = pytest.mark.services
_BLOCK = re.compile(r"```(bash|console)\n(.*?)```", re.S)


@dataclass(frozen=True, slots=True)
class Ran:
    """The output of each command whose output the page shows, and the errors of all commands."""

    printed: list[str]
    errors: str


def script(bootstrap: str) -> str:
    """Return all blocks in order. In any case no worker is left running."""
    lines = ["trap 'kill -9 $(jobs -pr) 2> /dev/null || true' EXIT"]
    for kind, block in _BLOCK.findall(text_of(PAGE)):
        if kind == "bash":
            lines.append(block)
        else:
            commands = re.findall(r"(?m)^\$ (.*)$", block)
            lines += [f"{command}\necho '{MARK}'" for command in commands]
    return "\n".join(lines).replace(BROKER, bootstrap)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder: Path = tmp_path_factory.mktemp("tutorial")
    (folder / "docs").symlink_to(DOCS)
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    with MockCluster(TOPICS) as mock:
        done = subprocess.run(
            ["bash", "-e"],
            input=script(mock.bootstrap),
            cwd=folder,
            env={
                **os.environ,
                "WORKER_HTTP_PORT": "0",
                "LOG_LEVEL": "DEBUG",
                "KAFKA_CONFIG": json.dumps(dict(mock.client)),
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    log = (folder / "worker.log").read_text("utf-8") if (folder / "worker.log").exists() else ""
    assert done.returncode == 0, done.stderr + log
    return Ran([output.strip("\n") for output in done.stdout.split(MARK + "\n")][:-1], done.stderr + log)


def test_every_output_equals_the_shown_one(ran: Ran) -> None:
    """The output may be cut only where the page has `…`."""
    sessions = sessions_in(PAGE)
    assert len(ran.printed) == len(sessions) == 9
    for (command, shown), printed in zip(sessions, ran.printed, strict=True):
        assert shows(shown, printed), f"{command}\n{printed}"


def test_the_outcome_after_the_kill_equals_the_one_before(ran: Ran) -> None:
    """The tutorial demonstrates three identical outcomes of two processes."""
    outcomes = [printed for printed in ran.printed if printed.startswith('{"request_id": "first"')]
    assert len(outcomes) == 3
    assert len(set(outcomes)) == 1


def test_the_worker_prints_what_the_page_quotes(ran: Ran) -> None:
    """The notes of `--check` are also in the log, and the reused id is logged."""
    for words in re.findall(r"warning  note +(.*)", text_of(PAGE)):
        assert words in ran.errors
    assert "request_id_reused" in ran.errors
    assert "stopping: no more requests are consumed" in ran.errors
