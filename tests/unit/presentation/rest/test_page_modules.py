"""The modules of the page import each other in one direction, so that each can be read and tested after those it imports."""

from __future__ import annotations

import re
from functools import partial
from graphlib import CycleError, TopologicalSorter

import pytest
from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.presentation.rest.docs_routes import RESEARCH_FOLDER

# Patterns applied to untrusted text: hidden Markdown, table rules, and markers.
PATTERN = re.compile(
    r"^(?:  |const RULE = )/((?:[^/\\\n]|\\.)+)/g?[,;]|/(\S*\\\[\\d\{1,4\}\\\][^/\n]*)/g", re.MULTILINE
)
IMPORT = re.compile(r'(?:from |import\()"\./([\w/]+\.js)"')  # those that are loaded later count too


def test_the_modules_of_the_page_import_in_no_circle() -> None:
    """A module that must call one of those that import it gets a function, as `startSettings` of settings.js does."""
    imports = {path.name: IMPORT.findall(path.read_text(encoding="utf-8")) for path in RESEARCH_FOLDER.glob("*.js")}
    assert "settings.js" in imports["main.js"]
    assert "form.js" in imports["main.js"]
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as circle:
        pytest.fail(" imports ".join(reversed(circle.args[1])))


@for_each("pump", ["[", "![", "[a", " ", "\t", "| ", "|-", "-", "**a ", "`a", "[a](", "[1] "])
@for_each("name", ["source_text.js", "picture.js", "receipts.js", "strip.js", "summary.js"])
def test_untrusted_text_is_processed_in_linear_time(name: str, pump: str) -> None:
    """The browser's regex engine backtracks like Python's, and the text comes from pages and models."""
    source = (RESEARCH_FOLDER / name).read_text(encoding="utf-8")
    found = [match[1] or match[2] for match in PATTERN.finditer(source)]
    assert found
    for pattern in (re.compile(text.replace("(?<shown>", "(?P<shown>")) for text in found):
        for end in ("", "-x"):
            small, large = (pump * (size // len(pump)) + end for size in (1_000, 10_000))
            assert is_linear(partial(pattern.sub, "", small), partial(pattern.sub, "", large), 10), pattern.pattern


def test_words_of_links_are_shown() -> None:
    """As Markdown reads them: of nested brackets the inner ones are the link."""
    source = (RESEARCH_FOLDER / "source_text.js").read_text(encoding="utf-8")
    [link] = [match[1] for match in PATTERN.finditer(source) if match[1] and "\\]\\(" in match[1]]
    pattern = re.compile(link.replace("(?<shown>", "(?P<shown>"))
    for text, shown in (
        ("a [b](https://c) d", "a b d"),
        ("![b c](x)", "b c"),
        ("[](x)", ""),
        ("[a [b](c)", "[a b"),
        ("[1] (x)", "[1] (x)"),
    ):
        assert pattern.sub(lambda match: match["shown"], text) == shown
