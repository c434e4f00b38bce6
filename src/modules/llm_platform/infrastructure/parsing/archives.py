"""Read the text of files that are archives of XML: Word documents and EPUB books."""

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import unquote
from xml.parsers import expat

from modules.llm_platform.infrastructure.parsing.answer import MAX_CHARS, Answer, File, limit_text, open_file, own_title
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument, decode
from modules.llm_platform.infrastructure.parsing.html_page import read_html

MAX_UNPACKED_BYTES = 100_000_000  # Bytes that are read from one archive.
MAX_PART_BYTES = 5_000_000  # Bytes of a chapter, or another part that is read whole.
CHUNK_BYTES = 64_000  # Bytes that are read at once from other parts.
MAX_TAG_BYTES = 1_000_000  # A parser stores a tag until its end, and takes several times its length.
MAX_XML_DEPTH = 1000  # Nested elements. 50 tables, each in a cell of the one before, need 300.
MAX_ELEMENTS = 50_000  # Elements of a file that lists the others.
MAX_STYLE_ELEMENTS = 500_000  # Elements of the styles of a Word document, which allows 4,079 styles.
MAX_PARAGRAPHS = 300_000
MAX_COLUMNS = 63  # Columns of a table, as in Word.
MAX_DIRECTORY_BYTES = 5_000_000  # Bytes of an archive's list of files: 50,000 files.
MAX_CHAPTERS = 5000  # Chapters of a book.

ENCRYPTED_BOOK = "its chapters are no text: a book with copy protection cannot be read"

_MAX_END_BYTES = 66_000
_SKIPPED = ("Fallback", "moveFrom")  # Text that stands elsewhere, too, or did.
_TEXT_BOX = "txbxContent"
_CHARACTERS = {"tab": " ", "br": " ", "cr": " ", "noBreakHyphen": "-"}
_FLAGS = re.compile(r"[0-9A-Fa-f]{4}")
_FIRST_ROW = 0x0020
_HEADING_STYLE = re.compile(r"(?:heading ([1-6])|Title|title)")


class _TooLargeError(Exception):
    """An archive unpacks to more bytes than are read."""


class _TooComplexError(Exception):
    """XML takes more memory than the XML of a document."""


class _Archive:
    """A zip file that unpacks at most MAX_UNPACKED_BYTES, whatever sizes its directory declares."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        self._left = MAX_UNPACKED_BYTES

    def part(self, name: str) -> bytes | None:
        """Return the unpacked bytes of a part, or None if it is missing. Raises _TooLargeError above MAX_PART_BYTES."""
        chunks: list[bytes] = []
        try:
            for chunk in self.chunks(name):
                chunks.append(chunk)
                if len(chunks) * CHUNK_BYTES > MAX_PART_BYTES:
                    raise _TooLargeError("a part of it", MAX_PART_BYTES)
        except KeyError:
            return None
        return b"".join(chunks)

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the chunks of a part of any length. Raises KeyError if it is missing, and _TooLargeError."""
        if self._file.getinfo(name).file_size > self._left:
            raise _TooLargeError("it", MAX_UNPACKED_BYTES)
        with self._file.open(name) as part:
            while chunk := part.read(CHUNK_BYTES):
                self._left -= len(chunk)
                if self._left < 0:
                    raise _TooLargeError("it", MAX_UNPACKED_BYTES)
                yield chunk


def _measure_directory(file: IO[bytes]) -> int:
    """Return the length of an archive's list of files, as its end declares it. zipfile reads the whole list at once."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _MAX_END_BYTES))
    end = file.read()
    at = end.rfind(b"PK\5\6")
    is_large = b"PK\6\7" in end[max(0, at - 20) : at]  # Archives of over 4 GB have a second end.
    file.seek(0)
    return size if is_large else int.from_bytes(end[at + 12 : at + 16], "little") if at >= 0 else 0


def _unpack(file: File, read: Callable[[_Archive], Answer], broken: str) -> Answer:
    try:
        with open_file(file) as opened:
            if _measure_directory(opened) > MAX_DIRECTORY_BYTES:
                return {"error": "it is an archive of too many files"}
            with zipfile.ZipFile(opened) as archive:
                return read(_Archive(archive))
    except OSError:
        return {"error": "it cannot be opened"}
    except _TooLargeError as error:
        return {"error": f"{error.args[0]} unpacks to more than {error.args[1] // 1_000_000} MB"}
    except _TooComplexError:
        return {"error": f"its XML is nested more than {MAX_XML_DEPTH} deep, or has too many or too long tags"}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError):
        # zipfile raises RuntimeError for an encrypted archive.
        return {"error": broken}


class _Xml:
    """A SAX parser whose handlers get names without namespaces.

    `read` raises ValueError for malformed XML, and for entity declarations, which can expand to gigabytes or name local files.
    """

    def __init__(self) -> None:
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self.text
        self._parser.EntityDeclHandler = _refuse
        self._depth = 0

    def read(self, chunks: Iterable[bytes]) -> None:
        size = 0
        try:
            for chunk in chunks:
                self._parser.Parse(chunk)
                size += len(chunk)
                if size - self._parser.CurrentByteIndex > MAX_TAG_BYTES:
                    raise _TooComplexError
                if self.is_full:
                    return
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise ValueError from error

    @property
    def is_full(self) -> bool:
        return False

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_XML_DEPTH:
            raise _TooComplexError
        self.start(_remove_namespace(name), {_remove_namespace(key): value for key, value in attributes.items()})

    def _end(self, name: str) -> None:
        self._depth -= 1
        self.end(_remove_namespace(name))

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Handle the start tag of an element."""

    def end(self, name: str) -> None:
        """Handle the end tag of an element."""

    def text(self, text: str) -> None:
        """Handle character data."""


