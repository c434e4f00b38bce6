"""JSON as upstreams really send it."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.infrastructure.http.untrusted_json import (
    decode_json,
    decode_text,
    read_dict,
    read_list,
    read_number,
    read_text,
)


def unasked() -> None:
    """For bodies whose charset must not matter."""


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(), st.lists, max_leaves=10))
def test_valid_json_is_decoded(value: object) -> None:
    """Escaped or not."""
    for ascii_only in (True, False):
        body = json.dumps({"v": value}, ensure_ascii=ascii_only).encode(errors="replace")
        assert decode_json(body, unasked) == json.loads(body)


@for_each(
    ("body", "value"),
    [
        (b"\xef\xbb\xbf[1]", [1]),
        (b"[NaN, Infinity, 1]", [None, None, 1]),
        (rb'["\ud83d x", "\ud83d\ude00", "\\ud83d"]', ["\ufffd x", "\U0001f600", "\\ud83d"]),
        (b'["Z\xfcrich"]', ["Z\ufffdrich"]),
        (b'["a\nb"]', ["a\nb"]),
        (b"", None),
        (b"nonsense", None),
        (b'{"a": 1', None),
        (b'{"a": 1} {', None),
        (b"[" * 100_000, None),
        (b'[{"a":' * 5000, None),
        (b"[" + b"9" * 5000 + b"]", None),
    ],
)
def test_malformed_json_is_decoded_or_a_value_error(body: bytes, value: object) -> None:
    """No other exception is raised."""
    if value is not None:
        assert decode_json(body, unasked) == value
        return
    with pytest.raises(ValueError, match=r"."):
        decode_json(body, unasked)


def test_the_declared_charset_is_only_read_when_needed() -> None:
    """For Latin-1 and UTF-16, not for UTF-8."""
    assert decode_json('["Zürich"]'.encode("latin-1"), lambda: "latin-1") == ["Zürich"]
    assert decode_json('["Zürich"]'.encode("utf-16"), lambda: "utf-16") == ["Zürich"]
    with pytest.raises(ZeroDivisionError):
        decode_json(b'["\xfc"]', lambda: str(1 // 0))
    assert decode_json('["ü"]'.encode(), lambda: str(1 // 0)) == ["ü"]


@for_each("charset", ["nonsense", "base64", "rot13", "", None, "idna", "\x00"])
def test_an_unknown_charset_is_ignored(charset: str | None) -> None:
    """Only the affected characters are replaced."""
    assert decode_text(b"abc \xff", charset).startswith("abc")


def test_numbers_beyond_a_float_become_null_on_request() -> None:
    """The value can then be sent on as strict JSON."""
    assert decode_json(b"[1e999, 1.5, NaN]", unasked, finite=True) == [None, 1.5, None]
    assert decode_json(b"[1e999]", unasked) == [math.inf]


def test_values_of_the_wrong_type_count_as_missing() -> None:
    """Each accessor returns its own type."""
    assert [read_text(value) for value in ("a", None, 1, ["a"])] == ["a", "", "", ""]
    assert [read_number(value) for value in (1, 2.5, True, "3", None, math.inf, math.nan)] == [1, 2.5, *[None] * 5]
    assert read_number(10**400) is None
    assert (read_list([1]), read_list("ab"), read_list(None)) == ([1], [], [])
    assert (read_dict({"a": 1}), read_dict([1]), read_dict(None)) == ({"a": 1}, {}, {})
