"""The length limit of a question is written in one place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.docs.pages import ROOT

from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.research.long_message import LONG_MESSAGE_ABOVE_CHARS, MAX_MESSAGE_CHARS

DEFINITION = "src/modules/llm_platform/domain/dtos/web_search_dtos.py"
FOLDERS = ("src", "docs", "scripts", "benchmarks", "arena")
KINDS = {".py", ".js", ".html", ".md", ".sh"}
FOREIGN = {"swagger_ui", "vendor"}
NUMBERS = "|".join(f"{number}|{number:,}|{number:_}" for number in (MAX_QUERY_CHARS, MAX_MESSAGE_CHARS))
# The number near the word for the limited text, in code, a comment or a sentence.
REPEATED = re.compile(
    rf"(?:quer(?:y|ies)|question|message)(?!\w*tokens)[^.|\n]{{0,40}}(?<![\w.,])(?:{NUMBERS})(?![\w.,]\d|\w)"
    rf"|(?<![\w.,])(?:{NUMBERS})(?![\w.,]\d|\w)(?! (?:clients|callers)\b)[^.|\n]{{0,40}}(?:quer(?:y|ies)|question|message)"
    rf"|max_?length\W{{1,3}}(?:{NUMBERS})\b",
    re.IGNORECASE,
)


def _repetitions() -> Iterator[str]:
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in KINDS):
        name = path.relative_to(ROOT).as_posix()
        if name == DEFINITION or FOREIGN.intersection(path.parts):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if REPEATED.search(line):
                yield f"{name}:{number}: {line.strip()[:120]}"


def test_the_limit_is_written_once() -> None:
    """A change of the limit changes one line. Other limits are derived from it, and prose names the field, not the number."""
    assert list(_repetitions()) == []


def test_a_text_that_is_no_message_is_a_query() -> None:
    """Long texts are split. A text below that length is sent unchanged, so the field must accept it."""
    assert LONG_MESSAGE_ABOVE_CHARS <= MAX_QUERY_CHARS
