"""A report as a process that is interrupted, resumed, replayed offline, and moved to another machine."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.support.forked_command import COMMAND_LINE, PIPE, ForkedPython, run_forked
from tests.support.loopback_upstream import serving
from tests.support.report_upstream import Upstream, environment
from tests.support.server_process import asleep

from modules.llm_platform.__main__ import wiring
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.main import run

pytestmark = pytest.mark.usefixtures("restored_logging")  # commands run in this process

QUESTION = "How do heat pumps work in cold winters?"
PATIENCE_S = 120.0


async def ended(*arguments: str, env: Mapping[str, str]) -> tuple[int, str, str]:
    done = await asyncio.to_thread(run_forked, COMMAND_LINE, *arguments, env=env, timeout=PATIENCE_S)
    return done.returncode, done.stdout, done.stderr


def command(*arguments: str, env: Mapping[str, str]) -> None:
    """Run a successful command in this process."""
    err = io.StringIO()
    with patch.dict(os.environ, env):
        assert run(arguments, wiring(), Console(io.StringIO(), err, io.StringIO())) == 0, err.getvalue()


async def report(env: Mapping[str, str], *more: str) -> dict[str, Any]:
    code, out, err = await ended("research", QUESTION, "--depth", "report", "--yes", "--json", *more, env=env)
    assert code == 0, err
    return dict(json.loads(out))


async def test_ctrl_c_prints_the_resume_command(tmp_path: Path) -> None:
    """Ctrl-C exits with 130 and prints a command that finishes the report when run in a shell.

    Finished steps are not paid for again, also under --fresh.
    """
    first, second = Upstream(silent_from=9), Upstream()
    upstream = [first]
    async with serving(lambda exchange: upstream[0].handle(exchange)) as loopback:
        env = environment(loopback, tmp_path)
        words = ("research", "--depth", "report", "--fresh", "--yes", "--json")
        with ForkedPython(COMMAND_LINE, *words, env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
            assert process.stdin
            process.stdin.write(QUESTION)
            process.stdin.close()
            await asyncio.wait_for(first.reached.wait(), PATIENCE_S)
            await asleep(process)  # waits until the answers are stored
            process.send_signal(signal.SIGINT)
            out, err = await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)
        assert (process.returncode, out) == (130, "")
        said, command = err.splitlines()
        assert said == "Interrupted. Finished steps are stored. To continue, run:"
        assert command == f"llm-platform research --depth report --yes --json '{QUESTION}'"
        upstream[0] = second
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        again = await asyncio.create_subprocess_shell(command, stdout=PIPE, stderr=PIPE, env={**env, "PATH": path})
        answer, errors = await asyncio.wait_for(again.communicate(), PATIENCE_S)
    assert again.returncode == 0, errors
    paid = first.answered + second.answered
    assert {name: count for name, count in paid.items() if count > 1} == {}
    assert json.loads(answer)["citations"]


async def test_finished_report_is_replayed_offline_and_elsewhere(tmp_path: Path) -> None:
    """A finished report is replayed from the store, with its date, when the upstream is gone, and on another machine
    after export and import.
    """
    async with serving(Upstream().handle) as loopback:
        env = environment(loopback, tmp_path / "here")
        first = await report(env)
    again = await report(env)
    offline = await report(env, "--offline")
    for later in (again, offline):
        assert later["synthesis"] == first["synthesis"]
        assert later["citations"] == first["citations"]
        assert later["metadata"]["stored_at"]
        assert later["metadata"]["sent_to"] == []
    await asyncio.to_thread(command, "cache", "export", str(tmp_path / "kept.zip"), env=env)
    there = {**env, "LLM_PLATFORM_DATA_DIR": str(tmp_path / "there")}
    await asyncio.to_thread(command, "cache", "import", str(tmp_path / "kept.zip"), env=there)
    assert (await report(there, "--offline"))["synthesis"] == first["synthesis"]


async def test_egress_log_names_every_host(tmp_path: Path) -> None:
    """`sent_to` lists what was sent to which host, as received by the upstream: queries, URLs and page text."""
    upstream = Upstream()
    async with serving(upstream.handle) as loopback:
        answer = await report(environment(loopback, tmp_path))
    kinds = {entry["kind"]: entry for entry in answer["metadata"]["sent_to"]}
    assert set(kinds) == {"query", "url", "page text"}
    assert kinds["url"]["requests"] == sum(name.startswith("read") for name in upstream.answered)
    assert kinds["page text"]["bytes"] > kinds["url"]["bytes"]
