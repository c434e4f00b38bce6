"""Tests the documented commands of the suites for live services, and the tests that `-m` selects.

services/test_live_suites.py runs the suites.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import cast

import pytest
from tests import conftest
from tests.docs.pages import text_of

COMMAND = re.compile(r"([A-Z]+_TEST_URL)=http://\S+ \.venv/bin/pytest -m (\w+)")
PAGES = {
    "SEARXNG_TEST_URL": ("docs/reference/tested-services.md", "CONTRIBUTING.md", "docs/howto/searxng.md"),
    "QDRANT_TEST_URL": ("docs/reference/tested-services.md", "CONTRIBUTING.md", "docs/howto/qdrant-server.md"),
}
NOBODY_LISTENS = "http://127.0.0.1:9"


@pytest.mark.parametrize("variable", PAGES)
def test_the_pages_give_one_command_for_each_service(variable: str) -> None:
    """Every page about a suite shows the command with the mark of the service."""
    for page in PAGES[variable]:
        assert dict(COMMAND.findall(text_of(page)))[variable] == f"live_{variable.partition('_')[0].lower()}", page


class Selected:
    """A selected test of one service. It records the reasons of its skip markers."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self.skipped: list[str] = []

    def get_closest_marker(self, name: str) -> object | None:
        return self if name == self._mark else None

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.skipped.append(marker.kwargs["reason"])


def select(monkeypatch: pytest.MonkeyPatch, asked_for: str, **variables: str) -> tuple[Selected, Selected]:
    """Return a SearXNG test and a Qdrant test after `-m asked_for` with these variables."""
    for name in PAGES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    items = (Selected("live_searxng"), Selected("live_qdrant"))
    session = SimpleNamespace(items=items, config=SimpleNamespace(getoption=lambda *_: asked_for))
    conftest.pytest_collection_finish(cast(pytest.Session, session))
    return items


@pytest.mark.parametrize("asked_for", ["live_searxng", "live"])
def test_no_variable_at_all_is_an_error(monkeypatch: pytest.MonkeyPatch, asked_for: str) -> None:
    """The error does not depend on whether one suite or all suites are selected."""
    with pytest.raises(pytest.UsageError, match=r"SEARXNG_TEST_URL is not set: .*for instance"):
        select(monkeypatch, asked_for)


def test_all_suites_are_those_of_the_services_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-m live` skips the other suites, and the skip reason names the missing variable."""
    searxng, qdrant = select(monkeypatch, "live", SEARXNG_TEST_URL=NOBODY_LISTENS)
    assert searxng.skipped == []
    (reason,) = qdrant.skipped
    assert reason.startswith("QDRANT_TEST_URL is not set")
