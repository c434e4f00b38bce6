"""Whether a text uses a capitalised word as a name, as far as capitals tell."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LOOK_BACK = 30  # characters before a noun in which its article is looked for

_ARTICLE = re.compile(
    r"\b(?:[Dd](?:er|ie|as|en|em|es)|[Kk]?[Ee]in(?:e[rmns]?)?|[IiAa]m|[Zz]u[mr]|[Bb]eim|[Vv]om)\s(?:[^\W\dA-ZÄÖÜ]\w*\s)?\Z"
)


class Capitals:
    """The capitals of one text. `behind_articles`: German, where each noun has one and no name stands behind an article."""

    def __init__(self, text: str, *, behind_articles: bool) -> None:
        self._text = text
        self._behind_articles = behind_articles
        self._known: dict[str, bool] = {}

    def may_name(self, written: str) -> bool:
        """Whether the text has this word with a capital only, and in German never behind an article."""
        known = self._known.get(written)
        if known is None:
            known = self._known[written] = written[0].isupper() and not self._is_common(written)
        return known

    def stands_inside(self, written: str) -> bool:
        """Whether the text has this word where no sentence begins."""
        return any(self._text[max(0, at - 2) : at].strip()[-1:].isalnum() for at in self._places_of(written))

    def _is_common(self, written: str) -> bool:
        if any(True for _ in self._places_of(written.lower())):
            return True
        return self._behind_articles and any(
            _ARTICLE.search(self._text[max(0, at - _LOOK_BACK) : at]) for at in self._places_of(written)
        )

    def _places_of(self, word: str) -> Iterator[int]:
        """Where the word stands by itself."""
        text = self._text
        at = text.find(word)
        while at >= 0:
            behind = at + len(word)
            if not (text[max(0, at - 1) : at].isalnum() or text[behind : behind + 1].isalnum()):
                yield at
            at = text.find(word, behind)
