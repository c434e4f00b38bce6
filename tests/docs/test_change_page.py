"""The programs of the page for maintainers do what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.docs.pages import ROOT, files_in, shell, text_of

PAGE = "docs/howto/change-the-code.md"
_ROW = re.compile(r"`(_keyed_service\(.*?\))`")
# The adapter stands where the page puts it, and its row is in the table.
CONFTEST = """
import importlib.util
import sys

from modules.llm_platform.infrastructure.search.from_settings import providers
from modules.llm_platform.infrastructure.search.from_settings.providers import _keyed_service

name = f"{{providers.ADAPTERS}}.acme"
spec = importlib.util.spec_from_file_location(name, {adapter!r})
sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])
providers.SEARCH_PROVIDERS = (*providers.SEARCH_PROVIDERS, {row})
"""


def test_the_search_provider_of_the_page_keeps_the_contract(tmp_path: Path) -> None:
    """Adapter, row and test are copied as they stand there, and all laws of a service with a key hold."""
    for name, program in files_in(PAGE).items():
        (tmp_path / name).write_text(program, encoding="utf-8")
    [row] = _ROW.findall(text_of(PAGE))
    conftest = CONFTEST.format(adapter=str(tmp_path / "acme.py"), row=row)
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    printed = shell(f"{sys.executable} -m pytest -q -n 0 -p no:cacheprovider -c {ROOT}/pyproject.toml {tmp_path}", ROOT)
    assert re.search(r"^\d+ passed", printed, re.M), printed
