"""Strict reading of one JSON object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.presentation.kafka.contract.strict_json import JSON_DEPTH, UnreadableError, read_object

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)
_OBJECTS = st.dictionaries(st.text(max_size=9), _VALUES, max_size=6)


@given(_OBJECTS, st.booleans(), st.sampled_from([None, 0, 3]))
def test_valid_object_equals_the_json_module(value: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    """Members, order and values, in whatever layout."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).replace("Infinity", "1e999")
    members = read_object(text.encode(errors="replace"))
    expected = json.loads(text.encode(errors="replace").decode())
    assert members.flaws == {}
    assert members.values == expected
    assert list(members.values) == list(expected)


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    """Nothing else is raised; what json refuses is refused."""
    try:
        members = read_object(data)
    except UnreadableError:
        return
    assert json.loads(data) is not None
    assert members.values.keys() | members.flaws.keys() == json.loads(data).keys()


def test_echoed_member_keeps_its_source_text() -> None:
    """Spaces, escapes, digits and order."""
    text = '{ "a" : {"z": 1.10,\n"b": 1e999, "c": "\\ud83d\\u0041", "d": 12345678901234567890} , "b":"x" }'
    members = read_object(text.encode(), {"a"})
    assert members.texts == {"a": text[8 : text.index(' , "b":')]}


@for_each(
    ("text", "flaws", "good"),
    [
        ('{"a": 1, "b": 2, "a": 3, "a": 4}', {"a": "duplicate_key"}, {"b": 2}),
        ('{"a": [{"b": 1, "b": 1}], "c": 2}', {"a": "duplicate_key"}, {"c": 2}),
        ('{"a": [NaN], "b": -Infinity, "c": Infinity, "d": 1}', dict.fromkeys("abc", "not_a_number"), {"d": 1}),
        ('{"a": NaN, "a": 1}', {"a": "duplicate_key"}, {}),
        ('{"\\u0061": 1, "a": 1}', {"a": "duplicate_key"}, {}),
        ("{}", {}, {}),
        (" \n{ \t} \r", {}, {}),
        ('{"": {"": 0}}', {}, {"": {"": 0}}),
    ],
)
def test_flaw_invalidates_its_member_only(text: str, flaws: dict[str, str], good: dict[str, Any]) -> None:
    """A flawed member has no value and no text."""
    members = read_object(text.encode(), {"a", "b"})
    assert (members.flaws, members.values) == (flaws, good)
    assert not members.texts.keys() & flaws.keys()


@for_each(("opening", "closing"), [("[", "]"), ('{"k":', "}")])
@for_each("depth", [JSON_DEPTH, JSON_DEPTH + 1, JSON_DEPTH + 2, 500, 100_000])
def test_depth_is_limited_per_member(opening: str, closing: str, depth: int) -> None:
    """The object itself is the first level."""
    inside = opening * (depth - 1) + "1" + closing * (depth - 1)
    members = read_object(f'{{"a": {inside}, "b": "]]}}}}", "c": {inside}, "d": 1}}'.encode())
    if depth > JSON_DEPTH:
        assert members.flaws == {"a": "too_deep", "c": "too_deep"}
        assert members.values == {"b": "]]}}", "d": 1}
    else:
        assert list(members.values) == ["a", "b", "c", "d"]


def test_many_brackets_are_not_deep() -> None:
    """Depth is counted, not brackets."""
    assert read_object(json.dumps({"a": [[]] * 1000}).encode()).values == {"a": [[]] * 1000}


@for_each(
    ("data", "flaw"),
    [
        (b"\xff", "not_utf8"),
        (b"[1]", "not_an_object"),
        (b"NaN", "not_an_object"),
        (b"9" * 5000, "not_an_object"),
        (b'{"a" 1}', "not_json"),
        (b"{a: 1}", "not_json"),
        (b'{"a": }', "not_json"),
        (b'{"a": 1 "b": 2}', "not_json"),
        (b'{"a": NaN', "not_json"),
        (b'{"a": 1}}', "not_json"),
        (b"[" * 100_000, "too_deep"),
        (b'{"a":' * 100_000, "too_deep"),
        (b'"' + b"\\" * 99_999, "not_json"),
        (b"[" * 99 + b'\\"' * 200_000, "too_deep"),
        (b'{"a":' * 64 + b'"' + b'\\"' * 200_000, "not_json"),
    ],
)
def test_unreadable_bytes_have_a_flaw(data: bytes, flaw: str) -> None:
    """Each kind of unreadable input has its flaw."""
    with pytest.raises(UnreadableError) as raised:
        read_object(data)
    assert raised.value.flaw == flaw


def test_huge_integer_is_parsed_in_constant_time() -> None:
    """Its sign and magnitude stay out of range."""
    members = read_object(b'{"a": ' + b"9" * 900_000 + b', "b": -' + b"9" * 5000 + b"}")
    assert members.values["a"] > 10**16
    assert members.values["b"] < -(10**15)
