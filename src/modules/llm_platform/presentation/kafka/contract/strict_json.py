"""A strict JSON reader for one object: UTF-8, unique keys, finite numbers, at most JSON_DEPTH levels.

A flaw inside a member invalidates that member only. Echoed members keep the text in which they were sent, so that digits,
key order and escapes do not change.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Flaw = Literal["not_utf8", "not_json", "not_an_object", "duplicate_key", "not_a_number", "too_deep"]

JSON_DEPTH: Final = 64  # levels, including the object itself
_MAX_INT_CHARS: Final = 19  # longer integers are cut: they stay out of range, and parse in constant time

_SPACE: Final = r"[ \t\n\r]*"
_OBJECT_START = re.compile(rf"{_SPACE}\{{{_SPACE}")
_OBJECT_END = re.compile(rf"\}}{_SPACE}\Z")
_SIMPLE_NAME = re.compile(rf'"([^"\\\x00-\x1f]*)"{_SPACE}:{_SPACE}')
_COLON = re.compile(rf"{_SPACE}:{_SPACE}")
_NEXT_SIMPLE_NAME = re.compile(rf"{_SPACE},{_SPACE}{_SIMPLE_NAME.pattern}")
_COMMA_OR_END = re.compile(rf"{_SPACE}(?:(,){_SPACE}|\}}{_SPACE}\Z)")
_STRING_OR_BRACKET = re.compile(r'"[^"]*"?|[\[\]{}]')  # an unterminated string extends to the end of the text
_DEPTH_MARKER: Final = "NaN"  # replaces what is nested too deep; it is itself a flaw


class UnreadableError(Exception):
    """The bytes are not a JSON object."""

    def __init__(self, flaw: Flaw) -> None:
        self.flaw = flaw
        super().__init__(flaw)


@dataclass(slots=True)
class Members:
    """The members of an object by name: values of the valid ones, flaws of the others, source texts of the echoed ones."""

    values: dict[str, Any] = field(default_factory=dict)
    flaws: dict[str, Flaw] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


class _FlawError(Exception):
    def __init__(self, flaw: Flaw) -> None:
        self.flaw = flaw
        super().__init__(flaw)


def read_object(data: bytes, echoed: Collection[str] = ()) -> Members:
    """Parse one object. Raises UnreadableError. A byte order mark is ignored, as RFC 8259 allows."""
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise UnreadableError("not_utf8") from error
    shallow = _limit_depth(text)
    try:
        members = _read_members(shallow, echoed)
    except ValueError as error:
        raise UnreadableError("not_json" if shallow is text else "too_deep") from error
    if shallow is not text:
        members.flaws = {name: "too_deep" if flaw == "not_a_number" else flaw for name, flaw in members.flaws.items()}
    return members


def _read_members(text: str, echoed: Collection[str]) -> Members:
    members = Members()
    opening = _OBJECT_START.match(text)
    if opening is None:
        json.loads(text, parse_int=_parse_bounded_int)
        raise UnreadableError("not_an_object")
    position = opening.end()
    if _OBJECT_END.match(text, position):
        return members
    values, flaws, texts = members.values, members.flaws, members.texts
    name, position = _read_name(text, position)
    while True:
        if name in values or name in flaws:
            flaws[name] = "duplicate_key"
        start = position
        try:
            values[name], position = _decode(text, start)
        except _FlawError as error:
            flaws.setdefault(name, error.flaw)
            position = _decode_leniently(text, start)[1]
        else:
            if name in echoed:
                texts[name] = text[start:position]
        simple = _NEXT_SIMPLE_NAME.match(text, position)
        if simple is not None:
            name, position = simple[1], simple.end()
            continue
        separator = _expect(_COMMA_OR_END, text, position)
        if separator[1] is None:
            break
        name, position = _read_name(text, separator.end())
    for name in flaws:
        values.pop(name, None)
        texts.pop(name, None)
    return members


def _read_name(text: str, position: int) -> tuple[str, int]:
    simple = _SIMPLE_NAME.match(text, position)
    if simple is not None:
        return simple[1], simple.end()
    if text[position : position + 1] != '"':
        raise ValueError("a member name is expected")
    name, end = _decode(text, position)
    return name, _expect(_COLON, text, end).end()


def _expect(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str]:
    match = pattern.match(text, position)
    if match is None:
        raise ValueError("a separator is expected")
    return match


def _limit_depth(text: str) -> str:
    """Return the text itself when it is shallow enough, else a copy in which _DEPTH_MARKER replaces what is too deep."""
    if text.count("{") + text.count("[") <= JSON_DEPTH:
        return text
    depth, copied_to, pieces = 0, 0, []
    unescaped = text.replace("\\\\", "xx").replace('\\"', "xx")  # the quotes that are left begin or end a string
    for match in _STRING_OR_BRACKET.finditer(unescaped):
        if match[0] in "{[":
            depth += 1
            if depth == JSON_DEPTH + 1:
                pieces += [text[copied_to : match.start()], _DEPTH_MARKER]
                copied_to = len(text)
        elif match[0] in "}]":
            if depth == JSON_DEPTH + 1:
                copied_to = match.end()
            depth -= 1
    return "".join([*pieces, text[copied_to:]]) if pieces else text


def _reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _FlawError("duplicate_key")
    return members


def _reject_constant(name: str) -> Any:
    raise _FlawError("not_a_number")


def _parse_bounded_int(digits: str) -> int:
    return int(digits[:_MAX_INT_CHARS])


_decode = json.JSONDecoder(
    object_pairs_hook=_reject_repeated_keys, parse_constant=_reject_constant, parse_int=_parse_bounded_int
).raw_decode
_decode_leniently = json.JSONDecoder(parse_int=_parse_bounded_int).raw_decode
