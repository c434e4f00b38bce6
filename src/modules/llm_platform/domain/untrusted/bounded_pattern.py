"""Regular expressions of clients, bounded before they are compiled.

They are matched by the engine of pydantic, whose time grows with pattern times text; the module `re` searches by trial and
error, and a pattern of twenty characters can block it for years. That engine writes counted repeats and classes of Unicode
out in memory when it compiles: `\\w{200}` takes 0.1 s and 10 MB. So the size of a pattern is estimated first.
"""

import re
from typing import Final

from pydantic_core import SchemaError, SchemaValidator, core_schema

UNICODE_CLASS: Final = 20  # the size of \w or \p{…}: hundreds of ranges, 0.5 ms and 50 kB
FOLDED_CLASS: Final = 200  # weight of [^\x00-\xff] under the flag i: each letter is looked up in the other case
NO_EXPRESSION: Final = (
    "is not a regular expression, or needs lookaround, backreferences or the flag x, which are not supported"
)

_TOKEN: Final = re.compile(r"\\[pPxuU]\{[^}]*\}|\\.|\{[^}]*\}|.", re.DOTALL)
_CLASS_TOKEN: Final = re.compile(r"\\[pPxuU]\{[^}]*\}|\\.|.", re.DOTALL)
_FLAGS: Final = re.compile(r"(?<!\\)(?:\\\\)*\(\?([a-zA-Z]*)")
_UNICODE: Final = re.compile(r"\\[wWpP]")
_NUMBER: Final = re.compile(r"[0-9]+")
_LONGEST_NUMBER: Final = 6  # digits that count


class BoundedPattern:
    """A regular expression that is searched for in a text; `^` and `$` tie it to the ends. Raises ValueError.

    Bound its size with `pattern_size` before.
    """

    def __init__(self, pattern: str) -> None:
        if any("x" in flags for flags in _FLAGS.findall(pattern)):  # it may hide a repeat after a comment
            raise ValueError(NO_EXPRESSION)
        try:
            self._validator = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
        except SchemaError as error:
            raise ValueError(NO_EXPRESSION) from error

    def matches(self, text: str) -> bool:
        """Return whether a part of the text matches."""
        return self._validator.isinstance_python(text)


def pattern_size(pattern: str) -> int:
    """Return about how many characters the pattern has once its repeats and classes are written out, in linear time."""
    is_folding = any("i" in flags for flags in _FLAGS.findall(pattern))
    groups, last, position = [0], 0, 0  # the size of each open group, and of what a repeat would apply to
    while match := _TOKEN.match(pattern, position):
        token, position = match[0], match.end()
        if token == "[":
            end = _end_of_class(pattern, position)
            token, position = pattern[position - 1 : end], end
        if token == "(":
            groups.append(1)
        elif token == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif token in "*+?":  # a repeat after it applies to the same
            groups[-1] += 1
        elif token[0] == "{" and len(token) > 1:
            more = last * max(0, _count(token) - 1)
            last += more
            groups[-1] += more
        else:
            last = _size(token, is_folding)
            groups[-1] += last
    return sum(groups)


def _count(repeat: str) -> int:
    """Return the largest number of `{2,3}`; `{2,}` is two and a third with a star."""
    numbers = (digits.lstrip("0") or "0" for digits in _NUMBER.findall(repeat))
    return max((int(number[:_LONGEST_NUMBER]) for number in numbers), default=0) + repeat.rstrip(" }").endswith(",")


def _size(token: str, is_folding: bool) -> int:
    if is_folding and token[0] == "[" and ("\\" in token or not token.isascii()):
        return len(token) + FOLDED_CLASS
    return len(token) + UNICODE_CLASS * len(_UNICODE.findall(token))


def _end_of_class(pattern: str, position: int) -> int:
    """Return the end of the class whose `[` is before `position`; a `]` at its beginning is one of its characters."""
    depth, is_first = 1, True
    while depth and (match := _CLASS_TOKEN.match(pattern, position)):
        token, position = match[0], match.end()
        if token == "]" and not is_first:
            depth -= 1
        depth += token == "["
        is_first = token == "[" or (is_first and token == "^")
    return position
