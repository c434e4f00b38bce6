"""A lenient JSON parser: wrong or missing quotes, comments, tuples, missing and extra commas, a missing end.

`read_values` reads each character a bounded number of times on any input: an unclosed string is searched for once, closing
brackets without an opening one are skipped, and there is no recursion.
"""

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Final

from modules.llm_platform.application.research.model_output.cleaning import repair_surrogates

MAX_DEPTH: Final = 40  # nested brackets; deeper ones are abandoned and parsing restarts after them
MAX_ABANDONED: Final = 32  # restarts; then the rest is ignored

Container = dict[str, object] | list[object]

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")  # may be a lone surrogate, which the json module accepts
_OPENING = re.compile(r"[\[{［｛]")
_KINDS: Final = {"[": "[", "{": "{", "(": "(", "［": "[", "｛": "{"}
_CLOSERS: Final = {"]": "[", "}": "{", ")": "(", "］": "[", "｝": "{"}

_QUOTES = "\"'“”„«‘’`"
# What may follow the closing quote of a string; any other quote is part of the string ("The "best" pumps", 'Bob's').
_NEXT = rf"(?:[{_QUOTES}\d\[\]{{}}(.…+\-/#［］｛｝]|\w+\s*[:：,，\]}}]|\Z)"
_AFTER = (
    rf"(?:\s*(?:[:：\]}}］｝]|\Z|[,，]\s*{_NEXT}|\)\s*(?:[,\])}}]|\Z)|//|/\*|#)"
    rf"|[^\S\n]*\n\s*{_NEXT})"
)
_CLOSING: Final = {'"': '"', "'": "'", "`": "`", "“": '”“"', "”": "”", "„": '“”"', "«": "»", "‘": "’‘", "’": "’"}
_BLANKS = re.compile(r"[\s,，;]*")
_COMMENT = re.compile(r"(?<!:)//[^\n]*|#(?=\s)[^\n]*")
_BARE_WORD_END = re.compile(r"[,，:：\[\]{}［］｛｝\"\n]|/(?=[/*])|(?<=\s)#")
_BARE_WORD_END_IN_TUPLE = re.compile(rf"[()]|{_BARE_WORD_END.pattern}")
_TUPLE = re.compile(r"\(\s*[\d\"'“«]")
_NUMBER = re.compile(r"[-+]?\d{1,300}(\.\d{1,300})?(?:[eE][-+]?\d{1,3})?")
# \x and \U are escapes of Python: a model may write a literal of Python.
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U(0[0-9a-fA-F]{7})|(.))", re.S)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_LITERALS: Final = {"true": True, "false": False, "null": None, "none": None, "nan": None, "undefined": None}
_OMITTED: Final = {"...", "…"}


_STRICT = json.JSONDecoder(parse_constant=lambda _: None, strict=False)


def read_values(text: str, *, incomplete: bool = False) -> list[Container]:
    """Return the outermost complete objects and arrays in order, and the complete parts of an incomplete one.

    With `incomplete`, an incomplete one is returned itself, as far as it was read.
    """
    values, at = ([], 0) if _SURROGATE_ESCAPE.search(text) else _parse_strict(text)
    return [*values, *_LenientParser(text, at, incomplete).read()]


def _parse_strict(text: str) -> tuple[list[Container], int]:
    """Return the values before the first invalid JSON, and its position. Stops at one failure to stay linear."""
    values: list[Container] = []
    at = 0
    while opening := _OPENING.search(text, at):
        try:
            value, at = _STRICT.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            return values, opening.start()
        values.append(value)
    return values, len(text)


@cache
def _escape_or_end(quote: str) -> re.Pattern[str]:
    """Return the pattern of the next escape in a string that this quote began, or of the string's closing quote."""
    return re.compile(rf"\\.|[{_CLOSING[quote]}](?={_AFTER})", re.S)


def _resolve_escape(escape: re.Match[str]) -> str:
    if digits := escape[1] or escape[2] or escape[3]:
        code = int(digits, 16)
        return chr(code) if code <= sys.maxunicode else escape[0]
    return _ESCAPED.get(escape[4], escape[4])


def unescape(body: str) -> str:
    """Return a string's body with its escapes resolved and surrogates repaired."""
    if "\\" not in body:
        return body
    plain = _ESCAPE.sub(_resolve_escape, body)
    return repair_surrogates(plain)


