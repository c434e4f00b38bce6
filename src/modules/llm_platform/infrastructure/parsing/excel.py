"""Read the sheets of Excel workbooks as tables.

Numbers are written as their cells show them where the meaning depends on it: dates, times, percentages and currencies. Hidden
sheets, rows and columns are left out, because an answer quotes what is read.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from modules.llm_platform.infrastructure.parsing.answer import MAX_CHARS, Answer, File, own_title
from modules.llm_platform.infrastructure.parsing.markdown_table import render_row
from modules.llm_platform.infrastructure.parsing.zipped_xml import (
    Archive,
    Element,
    Elements,
    Xml,
    is_set,
    read_relations,
    unpack,
)

MAX_COLUMNS: Final = 256  # Further columns of a sheet are not read.
MAX_ROWS: Final = 100_000  # Further rows of a sheet are not read.
MAX_SHARED_STRINGS: Final = 1_000_000
MAX_FORMATS: Final = 200_000  # Excel allows 65,490 styles of cells.
MAX_SHEETS: Final = 200
IN_PART: Final = (
    f"only its first {MAX_CHARS // 1_000_000} million characters, and {MAX_ROWS:,} rows of a sheet, were read"
)
HIDDEN: Final = "its hidden sheets, rows and columns were not read"
WORKBOOK: Final = "xl/workbook.xml"

_COLUMN = re.compile(r"[A-Z]{1,3}")
# The text in a format and its conditions; what is left has the letters of dates.
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\[\]]*\]', re.IGNORECASE)
_CURRENCY = re.compile(r"\[\$([^\]-]+)|([€£¥₹₽₩$])")
_DATE_LETTERS, _TIME_LETTERS = re.compile(r"[ymd]", re.IGNORECASE), re.compile(r"[hs]", re.IGNORECASE)
_ELAPSED = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
# The formats that every workbook has: https://learn.microsoft.com/dotnet/api/documentformat.openxml.spreadsheet.numberingformat
_KNOWN_FORMATS: Final = {
    **dict.fromkeys((9, 10), "0%"),
    **dict.fromkeys((*range(14, 18), *range(27, 32), 36, *range(50, 59)), "yyyy-mm-dd"),
    **dict.fromkeys((18, 19, 20, 21, *range(32, 36), 45, 47), "hh:mm:ss"),
    22: "yyyy-mm-dd hh:mm",
    46: "[h]:mm:ss",
}
_DAYS_BEFORE_1970: Final = 25_569.0
_SECONDS_OF_A_DAY: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # A cell has no time zone.
_DAYS_OF_1904: Final = 1462  # between the two days that a workbook may count from
_TEXTS: Final = ("s", "str", "inlineStr")


# The first and the last row of merged cells, after the column that has their value.
_MERGED = re.compile(r"([A-Z]{1,3})([0-9]{1,7}):[A-Z]{1,3}([0-9]{1,7})")


class _SharedStrings(Xml):
    """The texts that cells refer to by number, without the readings of Japanese words. Of very many texts the first are read."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._chars = 0
        self._pieces: list[str] = []
        self._is_text = False
        self._in_reading = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "si":
            self._pieces = []
        elif name == "rPh":
            self._in_reading = True
        self._is_text = name == "t" and not self._in_reading

    def end(self, name: str) -> None:
        self._is_text = False
        if name == "rPh":
            self._in_reading = False
        elif name == "si":
            self.texts.append("".join(self._pieces))

    def text(self, text: str) -> None:
        if self._is_text:
            self._pieces.append(text)
            self._chars += len(text)

    @property
    def is_full(self) -> bool:
        return self._chars > 2 * MAX_CHARS or len(self.texts) > MAX_SHARED_STRINGS


class _Formats(Xml):
    """The number format of each style of a cell. Of very many styles the first are read."""

    def __init__(self) -> None:
        super().__init__()
        self.formats: list[str] = []
        self._own: dict[int, str] = {}
        self._is_of_cells = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        number = _read_number(attributes.get("numFmtId"))
        if name == "numFmt":
            self._own[number] = attributes.get("formatCode", "")
        elif name == "cellXfs":
            self._is_of_cells = True
        elif name == "xf" and self._is_of_cells:
            self.formats.append(self._own.get(number, _KNOWN_FORMATS.get(number, "")))

    def end(self, name: str) -> None:
        if name == "cellXfs":
            self._is_of_cells = False

    @property
    def is_full(self) -> bool:
        return len(self._own) + len(self.formats) > MAX_FORMATS


