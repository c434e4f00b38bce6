"""Pure functions over text of any script: sentences, words, tokens."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import sentencex

from modules.llm_platform.domain.text.memoized import Memoized

Span = tuple[int, int]

# Scripts that write without spaces: Hiragana to CJK, Hangul is spaced but agglutinative, Thai, Lao, Khmer, Myanmar.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
# Signs that belong to the letter before them, which `\w` leaves out: accents, points, Indic vowels (not the danda).
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_LETTERS = rf"(?:[^\W_{_UNSPACED}]|[{_MARKS}])+"
_WORD = re.compile(rf"[{_UNSPACED}]+|{_LETTERS}(?:[_.'’+#-]*{_LETTERS})*[+#]*")
# The same words, found in a third of the time: where there is neither of those.
_PLAIN_WORD = re.compile(r"[^\W_]+(?:[_.'’+#-]+[^\W_]+)*[+#]*")
# ASCII that stands in no word as blanks, letters beyond ASCII as they are: no word goes on beyond a blank.
_WORDS_APART = bytes(code if code > 127 or chr(code).isalnum() or chr(code) in "_.'+#-" else 32 for code in range(256))
_PLAIN_WORDS = Memoized(lambda between_blanks: tuple(_PLAIN_WORD.findall(between_blanks)), most=1 << 13)
_ASCII_RUNS = re.compile(r"[\x00-\x7f]+")
_UNSPACED_OR_MARK = re.compile(rf"[{_UNSPACED}{_MARKS}]")
_LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")
_PART = re.compile(r"[^\W_]+")
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]+")

_WIDE_BLANK_BEFORE_STOP = re.compile(r"[^\S\x00-\x7f](?=\.)")  # behind one the splitter cuts letters apart, and panics
_STOP = re.compile(r"\n\n|[.!?]\s|[。！？]")

_NAME_BEFORE = re.compile(r"[A-Za-z_][\w.]*\.\Z")
_NAME_BEHIND = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*(?:\()?")
_JOINED = re.compile(r"[A-Z]{2}|\w*?(?:[._(]|[a-z][A-Z])")

MAX_NAME_CHARS = 100  # looked at before a stop without a blank behind it
WINDOW_CHARS = 3000  # handed to the sentence splitter at once
LAST_STOP_CHARS = 400  # of a window's end, where its last stop is looked for first
LATIN_LETTERS_PER_TOKEN = 6  # what BPE vocabularies of current models keep together in English and code
OTHER_LETTERS_PER_TOKEN = 3  # Cyrillic, Greek, Arabic, Hebrew, Devanagari: shorter pieces
DIGITS_PER_TOKEN = 3
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
_LATIN_TOKEN, _DIGITS_TOKEN = b"a" * LATIN_LETTERS_PER_TOKEN, b"1" * DIGITS_PER_TOKEN
_TOKEN = re.compile(
    rf"[A-Za-z\u00c0-\u024f]{{1,{LATIN_LETTERS_PER_TOKEN}}}|\d{{1,{DIGITS_PER_TOKEN}}}|[{_UNSPACED}]|[^\w\s]|_+"
    rf"|[^\W\d_]{{1,{OTHER_LETTERS_PER_TOKEN}}}"
)


def sentence_spans(text: str, language: str = "en") -> list[Span]:
    """Start and end of each sentence, blanks trimmed, in code points; a line break ends one only where a paragraph ends."""
    return list(each_sentence(text, language))


def each_sentence(text: str, language: str = "en") -> Iterator[Span]:
    """The same one after the other: nothing is done for those that nobody asks for."""
    primary = language.partition("-")[0]
    begin = 0
    while begin < len(text):
        window = _window(text, begin)
        yield from _spans_in(window, begin, primary)
        begin += len(window)


def _spans_in(window: str, begin: int, language: str) -> Iterator[Span]:
    first, last = -1, -1  # of the sentence that may still go on
    for found in _boundaries(language, window):
        start, end = found["start_index"], found["end_index"]
        while start < end and window[start].isspace():
            start += 1
        while start < end and window[end - 1].isspace():
            end -= 1
        if start == end:
            continue
        if start == last and window[last - 1] == "." and _in_a_name(window, last):
            last = end
            continue
        if last > 0:
            yield begin + first, begin + last
        first, last = start, end
    if last > 0:
        yield begin + first, begin + last


def _in_a_name(text: str, at: int) -> bool:
    """Whether the stop before `at` belongs to a name, as in `asyncio.Task.cancel()`: further stops, `_`, `()` or capitals."""
    before, behind = _NAME_BEFORE.search(text, max(0, at - MAX_NAME_CHARS), at), _NAME_BEHIND.match(text, at)
    if before is None or behind is None:
        return False
    return "." in before[0][:-1] or _JOINED.match(behind[0]) is not None


def _boundaries(language: str, text: str) -> list[dict[str, Any]]:
    if not text.isascii():
        text = _WIDE_BLANK_BEFORE_STOP.sub(" ", text)
    try:
        found: list[dict[str, Any]] = sentencex.get_sentence_boundaries(language, text)
    except UnicodeEncodeError:  # half a pair, which no UTF-8 can hold; its stand-in is one code point too
        found = sentencex.get_sentence_boundaries(language, _LONE_SURROGATES.sub("\ufffd", text))
    return found


def _window(text: str, begin: int) -> str:
    """The next piece, up to a paragraph's or sentence's end: the splitter takes quadratic time where brackets abound."""
    window = text[begin : begin + WINDOW_CHARS]
    if begin + WINDOW_CHARS >= len(text):
        return window
    for start in (max(0, len(window) - LAST_STOP_CHARS), 0):  # the last one is wanted, and seldom far from the end
        ends = [found.end() for found in _STOP.finditer(window, start)]
        if ends:
            return window[: ends[-1]]
    return window[: window.rfind(" ") + 1 or len(window)]


def fold(text: str) -> str:
    """The text as it is compared: compatibility forms unified, accents kept, case gone."""
    return unicodedata.normalize("NFKC", text).casefold()


def words(text: str) -> list[str]:
    """Comparable words in order: folded, joined identifiers kept (`asyncio.run`, `c++`), unspaced scripts as bigrams."""
    folded = fold(text)
    if not folded.isascii() and _UNSPACED_OR_MARK.search(_ASCII_RUNS.sub("", folded)):
        return list(_words(folded))
    apart = folded.encode("utf-8", "surrogatepass").translate(_WORDS_APART).decode("utf-8", "surrogatepass")
    return list(chain.from_iterable(map(_PLAIN_WORDS.__getitem__, apart.split())))


def _words(folded: str) -> Iterator[str]:
    for match in _WORD.finditer(folded):
        word = match.group()
        if _UNSPACED_RUN.fullmatch(word):
            yield from (word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            yield word


def word_parts(word: str) -> list[str]:
    """The pieces of a joined word: `asyncio.run_in_executor` gives asyncio, run, in, executor."""
    return _PART.findall(word)


def count_tokens(text: str) -> int:
    """About as many tokens as a current model's vocabulary makes of the text, for any script; never less than one a word."""
    return _ascii_tokens(text) if text.isascii() else len(_TOKEN.findall(text))


def _ascii_tokens(text: str) -> int:
    """What the pattern finds, counted in a fifth of the time: runs of letters and of digits are cut, signs stand alone."""
    runs = text.encode("ascii").translate(_ASCII_KINDS)
    signs = runs.count(b".")
    letters = runs.translate(_LETTERS_APART).replace(_LATIN_TOKEN, b" a ")
    digits = runs.translate(_DIGITS_APART).replace(_DIGITS_TOKEN, b" 1 ")
    return signs + len(letters.split()) + len(digits.split()) + len(runs.translate(_UNDERSCORES_APART).split())


def first_tokens(text: str, limit: int) -> str:
    """The text's beginning of at most so many tokens as `count_tokens` counts them."""
    if count_tokens(text) <= limit:  # one call of the pattern, many times as fast as one for each token
        return text
    starts = (found.start() for found in _TOKEN.finditer(text))
    return text[: next(islice(starts, limit, None))].rstrip()  # where the first one begins that is too many
