"""Read numbers and dates in figures, words and Chinese characters, with every value that each can mean."""

import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import Final

from modules.llm_platform.domain.text.data_files import load_data, load_words
from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.memoized import Memoized
from modules.llm_platform.domain.text.positions import Offset
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import normalize_unit

NumberValues = frozenset[str]  # the values that a written number can have: 1.000 is one thousand or one

MAX_NUMBERS: Final = 60  # numbers of one text; the cells of a table are not compared one by one
MEMOIZED_FIGURES: Final = 1024
MAX_DIGITS: Final = (
    290  # a longer run of digits is not read: a float has at most 308 digits, and 千亿 after them adds eleven
)

_LETTERS = r"A-Za-z_\u00c0-\u024f\u0370-\u052f"
_CLOCK = re.compile(r"([0-9]{1,2})(:[0-9]{2}(?::[0-9]{2})?)")
_NUMBER = re.compile(
    rf"(?<![{_LETTERS}0-9])[0-9]+"
    rf"(?:(?!,{_CLOCK.pattern}(?![0-9]))[.,'’\u00a0\u202f·:/][0-9]+|[ ](?=[0-9]{{3}}(?![0-9]))[0-9]{{3}})*(?![0-9])"
)
SCALE: Final = re.compile(
    r"[ \u00a0-]?(?=[tmbтм千百万萬亿億만억])"  # most numbers have no such letter after them, which is seen at once
    r"(thousand|tsd|тыс\w*|million\w*|mio|mln|млн|миллион\w*|billion\w*|bn|milliard\w*|mrd|млрд|миллиард\w*"
    r"|trillion\w*|mil(?!\w)|万|萬|亿|億|千|百|만|억)",
    re.IGNORECASE,
)
_HOUR = re.compile(
    r"(?: ?(?:-|–|to|until) ?(?P<end>[0-9]{1,2})(?::(?P<end_minute>[0-9]{2}))?)? ?"
    r"(?:(?P<half>[ap])\.?m\b|uhr\b(?! ?[0-9])|o['’]clock\b)",
    re.IGNORECASE,
)
MAX_HOUR: Final = 24
_FACTORS = {
    "thousand": 1e3,
    "tsd": 1e3,
    "тыс": 1e3,
    "千": 1e3,
    "百": 1e2,
    "million": 1e6,
    "mio": 1e6,
    "mln": 1e6,
    "млн": 1e6,
    "миллион": 1e6,
    "billion": 1e9,
    "bn": 1e9,
    "milliard": 1e9,
    "mrd": 1e9,
    "млрд": 1e9,
    "миллиард": 1e9,
    "trillion": 1e12,
    "mil": 1e3,
    "万": 1e4,
    "萬": 1e4,
    "만": 1e4,
    "亿": 1e8,
    "億": 1e8,
    "억": 1e8,
}
_COUNTED = "个個名人座条年月日天次种種家公米元级層层位度克倍小分秒只隻周週岁歳頭匹本回成项所部台辆艘篇块杯张"
_HAN_NUMBER = re.compile(
    f"[两二三四五六七八九十百千万亿零〇一][二三四五六七八九十百千万亿零〇一]+|[两二三四五六七八九十](?=[{_COUNTED}])"
)
_HAN_DECIMAL = re.compile("([零〇一二三四五六七八九十百千两]{1,12})点([零〇一二三四五六七八九]{1,12})")
_HAN_PERCENTAGE = re.compile("(?<=百分之)[零〇一二三四五六七八九十百两]{1,12}")
_HAN_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000}
_HAN_BLOCKS = {"万": 10_000, "亿": 100_000_000}

_ONES = "one|two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_BELOW_100 = rf"(?:(?:{'|'.join(_TENS)})(?:[ -](?:{_ONES}))?|{_TEENS}|{_ONES})"
_BELOW_1000 = rf"(?:{_BELOW_100} hundred(?: (?:and )?{_BELOW_100})?|{_BELOW_100})"
_ENGLISH_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_ENGLISH = lazy_pattern(
    rf"\b{_BELOW_1000}(?: (?:{'|'.join(_ENGLISH_SCALES)})(?: (?:and )?{_BELOW_1000})?)*\b", re.IGNORECASE
)
_IN_COMPOUNDS = frozenset({*_TENS, "hundred", *_ENGLISH_SCALES})  # each compound has one of these words

PERCENT: Final = "%"
_PERCENT = {"0.25": "25", "0.333": "33", "0.5": "50"}
_PARTS = frozenset({"quarter", "half", "hälfte"})  # 25 and 50 percent, but for "the third quarter" and "the first half"
_ORDINALS = frozenset({"first", "second", "third", "fourth", "last", "next", "previous", "this"}) | frozenset(
    {"erste", "ersten", "zweite", "zweiten", "letzte", "letzten", "nächsten"}
)
_ISO_MONTH = re.compile(r"(?<=\d{4}-)\d\d(?=-\d\d(?!\d))")


@cache
def load_number_words() -> dict[str, str]:
    """Return the value of each number word, without words that mean something else in another language."""
    return {word: value for value, listed in load_data("number_words").items() for word in listed.split()}


