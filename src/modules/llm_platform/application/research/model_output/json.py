"""JSON as models write it: wrong quotes, no quotes, comments, tuples, missing and spare commas, an end that is missing.

`read_values` looks at each character a bounded number of times, whatever the text is: a string without an end is looked
for once, brackets of a kind that is not open are passed over, and nothing recurses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from modules.llm_platform.application.research.model_output.cleaning import whole_characters

MAX_DEPTH: Final = 40  # brackets within brackets; deeper ones are given up, and reading begins anew behind them
MAX_SAME_KEYS: Final = 16  # of one object; the last one counts beyond that
MAX_GIVEN_UP: Final = 32  # times, then the rest is not looked at

Container = dict[str, object] | list[object]

_HALF_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")  # may be half of a character, which JSON lets pass
_OPENING = re.compile(r"[\[{［｛]")
_KINDS: Final = {"[": "[", "{": "{", "(": "(", "［": "[", "｛": "{"}
_CLOSERS: Final = {"]": "[", "}": "{", ")": "(", "］": "[", "｝": "{"}

_QUOTES = "\"'“”„«‘’`"
# What may follow the quote that ends a string; another quote stands within it ("The "best" pumps", 'Bob's').
_NEXT = rf"(?:[{_QUOTES}\d\[\]{{}}(.…+\-/#［］｛｝]|\w++\s*+[:：,，\]}}]|\Z)"
_AFTER = (
    rf"(?:\s*+(?:[:：\]}}］｝]|\Z|[,，]\s*+{_NEXT}|\)\s*+(?:[,\])}}]|\Z)|//|/\*|#)"
    rf"|[^\S\n]*+\n\s*+{_NEXT})"
)
_CLOSING: Final = {
    '"': '"', "'": "'", "`": "`", "“": "”“\"", "”": "”", "„": "“”\"", "«": "»", "‘": "’‘", "’": "’"
}  # fmt: skip
_BLANKS = re.compile(r"[\s,，;]*+")
_COMMENT = re.compile(r"(?<!:)//[^\n]*+|#(?=\s)[^\n]*+")
_BARE = re.compile(r".(?:[^,，:：\[\]{}［］｛｝\"\n/#]|/(?![/*])|(?<!\s)#)*+", re.S)
_BARE_IN_TUPLE = re.compile(r".(?:[^,，:：()\[\]{}［］｛｝\"\n/#]|/(?![/*])|(?<!\s)#)*+", re.S)
_TUPLE = re.compile(r"\(\s*+[\d\"'“«]")
_NUMBER = re.compile(r"[-+]?\d{1,300}(\.\d{1,300})?(?:[eE][-+]?\d{1,3})?")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.S)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\n", "b": "", "f": ""}
_NAMED: Final = {"true": True, "false": False, "null": None, "none": None, "nan": None, "undefined": None}
_OMITTED: Final = {"...", "…"}


def _put_pair(pairs: dict[str, object], key: str, value: object) -> None:
    """Two results may have the same title: a key that is there already gets a blank behind it, so that both are read."""
    for _ in range(MAX_SAME_KEYS):
        if key not in pairs:
            break
        key += " "
    pairs[key] = value


def _object(items: list[tuple[str, object]]) -> dict[str, object]:
    pairs = dict(items)
    if len(pairs) < len(items):
        pairs = {}
        for key, value in items:
            _put_pair(pairs, key, value)
    return pairs


_STRICT = json.JSONDecoder(parse_constant=lambda _: None, strict=False, object_pairs_hook=_object)


def read_values(text: str, *, cut: bool = False) -> list[Container]:
    """The outermost objects and arrays that are complete, in order; of one that is cut short, the complete ones in it.

    With `cut`, one that is cut short is given too, as far as it came: whole strings of half a list.
    """
    found, at = ([], 0) if _HALF_ESCAPED.search(text) else _strictly(text)
    return [*found, *_LooseReader(text, at, cut).read()]


def _strictly(text: str) -> tuple[list[Container], int]:
    """The values up to where the text is no JSON any more, and that place. One failed try, or this would take square time."""
    found: list[Container] = []
    at = 0
    while opening := _OPENING.search(text, at):
        try:
            value, at = _STRICT.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            return found, opening.start()
        found.append(value)
    return found, len(text)


@cache
def _string_in(quote: str) -> re.Pattern[str]:
    """Matches from this quote to the one that ends the string, which group 1 holds, without ever stepping back."""
    closing = _CLOSING[quote]
    return re.compile(rf"{quote}((?:[^{closing}\\]++|\\.|[{closing}](?!{_AFTER}))*+)[{closing}]", re.S)


def unescaped(body: str) -> str:
    """A string's body with its escapes carried out; halves of a character are joined, lone ones become U+FFFD."""
    if "\\" not in body:
        return body
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2]), body)
    return whole_characters(plain)