class _Frame:
    """An open object or array: its pairs, and its items without a key."""

    __slots__ = ("items", "key", "kind", "pairs")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.items: list[object] = []
        self.pairs: dict[str, object] = {}
        self.key: str | None = None

    def put(self, value: object) -> None:
        if self.key is not None:
            self.pairs[self.key] = value
            self.key = None
        else:
            self.items.append(value)

    def colon(self) -> None:
        """Make the item before the colon a key."""
        if self.key is None and self.items and not isinstance(self.items[-1], dict | list):
            self.key = str(self.items.pop())

    def value(self) -> Container:
        """Return the pairs, else the items, or both if the bracket of an object with nested objects was closed too late."""
        if not self.pairs:
            return self.items if self.items or self.kind != "{" else {}
        within = [item for item in self.items if isinstance(item, dict | list)]
        return [self.pairs, *within] if within else self.pairs

    def complete_parts(self) -> Iterator[Container]:
        """Yield the complete containers inside an incomplete frame, with their keys, which may be titles."""
        yield from (item for item in self.items if isinstance(item, dict | list))
        whole: Container = {key: value for key, value in self.pairs.items() if isinstance(value, dict | list)}
        if whole:
            yield whole


class _LenientParser:
    """Parses from a position outside of brackets to the end of the text."""

    def __init__(self, text: str, start: int, keep_incomplete: bool) -> None:
        self._text = text
        self._keep_incomplete = keep_incomplete
        self._at = start
        self._frames: list[_Frame] = []
        self._open = dict.fromkeys("[{(", 0)
        self._unclosed: set[str] = set()  # quotes without a closing quote in the rest of the text
        self._values: list[Container] = []
        self._abandoned = 0

    def read(self) -> list[Container]:
        while self._step():
            pass
        self._abandon()
        return self._values

    def _step(self) -> bool:
        """Read one token; False at the end."""
        if not self._frames:
            opening = _OPENING.search(self._text, self._at)
            if not opening:
                return False
            self._at = opening.start()
            return self._open_bracket(_KINDS[opening[0]])
        blanks = _BLANKS.match(self._text, self._at)
        if blanks and blanks.end() > self._at:
            self._at = blanks.end()
        sign = self._text[self._at : self._at + 1]
        if sign in _CLOSERS:
            self._close(_CLOSERS[sign])
        elif sign in _KINDS and (sign != "(" or _TUPLE.match(self._text, self._at)):
            return self._open_bracket(_KINDS[sign])
        elif sign in {":", "："}:
            self._frames[-1].colon()
            self._at += 1
        elif sign in _CLOSING and sign not in self._unclosed:
            return self._string(sign)
        else:
            return self._comment_or_word()
        return True

    def _open_bracket(self, kind: str) -> bool:
        if len(self._frames) >= MAX_DEPTH:
            self._abandon()
            self._abandoned += 1
            if self._abandoned > MAX_ABANDONED:
                return False
        self._frames.append(_Frame(kind))
        self._open[kind] += 1
        self._at += 1
        return True

    def _close(self, kind: str) -> None:
        """Close the innermost container of this kind, and the unclosed containers inside it."""
        self._at += 1
        while self._open[kind]:
            frame = self._frames.pop()
            self._open[frame.kind] -= 1
            if self._frames:
                self._frames[-1].put(frame.value())
            else:
                self._values.append(frame.value())
            if frame.kind == kind:
                break

    def _abandon(self) -> None:
        for frame in self._frames:
            self._values += [frame.value()] if self._keep_incomplete else frame.complete_parts()
        self._frames.clear()
        self._open = dict.fromkeys("[{(", 0)

    def _string(self, quote: str) -> bool:
        for found in _escape_or_end(quote).finditer(self._text, self._at + 1):
            if found[0][0] != "\\":
                self._frames[-1].put(unescape(self._text[self._at + 1 : found.start()]))
                self._at = found.end()
                return True
        self._unclosed.add(quote)
        return quote != '"'  # an unclosed '"' ends the text; other quotes may be apostrophes

    def _comment_or_word(self) -> bool:
        comment = _COMMENT.match(self._text, self._at)
        if comment:
            self._at = comment.end()
            return True
        if self._text.startswith("/*", self._at):
            end = self._text.find("*/", self._at)
            self._at = end + 2
            return end >= 0
        if self._at >= len(self._text):
            return False
        found = (_BARE_WORD_END_IN_TUPLE if self._open["("] else _BARE_WORD_END).search(self._text, self._at + 1)
        start, self._at = self._at, found.start() if found else len(self._text)
        word = self._text[start : self._at].strip()
        if word not in _OMITTED:
            self._frames[-1].put(_read_value(word))
        return True


def _read_value(word: str) -> object:
    number = _NUMBER.fullmatch(word)
    if number:
        return int(word) if word.lstrip("+-").isdecimal() else float(word)
    return _LITERALS.get(word.lower(), unescape(word))
