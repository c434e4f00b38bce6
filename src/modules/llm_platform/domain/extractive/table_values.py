"""Read the cells of a table column as dates or quantities that can be compared.

A column is read as a whole, because one cell shows how the others are written: 0.5 shows that the point in 1.250 is a decimal
point. If the cells have several units, or contradict each other, the column is not compared.
"""

import itertools
import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

from modules.llm_platform.domain.extractive.quantities import (
    MINUTES,
    YEARS,
    DateRange,
    Quantity,
    find_date,
    find_date_range,
    find_decimal_sign,
    find_unit,
    is_clock,
    list_quantities,
    read_figure,
)
from modules.llm_platform.domain.extractive.table_words import load_word_list, split_cell
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.stemming import stem

MAX_CHARS: Final = 80  # of a cell with a value; a longer cell is text
MAX_OTHERS: Final = 1  # cells with other text in a column of values
WEEK_DAYS: Final = 7
ANY_YEAR: Final = 2001  # of dates without a year
MIN_VALUES: Final = 3  # a column with fewer values is not compared

CURRENCIES: Final = frozenset({"eur", "usd", "gbp"})

_WORD: Final = re.compile(
    r"[^\W\d_]+|[^\w\s*†()\[\].,;:]"
)  # a word or a sign, but no punctuation or mark of a footnote

_NAMED_UNIT: Final = re.compile(r"[(\[]?(?:° ?[cf]\b|[^\W\d_]+[²2]?|[%€$£])")


_PER: Final = re.compile(r" ?/ ?[^\W\d_]+")

MONTH: Final = 99  # maximum difference between the numbers of the first and the last day of a month


class Column(NamedTuple):
    """The values of the cells of a column; None for a cell without a value. Dates are numbers such as 20240131.

    - `unit` is the base unit of the values. It is empty for dates, and without a known unit.
    - `ends` has the last days of dates, because a cell may have a range of days, or a month.
    """

    values: Sequence[float | None]
    unit: str = ""
    ends: Sequence[float | None] = ()

    @property
    def has_long_periods(self) -> bool:
        """True if a cell has a period of several months of each year, such as the season of opening hours."""
        return any(map(is_long_period, self.values, self.ends))


def is_long_period(first: float | None, last: float | None) -> bool:
    """Return whether a period has more than a month and no year: it comes again each year."""
    return first is not None and last is not None and last < YEARS and last - first >= MONTH


def read_dates(cells: Sequence[str]) -> Column | None:
    """Return the dates or years of a column as numbers; None if it has no dates.

    With dots, the day is first. With slashes, either the day or the month is first, and only one of the two orders may be valid.
    """
    day_first = _read_in_order(cells, month_first=False)
    month_first = _read_in_order(cells, month_first=True) if any("/" in cell for cell in cells) else day_first
    if day_first and month_first and day_first != month_first:
        return None
    days = day_first or month_first
    have_years = {day.first >= YEARS for day in days if day is not None}
    if len(have_years) != 1 or not _is_column(cells, days):
        return None
    return Column([day and day.first for day in days], ends=[day and day.last for day in days])


def extend_to_weeks(dates: Column) -> Column:
    """Return a column of the first days of weeks with the last days of these weeks; unchanged if the days are no weeks apart."""
    days = [value for value, end in zip(dates.values, dates.ends, strict=True) if value is not None and value == end]
    if len(days) < MIN_VALUES or len(days) < len([value for value in dates.values if value is not None]):
        return dates
    try:
        firsts = [_read_day(day) for day in days]
    except ValueError:
        return dates
    gaps = [(two - one).days for one, two in itertools.pairwise(firsts)]
    if any(gap <= 0 or gap % WEEK_DAYS for gap in gaps) or WEEK_DAYS not in gaps:
        return dates
    ends = (_write_day(first + timedelta(days=WEEK_DAYS - 1), has_year=days[0] >= YEARS) for first in firsts)
    return dates._replace(ends=[None if value is None else next(ends) for value in dates.values])


