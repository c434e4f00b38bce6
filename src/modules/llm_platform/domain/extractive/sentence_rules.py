"""Recognise sentences that cannot be quoted alone, or not at all. `quoting.json` has the phrases of all languages."""

import re
from dataclasses import dataclass
from functools import cache

from modules.llm_platform.domain.text.data_files import load_data

_FLAGS = re.IGNORECASE
_PARENTHESES = re.compile(r"(?<=\S )\([^()]*\)")
_ADDRESS = re.compile(r"https?://|www\.\w")
_START = "[\"'“”„«»‘’(\\[*_`—–-]*"
_ENDS_ON_WORD = r"(?!\w)"
_UNSPACED_LANGUAGES = frozenset({"zh", "ja", "ko"})


@cache  # Compiling takes longer than all imports of a command together, so it waits for the first sentence.
def _compile_phrases(name: str) -> re.Pattern[str]:
    return re.compile("|".join(load_data("quoting")[name]), _FLAGS)


@cache
def _compile_dependent_openings(language: str) -> re.Pattern[str] | None:
    openings = load_data("quoting")["dependent_openings"].get(language)
    if openings is None:
        return None
    return re.compile(
        f"{_START}(?:{'|'.join(openings)}){'' if language in _UNSPACED_LANGUAGES else _ENDS_ON_WORD}", _FLAGS
    )


def depends_on_context(sentence: str, language: str, *, addresses_reader: bool = False) -> bool:
    """Return whether the sentence begins with a word that refers to the sentence before.

    In a text that addresses its reader formally, `Ihr Abschlag` is the reader's.
    """
    if addresses_reader and _compile_formal(language)[2].match(sentence):
        return False
    pattern = _compile_dependent_openings(language)
    return bool(pattern and pattern.match(sentence))


def addresses_reader_formally(text: str, language: str) -> bool:
    """Return whether a letter addresses its reader formally: it has a salutation, and `bitten wir Sie` within a sentence.

    Only German has a formal "you" that also means "they".
    """
    if language not in load_data("quoting")["formal_address"]:
        return False
    within, salutation, _ = _compile_formal(language)
    return bool(salutation.search(text) and within.search(text))


@cache
def _compile_formal(language: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a formal "you" within a sentence, of a salutation, and of a "your" that begins a sentence."""
    known = load_data("quoting")["formal_address"][language]
    words, salutations, your = (known[name] for name in ("words", "salutations", "your"))
    return (
        re.compile(rf"[\w,] (?:{words})\b"),
        re.compile(rf"^(?:{salutations})\b", re.MULTILINE),
        re.compile(rf"{_START}(?:{your})\b"),
    )


@dataclass(frozen=True, slots=True)
class Boilerplate:
    """The reasons not to quote a sentence.

    - `found` has its pointers, boilerplate and instructions, case-folded. Each is a reason unless the question contains it.
    - `has_address` is always a reason.
    """

    found: tuple[str, ...]
    has_address: bool

    def is_unasked(self, question: str) -> bool:
        """Return whether a reason remains that the question does not ask about."""
        asked = question.casefold()
        return self.has_address or any(text not in asked for text in self.found)


def find_boilerplate(sentence: str) -> Boilerplate:
    """Find the first pointer ("see Section 2"), boilerplate and instruction to a program in a sentence.

    A pointer in parentheses does not count: `An array (see Section 6.7) of exit states` is a statement.
    """
    outside_parentheses = _PARENTHESES.sub("", sentence)
    searched = {"pointers": outside_parentheses, "boilerplate": sentence, "instructions": sentence}
    matches = (_compile_phrases(patterns).search(text) for patterns, text in searched.items())
    return Boilerplate(tuple(match.group().casefold() for match in matches if match), bool(_ADDRESS.search(sentence)))


def points_to_exhibit(sentence: str, question: str) -> bool:
    """Return whether the sentence only says what a figure or table shows, which a quote does not contain.

    A figure that the question names does not count.
    """
    found = _compile_phrases("exhibits").search(sentence)
    return found is not None and found.group().strip().casefold() not in question.casefold()
