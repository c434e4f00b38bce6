"""Cut text into statements: what can change by itself."""

import re
from collections.abc import Iterator
from typing import Final

from modules.llm_platform.domain.citations.checker import MIN_STATEMENT_WORDS
from modules.llm_platform.domain.text.sentences import is_question

_CUT: Final = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z])")


def cut_statements(sentence: str) -> Iterator[str]:
    """Yield the statements of a sentence of the sentence splitter, without questions.

    The splitter takes the stop in "30 km/h. On the ring road" for the stop of an abbreviation. What is too short for a
    statement stays with the words before it, as a name after a title does.
    """
    joined = ""
    for piece in _CUT.split(sentence):
        if joined and len(piece.split()) >= MIN_STATEMENT_WORDS:
            if not is_question(joined):
                yield joined
            joined = piece
        else:
            joined = f"{joined} {piece}" if joined else piece
    if joined.strip() and not is_question(joined):
        yield joined