def _read_day(number: float) -> date:
    year, rest = divmod(int(number), YEARS)
    return date(year or ANY_YEAR, rest // 100, rest % 100)


def _write_day(day: date, *, has_year: bool) -> float:
    return float((day.year if has_year else 0) * YEARS + day.month * 100 + day.day)


def _read_in_order(cells: Sequence[str], *, month_first: bool) -> list[DateRange | None]:
    """Return the date of each cell; empty if a date is not valid in this order, or if two cells are not dates."""
    found: list[DateRange | None] = []
    others = 0
    try:
        for cell in cells:
            day = find_date_range(cell.casefold(), month_first=month_first) if len(cell) <= MAX_CHARS else None
            others += day is None and not _is_lacking(cell)
            if others > MAX_OTHERS:
                return []
            found.append(day)
    except ValueError:
        return []
    return found


def read_quantities(name: str, cells: Sequence[str]) -> Column | None:
    """Return the numbers of a column; None if they have several units or styles, or are dates.

    `name` is the name of the column, which may have the unit: `Weight (kg)`.
    """
    without = (cell for cell in cells if not any(map(str.isdigit, cell)) and not _is_lacking(cell))
    if next(itertools.islice(without, MAX_OTHERS, None), None) is not None:
        return None
    found = [_list_parts(cell.casefold()) if len(cell) <= MAX_CHARS else [] for cell in cells]
    if len({cell.count(":") for cell in cells if is_clock(cell)}) > 1:
        return (
            None  # 58:10 is hours and minutes in a column with 17:30, and minutes and seconds in a column with 1:29:54
        )
    decimal = find_decimal_sign([part.figure for parts in found for part in parts])
    if decimal is None or not _is_column(cells, [parts or None for parts in found]):
        return None
    units = {_read_unit(cell.casefold(), parts) for cell, parts in zip(cells, found, strict=True) if parts}
    if len(units) > 1:
        return None
    unit, factor = next(parts[0].unit for parts in found if parts), 1.0
    if not unit and (of_name := _find_unit_of_name(name)) is not None:
        unit, factor = of_name
    values = [_add(parts, decimal, factor) if parts else None for parts in found]
    if unit in CURRENCIES:  # what is free costs 0
        values = [0.0 if _is_free(cell) else value for cell, value in zip(cells, values, strict=True)]
    return Column(values, unit)


def _find_unit_of_name(name: str) -> tuple[str, float] | None:
    """Return the unit in the name of a column: the only one in brackets, or the only one, or the first word.

    A currency precedes other units, because `day_gbp` and `eur_per_day` are prices.

    A single letter is only a unit in brackets: `Weight (g)`. Other examples are `Day rate (£)`, `Hours this week` and `€/month`.
    """
    words = [word for word in _NAMED_UNIT.findall(_PER.sub("", name.casefold())) if len(word) > 1 or not word.isalpha()]
    in_brackets = [word for word in words if word.startswith(("(", "["))]  # `Day rate (£)`
    known_units = [(word, find_unit(word)) for word in words]
    currencies = [word for word, unit in known_units if unit and unit[0] in CURRENCIES]
    for among in (in_brackets, words, currencies, words[:1]):
        found = [known for word in among if (known := find_unit(word.lstrip("([").replace(" ", "")))]
        if len(found) == 1:
            return found[0]
    return None


def _list_parts(cell: str) -> list[Quantity]:
    """Return the number of a cell, or the parts of a duration; empty for a date and for several numbers."""
    if _is_date(cell):
        return []
    parts = list(list_quantities(cell))
    is_duration = all(part.unit == MINUTES or (at and not part.unit) for at, part in enumerate(parts))  # `2h30`
    return parts if len(parts) == 1 or is_duration else []


def _is_date(cell: str) -> bool:
    """Return whether a case-folded cell is a date. A year alone may also be a number."""
    try:
        day = find_date(cell)
    except ValueError:
        return True
    return day is not None and not cell.strip().isdigit()


def _read_unit(cell: str, parts: Sequence[Quantity]) -> tuple[str, ...]:
    """Return the unit of a cell and its other words as stems: equal for `1 apple`, `2 apples` and `about 3 apples`."""
    for part in reversed(parts):
        cell = f"{cell[: part.start]} {cell[part.end :]}"
    words = (word for word in _WORD.findall(cell) if word not in load_data("limits")["hedges"])
    return (parts[0].unit, *(stem(word) for word in words))


def _add(parts: Sequence[Quantity], decimal: str, factor: float) -> float:
    return sum(read_figure(part.figure, decimal) * (part.factor if part.unit else factor) for part in parts)


def _is_free(cell: str) -> bool:
    return bool(cell.strip()) and load_word_list("free").issuperset(split_cell(cell))


def _is_column(cells: Sequence[str], values: Sequence[object]) -> bool:
    """Return whether a column has enough values. One cell may have other text, and empty cells do not count."""
    found = sum(value is not None for value in values)
    others = sum(value is None and not _is_lacking(cell) for cell, value in zip(cells, values, strict=True))
    return found >= MIN_VALUES and others <= MAX_OTHERS


def _is_lacking(cell: str) -> bool:
    """Return whether a cell is empty, a dash, or `n/a`."""
    words, lacking = split_cell(cell), load_word_list("lacking")
    return cell.strip().casefold() in lacking or lacking.issuperset(words)
