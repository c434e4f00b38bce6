"""Rules of the structure: no import cycle, no broad handler outside the outermost loops, no code in `__init__.py`.

Counts are not rules: `make sizes` prints them with their trend (tests/unit/scripts/test_sizes.py). The tests read the source,
because behaviour does not show the structure.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from scripts import sizes
from scripts.sizes import Module
from tests.support.cases import for_each

LAZY_LOADING_HOOKS = ("__getattr__", "__dir__")  # PEP 562
PACKAGE = "src/modules/llm_platform"
OUTERMOST_HANDLERS = {  # by file: the work that continues after an unexpected error in one item
    f"{PACKAGE}/application/services/answer_check_service.py": "answers of the gateway, which are sent unchecked",
    f"{PACKAGE}/application/services/research_job_worker.py": "background runs",
    f"{PACKAGE}/application/services/watch_worker.py": "watched questions",
    f"{PACKAGE}/application/services/web_search_service.py": "searches by a caller's own provider",
    f"{PACKAGE}/application/services/webhook_service.py": "webhooks of background runs",
    f"{PACKAGE}/infrastructure/models/custom_model.py": "calls of a caller's own language model",
    f"{PACKAGE}/infrastructure/pages/custom_page_reader.py": "pages that a caller's own reader reads",
    f"{PACKAGE}/presentation/cli/exit_codes.py": "commands",
    f"{PACKAGE}/presentation/kafka/worker/handler.py": "requests of Kafka topics",
    f"{PACKAGE}/presentation/mcp/server.py": "MCP messages",
    f"{PACKAGE}/presentation/rest/http/middleware.py": "HTTP requests",
    f"{PACKAGE}/presentation/rest/http/opening.py": "the opening of a mounted application",
}
MODULES_OF_SHARED = {"config", "exceptions", "logging", "setting_names", "setting_types"}


@pytest.fixture(scope="module")
def code() -> list[Module]:
    return sizes.modules()


def module_of(source: str) -> Module:
    text = textwrap.dedent(source)
    return Module(sizes.SOURCE / "modules" / "sample.py", text, ast.parse(text))


def test_no_import_cycles() -> None:
    """No modules import each other, not even in functions."""
    cycle = sizes.import_cycle(*sizes.PACKAGES)
    assert not cycle, (
        f"These modules import each other: {' > '.join(cycle)}. Move what both need into a module that imports neither, "
        "or pass it as an argument."
    )


def test_only_outermost_loops_catch_everything(code: list[Module]) -> None:
    """A handler of every exception is in an outermost loop, or cleans up and ends with a bare `raise`."""
    found = {where for module in code for where in sizes.broad_handlers(module)}
    unexpected = sorted(where for where in found if where.rpartition(":")[0] not in OUTERMOST_HANDLERS)
    assert not unexpected, (
        f"These handlers catch every exception: {', '.join(unexpected)}. Name the exceptions that the call raises, let "
        "others pass to the outermost loop, or end with a bare `raise`. An outermost loop has its file in OUTERMOST_HANDLERS."
    )
    unused = sorted(set(OUTERMOST_HANDLERS) - {where.rpartition(":")[0] for where in found})
    assert not unused, (
        f"No handler of every exception is left in {', '.join(unused)}: remove them from OUTERMOST_HANDLERS."
    )


def test_package_files_define_nothing(code: list[Module]) -> None:
    """An `__init__.py` defines only the lazy-loading hooks (PEP 562)."""
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    defined = [
        f"{module.at(node)} {node.name}"
        for module in code
        if module.path.name == "__init__.py"
        for node in module.tree.body
        if isinstance(node, definitions) and node.name not in LAZY_LOADING_HOOKS
    ]
    assert not defined, f"Move these definitions into a module of the package: {', '.join(defined)}."


def test_shared_has_its_modules_and_no_others() -> None:
    """A host may also have a package `shared`, so ours contains only what every layer needs: settings, errors and logging."""
    added = {path.stem for path in (sizes.SOURCE / "shared").glob("*.py")} - MODULES_OF_SHARED
    assert not added, (
        f"Move {', '.join(sorted(added))} from src/shared to {PACKAGE}: a host may have a package `shared`."
    )


@for_each(
    ("source", "found"),
    [
        ("try: pass\nexcept Exception: pass", 1),
        ("try: pass\nexcept (ValueError, BaseException): pass", 1),
        ("try: pass\nexcept: pass", 1),
        ("try: pass\nexcept ValueError: pass", 0),
        ("try: pass\nexcept BaseException:\n    x = 1\n    raise", 0),
        ("try: pass\nexcept Exception as error: raise ValueError from error", 1),
    ],
)
def test_broad_handlers_are_found(source: str, found: int) -> None:
    """The check finds every form of a broad handler, unless the handler re-raises the exception."""
    assert len(sizes.broad_handlers(module_of(source))) == found


@for_each(
    ("source", "rule"),
    [
        ("import os\n\nx = os.environ['A']\n", "TID251"),
        ("import os\n\nx = os.getenv('A')\n", "TID251"),
        ("from os import environ\n\nx = environ\n", "TID251"),
        ("print('x')\n", "T201"),
    ],
)
def test_ruff_reports_environment_and_print(source: str, rule: str) -> None:
    """Only the settings read the environment, and only the console prints."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--output-format=concise",
        "--stdin-filename",
        "src/modules/sample.py",
        "-",
    ]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False, cwd=sizes.ROOT)
    assert rule in done.stdout


def test_tests_share_what_is_in_their_support_folder() -> None:
    """The root of the tests contains only conftest.py. Shared test code is in the support folder."""
    assert {path.name for path in (sizes.ROOT / "tests").glob("*.py")} == {"conftest.py"}


def test_import_cycles_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports in functions count. Imports for type checkers do not count."""
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "cycle_sample"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text("import cycle_sample.b")
    (package / "b.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import cycle_sample.a")
    assert sizes.import_cycle("cycle_sample") == []
    (package / "b.py").write_text("def later():\n    import cycle_sample.a")
    assert set(sizes.import_cycle("cycle_sample")) == {"cycle_sample.a", "cycle_sample.b"}
