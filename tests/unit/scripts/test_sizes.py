"""`make sizes` prints counts with their trend, and fails nothing."""

from __future__ import annotations

import ast
import json
import textwrap

import pytest
from scripts import sizes
from scripts.sizes import Module


def test_a_count_that_grows_is_printed_and_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However large a count is, the table says by how much it changed, and the command ends well."""
    baseline = dict.fromkeys(json.loads(sizes.BASELINE.read_text(encoding="utf-8"))["counts"], 1)
    monkeypatch.setattr(sizes, "counts", lambda *_: {**baseline, "settings": 1_000, "new count": 7})
    monkeypatch.setattr(sizes.json, "loads", lambda _: {"version": "1.2.0", "counts": baseline})
    monkeypatch.setattr(sizes, "complexities", list)
    monkeypatch.setattr(sizes, "modules", lambda *_: [])
    monkeypatch.setattr(sizes.sys, "argv", ["sizes.py"])
    sizes.main()
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["now", "1.2.0", "change"] in printed
    assert ["settings", "1000", "1", "+999"] in printed
    assert ["new", "count", "7", "-", "new"] in printed
    assert ["functions", "1", "1", "="] in printed


def test_ruff_counts_complexity_and_limits_none() -> None:
    """Each function has its complexity, so the format of ruff's message is still the one that is read."""
    found = sizes.complexities()
    assert found[0].value >= found[-1].value >= 1
    assert {function.where.partition("/")[0] for function in found} == {"src"}


def test_docstring_lines_do_not_count() -> None:
    """Only lines of code count."""
    text = textwrap.dedent('''
        def documented():
            """One.

            Two.
            """
            return 1
        ''')
    module = Module(sizes.SOURCE / "sample.py", text, ast.parse(text))
    assert [sizes.function_lines(f) for f in module.functions] == [2]
