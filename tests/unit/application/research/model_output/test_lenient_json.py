"""JSON as models write it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.application.research.model_output.lenient_json import MAX_DEPTH, read_values, unescape

PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**12), 10**12), PLAIN)
ROWS = st.lists(st.one_of(st.lists(SCALARS), st.dictionaries(PLAIN, SCALARS)), max_size=5)


@given(ROWS)
def test_valid_json_is_read(rows: list[object]) -> None:
    """Well-formed JSON is read unchanged."""
    assert read_values(json.dumps(rows, ensure_ascii=False)) == [rows]


@given(st.lists(st.lists(st.one_of(st.integers(0, 10), st.text("abc déя-/:", min_size=1)), min_size=1), min_size=1))
def test_extra_comma_is_ignored(rows: list[object]) -> None:
    """The reader of loose JSON and the reader of JSON agree on the same words."""
    assert read_values(json.dumps(rows, ensure_ascii=False)[:-1] + ",]") == [rows]


@given(ROWS, st.data())
def test_complete_values_of_cut_json_are_read(rows: list[object], data: st.DataObject) -> None:
    """No value of a cut text is another than in the whole one, and order is kept."""
    text = json.dumps(rows)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    kept = [value for value in read_values(cut) if value]
    assert kept == [row for row in rows if row][: len(kept)]


@for_each(
    ("text", "value"),
    [
        ("{'a': 'b', 'c': 1}", {"a": "b", "c": 1}),
        ("{a: b, c: 1.5, d: -2}", {"a": "b", "c": 1.5, "d": -2}),
        ("{“a”: “b”}", {"a": "b"}),
        ("{„a“: «b», ‘c’: `d`}", {"a": "b", "c": "d"}),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
        ('{"a": 1\n"b": 2}', {"a": 1, "b": 2}),
        ('{"a": True, "b": None, "c": NaN, "d": undefined}', {"a": True, "b": None, "c": None, "d": None}),
        ('{"a": 1, // one, {two}\n "b": 2}', {"a": 1, "b": 2}),
        ('{"a": 1, # it\'s "one"\n "b": 2}', {"a": 1, "b": 2}),
        ('{"a": /* } */ 1}', {"a": 1}),
        ('{"a": "http://b.c/d#e", f: 1,}', {"a": "http://b.c/d#e", "f": 1}),
        ("[title: Tea, mark: 7]", {"title": "Tea", "mark": 7}),
        ('[(1, "a"), (2, "b (c)")]', [[1, "a"], [2, "b (c)"]]),
        ("[7 (good), 8/10, C# sails, #1]", ["7 (good)", "8/10", "C# sails", "#1"]),
        ('["a", ..., "b", …]', ["a", "b"]),
        ('{"a", "b"}', ["a", "b"]),
        ("{,}", {}),
        ("［1，｛“a”：2｝］", [1, {"a": 2}]),
        ('["The "best" of "all" pumps", 7,]', ['The "best" of "all" pumps', 7]),
        ("['Bob's pump', 'the owners' view']", ["Bob's pump", "the owners' view"]),
        ('["a\\"b", "c\\\\", "d\\u00e9", "e\\x", "f\ng",]', ['a"b', "c\\", "dé", "ex", "f\ng"]),
        ('["\\ud83d\\ude00", "\\ud83d"]', ["😀", "\ufffd"]),
        ('[{"a": 1, {"b": 2}, {"c": 3}]', [[{"a": 1}, {"b": 2}, {"c": 3}]]),
        ('[{"a": [1, 2}, {"b": 3}]', [{"a": [1, 2]}, {"b": 3}]),
        ("[1, 2}, 3],", [1, 2, 3]),
        ("[[1, Tea, 2]]", [[1, "Tea", 2]]),
        ("[a/b, (1/e, f), c//d\n, g]", ["a/b", ["1/e", "f"], "c", "g"]),
        ("[" + "9" * 5000 + ", 1]", ["9" * 5000, 1]),
    ],
)
def test_invalid_json_is_repaired(text: str, value: object) -> None:
    """Each usual mistake of models is read as it was meant."""
    assert read_values(text) == [value]


@for_each(
    ("text", "whole", "cut"),
    [
        ('[{"a": 1}, {"b": 2', [{"a": 1}], [[{"a": 1}], {"b": 2}]),
        ('["a", "b", "c', [], [["a", "b"]]),
        ('{"x": {"a": 1}, "y": [2, 3', [{"x": {"a": 1}}], [{"x": {"a": 1}}, [2, 3]]),
        ("[1, 2 /* and", [], [[1, 2]]),
        ("['a', 'b", [], [["a", "'b"]]),
        ("[1], [2], [3", [[1], [2]], [[1], [2], [3]]),
        ("[1] and {the rest", [[1]], [[1], ["the rest"]]),
        ("no bracket", [], []),
    ],
)
def test_json_without_end_is_read(text: str, whole: list[object], cut: list[object]) -> None:
    """Complete values are kept. With `cut`, incomplete values are kept too, with their complete parts."""
    assert read_values(text) == whole
    assert read_values(text, incomplete=True) == cut


def test_too_deep_values_are_skipped() -> None:
    """Endlessly nested brackets are skipped, and reading continues after them."""
    assert read_values("[" * 3 * MAX_DEPTH + "'a'" + "]" * 3 * MAX_DEPTH + "[{'b': 1}]")[-1] == [{"b": 1}]


@given(st.text())
def test_unescaped_text_is_encodable(body: str) -> None:
    """Whatever the escapes say, no half characters are left."""
    assert unescape(body).encode() is not None
