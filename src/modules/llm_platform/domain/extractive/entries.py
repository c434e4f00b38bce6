"""Read the date at the beginning of an entry of a diary or a log: `Tue 4 July. The tool store was broken into.`

The date belongs to all sentences of the entry, and alone it says nothing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.quantities import MONTHS
from modules.llm_platform.domain.text.numbers import load_date_words
from modules.llm_platform.domain.text.sentences import ends_sentence

MIN_DATES: Final = 3  # of a diary: a letter or a list may have fewer
MAX_DATE_CHARS: Final = 60
WEEKDAY_LETTERS: Final = (2, 3, 4)  # of short names: `Sa`, `Sat`, `Tues`
MONTH_LETTERS: Final = (3, 4)
_DATE: Final = (
    r"(?:\*\*|__)?(?:(?:{weekdays})\b[.,]{{0,2}} )?(?:(?:the|le|el|il) )?"
    r"(?:(?P<numeric>\d{{4}}-\d\d-\d\d|\d{{1,2}}(?P<sign>[./])\d{{1,2}}(?P=sign)(?:\d{{4}}|\d\d))"
    r"|\d{{1,2}}\.\d{{1,2}}\.|\d{{1,2}}(?:\.|st|nd|rd|th|er)? (?:(?:of|de) )?(?:{months})\b{dot}(?:,? (?:de )?\d{{4}})?"
    r"|(?:{months})\b\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?)(?!\d)(?:\*\*|__)?"
)
# Few lines of prose have a figure so near to their beginning, so the pattern of a date is seldom tried.
_DAY: Final = re.compile(r"[^\d\n]{0,24}\d")
_DATED_LINE: Final = re.compile(r"^(?:(?:[-*+•]|#{1,6}) )?(?P<line>[^\d\n]{0,24}\d[^\n]*)", re.MULTILINE)
_DOT: Final = r"(?:\.(?=[:,]| \d{4}))?"  # of a short name; any other full stop ends the date
_SEPARATOR: Final = re.compile(r"(?:[.:]|\s[-–—]|[–—])(?:\*\*|__)?(?:\s+|\Z)|\s*\Z")
_DASH: Final = re.compile("[-–—]")
_MARKS: Final = "*_.: "


class DatedText(NamedTuple):
    """The date at the beginning of a line, empty if there is none, and the rest of the line."""

    date: str
    text: str


class DiaryStyle(NamedTuple):
    """Whether a text is a diary, and where its dates stand."""

    dates_begin_lines: bool
    dates_are_headings: bool


@cache
def _compile_date() -> str:
    """Return the pattern of a date at the beginning of a line."""
    numbers = {word: number for word, number in load_date_words().items() if word.isalpha()}
    months = _add_short_names((word for word, number in numbers.items() if number < MONTHS), MONTH_LETTERS)
    weekdays = _add_short_names((word for word, number in numbers.items() if number >= MONTHS), WEEKDAY_LETTERS)
    return _DATE.format(weekdays=weekdays, months=months, dot=_DOT)


def _add_short_names(names: Iterable[str], letters: Sequence[int]) -> str:
    """Return a pattern of these names and their first letters, the longest first."""
    found = {part for name in names for part in (name, *(name[:count] for count in letters))}
    return "|".join(sorted(found, key=len, reverse=True))


@cache
def _compile_pattern() -> re.Pattern[str]:
    return re.compile(_compile_date(), re.IGNORECASE)


def detect_diary_style(text: str) -> DiaryStyle:
    """Return whether a text is a diary: MIN_DATES different dates begin its lines, or are lines of their own."""
    dated = [one for found in _DATED_LINE.finditer(text) if (one := split_date(found["line"])).date]
    lines, headings = {one.date for one in dated if one.text}, {one.date for one in dated if not one.text}
    return DiaryStyle(len(lines) >= MIN_DATES, len(headings) >= MIN_DATES)


def split_date(line: str) -> DatedText:
    """Split the date off a line that begins with one, and with a full stop, a colon or a dash after it.

    A date in figures with its year needs none of them: `2026-03-14 Oil changed`. A range of dates is not split.
    """
    found = _compile_pattern().match(line[:MAX_DATE_CHARS]) if _DAY.match(line) else None
    if found is None:
        return DatedText("", line)
    separator = _SEPARATOR.match(line, found.end())
    if separator is None and not (found["numeric"] and line[found.end() : found.end() + 1].isspace()):
        return DatedText("", line)
    end = separator.end() if separator else found.end()
    if separator is not None and _DASH.search(separator[0]) and line[end : end + 1].isdigit():
        return DatedText("", line)  # `4 March – 12 April`
    return DatedText(found[0].strip(_MARKS), line[end:].lstrip())


def is_date(heading: str) -> bool:
    """Return whether a heading is a date and nothing else."""
    dated = split_date(heading)
    return bool(dated.date) and not dated.text


def split_entries(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the entries of a paragraph, each with its date and its lines without the date.

    Lines before the first date have none. A date within a wrapped sentence begins no entry.
    """
    date, own = "", list[str]()
    may_begin = True
    for line in lines:
        dated = split_date(line.strip()) if may_begin else DatedText("", line)
        if dated.date:
            if own:
                yield date, own
            date, own = dated.date, [dated.text] * bool(dated.text)
        else:
            own.append(line)
        may_begin = bool(dated.date) or ends_sentence(line)
    if own:
        yield date, own


def keep_entries(text: str, is_kept: Callable[[str], bool]) -> str:
    """Return a text without the diary entries whose dates `is_kept` rejects.

    Text below a heading stays, and so does text after a blank line below the last entry.
    A text whose lines do not begin with dates is returned unchanged.
    """
    if not detect_diary_style(text).dates_begin_lines:
        return text
    lines = text.split("\n")
    dates = [split_date(line.strip().removeprefix("- ")).date for line in lines]
    last = max(at for at, date in enumerate(dates) if date)
    kept, is_of_entry_kept = list[str](), True
    for at, (line, date) in enumerate(zip(lines, dates, strict=True)):
        if date:
            is_of_entry_kept = is_kept(date)
        elif line.startswith("#") or (at > last and not line.strip()):
            is_of_entry_kept = True
        if is_of_entry_kept:
            kept.append(line)
    return "\n".join(kept)
