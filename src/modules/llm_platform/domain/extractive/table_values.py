"""Read the cells of a table column as numbers or dates that can be compared.

A column is read as a whole, because one cell shows how the others are written: 0.5 shows that the point in 1.250 is a decimal
point. If the cells have several units, or contradict each other, the column is not compared.
"""

import re
from collections.abc import Sequence
from datetime import date

from modules.llm_platform.domain.text.stemming import normalize_unit, stem
from modules.llm_platform.domain.text.tokens import fold

MIN_VALUES = 3  # fewer values are not compared

_NUMBER = re.compile(r"[-+]?(?:(?<![\w.])\.)?\d[\d.,' \u00a0\u202f]*")
_BLANKS = re.compile(r"[' \u00a0\u202f]")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:(?:\.\d{3})+|(?:,\d{2,3})*,\d{3})")  # India groups two digits: 12,34,567
_UNIT = re.compile(r"[^\W\d_]+|[^\w\s*†()\[\].,;:]")  # a word or a sign, but no punctuation or mark of a footnote
_ISO_DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")
_NUMERIC_DATE = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})")
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")

Values = list[float | None]
"""The value of each cell; None for a cell without one. It is empty if the cells cannot be compared."""


def has_numbers(cells: Sequence[str]) -> bool:
    """Return whether the cells have one number each. One cell may lack it."""
    return _is_column([_find_number(cell) is not None for cell in cells])


def has_dates(cells: Sequence[str]) -> bool:
    """Return whether the cells have a date each. One cell may lack it."""
    return _is_column([_has_date(cell) or _YEAR.fullmatch(cell.strip()) is not None for cell in cells])


def _is_column(found: Sequence[bool]) -> bool:
    return sum(found) >= MIN_VALUES and sum(found) >= len(found) - 1


def read_numbers(cells: Sequence[str]) -> Values:
    """Return the number of each cell. Numbers of several units or styles are not compared."""
    found = [_find_number(cell) for cell in cells]
    figures = [_read_figure(number) for number in found if number is not None]
    units = {
        _read_unit(cell.replace(number, " ", 1))
        for cell, number in zip(cells, found, strict=True)
        if number is not None
    }
    decimal = _find_decimal_sign(figures)
    if len(units) > 1 or decimal is None:
        return []
    return [None if number is None else _read_value(_read_figure(number), decimal) for number in found]


def _find_number(cell: str) -> str | None:
    """Return the only number of a cell as it is written; None for a date."""
    if _has_date(cell):
        return None
    found = _NUMBER.findall(cell)
    return found[0] if len(found) == 1 else None


def _read_figure(number: str) -> str:
    """Return the digits, points and commas of a number, and its plus or minus sign."""
    return _BLANKS.sub("", number).rstrip(".,")


def _read_unit(text: str) -> tuple[str, ...]:
    """Return the words and characters around a number: equal for `1 hour`, `2 hours` and `3 h`."""
    return tuple(normalize_unit(word) or stem(word) for word in _UNIT.findall(fold(text)))


def _find_decimal_sign(figures: Sequence[str]) -> str | None:
    """Return the decimal sign of a column; empty if it has none, None if the figures contradict each other.

    A sign that nothing shows to be a decimal one groups thousands.
    """
    signs = [_read_signs(figure) for figure in figures]
    decimals = {sign[0] for sign in signs if sign is not None and sign[0]}
    grouping = {sign[1] for sign in signs if sign is not None and sign[1]}
    others = set("".join(figures)) & {".", ","} - decimals
    if None in signs or len(decimals) > 1 or len(others) > 1 or decimals & grouping:
        return None
    return "".join(decimals)


def _read_signs(figure: str) -> tuple[str, str] | None:
    """Return the decimal sign and the thousands separator, as far as this figure shows them; None if it is not a number."""
    signs = [sign for sign in figure if sign in ".,"]
    if not signs:
        return "", ""
    last = signs[-1]
    if len(set(signs)) == 2:
        return (last, signs[0]) if signs.count(last) == 1 else None
    if len(signs) > 1:
        return ("", last) if _THOUSANDS.fullmatch(figure) else None
    whole, part = figure.lstrip("+-").split(last)
    is_decimal = len(part) != 3 or not 1 <= len(whole) <= 3 or whole.startswith("0")
    return (last, "") if is_decimal else ("", "")


def _read_value(figure: str, decimal: str) -> float:
    whole, sign, part = figure.partition(decimal) if decimal else (figure, "", "")
    return float(f"{re.sub('[.,]', '', whole)}.{part}" if sign else re.sub("[.,]", "", whole))


def read_dates(cells: Sequence[str]) -> Values:
    """Return each date or year as a number such as 20240131, so that later dates are higher.

    With dots the day is first. With slashes the day or the month is, so that only one of the two may give valid dates.
    """
    day_first, month_first = (_read_in_order(cells, month_first=order) for order in (False, True))
    if day_first and month_first and day_first != month_first:
        return []
    return day_first or month_first


def _read_in_order(cells: Sequence[str], *, month_first: bool) -> Values:
    """Return the values of the dates; empty if one of them is not a valid date in this order."""
    try:
        return [_read_date(cell, month_first=month_first) for cell in cells]
    except ValueError:
        return []


def _read_date(cell: str, *, month_first: bool) -> float | None:
    if iso := _ISO_DATE.search(cell):
        return float(iso[0].replace("-", "").ljust(8, "0"))
    if written := _NUMERIC_DATE.search(cell):
        day, sign, month, year = written.groups()
        if month_first and sign == "/":
            day, month = month, day
        return float(date(int(year), int(month), int(day)).isoformat().replace("-", ""))
    return float(cell.strip()) * 10_000 if _YEAR.fullmatch(cell.strip()) else None


def _has_date(cell: str) -> bool:
    return bool(_ISO_DATE.search(cell) or _NUMERIC_DATE.search(cell))
