"""The file of `--plan`: a sub-question on each line, or JSON as `--plan-only --json` and POST /research/plan give it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from modules.llm_platform.application.research.decoding.items import read_line
from modules.llm_platform.presentation.cli.given_file import read_given
from modules.llm_platform.presentation.cli.options import wrong

OPTION = "--plan"
MAX_FILE_KB = 64  # ten sub-questions of 500 characters are far below it
COMMENT = "#"

_NUMBER = re.compile(r"\s*(?:[-*•–]|\(?\d{1,2}[.):])\s+")


def read_plan(path: Path) -> tuple[str, ...]:
    """The sub-questions; wrong use when the file cannot be read as a plan."""
    text = _text(path).strip()
    questions = _of_json(text) if text.startswith(("[", "{")) else _of_lines(text)
    if not questions:
        wrong(OPTION, f"{path} holds no sub-question: write one on each line")
    return questions


def _text(path: Path) -> str:
    content = read_given(OPTION, path, most_kb=MAX_FILE_KB, what="a plan")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        wrong(OPTION, f"{path} must be text in UTF-8")


def _of_json(text: str) -> tuple[str, ...]:
    """A list of strings, or an object whose `questions` are one. A guess at broken JSON could lose a sub-question."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        wrong(OPTION, "begins like JSON and is none: a list of strings is wanted, or plain lines")
    questions = value.get("questions") if isinstance(value, dict) else value
    if not isinstance(questions, list) or not all(isinstance(each, str) for each in questions):
        wrong(OPTION, 'must be a list of strings, or an object with such a list as "questions"')
    return tuple(each.strip() for each in questions if each.strip())


def _of_lines(text: str) -> tuple[str, ...]:
    """Each line but blank ones and comments, without its number, bullet, or a word such as "Question:"."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(COMMENT)]
    return tuple(found for line in lines if (found := (read_line(line) or _NUMBER.sub("", line, count=1)).strip()))
