"""Tests the public names. One table defines the loader, `__all__` and the stub for type checkers."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.pages import PAGES, ROOT
from tests.support.cases import for_each

import modules.llm_platform as platform
from modules.llm_platform.application.research import events
from modules.llm_platform.application.verification import events as verification_events
from modules.llm_platform.domain import exceptions
from modules.llm_platform.public_names import MODULE_OF

ENTRANCES = {"Settings", "SettingsError", "build_platform", "create_app", "research_router"}
ROOTS = {"modules.llm_platform", "modules.llm_platform.testing"}  # the modules that the documents import from
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.S)
INNER_MODULES = ("modules.llm_platform.domain", "modules.llm_platform.application", "shared.exceptions")


def test_every_public_name_can_be_imported() -> None:
    """`__all__` is sorted, and each name comes from the module in the table."""
    assert list(platform.__all__) == sorted(MODULE_OF)
    assert set(platform.__all__) <= set(dir(platform))
    for name in platform.__all__:
        assert getattr(platform, name).__module__ == MODULE_OF[name] or not isinstance(getattr(platform, name), type)
    with pytest.raises(AttributeError, match="NoSuchName"):
        _ = platform.NoSuchName


def test_the_stub_is_read_by_type_checkers_alone() -> None:
    """The table has one line for each name, and the package works without its stub."""
    assert list(MODULE_OF) == sorted(MODULE_OF)
    source = Path(platform.__file__).read_text(encoding="utf-8")
    assert "open(" not in source
    stub = Path(f"{platform.__file__}i").read_text(encoding="utf-8")
    lines = [line for line in stub.splitlines() if line.startswith("from ")]
    assert lines == [
        f"from {module} import {name} as {name}" for module, name in sorted((m, n) for n, m in MODULE_OF.items())
    ]


def test_public_names_are_defined_in_domain_and_application() -> None:
    """No adapter and no framework is public. The only other names are the settings and the builders of a platform or an app."""
    assert {name for name, module in MODULE_OF.items() if not module.startswith(INNER_MODULES)} == ENTRANCES


@for_each("module", [events, verification_events, exceptions])
def test_every_event_and_error_is_public(module: ModuleType) -> None:
    """Users can import every event of a stream, the types in it, and every error that the platform raises."""
    names = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    hidden = sorted(name for name in names if name[0].isupper() and name not in MODULE_OF)
    assert not hidden, f"MODULE_OF of public_names.py lacks {', '.join(hidden)}: run make docs"


def deep_imports(code: str) -> list[str]:
    """Return the submodules of the platform that a program imports from."""
    imported: list[str] = []
    for node in ast.walk(compile(code, "<page>", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)):
        if isinstance(node, ast.ImportFrom):
            imported.append(node.module or "")
        elif isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
    return [name for name in imported if name.startswith(("modules.llm_platform", "shared")) and name not in ROOTS]


def test_the_documents_import_from_the_root() -> None:
    """A program for users imports only from `modules.llm_platform` and its fakes."""
    for_maintainers = ROOT / "docs/howto/change-the-code.md"
    pages = [page for page in PAGES if (ROOT / "docs/adr") not in page.parents and page != for_maintainers]
    found = {
        str(page.relative_to(ROOT)): names
        for page in pages
        for code in PYTHON_BLOCK.findall(page.read_text(encoding="utf-8"))
        if (names := deep_imports(code))
    }
    assert found == {}
