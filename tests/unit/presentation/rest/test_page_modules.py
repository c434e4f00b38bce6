"""The modules of the page import each other in one direction, so that each can be read and tested after those it imports."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter

import pytest

from modules.llm_platform.presentation.rest.docs_routes import RESEARCH_FOLDER

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