def _remove_namespace(name: str) -> str:
    return name.rpartition(" ")[2]


def _refuse(*_: Any) -> None:
    raise ValueError


def _split_pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))


class _Elements(_Xml):
    """The elements of a small file, each with its name, its attributes and the text after its start tag."""

    def __init__(self, data: bytes | None) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str], list[str]]] = []
        self._has_ended = True
        if data:
            self.read(_split_pieces(data))

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self.found) == MAX_ELEMENTS:
            raise _TooComplexError
        self.found.append((name, attributes, []))
        self._has_ended = False

    def end(self, name: str) -> None:
        self._has_ended = True

    def text(self, text: str) -> None:
        if not self._has_ended:
            self.found[-1][2].append(text)

    @property
    def title(self) -> str:
        """The first title in a document's metadata."""
        return next((title for name, _, text in self.found if name == "title" and (title := "".join(text))), "")


class _HeadingLevels(_Xml):
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
        rows = [[text.replace("|", "\\|") for text in row] for row in self.rows]
        return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]))


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


class _Paragraphs(_Xml):
    """The paragraphs of a Word document. Headings begin with `#` and list items with `-`. A table is Markdown if its first row
    has the names of its columns. A row of another table is one line. An empty cell keeps its place. The paragraphs of a text box
    stand behind the paragraph that it is anchored in.
    """

    def __init__(self, levels: dict[str, int]) -> None:
        super().__init__()
        self.paragraphs: list[str] = []
        self._levels = levels
        self._chars = 0
        self._pieces: list[str] = []
        self._rows: list[list[_Cell]] = []  # The open rows: rows of nested tables stand last.
        self._tables: list[_Table] = []  # The open tables: nested ones stand last.
        self._open_cells = 0
        self._in_text = self._hidden = False
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
            self._hidden = False
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
            self._pieces.append(text)
            self._chars += len(text)

    @property
    def is_full(self) -> bool:
        return self._chars > MAX_CHARS or len(self.paragraphs) + self._open_cells > MAX_PARAGRAPHS


def _formats_first_row(look: dict[str, str]) -> bool:
    """Return whether a table's style formats its first row: older files have a number of flags in place of the attribute."""
    if "firstRow" in look:
        return look["firstRow"] not in ("0", "false")
    flags = look.get("val", "")
    return bool(_FLAGS.fullmatch(flags) and int(flags, 16) & _FIRST_ROW)


def read_docx(file: File) -> Answer:
    """Return the body of a Word document, without notes, comments and deleted text."""
    return _unpack(file, _read_docx_parts, "it is not a Word document that can be read (an encrypted one is not)")


def _read_docx_parts(archive: _Archive) -> Answer:
    styles = _HeadingLevels()
    with suppress(KeyError):  # A document may have no styles.
        styles.read(archive.chunks("word/styles.xml"))
    reader = _Paragraphs(styles.levels)
    title = own_title(_Elements(archive.part("docProps/core.xml")).title)
    try:
        reader.read(archive.chunks("word/document.xml"))
    except KeyError:
        return {"error": "it is not a Word document"}
    reader.finish()
    answer = limit_text(reader.paragraphs)
    if reader.is_full:
        answer["note"] = f"only its first {len(answer['text']):,} characters were read"
    return {"title": title, **answer}


def read_epub(file: File) -> Answer:
    """Return the chapters of a book in reading order."""
    return _unpack(file, _read_epub_parts, "it is not a book that can be read")


def _read_epub_parts(archive: _Archive) -> Answer:
    container = _Elements(archive.part("META-INF/container.xml"))
    path = next(
        (found["full-path"] for name, found, _ in container.found if name == "rootfile" and "full-path" in found), ""
    )
    folder, package = posixpath.dirname(path), _Elements(archive.part(path))
    chapters: list[str] = []
    for href in _find_reading_order(package)[:MAX_CHAPTERS]:
        data = archive.part(posixpath.normpath(posixpath.join(folder, unquote(href))))
        try:
            answer = read_html(decode(data or b"", html=True).text)
        except UnreadableDocument:
            return {"error": ENCRYPTED_BOOK}
        if "error" in answer:
            return answer
        chapters.append(answer["text"] or "")
        if sum(map(len, chapters)) > MAX_CHARS:
            break
    return {"title": " ".join(package.title.split()) or None, **limit_text(chapters)}


def _find_reading_order(package: _Elements) -> list[str]:
    files: dict[str, str] = {}
    order: list[str] = []
    for name, attributes, _ in package.found:
        if name == "item" and "html" in attributes.get("media-type", ""):
            files[attributes.get("id", "")] = attributes.get("href", "")
        elif name == "itemref" and attributes.get("idref") in files:
            order.append(files[attributes["idref"]])
    return order
