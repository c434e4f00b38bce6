"""Detect a model that repeats the same text without end."""

import re
from typing import Final

PROBE_CHARS: Final = 120  # the end of the text, which is searched for before it
MIN_REPEATS: Final = 4  # equal blocks, one right after the other
MIN_REPEATED_CHARS: Final = 1000  # all repeats together: rows of a table and lines of a list are shorter, or differ
MAX_BLOCK_CHARS: Final = 2000
CHECK_EVERY_CHARS: Final = 200
_LIST_NUMBER: Final = re.compile(r"^\d{1,6}[.)] ", re.MULTILINE)
_KEPT_CHARS: Final = MIN_REPEATS * MAX_BLOCK_CHARS


class RepetitionDetector:
    """Detects that a growing text ends with one block, repeated exactly or as numbered items. It takes constant memory."""

    def __init__(self) -> None:
        self._tail = ""
        self._unchecked = 0

    def feed(self, text: str) -> bool:
        """Add the next part of the text. Return True if the text repeats itself, which is checked every CHECK_EVERY_CHARS."""
        self._tail += text
        self._unchecked += len(text)
        if self._unchecked < CHECK_EVERY_CHARS:
            return False
        self._unchecked = 0
        self._tail = self._tail[-_KEPT_CHARS:]
        return _is_repeated(_LIST_NUMBER.sub("", self._tail))


def _is_repeated(text: str) -> bool:
    probe = text[-PROBE_CHARS:]
    before = text.rfind(probe, 0, len(text) - 1)
    if before < 0:
        return False
    block = len(text) - len(probe) - before  # characters from one repetition to the next
    span = max(MIN_REPEATS * block, MIN_REPEATED_CHARS)
    return span <= len(text) and text[-span + block :] == text[-span:-block]
