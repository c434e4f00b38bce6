"""What the reader of citations found at a token of a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from modules.llm_platform.domain.text.sentences import Span


class TokenReading(NamedTuple):
    """What was found at a token.

    - `end` is the offset from which the line is read on.
    - `numbers` are the sources that the token cites. They are None if it is not a citation, and its text stays. They are empty if
      its text is removed.
    - `kept` is the span of the words of a citation that stay before its markers.
    """

    end: int
    numbers: Sequence[int] | None
    kept: Span | None = None


def cite(token: re.Match[str], numbers: Sequence[int] | None) -> TokenReading:
    """Return the whole token as a citation of these sources; as no citation if `numbers` is None."""
    return skip_character(token) if numbers is None else TokenReading(token.end(), numbers)


def skip_character(token: re.Match[str]) -> TokenReading:
    """Return that this token is not a citation. Reading continues after its first character, where a citation may begin."""
    return TokenReading(token.start() + 1, None)
