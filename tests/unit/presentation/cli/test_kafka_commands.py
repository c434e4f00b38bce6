"""`worker` and `kafka` as they stand on the command line: what is written reaches what carries it out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from modules.llm_platform.presentation.cli import kafka_commands, kafka_dev_client, options, worker_command
from modules.llm_platform.presentation.cli.kafka_dev_client import Sending

Calls = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made: Calls = []
    monkeypatch.setattr(
        worker_command,
        "run_worker_command",
        lambda _console, parts, arguments, stages: made.append(
            ("work", {"parts": parts, "arguments": arguments, "stages": stages})
        ),
    )
    monkeypatch.setattr(
        worker_command,
        "check",
        lambda _console, parts, arguments, stages, *, as_json: made.append(
            ("check", {"parts": parts, "arguments": arguments, "stages": stages, "as_json": as_json})
        ),
    )
    monkeypatch.setattr(
        kafka_dev_client,
        "run_send",
        lambda _console, sending, wait_s: made.append(("send", {"sending": sending, "wait_s": wait_s})),
    )
    monkeypatch.setattr(kafka_dev_client, "run_tail", lambda _console, **wanted: made.append(("tail", wanted)))
    return made  # fmt: skip


def run(*arguments: str) -> Result:
    app = typer.Typer(rich_markup_mode=None)
    app.command(cls=options.Command)(kafka_commands.worker)
    app.add_typer(kafka_commands.kafka_app, name="kafka")
    return CliRunner().invoke(app, arguments, obj=SimpleNamespace(worker_parts="the parts"))


def test_the_worker(calls: Calls) -> None:
    """Without an option it works on all stages."""
    assert run("worker").exit_code == 0
    assert calls == [("work", {"parts": "the parts", "arguments": {}, "stages": None})]


def test_the_worker_of_one_stage(calls: Calls) -> None:
    """Stages and offline are passed on."""
    assert run("worker", "--stages", "search", "--offline").exit_code == 0
    [(name, told)] = calls
    assert (name, told["stages"], told["arguments"]) == ("work", "search", {"LLM_PLATFORM_OFFLINE": True})


def test_the_check(calls: Calls) -> None:
    """Works on nothing."""
    assert run("worker", "--check", "--json").exit_code == 0
    assert calls == [("check", {"parts": "the parts", "arguments": {}, "stages": None, "as_json": True})]


def test_json_is_for_the_check(calls: Calls) -> None:
    """A worker that works prints nothing: the option would change nothing."""
    assert run("worker", "--json").exit_code == 2
    assert calls == []


def test_sending(calls: Calls) -> None:
    """Everything that a request may hold."""
    line = [
        "what is a topic?",
        "--id",
        "mine",
        "--top-k",
        "3",
        "--filter",
        "lang=en",
        "--filter",
        "lang=de",
        "--wait",
        "5",
    ]
    assert run("kafka", "send", *line).exit_code == 0
    sending = Sending("what is a topic?", "search", "mine", 3, ("lang=en", "lang=de"))
    assert calls == [("send", {"sending": sending, "wait_s": 5.0})]


def test_sending_to_a_stage_that_is_none(calls: Calls) -> None:
    """Wrong use."""
    assert run("kafka", "send", "x", "--stage", "find").exit_code == 2
    assert calls == []


def test_tailing(calls: Calls) -> None:
    """Until Ctrl-C unless something else is said."""
    assert run("kafka", "tail").exit_code == 0
    assert run("kafka", "tail", "--from-start", "--count", "2", "--seconds", "3", "--id", "a", "--json").exit_code == 0
    assert calls == [
        ("tail", {"from_start": False, "count": None, "seconds": None, "request_id": None, "as_json": False}),
        ("tail", {"from_start": True, "count": 2, "seconds": 3.0, "request_id": "a", "as_json": True}),
    ]
