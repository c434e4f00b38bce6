"""Bounds on what scripts/sizes.py counts.

A bound is an alarm, not a goal: if one is reached, check whether the file or function has two tasks. The source is
read, because no behaviour shows that code grows; all files are parsed once, in about two seconds.
"""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from scripts import sizes
from scripts.sizes import Module
from tests.cases import for_each

MEDIAN_FILE_LINES = (28, 248)  # of code bases that are good to read
LARGE_FILE_LINES = 500  # a file holds one thought; more only with a sentence in its docstring: "Over 500 lines: …"
LARGE_FILE_REASON = "Over 500 lines:"
FUNCTION_LINES_P90 = 30
LONGEST_FUNCTION_LINES = 60
BROAD_HANDLERS = 7
IMPORT_SHARE = 0.08  # of all lines
LAZY_LOADING_HOOKS = ("__getattr__", "__dir__")  # PEP 562


@pytest.fixture(scope="module")
def code() -> list[Module]:
    return sizes.modules()


def module_of(source: str) -> Module:
    text = textwrap.dedent(source)
    return Module(sizes.SOURCE / "modules" / "sample.py", text, ast.parse(text))


def test_file_sizes(code: list[Module]) -> None:
    """The median is in bounds, and the docstring of a file over 500 lines gives a reason."""
    low, high = MEDIAN_FILE_LINES
    assert low <= statistics.median(m.lines for m in code if m.text.strip()) <= high
    large = [m for m in code if m.lines > LARGE_FILE_LINES]
    unexplained = [m.name for m in large if LARGE_FILE_REASON not in (ast.get_docstring(m.tree) or "")]
    assert not unexplained


def test_function_lengths(code: list[Module]) -> None:
    """Ninety percent of the functions have at most 30 lines, and none has more than 60."""
    lengths = {module.at(f): sizes.function_lines(f) for module in code for f in module.functions}
    assert sizes.percentile(list(lengths.values()), 0.9) <= FUNCTION_LINES_P90
    assert not {where: n for where, n in lengths.items() if n > LONGEST_FUNCTION_LINES}


def test_no_import_cycles() -> None:
    """There is no import cycle."""
    assert sizes.import_cycle(*sizes.PACKAGES) == []


def test_imports_are_few_lines(code: list[Module]) -> None:
    """At most 8 % of the lines are imports: where the names of a module fill a parenthesis, the module is imported."""
    assert sizes.import_share(code) <= IMPORT_SHARE


def test_broad_handlers_are_few(code: list[Module]) -> None:
    """At most seven handlers catch everything (HTTP, connections, MCP, commands, Kafka, background runs, providers)."""
    assert len([where for module in code for where in sizes.broad_handlers(module)]) <= BROAD_HANDLERS


def test_package_files_define_nothing(code: list[Module]) -> None:
    """An `__init__.py` defines nothing but the hooks of lazy loading (PEP 562)."""
    inits = [m for m in code if m.path.name == "__init__.py"]
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    defined = [node for module in inits for node in module.tree.body if isinstance(node, definitions)]
    assert [node.name for node in defined if node.name not in LAZY_LOADING_HOOKS] == []


def test_shared_has_five_modules() -> None:
    """Another package may be called `shared` too, so ours stays at five modules: settings in three rooms, errors, logging."""
    held = {path.stem for path in (sizes.SOURCE / "shared").glob("*.py")}
    assert held == {"__init__", "config", "exceptions", "logging", "setting_names", "setting_types"}


@for_each(
    ("source", "found"),
    [
        ("try: pass\nexcept Exception: pass", 1),
        ("try: pass\nexcept (ValueError, BaseException): pass", 1),
        ("try: pass\nexcept: pass", 1),
        ("try: pass\nexcept ValueError: pass", 0),
    ],
)
def test_broad_handlers_are_counted(source: str, found: int) -> None:
    """Every form of a broad handler is counted."""
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


def test_docstring_lines_do_not_count() -> None:
    """Only lines of code count."""
    module = module_of('''
        def documented():
            """One.

            Two.
            """
            return 1
        ''')
    assert [sizes.function_lines(f) for f in module.functions] == [2]


def test_import_cycles_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports in functions count, imports for type checkers do not."""
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "cycle_sample"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text("import cycle_sample.b")
    (package / "b.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import cycle_sample.a")
    assert sizes.import_cycle("cycle_sample") == []
    (package / "b.py").write_text("def later():\n    import cycle_sample.a")
    assert set(sizes.import_cycle("cycle_sample")) == {"cycle_sample.a", "cycle_sample.b"}
