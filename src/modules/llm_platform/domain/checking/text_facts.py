"""What a passage of a source asserts, taken out once and used for every sentence that cites it."""

from __future__ import annotations

import re
from functools import cached_property

from modules.llm_platform.domain.checking.dates import ISO_DATE
from modules.llm_platform.domain.checking.denial import Clause, clauses_of, denied, may_deny, preferred, undenied_words
from modules.llm_platform.domain.checking.numbers import NUMBER_WORDS, Reading, numbers_in, reading_of
from modules.llm_platform.domain.checking.words import STEM_LETTERS, is_same_word
from modules.llm_platform.domain.text import fold

COUNT_REACH = 5  # words behind a number word among which the counted thing is looked for

_STOP = re.compile(r"[.!?:;]")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


class TextFacts:
    """Numbers, words and denials of one passage; `folded` are its words as they are compared."""

    def __init__(self, text: str, stop_words: frozenset[str]) -> None:
        self.text = text
        self._stop_words = stop_words

    @cached_property
    def folded(self) -> list[str]:
        return _WORD.findall(fold(self.text).replace("’", "'"))

    @cached_property
    def numbers(self) -> list[Reading]:
        spelled = (NUMBER_WORDS[self.folded[place]] for place in self.spelled)
        return [reading for reading, _ in numbers_in(self.text)] + [reading_of(value) for value in spelled]

    @cached_property
    def spelled(self) -> list[int]:
        """Where number words stand."""
        return [place for place, word in enumerate(self.folded) if word in NUMBER_WORDS]

    @cached_property
    def words(self) -> list[str]:
        """As they are written, in the order of `folded`."""
        written = _WORD.findall(self.text)
        return written if len(written) == len(self.folded) else self.folded

    @cached_property
    def content(self) -> list[bool]:
        return [len(word) > 1 and word not in self._stop_words for word in self.folded]

    @cached_property
    def denied_words(self) -> list[str]:
        return [self.folded[place] for place in denied(self.folded, self.content)]

    @cached_property
    def undenied_words(self) -> list[str]:
        """The words of the clauses that hold no negation."""
        return undenied_words(self.text)

    @cached_property
    def clauses_said(self) -> list[Clause]:
        return clauses_of(self.text)

    @cached_property
    def preferred(self) -> tuple[str, str] | None:
        return preferred(self.folded, self.content)

    @cached_property
    def dated(self) -> list[str]:
        """Its words and the dates that it writes in figures only."""
        return self.folded + ISO_DATE.findall(self.text) if "-" in self.text else self.folded

    @cached_property
    def sentence_starts(self) -> frozenset[int]:
        """The places of words that begin a sentence."""
        found = list(_WORD.finditer(self.text))
        return frozenset(
            place
            for place, word in enumerate(found)
            if not place or _STOP.search(self.text, found[place - 1].end(), word.start())
        )

    @cached_property
    def denies(self) -> bool:
        return may_deny(self.folded) and any(clause.denied for clause in self.clauses_said)

    @cached_property
    def _by_start(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for place, word in enumerate(self.folded):
            places.setdefault(word[:STEM_LETTERS], []).append(place)
        return places

    def places_of(self, word: str) -> list[int]:
        """Where the word or another form of it stands."""
        return [place for place in self._by_start.get(word[:STEM_LETTERS], ()) if is_same_word(word, self.folded[place])]

    def counts(self, noun: str | None) -> bool:
        """Whether a number word stands before this noun or figure."""
        return any(noun in self.folded[place + 1 : place + COUNT_REACH] for place in self.spelled)
