"""Read the limit that a question states for the rows of a table: `under £15`, `before June`, `lighter than 5 kg`."""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple

from modules.llm_platform.domain.extractive.measures import Comparison, Measure, list_comparisons
from modules.llm_platform.domain.extractive.quantities import (
    MINUTES,
    YEARS,
    find_date,
    find_decimal_sign,
    find_unit,
    list_quantities,
    read_figure,
)
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.numbers import PERCENT, load_number_words

LimitKind = Literal["above", "from", "below", "up_to", "after", "since", "before", "until"]
PhraseKind = Literal[LimitKind, "between", "and", "or_more", "or_less", "than", "skipped"]
DATE_LIMITS: Final[tuple[LimitKind, ...]] = ("after", "since", "before", "until")
QUANTITY_LIMITS: Final[tuple[LimitKind, ...]] = ("above", "from", "below", "up_to")
SUFFIXES: Final[tuple[tuple[PhraseKind, LimitKind], ...]] = (("or_more", "from"), ("or_less", "up_to"))
CACHED_TEXTS: Final = 64  # questions and claims
MAX_READ_CHARS: Final = 300  # of a question; the rest of a longer one is not read
MAX_VALUE_CHARS: Final = 40  # of a value with its unit, or of a date
STRICT: Final = frozenset({"above", "below", "after", "before"})
UPPER: Final = frozenset({"below", "up_to", "before", "until"})

_HALF: Final = re.compile(r" (?:and a half|einhalb|et demie?|y media)\b")
_WORD: Final = re.compile(r"[^\W\d_]+[²]?")
_TIME: Final = re.compile(r"\d{1,2}(?::\d{2}| ?[ap]\.?m\b| uhr\b)")
_JOINED: Final = re.compile(r" ?(?:(?:and|und|et|y|e) )?(?=\d)")
_ARTICLE: Final = re.compile(r" ?(?:an? |of (?:the |an? )?)?")
_INDEFINITE: Final = re.compile(r"\b(?:an?|eine[mnr]?|ein|une?|una) \Z")
_YEAR_BEFORE_VERB: Final = re.compile(r"((?:1[5-9]|20)\d\d) ([^\W\d_]+) ?[.?!]?\Z")  # German
_SUFFIX_NOUN: Final = r"(?P<noun>(?: [^\W\d_]+)?) ?"  # `20 seats or more`


class Value(NamedTuple):
    """A value in a question.

    - For a quantity, `first` and `last` are equal. They are already multiplied by `factor`, so they are in the base unit
      `unit`, which is empty if unknown.
    - For a date, `first` and `last` are the numbers of its first and last day, and `unit` is None.
    - `end` is the offset after the value.
    """

    first: float
    last: float
    unit: str | None
    factor: float
    end: int


class Limit(NamedTuple):
    """The values that rows must have.

    - `unit` is empty without a known unit, and None for dates.
    - `rest` is the question without the limit. `noun` is the word after the limit, or in it: `20 seats or more`.
    - `measure` is what a comparative such as "older" compares; None without a comparative.
    """

    low: float | None
    high: float | None
    is_strict: bool
    unit: str | None
    rest: str = ""
    noun: str = ""
    measure: Measure | None = None

    def contains(self, value: float) -> bool:
        """Return whether a value is within the limit."""
        if self.is_strict:
            return (self.low is None or value > self.low) and (self.high is None or value < self.high)
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    @property
    def has_year(self) -> bool:
        return all(value is None or value >= YEARS for value in (self.low, self.high))


def read_limits(question: str) -> list[Limit]:
    """Return the interpretations of the first limit, one for each measure of a comparative; empty without a limit.

    Only the first MAX_READ_CHARS characters are read.
    """
    return list(_read_limits(question[:MAX_READ_CHARS].casefold()))


@lru_cache(maxsize=CACHED_TEXTS)  # a claim is read once for each table of its source
def _read_limits(text: str) -> Sequence[Limit]:
    readings = (tuple(read(text)) for read in (_read_range, _read_comparative, _read_phrase, _read_suffix))
    return next(filter(None, readings), ())


def _read_range(text: str) -> Iterator[Limit]:
    """Yield the limit of `between 10 and 20 pounds`. A first value without a unit has the unit of the second value."""
    for phrase in _compile("between").finditer(text):
        low = _read_any_value(text, phrase.end())
        between = low and _compile("and").match(text, low.end + text.startswith(" ", low.end))
        high = between and _read_any_value(text, between.end())
        if low and high and (low.unit == high.unit or low.unit == ""):
            first = low.first if low.unit == high.unit else low.first * high.factor
            yield _add_context(Limit(first, high.last, False, high.unit), text, phrase.start(), high.end)
            return


def _read_comparative(text: str) -> Iterator[Limit]:
    """Yield the limits of `older than 30`, one for each measure that the word compares."""
    for than in _compile("than").finditer(text):
        words = text[: than.start()].split()
        value = _read_any_value(text, than.end())
        if not words or value is None:
            continue
        is_denied = len(words) > 1 and words[-2] in load_data("limits")["not"]
        start = text.rindex(words[-2] if is_denied else words[-1], 0, than.start())
        for comparison in list_comparisons(words[-1]):
            kind = _get_kind(comparison, value, is_denied=is_denied)
            yield _add_context(_make_limit(kind, value), text, start, value.end)._replace(measure=comparison.measure)


def _get_kind(comparison: Comparison, value: Value, *, is_denied: bool) -> LimitKind:
    """Return the kind of limit of a comparative. `not older than 30` is up to 30."""
    is_upper = (comparison.direction == "less") is not is_denied
    if value.unit is None:
        return ("until" if is_denied else "before") if is_upper else ("since" if is_denied else "after")
    return ("up_to" if is_denied else "below") if is_upper else ("from" if is_denied else "above")