def find_number_words(words: Sequence[str]) -> list[int]:
    """Return the positions of the number words among folded words. `the third quarter` and `the first half` have none."""
    known = load_number_words()
    return [
        at
        for at, word in enumerate(words)
        if word in known and not (word in _PARTS and at and words[at - 1] in _ORDINALS)
    ]


@cache
def load_date_words() -> dict[str, int]:
    """Return the names of months (0 to 11) and weekdays (12 to 18), folded, in many languages."""
    names = load_data("dates")
    rows = [*names["months"], *names["weekdays"]]
    return {word: number for number, listed in enumerate(rows) for word in listed.split()}


@cache
def load_other_writings() -> dict[str, tuple[str, ...]]:
    """Return the figures of each number word (`twelve`: `12`), and the words of these figures in all languages."""
    table: dict[str, tuple[str, ...]] = {word: (figures,) for word, figures in load_number_words().items()}
    return table | {figures: tuple(listed.split()) for figures, listed in load_data("number_words").items()}


@cache
def list_spelling_words() -> frozenset[str]:
    """Return words such that each number written in words has at least one of them."""
    return frozenset(load_number_words()) | _ENGLISH_SCALES.keys()


def find_compound_numbers(text: str, words: Collection[str]) -> list[tuple[NumberValues, Span]]:
    """Return the English numbers of several words (`twenty-one`, `two hundred and forty`, `three million`) with their spans.

    `words` are the folded words of the text.
    """
    if _IN_COMPOUNDS.isdisjoint(words):
        return []
    return [
        (frozenset({_format_number(_parse_english_number(found[0]))}), found.span())
        for found in _ENGLISH.finditer(text)
        if not found[0].isalpha()
    ]


def _parse_english_number(written: str) -> float:
    total = below_1000 = 0.0
    for word in written.lower().replace("-", " ").split():
        if word == "hundred":
            below_1000 *= 100
        elif word in _ENGLISH_SCALES:
            total, below_1000 = total + below_1000 * _ENGLISH_SCALES[word], 0.0
        elif word != "and":
            below_1000 += float(
                load_number_words().get(word, 1)
            )  # "one" alone is an article or a pronoun, and no number
    return total + below_1000


def read_value(value: str) -> NumberValues:
    """Return all values of a number. A half and 0.5 may also be 50 percent."""
    return frozenset({value, _PERCENT[value]}) if value in _PERCENT else frozenset({value})


def list_numbers(text: str) -> list[tuple[NumberValues, Offset]]:
    """Return the numbers in figures or Chinese characters, each with all its possible values and its offset in the text."""
    if "-" in text:
        text = _ISO_MONTH.sub("--", text)  # a month is compared by its name
    found: list[tuple[NumberValues, Offset]] = []
    for match in _NUMBER.finditer(text):
        scale = SCALE.match(text, match.end())
        values = _SCALED_VALUES[f"{scale[1]} {match[0]}"] if scale else _FIGURES_VALUES[match[0]]
        found.append((values | _list_clock_times(match, text), Offset(match.start())))
        if len(found) >= MAX_NUMBERS:
            break
    if not text.isascii():
        found += _find_han_numbers(text)
    return found


def _list_clock_times(number: re.Match[str], text: str) -> NumberValues:
    """Return the time of the day that a number stands for: `17:00` for `5 p.m.`, and for the first number of `5 to 7 p.m.`"""
    written, clock = number[0], _CLOCK.fullmatch(number[0]) if ":" in number[0] else None
    hour, minutes = (int(clock[1]), clock[2]) if clock else (0, ":00")
    if not clock:
        if not (len(written) <= 2 and written.isdecimal() and int(written) <= MAX_HOUR):
            return frozenset()
        hour = int(written)
    named = _HOUR.match(text, number.end())
    if named is None:
        return frozenset({f"{hour}{minutes}"} if clock else ())
    half = (named["half"] or "").lower()
    if half and named["end"]:
        begin, end = (hour % 12, minutes), (int(named["end"]) % 12, f":{named['end_minute'] or '00'}")
        half = half if begin < end else "a" if half == "p" else "p"  # `11 to 3 p.m.` begins before noon
    elif half and hour > 12:
        half = ""
    return frozenset({f"{hour % 12 + (12 if half == 'p' else 0) if half else hour}{minutes}"})


def _find_han_numbers(text: str) -> list[tuple[NumberValues, Offset]]:
    """Return the numbers in Chinese characters. In 百分之一点五 the number is 1.5, and 百分之 is not a number."""
    found: list[tuple[NumberValues, Offset]] = []
    if "点" in text or "百分之" in text:
        for match in _HAN_DECIMAL.finditer(text):
            digits = "".join(str(_HAN_DIGITS[sign]) for sign in match[2])
            found.append(
                (frozenset({_format_number(float(f"{_parse_han_number(match[1])}.{digits}"))}), Offset(match.start()))
            )
        text = _HAN_DECIMAL.sub(_replace_by_blanks, text)
        found += [(_read_han_number(match[0]), Offset(match.start())) for match in _HAN_PERCENTAGE.finditer(text)]
        text = _HAN_PERCENTAGE.sub(_replace_by_blanks, text)
    return found + [(_read_han_number(match[0]), Offset(match.start())) for match in _HAN_NUMBER.finditer(text)]


