"""Split text of any script into words and tokens."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice

from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.memoized import Memoized
from modules.llm_platform.domain.text.scripts import MARKS, UNSPACED

_LETTERS = rf"(?:[^\W_{UNSPACED}]|[{MARKS}])+"
_WORD = lazy_pattern(rf"[{UNSPACED}]+|{_LETTERS}(?:[_.'’+#-]*{_LETTERS})*[+#]*")
# Matches what `_WORD` matches in text without unspaced scripts and marks, in a third of the time.
_PLAIN_WORD = re.compile(r"[^\W_]+(?:[_.'’+#-]+[^\W_]+)*[+#]*")
# ASCII characters outside of words become spaces; letters beyond ASCII stay.
_WORDS_APART = bytes(code if code > 127 or chr(code).isalnum() or chr(code) in "_.'+#-" else 32 for code in range(256))
_PLAIN_WORDS = Memoized(lambda between_blanks: tuple(_PLAIN_WORD.findall(between_blanks)), max_entries=1 << 13)
_ASCII_RUNS = re.compile(r"[\x00-\x7f]+")
_UNSPACED_OR_MARK = lazy_pattern(rf"[{UNSPACED}{MARKS}]")
WORD_WITH_APOSTROPHE = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
_UNSPACED_RUN = lazy_pattern(rf"[{UNSPACED}]+")

_NO_WORD = re.compile(r"[\W_]+")
_NO_ASCII_WORD = {code: " " for code in range(128) if not chr(code).isalnum()}
_BAR = "\0"
_NO_ASCII_WORD_NOR_BAR = {code: " " for code in _NO_ASCII_WORD if code != ord(_BAR)}


LATIN_LETTERS_PER_TOKEN = 6  # what BPE vocabularies of current models keep together in English and code
OTHER_LETTERS_PER_TOKEN = 3  # Cyrillic, Greek, Arabic, Hebrew, Devanagari: shorter pieces
DIGITS_PER_TOKEN = 3
MAX_CHARS_PER_TOKEN = 16  # spaces included: limits how far into a text a token budget may reach
_ASCII_KINDS = bytes(
    97
    if chr(code).isalpha()
    else 49
    if chr(code).isdigit()
    else 95
    if chr(code) == "_"
    else 32
    if chr(code).isspace()
    else 46
    for code in range(128)
).ljust(256, b".")
_LETTERS_APART, _DIGITS_APART, _UNDERSCORES_APART = (
    bytes(code if code == kind else 32 for code in range(256)) for kind in b"a1_"
)
_ACCENTED = (range(0xC0, 0x400), range(0x1E00, 0x2000))  # Latin and Greek letters
_WITHOUT_DECOMPOSITION = {"ø": "o", "ł": "l", "đ": "d", "ı": "i", "œ": "oe", "æ": "ae", "ё": "е"}
_LATIN_TOKEN = b"a" * LATIN_LETTERS_PER_TOKEN
_TOKEN = lazy_pattern(
    rf"[A-Za-z\u00c0-\u024f]{{1,{LATIN_LETTERS_PER_TOKEN}}}|\d{{1,{DIGITS_PER_TOKEN}}}|[{UNSPACED}]|[^\w\s]|_+"
    rf"|[^\W\d_]{{1,{OTHER_LETTERS_PER_TOKEN}}}"
)


def fold(text: str) -> str:
    """Return the text for comparison: NFKC and case-folded, with accents."""
    return unicodedata.normalize("NFKC", text).casefold()


def strip_accents(folded: str) -> str:
    """Return a folded text without the accents of Latin and Greek letters, which many people do not type: `cafe`, `munchen`."""
    return folded if folded.isascii() else folded.translate(_load_bare_letters())


@cache
def _load_bare_letters() -> Mapping[int, str]:
    letters = (chr(code) for code in chain.from_iterable(_ACCENTED))
    bare = {ord(letter): unicodedata.normalize("NFD", letter)[0] for letter in letters if letter.isalpha()}
    return {**bare, **{ord(letter): base for letter, base in _WITHOUT_DECOMPOSITION.items()}}


def normalize(text: str) -> str:
    """Return the folded words of a text with one space around each, without punctuation and markup."""
    if text.isascii():  # three times as fast
        return f" {' '.join(text.lower().translate(_NO_ASCII_WORD).split())} "
    return f" {_NO_WORD.sub(' ', fold(text)).strip()} "


def normalize_each(texts: Sequence[str]) -> str:
    """Return the normalized texts, joined by bars. Texts in ASCII are normalized in one pass."""
    joined = f" {_BAR} ".join(texts)
    if not joined.isascii() or joined.count(_BAR) >= len(texts):
        return "|".join(map(normalize, texts))
    cleaned = " ".join(joined.lower().translate(_NO_ASCII_WORD_NOR_BAR).split())
    return f" {cleaned} ".replace(_BAR, "|")


def split_words(text: str) -> list[str]:
    """Return the folded words in order. Identifiers stay whole (`asyncio.run`, `c++`). Scripts without spaces give bigrams."""
    folded = fold(text)
    if not folded.isascii() and _UNSPACED_OR_MARK.search(_ASCII_RUNS.sub("", folded)):
        return list(_find_words(folded))
    apart = folded.encode("utf-8", "surrogatepass").translate(_WORDS_APART).decode("utf-8", "surrogatepass")
    return list(chain.from_iterable(map(_PLAIN_WORDS.__getitem__, apart.split())))


def _find_words(folded: str) -> Iterator[str]:
    for match in _WORD.finditer(folded):
        word = match.group()
        if _UNSPACED_RUN.fullmatch(word):
            yield from (word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            yield word


def split_word_parts(word: str) -> list[str]:
    """Return the parts of a joined word: `asyncio.run_in_executor` gives asyncio, run, in, executor."""
    return _PART.findall(word)


def count_tokens(text: str) -> int:
    """Return an estimate of the number of tokens of current models, for any script; at least one for each word."""
    return _count_ascii_tokens(text) if text.isascii() else len(_TOKEN.findall(text))


def _count_ascii_tokens(text: str) -> int:
    """Return how often `_TOKEN` matches, in a tenth of the time."""
    runs = b" " + text.encode("ascii").translate(_ASCII_KINDS)
    letters = runs.translate(_LETTERS_APART)
    # A run of letters is one token, and one more for each whole token after its first letter.
    words = letters.count(b" a") + letters.replace(b" a", b"  ").count(_LATIN_TOKEN)
    figures = sum([-(-len(run) // DIGITS_PER_TOKEN) for run in runs.translate(_DIGITS_APART).split()])
    underscores = len(runs.translate(_UNDERSCORES_APART).split()) if b"_" in runs else 0
    return runs.count(b".") + words + figures + underscores


def cut_to_tokens(text: str, limit: int) -> str:
    """Return the beginning of the text with at most `limit` tokens, as `count_tokens` counts them."""
    if count_tokens(text) <= limit:  # many times as fast as matching each token
        return text
    starts = (found.start() for found in _TOKEN.finditer(text))
    return text[: next(islice(starts, limit, None))].rstrip()
