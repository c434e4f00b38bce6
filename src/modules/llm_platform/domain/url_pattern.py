"""Regular expressions of clients for paths and hosts.

They are matched by the engine of pydantic, whose time grows with pattern times text; the module `re` searches by trial and
error, and a pattern of twenty characters can block it for years.
"""

import re
from math import prod
from typing import Final

from pydantic_core import SchemaError, SchemaValidator, core_schema

MAX_PATTERN_CHARS: Final = 200
MAX_COUNT: Final = 50  # of the counted repeats, multiplied: they are written out in memory

TOO_LONG = f"has more than {MAX_PATTERN_CHARS} characters"
TOO_LARGE = f"has counted repeats such as {{2,3}} whose numbers multiply to more than {MAX_COUNT}: use * or +"
UNREADABLE = "is no regular expression, or needs lookaround or backreferences, which are not supported"

_COUNTED = re.compile(r"\{\s*\d[^}]*\}")
_NUMBER = re.compile(r"\d+")


class UrlPattern:
    """A regular expression that is searched for in a text; `^` and `$` tie it to the ends. Raises ValueError."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_CHARS:
            raise ValueError(TOO_LONG)
        counts = (max(1, *map(int, _NUMBER.findall(each))) for each in _COUNTED.findall(pattern))
        if prod(counts) > MAX_COUNT:
            raise ValueError(TOO_LARGE)
        try:
            self._validator = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
        except SchemaError as error:
            raise ValueError(UNREADABLE) from error

    def matches(self, text: str) -> bool:
        """Whether a part of the text matches."""
        return self._validator.isinstance_python(text)
