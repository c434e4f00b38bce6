"""Recognise sentences that cannot be quoted alone, or not at all. The patterns of all languages are in `quoting.json`:
openings that refer to the sentence before, pointers to another place, boilerplate of web sites, instructions to a program.
"""

from __future__ import annotations

import re
from functools import cache

from modules.llm_platform.domain.text.data_files import load_data

_FLAGS = re.IGNORECASE
_PARENTHESES = re.compile(r"(?<=\S )\([^()]*\)")
_ADDRESS = re.compile(r"https?://|www\.\w")
_START = "[\"'“”„«»‘’(\\[*_`—–-]*"
_ENDS_ON_WORD = r"(?!\w)"
_UNSPACED_LANGUAGES = frozenset({"zh", "ja", "ko"})


@cache  # compiled at the first sentence: compiling takes longer than all imports of a command together
def _compiled(name: str) -> re.Pattern[str]:
    return re.compile("|".join(load_data("quoting")[name]), _FLAGS)


@cache
def _dependent_openings(language: str) -> re.Pattern[str] | None:
    openings = load_data("quoting")["dependent_openings"].get(language)
    if openings is None:
        return None
    return re.compile(f"{_START}(?:{'|'.join(openings)}){'' if language in _UNSPACED_LANGUAGES else _ENDS_ON_WORD}", _FLAGS)


def depends_on_context(sentence: str, language: str) -> bool:
    """Whether the sentence begins with a word that refers to the sentence before."""
    pattern = _dependent_openings(language)
    return bool(pattern and pattern.match(sentence))


def is_boilerplate(sentence: str, question: str) -> bool:
    """Whether it is a pointer, boilerplate, an address or an instruction to a program, unless the question is about that.

    A pointer in parentheses does not count: `An array (see Section 6.7) of exit states` is a statement.
    """
    outside_parentheses = _PARENTHESES.sub("", sentence)
    searched = {"pointers": outside_parentheses, "boilerplate": sentence, "instructions": sentence}
    for patterns, text in searched.items():
        found = _compiled(patterns).search(text)
        if found and found.group().casefold() not in question.casefold():
            return True
    return bool(_ADDRESS.search(sentence))
