"""`research --schema FILE`: the object of the schema, alone on standard output."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.presentation.cli.fakes import ANSWER, SENTENCE, Ended, FakePlatform, Terminal, wiring

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.untrusted.output_schema import NO_OBJECT
from modules.llm_platform.presentation.cli.commands.research import MAX_SCHEMA_KB
from modules.llm_platform.presentation.cli.main import run

SCHEMA = {"type": "object", "properties": {"says": {"type": "string"}}}
OUTPUT = {"says": f"{SENTENCE} [1]", "tasks": [1]}
FILLED = ANSWER.model_copy(update={"output": OUTPUT})
UNFILLED = ANSWER.model_copy(update={"degraded": (Degraded(component="output", reason="llm_timeout: too late"),)})
Command = Callable[..., tuple[Ended, FakePlatform]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Call `research` with the file `schema.json`; returns how it ended, and the platform."""

    def call(*arguments: str, answer=FILLED, schema: object = SCHEMA) -> tuple[Ended, FakePlatform]:
        Path("schema.json").write_bytes(schema if isinstance(schema, bytes) else json.dumps(schema).encode())
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        platform = FakePlatform(answer=answer)
        code = run(("research", "What is it?", "--schema", "schema.json", *arguments), wiring(platform, model=True))
        message = capsys.readouterr()
        return Ended(code, message.out, message.err), platform

    return call


def test_the_object_is_all_that_is_printed(command: Command) -> None:
    """The schema reaches the research run; text and sources are not on standard output."""
    ended, platform = command()
    assert platform.research.requests[0].output_schema == SCHEMA
    assert (ended.code, json.loads(ended.out)) == (0, OUTPUT)


def test_a_terminal_shows_the_object_too(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is not printed while it is written."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    ended, _ = command()
    assert ended.code == 0
    assert json.loads(terminal.getvalue()) == OUTPUT


def test_a_plan_has_no_object(command: Command) -> None:
    ended, _ = command("--plan-only")
    assert ended.code == 2
    assert "--schema: cannot be combined with --plan-only" in " ".join(ended.err.split())


def test_json_has_text_and_object(command: Command) -> None:
    ended, _ = command("--json")
    whole = json.loads(ended.out)
    assert (whole["output"], whole["synthesis"]) == (OUTPUT, ANSWER.synthesis)


def test_without_an_object_standard_output_is_empty(command: Command) -> None:
    """The reason and how to get the text are printed on standard error. --json contains the text."""
    ended, _ = command(answer=UNFILLED)
    assert (ended.code, ended.out) == (1, "")
    assert "llm_timeout: too late" in ended.err
    assert "--json" in ended.err
    ended, _ = command("--json", answer=UNFILLED)
    assert (ended.code, json.loads(ended.out)["output"]) == (0, None)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (b"", "must be a JSON object"),
        (b"[]", "must be a JSON object"),
        (b"\xff", "must be text in UTF-8"),
        (b" " * (MAX_SCHEMA_KB * 1000 + 1), "too long for a schema"),
        ({"type": "array"}, NO_OBJECT),
    ],
)
def test_a_file_that_is_no_schema_is_wrong_use(command: Command, schema: object, said: str) -> None:
    """Before anything is searched, and with the name of the option."""
    ended, platform = command(schema=schema)
    assert (ended.code, platform.research.requests) == (2, [])
    assert "--schema" in ended.err
    assert said in " ".join(ended.err.split())
