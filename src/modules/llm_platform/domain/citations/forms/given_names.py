"""Recognise citations of given sources: by a number in parentheses, by `Source 2`, or by a title."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from modules.llm_platform.domain.citations.forms.cited_text import CitedSource
from modules.llm_platform.domain.markdown.markers import parse_numbers

MIN_TITLE_CHARS: Final = 3
MAX_TITLE_CHARS: Final = 200

# Words after which the title of a given source may follow.
NARRATED: Final = (
    r"(?<!\w)(?:according to|as (?:stated|described|reported|noted) (?:in|by)|sources?[ ]?:|laut|quelle[ ]?:)[ ]{1,3}"
)
_ARTICLE: Final = re.compile(r"[*_\"“'‘`]{0,3}(?:(?:the|a|an|dem|der|den)[ ])?[*_\"“'‘`]{0,3}", re.I)
_LABEL: Final = re.compile(
    r"(?:(?:see|cf\.|from|per)[ ])?(?:sources?|documents?|docs?\.?|passages?|results?|refs?\.?|references?|quelle)[ ]?[:#]?[ ]*",
    re.I,
)
_NUMBERS: Final = re.compile(r"#?\d{1,3}(?:[ ]?(?:[,;&–—‑-]|and)[ ]?#?\d{1,3}){0,9}\Z")
_NUMBER: Final = re.compile(r"\d+")
_ENDS: Final = re.compile(r"[ ]*(?:[.,;:!?)|]|\Z)")


class GivenNames:
    """The numbers and titles of the given sources that have a text."""

    def __init__(self, given: Iterable[CitedSource]) -> None:
        sources = [source for source in given if source.text]
        self._numbers = {source.index for source in sources if source.is_numbered}
        titles = {source.title.strip().casefold(): source.index for source in reversed(sources)}
        self._titles = sorted(
            ((title, number) for title, number in titles.items() if MIN_TITLE_CHARS <= len(title) <= MAX_TITLE_CHARS),
            key=lambda entry: -len(entry[0]),
        )

    def __bool__(self) -> bool:
        return bool(self._numbers or self._titles)

    def read_label(self, inside: str, around: tuple[str, str] | None = None) -> Sequence[int] | None:
        """Return the sources of `(2)`, `[Source 2]`, `(Source: Title)` or `(Title)`. `inside` is the text between the brackets.

        `around` is the text before and after parentheses. A number alone in parentheses is a citation only after white space
        and at the end of a clause: `(1)` before a step of a list, `f(1)` and `Article 6(1)` are not citations.
        """
        label = _LABEL.match(inside)
        rest = inside[label.end() :].strip() if label else inside.strip()
        if _NUMBERS.match(rest):
            is_citation = label is not None or around is None or _ends_a_clause(*around)
            are_known = self._numbers.issuperset(map(int, _NUMBER.findall(rest)))
            return parse_numbers(rest, sorted(self._numbers)) if is_citation and are_known else None
        title = rest.casefold()
        return next(((number,) for known, number in self._titles if known == title), None)

    def find_title(self, line: str, at: int) -> tuple[int, int] | None:
        """Return the number of the source whose title is at this position, and the position after the title."""
        start = _ARTICLE.match(line, at).end()  # type: ignore[union-attr]  # The pattern matches an empty text.
        following = line[start : start + MAX_TITLE_CHARS].casefold()
        for title, number in self._titles:
            if following.startswith(title) and not following[len(title) : len(title) + 1].isalnum():
                return number, start + _count_folded(line, start, len(title))
        return None


def _count_folded(line: str, start: int, folded_chars: int) -> int:
    """Return how many characters of a line become `folded_chars` characters when they are folded: `ß` becomes two."""
    end = start
    while folded_chars > 0 and end < len(line):
        folded_chars -= len(line[end].casefold())
        end += 1
    return end - start


def _ends_a_clause(before: str, after: str) -> bool:
    return before[-1:].isspace() and bool(before.strip()) and _ENDS.match(after) is not None
