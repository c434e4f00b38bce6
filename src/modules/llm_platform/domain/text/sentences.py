"""Split text of any script into sentences, and recognise the end of one."""

import re
from collections.abc import Iterator
from typing import Final

import sentencex

from modules.llm_platform.domain.text.language import get_primary_subtag

Span = tuple[int, int]

STOPS: Final = ".!?…؟।"  # end a sentence before a space
WIDE_STOPS: Final = "。！？｡"  # end one before any character
QUESTION_MARKS: Final = "?？؟"
COLONS: Final = ":："
CLOSING: Final = "\"'”’»」』)）\\]*_`"  # quotes, brackets and emphasis after a stop, for use inside of `[…]`
END_CHARS: Final = 8  # a stop and the closing characters after it
MAX_NAME_CHARS = 100  # searched before a stop without a space after it
WINDOW_CHARS = 3000  # handed to the sentence splitter at once
ORDINAL_CHARS = 12  # an article and the ordinal after it
ABBREVIATION_CHARS = 6  # the longest abbreviation, and the character before it
LAST_STOP_CHARS = 400  # the last stop of a window is searched here first

_ENDS = re.compile(rf"[{STOPS}{WIDE_STOPS}{COLONS};][{CLOSING}]*\Z")
_ASKS = re.compile(rf"[{QUESTION_MARKS}][{STOPS}{WIDE_STOPS}{CLOSING}]*\Z")
_LONE_SURROGATES = re.compile(r"[\ud800-\udfff]")
_WIDE_BLANK_BEFORE_STOP = re.compile(r"[^\S\x00-\x7f](?=\.)")  # the splitter panics after one
_STOP = re.compile(r"\n\n|[.!?]\s|[。！？]")
_NAME_BEFORE = re.compile(r"[A-Za-z_][\w.]*\.\Z")
_NAME_AFTER = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*(?:\()?")
_ORDINAL = re.compile(r"\b(?:[Dd](?:er|ie|as|en|em|es)|[Ii](?:m|ns)|[Zz]ur|[Bb]eim)\s\d{1,3}\.\Z")
_DAY = re.compile(r"\b(?:[Aa](?:b|m)|[Vv]om|[Bb]is|[Zz]um|[Dd](?:en|em|er|es))\s\d{1,2}\.\Z")
_GERMAN_MONTH = re.compile(
    r"\s(?:(?P<german>Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember)|April|August|September|November)\b"
)
_ANY_DAY = re.compile(r"(?<![\d.,])(?:[12]\d|3[01]|[1-9])\.\Z")
# "M. Garnier" and "Nr. 5", which the splitter knows only in texts of their language, or not at all.
_ABBREVIATION = re.compile(r"(?<!\w)(?:(?P<title>MM?)|(?P<number>Nr)|bzw|ca|vgl)\.\Z")
_JOINED = re.compile(r"[A-Z]{2}|\w*?(?:[._(]|[a-z][A-Z])")


def ends_sentence(text: str) -> bool:
    """Return whether the text ends with a stop, colon or semicolon, and maybe closing characters."""
    return bool(_ENDS.search(text.rstrip()[-END_CHARS:]))


def is_question(text: str) -> bool:
    """Return whether the text ends with a question mark, and maybe other stops and closing characters."""
    return bool(_ASKS.search(text[-END_CHARS:]))


def split_sentences(text: str, language: str = "en") -> list[Span]:
    """Return the start and end of each sentence, without spaces, in code points.

    A line break ends a sentence only where a paragraph ends.
    """
    return list(iterate_sentences(text, language))


def iterate_sentences(text: str, language: str = "en") -> Iterator[Span]:
    """Yield the spans that `split_sentences` returns. Text is only read as far as needed."""
    primary = get_primary_subtag(language)
    begin = 0
    while begin < len(text):
        window = _cut_window(text, begin)
        yield from _find_spans(window, begin, primary)
        begin += len(window)


def _find_spans(window: str, begin: int, language: str) -> Iterator[Span]:
    first, last, after = -1, -1, 0  # offsets of the sentence that may continue, and where the next piece begins
    for piece in _segment(language, window):
        at = after
        after += len(piece)
        bare = piece.strip()
        if not bare:
            continue
        start = at if piece[0] == bare[0] else at + len(piece) - len(piece.lstrip())
        end = start + len(bare)
        is_ordinal = language == "de" and _ends_in_ordinal(window, last, start)
        is_cut = is_ordinal or _ends_in_day(window, last, language) or _ends_in_abbreviation(window, last)
        if is_cut or (start == last and _continues(window, last)):
            last = end
            continue
        if last > 0:
            yield begin + first, begin + last
        first, last = start, end
    if last > 0:
        yield begin + first, begin + last


def _continues(text: str, at: int) -> bool:
    """Return whether a sentence continues after a stop that has no space after it.

    It continues before a small letter, as in `www.éa.fr` (the splitter only knows English letters). It also continues in a name,
    which has further stops, `_`, `()` or capitals, as in `asyncio.Task.cancel()`.
    """
    stop = text[at - 1]
    if text[at].islower() and stop not in WIDE_STOPS:
        return True
    if stop != ".":
        return False
    before, after = _NAME_BEFORE.search(text, max(0, at - MAX_NAME_CHARS), at), _NAME_AFTER.match(text, at)
    if before is None or after is None:
        return False
    return "." in before[0][:-1] or _JOINED.match(after[0]) is not None


def _ends_in_day(text: str, at: int, language: str) -> bool:
    """Return whether a German date continues after its day: `am 5. April`, `Dienstag, 15. Mai`.

    English answers quote German sentences. In these, a month with the same name in English needs a German word before its day.
    """
    if at <= 0 or text[at - 1] != "." or (month := _GERMAN_MONTH.match(text, at)) is None:
        return False
    day = _ANY_DAY if language == "de" or month["german"] else _DAY
    return day.search(text, max(0, at - ORDINAL_CHARS), at) is not None


def _ends_in_abbreviation(text: str, at: int) -> bool:
    """Return whether the text ends with a French or German abbreviation before `at`, and continues in the same line.

    A title is followed by a capital letter, and `Nr.` by a digit. English answers quote French and German sentences.
    """
    if at <= 0 or text[at - 1] != ".":
        return False
    found = _ABBREVIATION.search(text, max(0, at - ABBREVIATION_CHARS), at)
    after = text[at : at + 2]
    if found is None or len(after) < 2 or after[0] not in " \u00a0":
        return False
    if found["title"]:
        return after[1].isupper()
    return not found["number"] or after[1].isdigit()


def _ends_in_ordinal(text: str, at: int, start: int) -> bool:
    """Return whether a German sentence continues at `start` after a number with a point: `das 18. Lebensjahr`.

    A number right after an article is an ordinal. `am 5.` may be a date that ends its sentence.
    """
    return (
        text[at - 1 : at] == "."
        and _ORDINAL.search(text, max(0, at - ORDINAL_CHARS), at) is not None
        and (text.count("\n", at, start) < 2)
    )


def _segment(language: str, text: str) -> list[str]:
    """Return the sentences with the spaces around them. Together they are as long as the text."""
    if not text.isascii():
        text = _WIDE_BLANK_BEFORE_STOP.sub(" ", text)
    if "May." in text:
        text = text.replace("May.", "Day.")  # the splitter takes the month for an abbreviation
    try:
        found: list[str] = sentencex.segment(language, text)
    except UnicodeEncodeError:  # a lone surrogate; its replacement is one code point too
        found = sentencex.segment(language, _LONE_SURROGATES.sub("\ufffd", text))
    return found


def _cut_window(text: str, begin: int) -> str:
    """Return the next part, up to the end of a paragraph or sentence. The splitter takes quadratic time for many brackets."""
    window = text[begin : begin + WINDOW_CHARS]
    if begin + WINDOW_CHARS >= len(text):
        return window
    for start in (max(0, len(window) - LAST_STOP_CHARS), 0):  # the last stop is seldom far from the end
        ends = [found.end() for found in _STOP.finditer(window, start)]
        if ends:
            return window[: ends[-1]]
    return window[: window.rfind(" ") + 1 or len(window)]
