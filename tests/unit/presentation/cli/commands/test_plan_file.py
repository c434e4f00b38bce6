"""The file of `--plan`: lines, numbered lines and JSON give the same plan, and any other content is wrong use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modules.llm_platform.presentation.cli.commands.plan import MAX_FILE_KB, read_plan

PLAN = ("What is a heat pump?", "2 or 3 kilowatts: which one?")


def file_of(folder: Path, content: str | bytes) -> Path:
    path = folder / "plan.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        "\n".join(PLAN),
        "\ufeff" + "\r\n".join(PLAN) + "\r\n",
        "# what I want to know\n\n" + "\n\n".join(PLAN),
        "".join(f"{number}. {question}\n" for number, question in enumerate(PLAN, 1)),
        "".join(f" ({number}) {question} \n" for number, question in enumerate(PLAN, 1)),
        "".join(f"- {question}\n" for question in PLAN),
        "".join(f"Question: {question}\n" for question in PLAN),
        "".join(f"ПОДЗАПРОС: {question}\n" for question in PLAN),
        json.dumps(PLAN),
        json.dumps({"query": "heat", "language": "en", "questions": PLAN, "planner": "x", "degraded": []}),
    ],
)
def test_every_format_gives_the_same_plan(content: str, tmp_path: Path) -> None:
    """As a person types it, as a model wrote it, as `--plan-only --json` and the server give it."""
    assert read_plan(file_of(tmp_path, content)) == PLAN


def test_number_of_the_question_is_kept(tmp_path: Path) -> None:
    """A year or an amount at the beginning is no numbering."""
    lines = ("2026 elections: who won?", "3.5 mm jacks: why so long?", "24/7 support?")
    assert read_plan(file_of(tmp_path, "\n".join(lines))) == lines


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "has no sub-question"),
        (" \n# only a comment\n", "has no sub-question"),
        ("[]", "has no sub-question"),
        ('["What is it?",', "begins like JSON but is not valid JSON"),
        ("[" * 10_000, "begins like JSON but is not valid JSON"),
        ('{"plan": ["What is it?"]}', 'with such a list as "questions"'),
        ('{"questions": "What is it?"}', "must be a list of strings"),
        ('["What is it?", 7]', "must be a list of strings"),
        (b"\xff\xfeW\x00", "must be text in UTF-8"),
        (b"x" * (MAX_FILE_KB * 1000 + 1), "too long for a plan"),
    ],
)
def test_invalid_plan_file_is_wrong_use(content: str | bytes, expected: str, tmp_path: Path) -> None:
    """The message names the option and the fault. The parser never guesses, so no sub-question is lost."""
    with pytest.raises(typer.BadParameter) as caught:
        read_plan(file_of(tmp_path, content))
    assert (caught.value.param_hint, caught.value.exit_code) == ("--plan", 2)
    assert expected in caught.value.message


def test_unreadable_plan_file_is_wrong_use(tmp_path: Path) -> None:
    """It may go away between the look at it and the reading."""
    with pytest.raises(typer.BadParameter, match="cannot be read"):
        read_plan(tmp_path / "gone.txt")


@given(st.lists(st.text(st.characters(categories=["L"]), min_size=3, max_size=30), min_size=1, max_size=10))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_line_is_lost(tmp_path: Path, lines: list[str]) -> None:
    """All lines of any script are kept in order."""
    assert read_plan(file_of(tmp_path, "\n".join(lines))) == tuple(lines)
