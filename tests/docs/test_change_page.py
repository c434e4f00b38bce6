"""The programs on the page for maintainers do what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.docs.pages import ROOT, files_in, shell, text_of
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.presentation.rest import app
from modules.llm_platform.presentation.rest.compat.dialect import Dialect
from modules.llm_platform.presentation.rest.http import openapi

PAGE = "docs/howto/change-the-code.md"
_ROW = re.compile(r"`(_build_keyed_service\(.*?\))`")
# This conftest registers the adapter under the page's module name and adds its row to the table.
CONFTEST = """
import importlib.util
import sys

from modules.llm_platform.infrastructure.search.from_settings import providers
from modules.llm_platform.infrastructure.search.from_settings.providers import _build_keyed_service

name = f"{{providers.ADAPTERS}}.acme"
spec = importlib.util.spec_from_file_location(name, {adapter!r})
sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[name])
providers.SEARCH_PROVIDERS = (*providers.SEARCH_PROVIDERS, {row})
"""


def test_the_search_provider_of_the_page_keeps_the_contract(tmp_path: Path) -> None:
    """Adapter, row and test are copied unchanged and pass all tests for services with a key."""
    programs = files_in(PAGE)
    for name in ("acme.py", "test_acme_web_search.py"):
        (tmp_path / name).write_text(programs[name], encoding="utf-8")
    [row] = _ROW.findall(text_of(PAGE))
    conftest = CONFTEST.format(adapter=str(tmp_path / "acme.py"), row=row)
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    printed = shell(f"{sys.executable} -m pytest -q -n 0 -p no:cacheprovider -c {ROOT}/pyproject.toml {tmp_path}", ROOT)
    assert re.search(r"^\d+ passed", printed, re.M), printed


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> Dialect:
    """Return the page's API. The app serves it next to the other APIs."""
    monkeypatch.setattr(openapi, "_BODIES", dict(openapi._BODIES))  # the declaration adds its body
    module = ModuleType("acme_api")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(files_in(PAGE)["acme_api.py"], vars(module))
    dialect: Dialect = module.DIALECT
    monkeypatch.setattr(app, "ROUTERS", (*app.ROUTERS, *dialect.routers))
    monkeypatch.setattr(app, "DIALECT_OF_PREFIX", {**app.DIALECT_OF_PREFIX, "acme": dialect})
    return dialect


async def test_the_api_of_the_page_passes_the_test_of_the_page(acme: Dialect) -> None:
    """Each test gets its own services and uses the page's routes."""
    program: dict[str, Any] = {}
    exec(files_in(PAGE)["test_acme_api.py"], program)
    laws = [value for name, value in program.items() if name.startswith("test_")]
    assert len(laws) == 3
    for law in laws:
        services = FakeServices()
        async with app_client(services) as client:
            await law(client, services)


async def test_the_examples_of_the_page_are_answers(acme: Dialect) -> None:
    """Each request on the page gets the fields of its example response."""
    async with app_client(FakeServices()) as client:
        for route, example in acme.examples.items():
            answered = await client.post(route.removeprefix("post "), json=example.request)
            assert answered.json().keys() == example.response.keys()
