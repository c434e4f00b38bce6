"""The programs of the page for maintainers do what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.pages import ROOT, files_in, shell, text_of
from tests.unit.presentation.rest.fake_platform import REF, FakeServices, app_client, hits

from modules.llm_platform.presentation.rest import app
from modules.llm_platform.presentation.rest.compat.dialect import Dialect
from modules.llm_platform.presentation.rest.http import openapi

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


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> Dialect:
    """Return the API of the page. It is served beside the others."""
    monkeypatch.setattr(openapi, "_BODIES", dict(openapi._BODIES))  # a declaration adds its body
    module = ModuleType("acme_api")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(files_in(PAGE)["acme_api.py"], vars(module))
    dialect: Dialect = module.DIALECT
    monkeypatch.setattr(app, "ROUTERS", (*app.ROUTERS, dialect.router))
    monkeypatch.setattr(app, "DIALECT_OF_PREFIX", {**app.DIALECT_OF_PREFIX, "acme": dialect})
    return dialect


async def test_the_api_of_the_page_answers(acme: Dialect) -> None:
    """A client of Acme gets an answer with its sources, the name of a field without effect, and errors in Acme's form."""
    example = acme.examples["post /acme/ask"]
    services = FakeServices()
    async with app_client(services) as client:
        found = await client.post("/acme/ask", json={**(example.request or {}), "colour": "red"})
        refused = await client.post("/acme/ask", json={"query": 5})
    assert found.json().keys() == example.response.keys()
    assert found.json()["answer"] == services.answer
    assert found.json()["sources"] == [{"title": REF.title, "url": REF.url, "text": "An event loop."}]
    assert found.headers["x-ignored-fields"] == "colour"
    assert (refused.status_code, refused.json()) == (422, {"error": "query: must be a valid string"})


async def test_the_api_of_the_page_searches(acme: Dialect) -> None:
    """A client of Acme gets no more results than it asks for, of the sites that it names."""
    example = acme.examples["post /acme/search"]
    services = FakeServices()
    services.found = services.found.model_copy(update={"results": hits(9)})
    async with app_client(services) as client:
        found = await client.post("/acme/search", json={**(example.request or {}), "sites": "example.org"})
    assert found.json().keys() == example.response.keys()
    assert [result["url"] for result in found.json()["results"]] == [hit.url for hit in hits(3)]
    [asked] = services.requests
    assert (asked.count, asked.domains) == (3, ("example.org",))