@dataclass(slots=True)
class _Workbook:
    """What the cells of all sheets refer to: texts, the format of each style, and the day that dates count from."""

    texts: Sequence[str]
    formats: Sequence[str]
    first_day: int = 0

    def show(self, value: str, kind: str, style: str) -> str:
        """Return the text of a cell. `kind` and `style` are its attributes."""
        if kind == "s":
            number = int(value) if value.isascii() and value.isdecimal() else len(self.texts)
            return self.texts[number] if number < len(self.texts) else ""
        if kind == "e":  # an error such as #N/A
            return ""
        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        if kind not in ("n", ""):
            return value
        number_format = int(style) if style.isascii() and style.isdecimal() else 0
        shown_as = self.formats[number_format] if number_format < len(self.formats) else ""
        try:
            return _show_number(float(value), shown_as, self.first_day)
        except (ValueError, OverflowError):
            return value


def _show_number(number: float, number_format: str, first_day: int) -> str:
    letters = _LITERAL.sub("", number_format.partition(";")[0])
    if _ELAPSED.search(letters):
        minutes = round(number * 24 * 60)
        return f"{minutes // 60}:{minutes % 60:02}"
    if _DATE_LETTERS.search(letters) or _TIME_LETTERS.search(letters):
        return _show_date(number, letters, first_day)
    if "%" in letters:
        return f"{round(number * 100, 6):.15g}%"
    currency = _CURRENCY.search(number_format)
    shown = f"{number:.15g}"
    return f"{shown} {(currency[1] or currency[2]).strip()}" if currency else shown


def _show_date(number: float, letters: str, first_day: int) -> str:
    day = _EPOCH + timedelta(seconds=round((number + first_day - _DAYS_BEFORE_1970) * _SECONDS_OF_A_DAY))
    has_time = bool(_TIME_LETTERS.search(letters))
    # In a format with hours or seconds, `m` may be minutes.
    has_date = bool(re.search("[yd]", letters, re.IGNORECASE)) or not has_time
    parts = [f"{day:%Y-%m-%d}"] * has_date + [f"{day:%H:%M:%S}".removesuffix(":00")] * has_time
    return " ".join(parts)


@dataclass(slots=True)
class _Row:
    """The cells of a row, by the number of their column. `has_number` is True if one of them is not a text."""

    number: int
    cells: dict[int, str] = field(default_factory=dict)
    has_number: bool = False


class _Sheet(Xml):
    """The rows of a sheet that are shown and have a cell with a text."""

    def __init__(self, workbook: _Workbook, room: int) -> None:
        super().__init__()
        self.rows: list[_Row] = []
        self.has_more_columns = self.has_hidden = False
        self._workbook = workbook
        self._room = room
        self._hidden: set[int] = set()
        self._merged: list[str] = []
        self._row = _Row(0)
        self._is_shown = True
        self._column = 0
        self._kind = self._style = ""
        self._pieces: list[str] = []
        self._is_value = self._in_reading = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._is_value = name in ("v", "t") and not self._in_reading
        if name == "col" and is_set(attributes.get("hidden")):
            first, last = (_read_number(attributes.get(key)) for key in ("min", "max"))
            self._hidden.update(range(max(first, 1), min(last, MAX_COLUMNS) + 1))
        elif name == "row":
            self._row = _Row(_read_number(attributes.get("r")) or self._row.number + 1)
            self._is_shown = not is_set(attributes.get("hidden"))
            self._column = 0
        elif name == "c":
            self._column = _read_column(attributes.get("r", "")) or self._column + 1
            self._kind, self._style, self._pieces = attributes.get("t", ""), attributes.get("s", ""), []
        elif name == "rPh":
            self._in_reading = True
        elif name == "mergeCell" and len(self._merged) < MAX_ROWS:
            self._merged.append(attributes.get("ref", ""))

    def end(self, name: str) -> None:
        self._is_value = False
        if name == "rPh":
            self._in_reading = False
        elif name == "c":
            self._end_cell()
        elif name == "row" and self._row.cells:
            self.rows.append(self._row)
            self._room -= 3 * max(self._row.cells)

    def _end_cell(self) -> None:
        if self._column > MAX_COLUMNS:
            self.has_more_columns = True
            return
        shown = self._workbook.show("".join(self._pieces), self._kind, self._style)
        if not (shown := " ".join(shown.split())):
            return
        if not self._is_shown or self._column in self._hidden:
            self.has_hidden = True
            return
        self._row.cells[self._column] = shown
        self._row.has_number |= self._kind not in _TEXTS
        self._room -= len(shown)

    def text(self, text: str) -> None:
        if self._is_value:
            self._pieces.append(text)

    def repeat_merged(self) -> None:
        """Write the value of a cell that is merged over several rows into each of them that has other cells."""
        rows = {row.number: row for row in self.rows}
        steps = MAX_ROWS  # Merged cells may overlap in a broken file.
        for found in filter(None, map(_MERGED.fullmatch, self._merged)):
            first, last, column = int(found[2]), int(found[3]), _read_column(found[1])
            value = rows[first].cells.get(column, "") if first in rows else ""
            for number in range(first + 1, min(last, first + steps) + 1) if value else ():
                steps -= 1
                if number in rows and self._room > 0:
                    self._room -= len(rows[number].cells.setdefault(column, value))

    @property
    def is_full(self) -> bool:
        return self._room < 0 or len(self.rows) > MAX_ROWS


