"""JSON as the contract wants it: one object in UTF-8 whose keys stand once, finite numbers, at most MAX_DEPTH levels.

What has to be echoed is kept as the text that it was sent as: no digit of a number, no order and no escape changes. What is
wrong inside a member makes that member flawed, and leaves the others readable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Flaw = Literal["not_utf8", "not_json", "not_an_object", "duplicate_key", "not_a_number", "too_deep"]

MAX_DEPTH: Final = 64  # levels, the object itself among them
_INT_CHARS: Final = 19  # a longer whole number is cut: it stays as hopelessly large, and costs nothing to read

_BLANKS: Final = " \t\n\r"
_OPENING = re.compile(r"[ \t\n\r]*\{[ \t\n\r]*")
_ENDING = re.compile(r"\}[ \t\n\r]*\Z")
_PLAIN_NAME = re.compile(r'"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*')
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_NEXT_PLAIN_NAME = re.compile(rf"[ \t\n\r]*,[ \t\n\r]*{_PLAIN_NAME.pattern}")
_NEXT = re.compile(r"[ \t\n\r]*(?:(,)[ \t\n\r]*|\}[ \t\n\r]*\Z)")
_STRING_OR_BRACKET = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL
)  # a string without an end goes to the end
_CUT: Final = "NaN"  # stands where the text went too deep; it is a flaw itself


class UnreadableError(Exception):
    """There is no object to be had from these bytes."""

    def __init__(self, flaw: Flaw) -> None:
        self.flaw = flaw
        super().__init__(flaw)


@dataclass(slots=True)
class Members:
    """The members of an object by name: values of the good ones, flaws of the others, texts of those to be echoed."""

    values: dict[str, Any] = field(default_factory=dict)
    flaws: dict[str, Flaw] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


class _FlawError(Exception):
    def __init__(self, flaw: Flaw) -> None:
        self.flaw = flaw
        super().__init__(flaw)


def read_object(data: bytes, echoed: Collection[str] = ()) -> Members:
    """The object that these bytes are. UnreadableError when they are none.

    A byte order mark is passed over, as RFC 8259 allows.
    """
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise UnreadableError("not_utf8") from error
    shallow = _cut(text)
    if shallow is text and (plain := _plain_members(text.strip(_BLANKS), echoed)) is not None:
        return plain
    try:
        members = _members(shallow, echoed)
    except ValueError as error:
        raise UnreadableError("not_json" if shallow is text else "too_deep") from error
    if shallow is not text:
        members.flaws = {name: "too_deep" if flaw == "not_a_number" else flaw for name, flaw in members.flaws.items()}
    return members


def _plain_members(text: str, echoed: Collection[str]) -> Members | None:
    """The same as `_members` of what most requests are, in a quarter of the time: an object without a flaw or an escape, in
    which the names of the objects that are echoed stand nowhere else. None for others.
    """
    if "\\" in text:
        return None
    try:
        values, end = _decode(text)
    except (ValueError, _FlawError):
        return None
    if type(values) is not dict or end != len(text):
        return None
    texts = {}
    for name in echoed:
        if name not in values:
            continue
        value = values[name]
        if type(value) is str:
            texts[name] = f'"{value}"'  # without escapes it is its own text
        else:
            sent = _sent_as(text, name)
            if sent is None:
                return None
            texts[name] = sent
    return Members(values, {}, texts)


def _sent_as(text: str, name: str) -> str | None:
    """The text of that member's value, in an object without escapes; None where its name stands elsewhere, too."""
    quoted = f'"{name}"'
    if text.count(quoted) > 1:
        return None
    begin = _past(_COLON, text, text.index(quoted) + len(quoted)).end()
    if text[begin] == "{":
        flat = text[begin : text.index("}", begin) + 1]
        if (
            flat.count("{") == 1 and flat.count('"') % 2 == 0
        ):  # so that bracket is in no string, and closes the first one
            return flat
    return text[begin : _decode_anything(text, begin)[1]]


def _members(text: str, echoed: Collection[str]) -> Members:
    members = Members()
    at = _opened(text)
    if _ENDING.match(text, at):
        return members
    values, flaws, texts = members.values, members.flaws, members.texts
    name, at = _name(text, at)
    while True:
        if name in values or name in flaws:
            flaws[name] = "duplicate_key"
        begin = at
        try:
            values[name], at = _decode(text, begin)
        except _FlawError as error:
            flaws.setdefault(name, error.flaw)
            at = _decode_anything(text, begin)[1]
        else:
            if name in echoed:
                texts[name] = text[begin:at]
        plain = _NEXT_PLAIN_NAME.match(text, at)
        if plain is not None:
            name, at = plain[1], plain.end()
            continue
        following = _past(_NEXT, text, at)
        if following[1] is None:
            break
        name, at = _name(text, following.end())
    for name in flaws:
        values.pop(name, None)
        texts.pop(name, None)
    return members


def _opened(text: str) -> int:
    """Where the object's inside begins."""
    opening = _OPENING.match(text)
    if opening is None:
        json.loads(text, parse_int=_whole)
        raise UnreadableError("not_an_object")
    return opening.end()


def _name(text: str, at: int) -> tuple[str, int]:
    """A name, and where its value begins."""
    plain = _PLAIN_NAME.match(text, at)
    if plain is not None:
        return plain[1], plain.end()
    if text[at : at + 1] != '"':
        raise ValueError("a name was expected")
    name, end = _decode(text, at)
    return name, _past(_COLON, text, end).end()


def _past(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    found = pattern.match(text, at)
    if found is None:
        raise ValueError("something else was expected")
    return found


def _cut(text: str) -> str:
    """The text itself when it is not too deep, else one that is not: what was too deep is replaced by a flaw."""
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return text
    depth, kept_until, pieces = 0, 0, []
    for found in _STRING_OR_BRACKET.finditer(text):
        if found[0] in "{[":
            depth += 1
            if depth == MAX_DEPTH + 1:
                pieces += [text[kept_until : found.start()], _CUT]
                kept_until = len(text)
        elif found[0] in "}]":
            if depth == MAX_DEPTH + 1:
                kept_until = found.end()
            depth -= 1
    return "".join([*pieces, text[kept_until:]]) if pieces else text


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _FlawError("duplicate_key")
    return found


def _no_number(name: str) -> Any:
    raise _FlawError("not_a_number")


def _whole(text: str) -> int:
    return int(text[:_INT_CHARS])


_decoder = json.JSONDecoder(object_pairs_hook=_each_once, parse_constant=_no_number, parse_int=_whole)
_decode = _decoder.raw_decode
_decode_anything = json.JSONDecoder(parse_int=_whole).raw_decode
