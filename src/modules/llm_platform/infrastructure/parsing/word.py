"""Read the text of Word documents."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from modules.llm_platform.infrastructure.parsing.answer import MAX_CHARS, Answer, File, limit_text, own_title
from modules.llm_platform.infrastructure.parsing.exponents import raise_exponent
from modules.llm_platform.infrastructure.parsing.markdown_table import render_table
from modules.llm_platform.infrastructure.parsing.zipped_xml import Archive, Elements, Xml, unpack

MAX_STYLE_ELEMENTS = 500_000  # Elements of the styles of a Word document, which allows 4,079 styles.
MAX_PARAGRAPHS = 300_000
MAX_COLUMNS = 63  # Columns of a table, as in Word.

_SKIPPED = ("Fallback", "moveFrom")  # Text that is elsewhere, too, or was.
_TEXT_BOX = "txbxContent"
_CHARACTERS = {"tab": " ", "br": " ", "cr": " ", "noBreakHyphen": "-"}
_FLAGS = re.compile(r"[0-9A-Fa-f]{4}")
_FIRST_ROW = 0x0020
_HEADING_STYLE = re.compile(r"(?:heading ([1-6])|Title|title)")


class _HeadingLevels(Xml):
    """The heading levels of a Word document's paragraph styles, by id. Style names are English in every language.

    A document that grew for years has thousands of styles. Those beyond MAX_STYLE_ELEMENTS are not read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.levels: dict[str, int] = {}
        self._elements = 0
        self._style = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        value = attributes.get("val", "")
        if name == "style":
            self._style = attributes.get("styleId", "")
        elif name == "name" and (found := _HEADING_STYLE.fullmatch(value)):
            self.levels[self._style] = int(found[1] or 1)
        elif name == "outlineLvl" and value.isdecimal() and int(value) < 6:
            self.levels.setdefault(self._style, int(value) + 1)

    @property
    def is_full(self) -> bool:
        return self._elements > MAX_STYLE_ELEMENTS


@dataclass(slots=True)
class _Cell:
    """The paragraphs of a cell, and the number of its columns."""

    paragraphs: list[str] = field(default_factory=list)
    span: int = 1


@dataclass(slots=True)
class _Table:
    """The rows of a table with their cells, from the paragraph `begin` on.

    - `has_heading_style` is True if the style of the table gives the first row another form, as Word does by default.
    - `has_heading_row` is True if the first row is marked to be repeated on each page.
    """

    begin: int
    rows: list[list[str]] = field(default_factory=list)
    has_heading_style: bool = False
    has_heading_row: bool = False

    @property
    def names_columns(self) -> bool:
        """Whether the first row has the names of the columns. A table of two columns may be a form: `Place | Bonn`."""
        first, *others = self.rows or [[]]
        if not others or len(first) < 2 or any(len(row) != len(first) for row in others):
            return False
        return self.has_heading_row or (
            self.has_heading_style
            and len(first) > 2
            and all(first)
            and len(set(first)) == len(first)
            and not any(letter.isdecimal() for name in first for letter in name)
        )

    def render(self) -> str:
        """Return the table as Markdown."""
        return render_table(self.rows)


@dataclass(slots=True)
class _Around:
    """What was read of the paragraph and the tables around a text box."""

    paragraphs: list[str]
    pieces: list[str]
    rows: list[list[_Cell]]
    tables: list[_Table]
    boxed: list[str]
    mark: str
    is_hidden: bool