def _read_number(value: str | None) -> int:
    return int(value) if value and value.isascii() and value.isdecimal() and len(value) < 10 else 0


def _read_column(reference: str) -> int:
    """Return the number of the column of a cell: 1 for `A7`, 28 for `AB7`. 0 if there is none."""
    found = _COLUMN.match(reference)
    number = 0
    for letter in found[0] if found else "":
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def read_xlsx(file: File) -> Answer:
    """Return the sheets of a workbook: tables in Markdown, and the texts that stand alone in their row."""
    return unpack(file, _read_xlsx_parts, "it is not an Excel workbook that can be read (an encrypted one is not)")


def _read_xlsx_parts(archive: Archive) -> Answer:
    book = archive.part(WORKBOOK)
    if book is None:
        return {"error": "it is not an Excel workbook (.xlsx)"}
    elements = Elements(book).found
    notes: set[str] = set()
    sheets = _read_sheets(archive, elements, _read_workbook(archive, elements, notes), notes)
    # The name of an only sheet says little: it is mostly "Sheet1".
    pieces = [text if len(sheets) == 1 else f"# {' '.join(name.split())}\n\n{text}" for name, text in sheets]
    title = own_title(Elements(archive.part("docProps/core.xml")).title)
    return {"title": title, "text": "\n\n".join(pieces), "note": "; ".join(sorted(notes)) or None}


def _read_workbook(archive: Archive, elements: Sequence[Element], notes: set[str]) -> _Workbook:
    strings, styles = _SharedStrings(), _Formats()
    for reader, name in ((strings, "xl/sharedStrings.xml"), (styles, "xl/styles.xml")):
        with suppress(KeyError):  # A workbook may have numbers alone, and no style.
            reader.read(archive.chunks(name))
    if strings.is_full:
        notes.add(IN_PART)
    counts_from_1904 = any(name == "workbookPr" and is_set(found.get("date1904")) for name, found, _ in elements)
    return _Workbook(strings.texts, styles.formats, _DAYS_OF_1904 if counts_from_1904 else 0)


def _read_sheets(
    archive: Archive, elements: Sequence[Element], workbook: _Workbook, notes: set[str]
) -> list[tuple[str, str]]:
    """Return the name and the text of each sheet that has one. Adds a note for what is left out."""
    relations = read_relations(archive, WORKBOOK)
    sheets: list[tuple[str, str]] = []
    room = MAX_CHARS
    for number, found in enumerate(found for name, found, _ in elements if name == "sheet"):
        if number == MAX_SHEETS:
            notes.add(f"only its first {MAX_SHEETS} sheets were read")
            break
        if found.get("state", "visible") != "visible":
            notes.add(HIDDEN)
            continue
        sheet = _Sheet(workbook, room)
        with suppress(KeyError):  # A chart has no sheet of cells.
            sheet.read(archive.chunks(relations.get(found.get("r:id", ""), "")))
            sheet.repeat_merged()
        if sheet.is_full:
            notes.add(IN_PART)
        if sheet.has_hidden:
            notes.add(HIDDEN)
        if sheet.has_more_columns:
            notes.add(f"only the first {MAX_COLUMNS} columns of a sheet were read")
        if text := _render_rows(sheet.rows):
            sheets.append((found.get("name", ""), text))
            room -= len(text)
    return sheets


def _render_rows(rows: Sequence[_Row]) -> str:
    """Return the tables of a sheet. Their first row has the names of the columns, and rows of one cell above it are texts.

    An empty row ends a table, unless the row after it has a number in the same columns: names of columns are seldom numbers.
    """
    pieces: list[str | list[_Row]] = []
    last = 0
    for row in rows:
        is_below = row.number == last + 1
        last = row.number
        table = pieces[-1] if pieces else ""
        if isinstance(table, list) and (is_below or (row.has_number and row.cells.keys() <= table[0].cells.keys())):
            table.append(row)
        elif len(row.cells) > 1:
            pieces.append([row])
        else:
            pieces += row.cells.values()
    return "\n\n".join(piece if isinstance(piece, str) else _render_table(piece) for piece in pieces)


def _render_table(rows: Sequence[_Row]) -> str:
    columns = sorted({column for row in rows for column in row.cells})
    names, *others = (render_row(row.cells.get(column, "") for column in columns) for row in rows)
    return "\n".join([names, f"|{'---|' * len(columns)}", *others])
