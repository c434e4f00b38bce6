"""Text and queries as SQLite's full-text index can split them.

It splits in C, ten times as fast as Python can, but knows no scripts without blanks and no `c++`: those are spelled out
for it, in the documents as in the query.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.language import stop_words
from modules.llm_platform.domain.text import fold, word_parts, words

MAX_TERMS: Final = 64  # of a query; more cost time and tell nothing new
MIN_PART: Final = 3  # letters of a piece of a joined word that is searched by itself
NAME_WORDS: Final = 2  # a query of so few words may be a name made of function words: `IT`, `The Who`

_UNSPACED_RUN = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af]+"
)
_SHARP = re.compile(r"\b([a-z])#(?!\w)", re.IGNORECASE)
_SHARPS = ("C#", "c#", "F#", "f#")  # looked for first: most documents are full of `#` and hold none of these
_PLUS = re.compile(r"(?<=\w)\+\+(?!\w)")


def spelled_out(text: str) -> str:
    """The text as the index can split it: scripts without blanks as bigrams, `c++` and `c#` as words."""
    if not text.isascii():
        text = _UNSPACED_RUN.sub(_bigrams, fold(text))
    if "++" in text:
        text = _PLUS.sub("plusplus", text)
    return _SHARP.sub(r"\1sharp", text) if "#" in text and any(sharp in text for sharp in _SHARPS) else text


def _bigrams(run: re.Match[str]) -> str:
    letters = run.group()
    return f" {' '.join(letters[i : i + 2] for i in range(max(1, len(letters) - 1)))} "


def query_terms(query: str, language: str) -> list[str]:
    """Quoted words for MATCH, each once: those that say something, and the pieces of joined ones."""
    all_words = words(query)
    empty = stop_words(language)
    telling = [word for word in all_words if word not in empty]
    if not telling and len(all_words) <= NAME_WORDS:
        telling = all_words
    parts = [part for word in telling for part in _parts(word) if part not in empty]
    return [_quoted(word) for word in dict.fromkeys([*telling, *parts])][:MAX_TERMS]


def _parts(word: str) -> Sequence[str]:
    parts = word_parts(word)
    return [part for part in parts if len(part) >= MIN_PART] if len(parts) > 1 else ()


def _quoted(word: str) -> str:
    """A word of the query for FTS5; a single letter of an unspaced script is looked for at the beginning of bigrams."""
    if len(word) == 1 and _UNSPACED_RUN.match(word):
        return f'"{word}"*'
    return '"' + spelled_out(word).strip().replace('"', '""') + '"'
