"""Answer a question about the rows of one table: which row has the most, which is the latest, or how many there are.

The answer quotes the rows, so that a reader can see that it is true. If the column or the rows are not certain, there is no
answer.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.question import Question, has_same_stem
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.language import stop_words
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.tokens import fold, words

Extreme = Literal["highest", "lowest", "latest", "earliest"]
EXTREMES: Final[tuple[Extreme, ...]] = ("latest", "earliest", "lowest", "highest")

MIN_ROWS: Final = 3  # a smaller table is not compared or counted
MAX_COUNTED: Final = 12  # a count shows all its rows; if there are more, there is no answer
MAX_EQUAL: Final = 4  # if more rows share the first place, there is no answer

_NUMBER = re.compile(r"-?\d[\d.,' \u00a0\u202f]*")
_ISO_DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")
_DAY_FIRST_DATE = re.compile(r"(\d{1,2})[./](\d{1,2})[./](\d{4})")
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")


@dataclass(frozen=True, slots=True)
class RowsFound:
    """The rows that answer a question, and the number of rows that were compared or counted (`read`).

    `extreme` and `column` say in which column the rows have the highest or lowest value. Both are empty for a count.
    """

    rows: tuple[Candidate, ...]
    read: int
    extreme: Extreme | Literal[""] = ""
    column: str = ""


class _Table:
    """The rows of one source that have the same column names."""

    def __init__(self, rows: Sequence[Candidate]) -> None:
        self.rows = rows
        self.columns = rows[0].sentence.columns
        self.names = [_split(name) for name in self.columns]

    def cells(self, column: int) -> list[str]:
        return [row.sentence.row[column] for row in self.rows]

    def matches(self, asked: Sequence[str]) -> int:
        """Return how many of these words the title, the heading, the column names or the cells have."""
        texts = (self.rows[0].source.title, self.rows[0].sentence.heading, *self.columns, *self._all_cells())
        known = {word for text in texts for word in _split(text)}
        return sum(any(is_form(word, other) for other in known) for word in asked)

    def _all_cells(self) -> Iterable[str]:
        return itertools.chain.from_iterable(row.sentence.row for row in self.rows)


def asks_about_rows(question: Question) -> bool:
    """Return whether a question asks for the most, the latest or a number of rows. A question with a "not" does not."""
    asked = _fold_words(question.text)
    counts = not _load_list("counting").isdisjoint(asked)
    return (counts or _find_asked_extreme(asked) is not None) and not count_negators(asked)


def _find_asked_extreme(asked: Sequence[str]) -> Extreme | None:
    return next((kind for kind in EXTREMES if not _load_list(kind).isdisjoint(asked)), None)


def find_rows(question: Question, candidates: Sequence[Candidate]) -> RowsFound | None:
    """Return the rows that answer a question about the most, the latest or the number of rows; None if there is no answer.

    Only tables of whole documents are used, because a passage may lack some of the rows.
    """
    if not asks_about_rows(question):
        return None
    asked = _fold_words(question.text)
    extreme = _find_asked_extreme(asked)
    content = [word for word in asked if word not in stop_words(question.language) and not _is_extreme(word)]
    tables = sorted(_list_tables(candidates), key=lambda table: -table.matches(content))
    if not tables or not tables[0].matches(content):
        return None
    table = tables[0]
    rows = _filter_rows(table, content)
    if extreme is None:
        is_filtered = 0 < len(rows) < len(table.rows)
        return RowsFound(tuple(rows), len(table.rows)) if is_filtered and len(rows) <= MAX_COUNTED else None
    return _find_extreme(table, rows, content, asked, extreme)


def _find_extreme(
    table: _Table, rows: Sequence[Candidate], content: Sequence[str], asked: Sequence[str], extreme: Extreme
) -> RowsFound | None:
    by_date = extreme in ("latest", "earliest")
    read: Callable[[str], float | None] = _read_date if by_date else _read_number
    comparable = [at for at in range(1, len(table.columns)) if _is_comparable(table.cells(at), read)]
    column = _choose_column(table, comparable, content, asked, by_date=by_date)
    if column is None:
        return None
    values = [(read(row.sentence.row[column]), row) for row in rows]
    known = [value for value, _ in values if value is not None]
    if not known:
        return None
    wanted = max(known) if extreme in ("highest", "latest") else min(known)
    found = tuple(row for value, row in values if value == wanted)
    return RowsFound(found, len(rows), extreme, table.columns[column]) if len(found) <= MAX_EQUAL else None


def _choose_column(
    table: _Table, comparable: Sequence[int], content: Sequence[str], asked: Sequence[str], *, by_date: bool
) -> int | None:
    """Return the column that the question is about: by its name, by a word such as "cheapest", or because it is the only one."""
    named = [at for at in comparable if any(is_form(word, name) for word in content for name in table.names[at])]
    if len(named) == 1:
        return named[0]
    hints = ["date_columns"] if by_date else []
    hints += [f"{kind}_columns" for kind in ("price", "duration") if not _load_list(f"{kind}s").isdisjoint(asked)]
    hinted = [at for at in named or comparable for hint in hints if not _load_list(hint).isdisjoint(table.names[at])]
    if len(hinted) == 1:
        return hinted[0]
    return comparable[0] if len(comparable) == 1 and (by_date or not hints) and not named else None


def _filter_rows(table: _Table, content: Sequence[str]) -> list[Candidate]:
    """Return the rows that the question names: by all words of a cell, or by a column in which the cell says yes."""
    rows = list(table.rows)
    for column in range(1, len(table.columns)):
        cells = [_split(cell) for cell in table.cells(column)]
        named = [
            bool(cell) and not all(word.isdigit() for word in cell) and all(_is_asked(word, content) for word in cell)
            for cell in cells
        ]
        says_yes = [_load_list("yes").issuperset(cell) and bool(cell) for cell in cells]
        if any(says_yes) and any(_is_asked(word, content) for word in table.names[column]):
            named = says_yes
        if any(named):
            kept = {id(row) for row, is_named in zip(table.rows, named, strict=True) if is_named}
            rows = [row for row in rows if id(row) in kept]
    return rows


def _list_tables(candidates: Sequence[Candidate]) -> list[_Table]:
    by_table: dict[tuple[int, tuple[str, ...]], list[Candidate]] = {}
    for candidate in candidates:
        row = candidate.sentence.row
        if row and candidate.source.is_whole and _load_list("totals").isdisjoint(_split(row[0])):
            by_table.setdefault((candidate.rank, candidate.sentence.columns), []).append(candidate)
    return [_Table(rows) for rows in by_table.values() if len(rows) >= MIN_ROWS]


@cache
def _load_list(kind: str) -> frozenset[str]:
    return frozenset(map(fold, load_words("table_questions", kind)))


def _is_extreme(word: str) -> bool:
    kinds = (*EXTREMES, "counting", "prices", "durations")
    return any(word in _load_list(kind) for kind in kinds)


def _is_asked(word: str, content: Sequence[str]) -> bool:
    return any(is_form(word, other) for other in content)


def is_form(one: str, other: str) -> bool:
    return one == other or (one.isalpha() and other.isalpha() and has_same_stem(one, other))


def _split(text: str) -> list[str]:
    return _fold_words(text.replace("_", " "))


def _fold_words(text: str) -> list[str]:
    return [fold(word) for word in words(text)]


def _is_comparable(cells: Sequence[str], read: Callable[[str], float | None]) -> bool:
    """Return whether the cells can be compared: at most one of them has no value."""
    values = [value for value in map(read, cells) if value is not None]
    return len(values) >= MIN_ROWS and len(values) >= len(cells) - 1


def _read_number(cell: str) -> float | None:
    """Return the only number of a cell, in the English or the German style; None for a date."""
    if _ISO_DATE.search(cell) or _DAY_FIRST_DATE.search(cell):
        return None
    found = _NUMBER.findall(cell)
    if len(found) != 1:
        return None
    digits = re.sub(r"[' \u00a0\u202f]", "", found[0]).rstrip(".,")
    last = max(digits.rfind("."), digits.rfind(","))
    is_decimal = last >= 0 and (
        len(digits) - last - 1 != 3 or (digits.count(digits[last]) > 1 and "." in digits and "," in digits)
    )
    whole, part = (digits[:last], digits[last + 1 :]) if is_decimal else (digits, "0")
    return float(f"{re.sub('[.,]', '', whole) or '0'}.{part or '0'}")


def _read_date(cell: str) -> float | None:
    """Return a date or a year as a number such as 20240131, so that later dates are higher."""
    if iso := _ISO_DATE.search(cell):
        return float(iso[0].replace("-", "").ljust(8, "0"))
    if day_first := _DAY_FIRST_DATE.search(cell):
        day, month, year = day_first.groups()
        return float(f"{year}{int(month):02}{int(day):02}")
    return float(cell.strip()) * 10_000 if _YEAR.fullmatch(cell.strip()) else None