def _replace_by_blanks(found: re.Match[str]) -> str:
    return " " * len(found[0])


def is_same_number(words: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether both runs of words are one number and nothing else.

    Examples are `twenty-one` and `21`, `2 million` and `2,000,000`, `half` and `50 percent`, but not `12` and `12 percent`.
    """
    return not _read_number(words).isdisjoint(_read_number(others))


def _read_number(words: Sequence[str]) -> NumberValues:
    """Return the values of words that together are one number; empty if they are not. Percentages have their sign."""
    if words and normalize_unit(words[-1].casefold()) == PERCENT:
        return frozenset(value + PERCENT for value in _read_number(words[:-1]))
    if len(words) > 1 and words[0].casefold() in load_words("connectives", "articles"):
        words = words[1:]  # "a quarter"
    text = " ".join(words).casefold()
    if text in load_number_words():
        value = load_number_words()[text]
        return read_value(value) | ({_PERCENT[value] + PERCENT} if value in _PERCENT else set())
    if _ENGLISH.fullmatch(text):
        return frozenset({_format_number(_parse_english_number(text))})
    figures = list_numbers(text) if all(word.isdecimal() or word in _ENGLISH_SCALES for word in text.split()) else []
    return figures[0][0] if len(figures) == 1 else frozenset()


def _read_scaled(scale: str, written: str) -> NumberValues:
    """Return the values of `2 million`: with the factor, and without it."""
    factor = next(value for name, value in _FACTORS.items() if scale.lower().startswith(name))
    values = _parse_figures(written)
    return frozenset(_format_number(value * by) for value in values for by in (1, factor)) or frozenset({written})


_SCALED_VALUES: Final = Memoized(lambda words: _read_scaled(*words.split(" ", 1)), MEMOIZED_FIGURES)


def _read_figures(written: str) -> NumberValues:
    return frozenset(map(_format_number, _parse_figures(written))) or frozenset({written})


_FIGURES_VALUES: Final = Memoized(_read_figures, MEMOIZED_FIGURES)


def _parse_figures(written: str) -> list[float]:
    parts = re.split(r"[^0-9]", written)
    signs = re.findall(r"[^0-9]", written)
    if len(parts) == 1:
        return [float(written)] if len(written) <= MAX_DIGITS else []
    grouped = all(len(part) == 3 for part in parts[1:]) and len(parts[0]) <= 3 and ":" not in signs and "/" not in signs
    values = [float("".join(parts))] if grouped else []
    if len(parts) == 2 and signs[0] in ".,·":
        values.append(float(".".join(parts)))
    elif len(parts) > 2 and signs[-1] in ".," and signs[-1] != signs[0] and all(len(part) == 3 for part in parts[1:-1]):
        values.append(float("".join(parts[:-1]) + "." + parts[-1]))
    return values


def _format_number(value: float) -> str:
    return f"{value:.12g}"


def _read_han_number(written: str) -> NumberValues:
    return frozenset({_format_number(_parse_han_number(written)) if len(written) <= MAX_DIGITS else written})


def _parse_han_number(written: str) -> int:
    total = block = digit = 0
    for sign in written:
        if sign in _HAN_DIGITS:
            digit = digit * 10 + _HAN_DIGITS[sign] if digit else _HAN_DIGITS[sign]
        elif sign in _HAN_UNITS:
            block += (digit or 1) * _HAN_UNITS[sign]
            digit = 0
        else:
            total += (block + digit or 1) * _HAN_BLOCKS[sign]
            block = digit = 0
    return total + block + digit


_MONTHS, _WEEKDAYS = frozenset(range(12)), frozenset(range(12, 19))
ALSO_VERBS: Final = frozenset({"may", "march"})  # months only if they are capitalised
ISO_DATE = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)")


def find_other_date(mine: Collection[str], theirs: Collection[str]) -> tuple[str, str] | None:
    """Return a month or weekday of `mine` and a different one of `theirs`, as written; None without such a pair.

    Months are compared first. They are left out if the texts share one or if one text has none; the same holds for weekdays.
    """
    own, other = _find_months_and_weekdays(mine), _find_months_and_weekdays(theirs)
    for kind in (_MONTHS, _WEEKDAYS):
        here, there = kind & own.keys(), kind & other.keys()
        if here and there and not here & there:
            return own[min(here)], other[min(there)]
    return None


def _find_months_and_weekdays(words: Collection[str]) -> dict[int, str]:
    """Return the words that name months and weekdays, by their number."""
    names = load_date_words()
    found = {int(word[5:7]) - 1: word for word in words if "-" in word and ISO_DATE.fullmatch(word)}
    known = {names[word.casefold()]: word for word in words if word.casefold() in names and word not in ALSO_VERBS}
    return found | known
