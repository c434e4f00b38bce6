"""Bounds on what scripts/sizes.py counts.

A bound is an alarm, not a goal: where one is hit, look whether a thing has two jobs.
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

MEDIAN_FILE_LINES = (28, 248)  # of code bases that are good to read
LARGE_FILE_LINES = 500  # a file holds one thought; more only with a sentence in its docstring: "Over 500 lines: …"
LARGE_FILE_REASON = "Over 500 lines:"
FUNCTION_LINES_P90 = 30
LONGEST_FUNCTION_LINES = 60
BROAD_HANDLERS = 4
LAZY_LOADING_HOOKS = ("__getattr__", "__dir__")  # PEP 562


@pytest.fixture(scope="module")
def code() -> list[Module]:
    return sizes.modules()


def module_of(source: str) -> Module:
    text = textwrap.dedent(source)
    return Module(sizes.SOURCE / "modules" / "sample.py", text, ast.parse(text))


def test_files_can_be_read_in_one_go(code: list[Module]) -> None:
    """The median file is neither a splinter nor a scroll, and a file over 500 says in its head why."""
    low, high = MEDIAN_FILE_LINES
    assert low <= statistics.median(m.lines for m in code if m.text.strip()) <= high
    large = [m for m in code if m.lines > LARGE_FILE_LINES]
    unexplained = [m.name for m in large if LARGE_FILE_REASON not in (ast.get_docstring(m.tree) or "")]
    assert not unexplained


def test_functions_are_short(code: list[Module]) -> None:
    """Nine of ten functions fit half a screen, and none is longer than a screen."""
    lengths = {module.at(f): sizes.function_lines(f) for module in code for f in module.functions}
    assert sizes.percentile(list(lengths.values()), 0.9) <= FUNCTION_LINES_P90
    assert not {where: n for where, n in lengths.items() if n > LONGEST_FUNCTION_LINES}


def test_no_module_waits_for_itself() -> None:
    """No import cycles: each module can be loaded and understood after the ones that it imports."""
    assert sizes.import_cycle(*sizes.PACKAGES) == []


def test_errors_are_decided_upon(code: list[Module]) -> None:
    """At most four catch everything (HTTP, commands, Kafka, foreign providers); the others name what they deal with."""
    assert len([where for module in code for where in sizes.broad_handlers(module)]) <= BROAD_HANDLERS


def test_packages_define_nothing(code: list[Module]) -> None:
    """An `__init__.py` at most names what others made: nothing lives there but the two hooks that load it late (PEP 562)."""
    inits = [m for m in code if m.path.name == "__init__.py"]
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    defined = [node for module in inits for node in module.tree.body if isinstance(node, definitions)]
    assert [node.name for node in defined if node.name not in {"__getattr__", "__dir__"}] == []


def test_the_kernel_stays_small() -> None:
    """`shared` is a name that another wheel may bear too: it holds three modules and no more."""
    held = {path.name for path in (sizes.SOURCE / "shared").glob("*")} - {"__pycache__"}
    assert held == {"__init__.py", "py.typed", "config.py", "exceptions.py", "logging.py"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("try: pass\nexcept Exception: pass", 1),
        ("try: pass\nexcept (ValueError, BaseException): pass", 1),
        ("try: pass\nexcept: pass", 1),
        ("try: pass\nexcept ValueError: pass", 0),
    ],
)
def test_broad_handlers_are_seen(source: str, found: int) -> None:
    """The measure counts each way to catch everything."""
    assert len(sizes.broad_handlers(module_of(source))) == found


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import os\n\nx = os.environ['A']\n", "TID251"),
        ("import os\n\nx = os.getenv('A')\n", "TID251"),
        ("from os import environ\n\nx = environ\n", "TID251"),
        ("print('x')\n", "T201"),
    ],
)
def test_ruff_sees_the_environment_and_prints(source: str, rule: str) -> None:
    """The settings alone read variables, and one file writes what people read."""
    asked = [sys.executable, "-m", "ruff", "check", "--output-format=concise", "--stdin-filename", "src/modules/sample.py", "-"]
    done = subprocess.run(asked, input=source, capture_output=True, text=True, check=False, cwd=sizes.ROOT)
    assert rule in done.stdout


def test_a_docstring_does_not_make_a_function_long() -> None:
    """Lines of code count, lines of explanation do not."""
    module = module_of('''
        def documented():
            """One.

            Two.
            """
            return 1
        ''')
    assert [sizes.function_lines(f) for f in module.functions] == [2]


def test_cycles_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two modules that import each other are a cycle, in a function as well; for typing alone is none."""
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "cycle_sample"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text("import cycle_sample.b")
    (package / "b.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import cycle_sample.a")
    assert sizes.import_cycle("cycle_sample") == []
    (package / "b.py").write_text("def later():\n    import cycle_sample.a")
    assert set(sizes.import_cycle("cycle_sample")) == {"cycle_sample.a", "cycle_sample.b"}
