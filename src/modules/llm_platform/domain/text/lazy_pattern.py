"""A regular expression that is compiled when it is first used.

Compiling ranges of whole scripts takes milliseconds, and whoever imports the platform does not always need them.
"""

import re
from typing import Any, Final, cast

METHODS: Final = ("search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split", "pattern", "flags")


class _LazyPattern:
    """Compiles the expression at its first use and then holds its methods as attributes, so later calls have no overhead."""

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(name)
        compiled = re.compile(self._source, self._flags)
        for method in METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return what `re.compile` returns, without compiling it yet. An invalid expression raises at its first use."""
    return cast("re.Pattern[str]", _LazyPattern(source, flags))
