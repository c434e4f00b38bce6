"""The page has a message for readers for every error code. The server's messages are for operators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.cases import for_each
from tests.unit.presentation.rest.test_docs_routes import LANGUAGES, catalogue

from modules.llm_platform.application.research.write import llm_synthesizer
from modules.llm_platform.domain import exceptions
from modules.llm_platform.infrastructure import redis_client as client
from modules.llm_platform.infrastructure.search import web_search_chain as web_search
from modules.llm_platform.presentation.rest.docs_routes import RESEARCH_FOLDER
from modules.llm_platform.presentation.rest.http import problems
from shared.exceptions import AppException

APPLICATION = RESEARCH_FOLDER.parents[2] / "application"
SCRIPT = (RESEARCH_FOLDER / "problems.js").read_text(encoding="utf-8")
# What only an operator can use: settings, headers, commands, code.
FOR_OPERATORS = re.compile(r"[A-Z]+_[A-Z]|Authorization|Bearer|Retry-After|pip |`|\.toml|\.yml|/openapi")
REASON = re.compile(r'f?"([a-z][a-z_]+): ')


def table(name: str) -> set[str]:
    """Return the keys of a table of the script."""
    body = SCRIPT.partition(f"const {name} = {{\n")[2].partition("\n};")[0]
    return {quoted or plain for quoted, plain in re.findall(r'^  (?:"([^"]+)"|(\w+)):', body, re.MULTILINE)}


def error_codes() -> Iterator[str]:
    for module in (exceptions, problems, client):
        for error in vars(module).values():
            if isinstance(error, type) and issubclass(error, AppException) and error.__module__ == module.__name__:
                yield error.code


def reason_codes() -> Iterator[str]:
    """Yield the codes with which the reasons in `degraded` begin."""
    for path in (*APPLICATION.rglob("*.py"), Path(llm_synthesizer.__file__), Path(web_search.__file__)):
        yield from REASON.findall(path.read_text(encoding="utf-8"))


def test_every_error_has_words_for_readers() -> None:
    """An error that the server learns needs a sentence on the page."""
    codes = set(error_codes())
    assert len(codes) > 60
    assert not codes - table("PROBLEMS")


def test_every_reason_has_words_for_readers() -> None:
    """A new reason in `degraded` needs a sentence, unless the page shows it elsewhere."""
    codes = set(reason_codes())
    assert {"budget", "stand_in", "length", "stale"} <= codes
    told_by_part = {"incomplete": "judge", "stand_in": "rank", "page_cut": "source", "unfinished": "summarize",
                    "too_long": "question", "too_many": "context", "not_found": "context", "not_stored": "follow_up",
                    "cut": "output", "no_sources": "output", "short_message": "output"}  # fmt: skip
    told = {"uncited", *told_by_part} | table("PROBLEMS") | table("NOTES")
    assert not codes - told
    assert set(told_by_part.values()) <= table("NOTES")


@for_each("language", LANGUAGES)
def test_words_for_readers_name_nothing_of_operators(language: str) -> None:
    """No sentence names a setting, a header or a command, in any language."""
    texts = re.findall(r'\bt\("([^"]+)"', SCRIPT)
    translated = catalogue(language)
    assert len(texts) > 70
    assert not [text for text in texts if FOR_OPERATORS.search(text + translated.get(text, ""))]
