"""The stamp of a sealed answer names what decides on a verdict and on the page."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from modules.llm_platform.domain import urls
from modules.llm_platform.infrastructure.files import checker_stamp
from modules.llm_platform.wiring.services import list_page_modules


@pytest.fixture(autouse=True)
def without_cache() -> None:
    checker_stamp.digest_rules.cache_clear()
    checker_stamp.digest_page.cache_clear()


def test_addresses_belong_to_the_rules() -> None:
    """They decide on the link of a quote."""
    assert urls in checker_stamp.RULES


@pytest.mark.parametrize(
    ("library", "changed"), [("sentencex", {"rules", "page"}), ("markdown-it-py", {"page"}), ("mdurl", {"page"})]
)
def test_another_library_is_another_stamp(library: str, changed: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One splits the sentences, the others write the page."""
    before = checker_stamp.describe_checker(None, {}, list_page_modules())
    real = checker_stamp.version
    monkeypatch.setattr(checker_stamp, "version", lambda name: "999" if name == library else real(name))
    checker_stamp.digest_rules.cache_clear()
    checker_stamp.digest_page.cache_clear()
    after = checker_stamp.describe_checker(None, {}, list_page_modules())
    assert {name for name in ("rules", "page") if getattr(before, name) != getattr(after, name)} == changed


def test_another_module_of_the_page_is_another_page(tmp_path: Path) -> None:
    """Even if only its text differs."""
    found = []
    for number, text in enumerate(("a = 1", "a = 2")):
        module = ModuleType("page")
        file = tmp_path / f"{number}.py"
        file.write_text(text, encoding="utf-8")
        module.__file__ = str(file)
        found.append(checker_stamp.digest_page((module,)))
    assert found[0] != found[1]
