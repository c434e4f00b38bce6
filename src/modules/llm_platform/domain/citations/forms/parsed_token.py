"""The result of reading a token of a line: a citation, or no citation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from modules.llm_platform.domain.text.sentences import Span


class ParsedToken(NamedTuple):
    """A token that may cite sources.

    - `end` is the offset at which reading continues.
    - `numbers` are the cited sources. None means that the token is not a citation, and its text stays. Empty means that its text
      is removed.
    - `kept` is the span of the words of a citation that stay before its markers.
    """

    end: int
    numbers: Sequence[int] | None
    kept: Span | None = None


def cite(token: re.Match[str], numbers: Sequence[int] | None) -> ParsedToken:
    """Return the whole token as a citation of these sources. If `numbers` is None, it is not a citation."""
    return skip_character(token) if numbers is None else ParsedToken(token.end(), numbers)


def skip_character(token: re.Match[str]) -> ParsedToken:
    """Return a result that is not a citation. Reading continues after its first character, where a citation may begin."""
    return ParsedToken(token.start() + 1, None)
