"""Strict reading of one JSON object."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.presentation.kafka.contract import strict_json
from modules.llm_platform.presentation.kafka.contract.strict_json import MAX_DEPTH, UnreadableError, read_object

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)
_OBJECTS = st.dictionaries(st.text(max_size=9), _VALUES, max_size=6)


@given(_OBJECTS, st.booleans(), st.sampled_from([None, 0, 3]))
def test_what_is_good_is_read_as_json_reads_it(value: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    """Members, order and values are those of the standard reader, however the text is laid out."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).replace("Infinity", "1e999")
    members = read_object(text.encode(errors="replace"))
    assert members.flaws == {}
    assert members.values == json.loads(text.encode(errors="replace").decode())
    assert list(members.values) == list(value)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Nothing else is raised; what json itself refuses is refused."""
    try:
        members = read_object(data)
    except UnreadableError:
        return
    assert json.loads(data) is not None
    assert members.values.keys() | members.flaws.keys() == json.loads(data).keys()


def test_what_is_echoed_is_kept_as_it_was_sent() -> None:
    """Spaces, escapes, digits and order of what is echoed are those of the sender, of nothing else."""
    text = '{ "a" : {"z": 1.10,\n"b": 1e999, "c": "\\ud83d\\u0041", "d": 12345678901234567890} , "b":"x" }'
    members = read_object(text.encode(), {"a"})
    assert members.texts == {"a": text[8 : text.index(' , "b":')]}


@pytest.mark.parametrize(
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
def test_a_flaw_spoils_its_member_alone(text: str, flaws: dict[str, str], good: dict[str, Any]) -> None:
    """A flawed member has neither value nor text; the others have theirs."""
    members = read_object(text.encode(), {"a", "b"})
    assert (members.flaws, members.values) == (flaws, good)
    assert not members.texts.keys() & flaws.keys()


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"k":', "}")])
@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1, MAX_DEPTH + 2, 500, 100_000])
def test_depth(opening: str, closing: str, depth: int) -> None:
    """The object itself is the first level; what is one too deep is flawed, and what stands beside it is read."""
    inside = opening * (depth - 1) + "1" + closing * (depth - 1)
    members = read_object(f'{{"a": {inside}, "b": "]]}}}}", "c": {inside}, "d": 1}}'.encode())
    if depth > MAX_DEPTH:
        assert members.flaws == {"a": "too_deep", "c": "too_deep"}
        assert members.values == {"b": "]]}}", "d": 1}
    else:
        assert list(members.values) == ["a", "b", "c", "d"]


def test_a_hundred_short_lists_are_not_deep() -> None:
    """Depth is counted, not brackets."""
    assert read_object(json.dumps({"a": [[]] * 1000}).encode()).values == {"a": [[]] * 1000}


@pytest.mark.parametrize(
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
def test_what_is_no_object(data: bytes, flaw: str) -> None:
    """Each kind has its own name."""
    with pytest.raises(UnreadableError) as raised:
        read_object(data)
    assert raised.value.flaw == flaw


def test_a_number_too_long_for_an_int_is_still_a_number() -> None:
    """Its sign and that it is hopelessly large are all that anybody asks; nothing takes long."""
    members = read_object(b'{"a": ' + b"9" * 900_000 + b', "b": -' + b"9" * 5000 + b"}")
    assert members.values["a"] > 10**16
    assert members.values["b"] < -(10**15)


PIECES = (
    '{', '}', '[', ']', ':', ',', '"trace_id"', '"metadata"', '"a"', '"trace_id":"x"', '"metadata":{"b": 1.50}', '"a":[1,2]',
    '"trace\\u005fid":"x"', '{"trace_id":1}', '"x\\ny"', "1e5", "-0.0", "NaN", "12345678901234567890123", " ", "\n", "\x01",
    "\t", '"\ud83d\ude42"', "true", "null", '"a":1,"a":2', '"metadata" : {"metadata": {}}',
    '"metadata":{"a":"}"}', '"metadata": {"a":"{","b":"}"}', '"metadata":{"a":{}}', '"metadata":{ }', '"trace_id":null',
)  # fmt: skip


def test_the_quick_way_reads_the_same() -> None:
    """What is read without looking at each member is what is read with it: values, and texts to the letter."""
    dice, quick = random.Random(5), 0
    for _ in range(20_000):
        inside = [dice.choice(PIECES) for _ in range(dice.randrange(4))]
        text = dice.choice(("{%s}", "{%s}", "%s", " {%s} ")) % dice.choice((",", ", ", "")).join(inside)
        plain = strict_json._plain_members(text, ("trace_id", "metadata"))
        if plain is not None:
            quick += 1
            assert plain == strict_json._members(text, ("trace_id", "metadata"))
    assert quick > 1000
