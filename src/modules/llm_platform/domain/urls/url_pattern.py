"""Regular expressions of clients for paths and hosts."""

from typing import Final

from modules.llm_platform.domain.untrusted.bounded_pattern import BoundedPattern, pattern_size

MAX_PATTERN_CHARS: Final = 200
MAX_PATTERN_SIZE: Final = 1000  # size with counted repeats written out

TOO_LONG: Final = f"has more than {MAX_PATTERN_CHARS} characters"
TOO_LARGE: Final = "has counted repeats such as {1,1000} or classes such as \\w that take much memory: use * or +"


class UrlPattern(BoundedPattern):
    """A regular expression for the path or the host of an address. Raises ValueError."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_CHARS:
            raise ValueError(TOO_LONG)
        if pattern_size(pattern) > MAX_PATTERN_SIZE:
            raise ValueError(TOO_LARGE)
        super().__init__(pattern)
