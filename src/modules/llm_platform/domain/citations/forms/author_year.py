"""Bind citations such as `(Smith & Jones, 2021)` to the entries of a bibliography."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.domain.text.tokens import fold

MAX_AUTHOR_WORDS: Final = 12  # words before a year that may name an author or a title
MAX_INITIALS: Final = 8
MAX_ENTRIES_OF_AUTHOR: Final = 50  # compared with one citation

YEAR: Final = r"(?:(?:1[5-9]|20|21)\d\d[a-z]?|n\.\s?d\.)"
_YEAR = re.compile(rf"(?<![\w/.-])({YEAR})(?![\w/-])")
_IN_PARENTHESES = re.compile(rf"[(\[]\s*({YEAR})")
_ADDRESS = re.compile(r"https?://\S+")
_CITED = re.compile(
    rf"(?P<author>.{{2,120}}?)[,\s]{{0,8}}(?P<years>{YEAR}(?:\s*,\s*{YEAR}){{0,5}})(?P<rest>\s*[,:].{{0,60}})?\s*\Z"
)
_LEAD = re.compile(r"(?:see|e\.g\.|cf\.|also|as in|vgl\.|siehe|z\. ?B\.|voir)[,:]?\s+(?:also\s+)?", re.I)
_PAGES = re.compile(r"[,:]\s*(?:(?:p{1,2}\.|S\.|para\.|ch\.|chap\.|sec\.)\s*)?[\d–-]+", re.I)
_OTHERS = re.compile(r"\bet\s+al\b\.?|\bu\.\s?a\.|\band colleagues\b|\bи др\.?|等", re.I)
_BETWEEN = re.compile(r"&|\band\b|\bund\b|\bet\b|\by\b|,", re.I)
_NAME = r"[^\W\d_][\w'’.-]{0,40}"
_NARRATED = re.compile(
    rf"((?:{_NAME}\s+){{0,3}}{_NAME}(?:,\s+(?:{_NAME}\s+){{0,2}}{_NAME}){{0,3}}"
    rf"(?:,?\s+(?:et\s+al\.?|(?:&|and|und)\s+(?:{_NAME}\s+)?{_NAME}))?(?:['’]s)?),?\s*\Z"
)
_UNNAMED = frozenset({"of", "the", "and", "for", "on", "in", "&"})  # words without a letter in an abbreviation
_LETTERS_AFTER_YEAR = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class BibliographyEntry:
    """An entry of a bibliography: its number, the folded words before its year, the year, and the initials of the words."""

    number: int
    words: tuple[str, ...]
    year: str
    initials: str

    @classmethod
    def of(cls, number: int, text: str) -> BibliographyEntry | None:
        """Return the entry; None if the text has no year."""
        plain = _ADDRESS.sub(" ", text)
        found = _IN_PARENTHESES.search(plain) or _YEAR.search(plain)
        if found is None:
            return None
        author = plain[: found.start()].strip() or plain
        words = _fold_words(author)
        initials = "".join(word[0] for word in fold(author).split() if word[0].isalpha() and word not in _UNNAMED)
        return cls(number, tuple(words), found[1].replace(" ", ""), initials) if words else None

    def is_by(self, names: Sequence[Sequence[str]], year: str) -> bool:
        """Return whether the entry begins with the first of these names, has the others, and is of this year."""
        if not names or not names[0] or not self._is_of(year):
            return False
        first = list(names[0])
        is_abbreviated = len(first) == 1 and len(first[0]) > 1 and self.initials.startswith(first[0])  # such as WHO
        begins = is_abbreviated or list(self.words[: len(first)]) == first
        return begins and all(set(name) <= set(self.words) for name in names[1:])

    def _is_of(self, year: str) -> bool:
        mine, theirs = self.year, year.replace(" ", "")
        has_letters = mine[-1:] in _LETTERS_AFTER_YEAR and theirs[-1:] in _LETTERS_AFTER_YEAR and mine != "n.d."
        return mine == theirs if has_letters else mine[:4] == theirs[:4]


class Bibliography:
    """The entries by the word that they begin with, and by the initials of their authors."""

    def __init__(self) -> None:
        self._by_key: dict[str, list[BibliographyEntry]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def add(self, entry: BibliographyEntry) -> None:
        abbreviations = {entry.initials[:length] for length in range(2, min(len(entry.initials), MAX_INITIALS) + 1)}
        for key in {entry.words[0], *abbreviations}:
            self._by_key.setdefault(key, []).append(entry)

    def find(self, author: str, year: str) -> int | None:
        """Return the number of the first entry by these authors of this year; None if there is none."""
        bare = _OTHERS.sub("", author).strip(" ,\"“”'*_")
        names = [words for name in _BETWEEN.split(bare) if (words := _fold_words(name))]
        for wanted in (names, [_fold_words(bare)]):
            candidates = self._by_key.get(wanted[0][0], []) if wanted and wanted[0] else []
            for entry in candidates[:MAX_ENTRIES_OF_AUTHOR]:
                if entry.is_by(wanted, year):
                    return entry.number
        return None


def read_parenthesised_works(text: str, bibliography: Bibliography) -> list[int] | None:
    """Return the numbers of the entries that the inside of parentheses names; None if it names none.

    Semicolons separate several works. Works that the bibliography lacks are left out.
    """
    if not any(sign.isdigit() for sign in text) and "n.d" not in text and "n. d" not in text:
        return None
    found: list[int] = []
    works = [work for work in text.split(";") if work.strip()]
    for work in works:
        cited = _CITED.match(_LEAD.sub("", work, count=1))
        if cited is None or len(cited["author"].split()) > MAX_AUTHOR_WORDS:
            continue
        numbers = [bibliography.find(cited["author"], year) for year in _YEAR.findall(cited["years"])]
        found += [number for number in numbers if number is not None]
    return list(dict.fromkeys(found)) or None


def read_narrated_work(before: str, years: str, bibliography: Bibliography) -> int | None:
    """Return the number of the entry in `Smith et al. (2021)`: `before` ends with the name, `years` is in parentheses."""
    year = _YEAR.match(_PAGES.sub("", years, count=1).strip()) if _YEAR.match(years.strip()) else None
    named = _NARRATED.search(before[-100:])
    if year is None or named is None:
        return None
    words = re.sub(r"['’]s\Z", "", named[1]).split()
    for first in range(len(words)):  # the longest name first: "World Health Organization", then "Organization"
        if words[first][0].isupper() or not words[first][0].isascii():
            number = bibliography.find(" ".join(words[first:]), year[1])
            if number is not None:
                return number
    return None


def _fold_words(text: str) -> list[str]:
    """Return the words of a text, folded for comparison."""
    return re.findall(r"[^\W_]+", fold(text))