def _read_phrase(text: str) -> Iterator[Limit]:
    """Yield the limit of a phrase before a value: `at least 20`, `before June`. `Since` and `from` may be one word."""
    found = [
        (phrase.start(), -phrase.end(), kind, value)
        for kind in (*DATE_LIMITS, *QUANTITY_LIMITS)
        for phrase in _compile(kind).finditer(text)
        if (
            value := _read_value(text, phrase.end(), is_date=kind in DATE_LIMITS)
            or _read_year(text, phrase.end(), kind)
        )
    ]
    if found:
        start, _, kind, value = min(found, key=lambda one: one[:2])
        yield _add_context(_make_limit(kind, value), text, start, value.end)


def _read_suffix(text: str) -> Iterator[Limit]:
    """Yield the limit of a value with words after it: `20 or more`."""
    for quantity in list_quantities(text):
        for part, kind in SUFFIXES:
            after = re.compile(_SUFFIX_NOUN + _compile(part).pattern).match(text, quantity.end)
            if after and (value := _read_value(text, quantity.start, is_date=False)):
                limit = _add_context(_make_limit(kind, value), text, quantity.start, after.end())
                noun = after["noun"].strip()
                # The words stay in the rest, because "or older" says what is compared.
                yield limit._replace(rest=f"{limit.rest} {text[value.end : after.end()]}", noun=noun or limit.noun)
                return


def _make_limit(kind: LimitKind, value: Value) -> Limit:
    """Return the limit of a value. "After June" begins after the last day of June, and "since June" with its first day."""
    is_last = kind in ("after", "until")
    bound = value.last if is_last else value.first
    low, high = (None, bound) if kind in UPPER else (bound, None)
    return Limit(low, high, kind in STRICT, value.unit)


def _read_any_value(text: str, at: int) -> Value | None:
    return _read_value(text, at, is_date=True) or _read_value(text, at, is_date=False)


def _read_value(text: str, at: int, *, is_date: bool) -> Value | None:
    """Return the value that begins at this offset of a case-folded text, after an article or a word such as "about" if any.

    With `is_date`, the value is a date or a time of the day.
    """
    skipped = _compile("skipped").match(text, at)
    at = skipped.end() if skipped else at
    if not is_date:
        return _read_quantity(text, at) or _read_number_word(text, at)
    if _TIME.match(text, at):
        return _read_quantity(text, at)
    try:
        day = find_date(text[at : at + MAX_VALUE_CHARS])
    except ValueError:
        return None
    return None if day is None or day.start else Value(day.first, day.last, None, 1.0, at + day.end)


def _read_year(text: str, at: int, kind: LimitKind) -> Value | None:
    """Return the year of `vor 2020 angeschafft`. After other phrases, a number before a word is no year: `bis 2020 Euro`."""
    found = _YEAR_BEFORE_VERB.match(text, at) if kind in ("after", "since", "before") else None
    if found is None or find_unit(found[2]) is not None:
        return None
    year = int(found[1]) * YEARS
    return Value(year, year + YEARS - 1, None, 1.0, found.end(1))


def _read_quantity(text: str, at: int) -> Value | None:
    """Return a number in figures with its unit, or the sum of `3 hours and 20 minutes`."""
    found = next(list_quantities(text[at : at + MAX_VALUE_CHARS]), None)
    if found is None or found.start or (decimal := find_decimal_sign([found.figure])) is None:
        return None
    amount, end = read_figure(found.figure, decimal) * found.factor, at + found.end
    joined = _JOINED.match(text, end) if found.unit == MINUTES else None
    smaller = _read_quantity(text, joined.end()) if joined else None
    if smaller is not None and smaller.unit == MINUTES and smaller.factor < found.factor:
        amount, end = amount + smaller.first, smaller.end
    return Value(amount, amount, found.unit, found.factor, end)


def _read_number_word(text: str, at: int) -> Value | None:
    """Return a number in words with its unit: `half a kilo`, `two and a half hours`. A bare fraction is a percentage."""
    word = _WORD.match(text, at)
    number = word and load_number_words().get(word[0])
    if word and not number and (one := find_unit(word[0])) and _INDEFINITE.search(text, 0, at):  # `over an hour`
        return Value(one[1], one[1], *one, word.end())
    if not word or not number or text.startswith("-", word.end()):  # `twenty-five` is not read
        return None
    amount, end = float(number), word.end()
    if half := _HALF.match(text, end):
        amount, end = amount + 0.5, half.end()
    article = _ARTICLE.match(text, end)
    noun = _WORD.match(text, article.end() if article else end)
    unit, factor = (noun and find_unit(noun[0])) or ("", 1.0)
    if noun and unit:
        end = noun.end()
    elif amount < 1:
        amount, unit = 100 * amount, PERCENT
    return Value(amount * factor, amount * factor, unit, factor, end)


def _add_context(limit: Limit, text: str, start: int, end: int) -> Limit:
    """Return the limit with the text around it (`rest`), and the word after it (`noun`)."""
    noun = _WORD.search(text, end)
    return limit._replace(rest=f"{text[:start]} {text[end:]}", noun=noun[0] if noun else "")


@cache
def load_phrases(*parts: PhraseKind) -> frozenset[str]:
    """Return the phrases of these parts of `limits.json`."""
    return frozenset(phrase for part in parts for phrase in load_data("limits")[part])


@cache
def _compile(part: PhraseKind) -> re.Pattern[str]:
    """Return the pattern of the phrases of a part, each as whole words, and of one blank after the phrase if there is one."""
    phrases = sorted(load_data("limits")[part], key=len, reverse=True)
    return re.compile(rf"(?:(?<!\w)(?:{'|'.join(map(re.escape, phrases))})(?!\w)[ ]?)")
