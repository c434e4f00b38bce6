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
_TABLE_ELEMENTS = ("tbl", "tblLook", "tblHeader", "tr", "tc", "gridSpan")
_OFF = ("0", "false")
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
class _Story:
    """The text of the document or of a text box, as far as it was read.

    - `pieces` and `mark` belong to the open paragraph, and `boxed` are the paragraphs of the text boxes that are anchored in it.
    - `rows` and `tables` are open; nested ones are last.
    - `is_hidden` is True within a run that Word does not show.
    """

    paragraphs: list[str] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    mark: str = ""
    boxed: list[str] = field(default_factory=list)
    rows: list[list[_Cell]] = field(default_factory=list)
    tables: list[_Table] = field(default_factory=list)
    is_hidden: bool = False

    def end_paragraph(self) -> None:
        text = " ".join("".join(self.pieces).split())
        boxed, self.pieces, self.boxed = self.boxed, [], []
        if self.rows and self.rows[-1]:
            self.rows[-1][-1].paragraphs += [text, *boxed] if text else boxed
        else:
            self.paragraphs += [self.mark + text, *boxed] if text else boxed

    def end_table(self) -> None:
        """Replace the rows of the table with Markdown if the first one has the names of its columns."""
        table = self.tables.pop()
        has_only_rows = len(self.paragraphs) - table.begin == len(table.rows)
        if has_only_rows and table.names_columns:
            self.paragraphs[table.begin :] = [table.render()]


class _Document(Xml):
    """The paragraphs of a Word document. Headings begin with `#` and list items with `-`. A table is Markdown if its first row
    has the names of its columns. A row of another table is one line. An empty cell keeps its place. The paragraphs of a text box
    follow the paragraph that it is anchored in.
    """

    def __init__(self, levels: dict[str, int]) -> None:
        super().__init__()
        self._levels = levels
        self._story = _Story()
        self._around: list[_Story] = []  # the stories around the open text box, from the document inwards
        self._chars = 0
        self._open_cells = 0
        self._in_text = self._is_raised = False
        self._skipped = 0  # the number of open elements of _SKIPPED

    @property
    def paragraphs(self) -> list[str]:
        return self._story.paragraphs

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in _SKIPPED:
            self._skipped += 1
        elif self._skipped:
            return
        elif name == _TEXT_BOX:
            self._around.append(self._story)
            self._story = _Story(is_hidden=self._story.is_hidden)
        elif name in _TABLE_ELEMENTS:
            self._start_in_table(name, attributes)
        else:
            self._start_in_paragraph(name, attributes)

    def _start_in_table(self, name: str, attributes: dict[str, str]) -> None:
        rows, tables = self._story.rows, self._story.tables
        if name == "tbl":
            tables.append(_Table(len(self._story.paragraphs)))
        elif name == "tr":
            rows.append([])
        elif name == "tblLook" and tables:
            tables[-1].has_heading_style = _formats_first_row(attributes)
        elif name == "tblHeader" and tables and not tables[-1].rows:
            tables[-1].has_heading_row = attributes.get("val") not in _OFF
        elif name == "tc" and rows:
            rows[-1].append(_Cell())
            self._open_cells += 1
        elif name == "gridSpan" and rows and rows[-1]:
            span = attributes.get("val", "")
            rows[-1][-1].span = min(int(span), MAX_COLUMNS) if span.isascii() and span.isdecimal() else 1

    def _start_in_paragraph(self, name: str, attributes: dict[str, str]) -> None:
        story, value = self._story, attributes.get("val")
        if name == "p":
            story.mark = ""
        elif name == "pStyle" and value in self._levels:
            story.mark = "#" * self._levels[value] + " "
        elif name == "numPr":
            story.mark = story.mark or "- "
        elif name == "r":
            story.is_hidden = self._is_raised = False
        elif name == "vertAlign":
            self._is_raised = value == "superscript"
        elif name == "vanish":
            story.is_hidden = value not in _OFF
        elif name == "t":
            self._in_text = True
        elif name in _CHARACTERS and not story.is_hidden:
            story.pieces.append(_CHARACTERS[name])

    def end(self, name: str) -> None:
        story = self._story
        if name in _SKIPPED:
            self._skipped -= 1
        elif self._skipped:
            return
        elif name == _TEXT_BOX:
            self._end_box()
        elif name == "t":
            self._in_text = False
        elif name == "p":
            story.end_paragraph()
        elif name == "tr" and story.rows:
            self._end_row(story.rows.pop())
        elif name == "tbl" and story.tables:
            story.end_table()

    def finish(self) -> None:
        """End the open paragraph and its text boxes. A document that is too long is not read to its end."""
        while self._around:
            self._end_box()
        self._story.end_paragraph()

    def _end_box(self) -> None:
        box, self._story = self._story, self._around.pop()
        box.end_paragraph()
        self._story.boxed += box.paragraphs

    def _end_row(self, row: Sequence[_Cell]) -> None:
        self._open_cells -= len(row)
        if any(cell.paragraphs for cell in row):
            texts = [text for cell in row for text in (" ".join(cell.paragraphs), *[""] * (cell.span - 1))]
            self._story.paragraphs.append(" | ".join(texts).strip())
            if self._story.tables:
                self._story.tables[-1].rows.append(texts)
            self._chars += len(" | ") * len(texts)

    def text(self, text: str) -> None:
        pieces = self._story.pieces
        if self._in_text and not self._story.is_hidden and not self._skipped:
            before = pieces[-1] if pieces else ""
            pieces.append(raise_exponent(before, text) if self._is_raised else text)
            self._chars += len(text)

    @property
    def is_full(self) -> bool:
        return self._chars > MAX_CHARS or len(self._story.paragraphs) + self._open_cells > MAX_PARAGRAPHS


def _formats_first_row(look: dict[str, str]) -> bool:
    """Return whether a table's style formats its first row: older files have a number of flags instead of the attribute."""
    if "firstRow" in look:
        return look["firstRow"] not in _OFF
    flags = look.get("val", "")
    return bool(_FLAGS.fullmatch(flags) and int(flags, 16) & _FIRST_ROW)


def read_docx(file: File) -> Answer:
    """Return the body of a Word document, without notes, comments and deleted text."""
    return unpack(file, _read_docx_parts, "it is not a Word document that can be read (an encrypted one is not)")


def _read_docx_parts(archive: Archive) -> Answer:
    styles = _HeadingLevels()
    with suppress(KeyError):  # A document may have no styles.
        styles.read(archive.chunks("word/styles.xml"))
    reader = _Document(styles.levels)
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