class _Paragraphs(Xml):
    """The paragraphs of a Word document. Headings begin with `#` and list items with `-`. A table is Markdown if its first row
    has the names of its columns. A row of another table is one line. An empty cell keeps its place. The paragraphs of a text box
    follow the paragraph that it is anchored in.
    """

    def __init__(self, levels: dict[str, int]) -> None:
        super().__init__()
        self.paragraphs: list[str] = []
        self._levels = levels
        self._chars = 0
        self._pieces: list[str] = []
        self._rows: list[list[_Cell]] = []  # The open rows: rows of nested tables are last.
        self._tables: list[_Table] = []  # The open tables: nested ones are last.
        self._open_cells = 0
        self._in_text = self._hidden = self._raised = False
        self._skipped = 0  # The number of open elements of _SKIPPED.
        self._mark = ""
        self._boxed: list[str] = []  # The text boxes in the open paragraph.
        self._around: list[_Around] = []  # One for each open text box.

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in _SKIPPED:
            self._skipped += 1
        elif self._skipped:
            return
        elif name == _TEXT_BOX:
            self._open_box()
        elif name == "tbl":
            self._tables.append(_Table(len(self.paragraphs)))
        elif name == "tblLook" and self._tables:
            self._tables[-1].has_heading_style = _formats_first_row(attributes)
        elif name == "tblHeader" and self._tables and not self._tables[-1].rows:
            self._tables[-1].has_heading_row = attributes.get("val") not in ("0", "false")
        elif name == "tr":
            self._rows.append([])
        elif name == "tc" and self._rows:
            self._rows[-1].append(_Cell())
            self._open_cells += 1
        elif name == "gridSpan" and self._rows and self._rows[-1]:
            span = attributes.get("val", "")
            self._rows[-1][-1].span = min(int(span), MAX_COLUMNS) if span.isascii() and span.isdecimal() else 1
        elif name == "p":
            self._mark = ""
        elif name == "pStyle" and attributes.get("val") in self._levels:
            self._mark = "#" * self._levels[attributes["val"]] + " "
        elif name == "numPr":
            self._mark = self._mark or "- "
        elif name == "r":
            self._hidden = self._raised = False
        elif name == "vertAlign":
            self._raised = attributes.get("val") == "superscript"
        elif name == "vanish":
            self._hidden = attributes.get("val") not in ("0", "false")
        elif name == "t":
            self._in_text = True
        elif name in _CHARACTERS and not self._hidden:
            self._pieces.append(_CHARACTERS[name])

    def end(self, name: str) -> None:
        if name in _SKIPPED:
            self._skipped -= 1
        elif self._skipped:
            return
        elif name == _TEXT_BOX:
            self._close_box()
        elif name == "t":
            self._in_text = False
        elif name == "p":
            self._end_paragraph()
        elif name == "tr" and self._rows:
            self._end_row(self._rows.pop())
        elif name == "tbl" and self._tables:
            table = self._tables.pop()
            has_only_rows = len(self.paragraphs) - table.begin == len(table.rows)
            if has_only_rows and table.names_columns:
                self.paragraphs[table.begin :] = [table.render()]

    def finish(self) -> None:
        """End the open paragraph and its text boxes. A document that is too long is not read to its end."""
        while self._around:
            self._close_box()
        self._end_paragraph()

    def _open_box(self) -> None:
        self._around.append(
            _Around(
                self.paragraphs, self._pieces, self._rows, self._tables, self._boxed, self._mark, is_hidden=self._hidden
            )
        )
        self.paragraphs, self._pieces, self._rows, self._tables, self._boxed, self._mark = [], [], [], [], [], ""

    def _close_box(self) -> None:
        self._end_paragraph()
        around, found = self._around.pop(), self.paragraphs
        self.paragraphs, self._pieces, self._rows = around.paragraphs, around.pieces, around.rows
        self._tables = around.tables
        self._boxed, self._mark, self._hidden = around.boxed, around.mark, around.is_hidden
        self._boxed += found

    def _end_paragraph(self) -> None:
        text = " ".join("".join(self._pieces).split())
        boxed, self._pieces, self._boxed = self._boxed, [], []
        if self._rows and self._rows[-1]:
            self._rows[-1][-1].paragraphs += [text, *boxed] if text else boxed
        else:
            self.paragraphs += [self._mark + text, *boxed] if text else boxed

    def _end_row(self, row: Sequence[_Cell]) -> None:
        self._open_cells -= len(row)
        if any(cell.paragraphs for cell in row):
            texts = [text for cell in row for text in (" ".join(cell.paragraphs), *[""] * (cell.span - 1))]
            self.paragraphs.append(" | ".join(texts).strip())
            if self._tables:
                self._tables[-1].rows.append(texts)
            self._chars += len(" | ") * len(texts)

    def text(self, text: str) -> None:
        if self._in_text and not self._hidden and not self._skipped:
            before = self._pieces[-1] if self._pieces else ""
            self._pieces.append(raise_exponent(before, text) if self._raised else text)
            self._chars += len(text)

    @property
    def is_full(self) -> bool:
        return self._chars > MAX_CHARS or len(self.paragraphs) + self._open_cells > MAX_PARAGRAPHS


def _formats_first_row(look: dict[str, str]) -> bool:
    """Return whether a table's style formats its first row: older files have a number of flags instead of the attribute."""
    if "firstRow" in look:
        return look["firstRow"] not in ("0", "false")
    flags = look.get("val", "")
    return bool(_FLAGS.fullmatch(flags) and int(flags, 16) & _FIRST_ROW)


def read_docx(file: File) -> Answer:
    """Return the body of a Word document, without notes, comments and deleted text."""
    return unpack(file, _read_docx_parts, "it is not a Word document that can be read (an encrypted one is not)")


def _read_docx_parts(archive: Archive) -> Answer:
    styles = _HeadingLevels()
    with suppress(KeyError):  # A document may have no styles.
        styles.read(archive.chunks("word/styles.xml"))
    reader = _Paragraphs(styles.levels)
    title = own_title(Elements(archive.part("docProps/core.xml")).title)
    try:
        reader.read(archive.chunks("word/document.xml"))
    except KeyError:
        return {"error": "it is not a Word document"}
    reader.finish()
    answer = limit_text(reader.paragraphs)
    if reader.is_full:
        answer["note"] = f"only its first {len(answer['text']):,} characters were read"
    return {"title": title, **answer}