class _Frame:
    """An object or array that is open: pairs, and what stands in it without a key."""

    __slots__ = ("items", "joins", "key", "kind", "pairs")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.items: list[object] = []
        self.pairs: dict[str, object] = {}
        self.key: str | None = None
        self.joins = False

    def put(self, value: object) -> None:
        if self.key is not None:
            _put_pair(self.pairs, self.key, value)
            self.key = None
        elif self.joins and isinstance(value, str):
            self.items[-1] = f"{self.items[-1]}: {value}"
        else:
            self.items.append(value)
        self.joins = False

    def colon(self) -> None:
        """What stands before it is a key, but in an array of more: there it belongs to a title without quotes."""
        if self.key is not None or not self.items or isinstance(self.items[-1], dict | list):
            return
        if self.kind == "{" or len(self.items) == 1 or self.pairs:
            self.key = str(self.items.pop())
        else:
            self.joins = True

    def value(self) -> Container:
        """Pairs, else items; both where whole objects stand in one that was not closed in time."""
        if not self.pairs:
            return self.items if self.items or self.kind != "{" else {}
        within = [item for item in self.items if isinstance(item, dict | list)]
        return [self.pairs, *within] if within else self.pairs

    def complete_parts(self) -> Iterator[Container]:
        """What is complete in a frame that is not; under its key where the key may be a title."""
        yield from (item for item in self.items if isinstance(item, dict | list))
        whole: Container = {key: value for key, value in self.pairs.items() if isinstance(value, dict | list)}
        if whole:
            yield whole


class _LooseReader:
    """Reads from a place outside of brackets to the end of the text."""

    def __init__(self, text: str, start: int, keep_cut: bool) -> None:
        self._text = text
        self._keep_cut = keep_cut
        self._at = start
        self._frames: list[_Frame] = []
        self._open = dict.fromkeys("[{(", 0)
        self._endless: set[str] = set()  # quotes that nothing closes from here on
        self._found: list[Container] = []
        self._given_up = 0

    def read(self) -> list[Container]:
        while self._step():
            pass
        self._give_up()
        return self._found

    def _step(self) -> bool:
        """One token; False where there is none left."""
        if not self._frames:
            opening = _OPENING.search(self._text, self._at)
            if not opening:
                return False
            self._at = opening.start()
            return self._opened(_KINDS[opening[0]])
        self._skip()
        sign = self._text[self._at : self._at + 1]
        if sign in _CLOSERS:
            self._closed(_CLOSERS[sign])
        elif sign in _KINDS and (sign != "(" or _TUPLE.match(self._text, self._at)):
            return self._opened(_KINDS[sign])
        elif sign in {":", "："}:
            self._frames[-1].colon()
            self._at += 1
        elif sign in _CLOSING and sign not in self._endless:
            return self._string(sign)
        else:
            return self._comment_or_word()
        return True

    def _skip(self) -> None:
        blanks = _BLANKS.match(self._text, self._at)
        if blanks and blanks.end() > self._at:
            frame = self._frames[-1]
            if frame.key is not None and "," in blanks[0]:
                frame.put(None)
            self._at = blanks.end()

    def _opened(self, kind: str) -> bool:
        if len(self._frames) >= MAX_DEPTH:
            self._give_up()
            self._given_up += 1
            if self._given_up > MAX_GIVEN_UP:
                return False
        self._frames.append(_Frame(kind))
        self._open[kind] += 1
        self._at += 1
        return True

    def _closed(self, kind: str) -> None:
        """Closes what this bracket opened, and with it what was forgotten to be closed within."""
        self._at += 1
        while self._open[kind]:
            frame = self._frames.pop()
            self._open[frame.kind] -= 1
            if self._frames:
                self._frames[-1].put(frame.value())
            else:
                self._found.append(frame.value())
            if frame.kind == kind:
                break

    def _give_up(self) -> None:
        for frame in self._frames:
            self._found += [frame.value()] if self._keep_cut else frame.complete_parts()
        self._frames.clear()
        self._open = dict.fromkeys("[{(", 0)

    def _string(self, quote: str) -> bool:
        string = _string_in(quote).match(self._text, self._at)
        if string:
            self._frames[-1].put(unescaped(string[1]))
            self._at = string.end()
            return True
        self._endless.add(quote)
        return quote != '"'  # cut within a string; other quotes are apostrophes as often

    def _comment_or_word(self) -> bool:
        comment = _COMMENT.match(self._text, self._at)
        if comment:
            self._at = comment.end()
            return True
        if self._text.startswith("/*", self._at):
            end = self._text.find("*/", self._at)
            self._at = end + 2
            return end >= 0
        bare = (_BARE_IN_TUPLE if self._open["("] else _BARE).match(self._text, self._at)
        if not bare:
            return False
        self._at = bare.end()
        word = bare[0].strip()
        if word not in _OMITTED:
            self._frames[-1].put(_value_of(word))
        return True


def _value_of(word: str) -> object:
    number = _NUMBER.fullmatch(word)
    if number:
        return int(word) if word.lstrip("+-").isdecimal() else float(word)
    return _NAMED.get(word.lower(), unescaped(word))
