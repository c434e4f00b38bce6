"""The text of a PDF file."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modules.llm_platform.infrastructure.parsing.answer import (
    BLANK_LINES,
    MAX_CHARS,
    NEEDS_EXTRA,
    Answer,
    File,
    open_file,
    own_title,
)
from modules.llm_platform.infrastructure.parsing.limits import measure_cpu_seconds_left
from modules.llm_platform.infrastructure.parsing.pdf_layout import PageLayout
from modules.llm_platform.infrastructure.parsing.pdf_lines import ENDED, Line
from modules.llm_platform.infrastructure.parsing.pdf_rows import BROKEN_WORD
from modules.llm_platform.infrastructure.parsing.pdf_tables import Table

PDF_PAGES = 2000
SPARE_CPU_SECONDS = 1.0  # kept from a document's time for its last page and for joining the pages
EDGE_LINES = 2  # lines at the top and bottom of a page, with its header and number
EDGE_LINE_REPEATS = 3  # pages with the same line at the edge
NEEDS_CRYPTOGRAPHY = "it is encrypted: save it without encryption, or run pip install cryptography"
UNKNOWN_FORM = "it is encrypted or compressed in a form that cannot be read: save it without encryption"

_DOT_LEADERS = re.compile(r"(?:\.[ \t]?){5}|\.[ \t]+\.[ \t]+\d+[ \t]*\Z")
_NUMBER = re.compile(r"(?<!\d)\d{1,4}(?!\d)")
_PAGE_NUMBER = re.compile(r"\A\s*(\d{1,4})\b(?![.\d])|(?<![.\d])\b(\d{1,4})\s*\Z")
_SECTION = re.compile(
    r"^(?:Chapter |Appendix )?(\d+|[A-Z])((?:\.\d+){1,4})\.?[ \t]+(?=\S)([^\n]{2,80})(?<![.:;,])$", re.MULTILINE
)
_TERM = re.compile(
    r"(?<=[.:\n])\n(-{1,2}[A-Za-z][\w-]*(?: [a-z][\w-]*)?|[a-z_][\w-]*|[A-Z][A-Z_]{3,})[\n ](?=[A-Z][a-z]* ?[a-z])"
)  # an option or a name on a line of its own, then a sentence that explains it
_CAPITALS = re.compile(r"^(?:CHAPTER[ \n]\w+\n)?(?=[^\n]*[A-Z]{4} )([A-Z][A-Z0-9 ,'’&/-]{6,79})$", re.MULTILINE)


def read_pdf(file: File) -> Answer:
    """Return the text of a PDF's pages, with hyphenated words joined."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import DependencyError, PyPdfError
    except ImportError:
        return {"error": NEEDS_EXTRA}
    try:
        with open_file(file) as opened:
            reader = PdfReader(opened, strict=False)
            if reader.is_encrypted and not reader.decrypt(""):
                return {"error": "it is encrypted: save it without a password"}
            return {"title": own_title(getattr(reader.metadata, "title", None)), **_read_pages(reader)}
    except OSError:
        return {"error": "it cannot be opened"}
    except DependencyError:  # pypdf decrypts AES with a package that it does not bring
        return {"error": NEEDS_CRYPTOGRAPHY}
    except NotImplementedError:  # another handler of encryption, such as certificates, or an unknown filter
        return {"error": UNKNOWN_FORM}
    except (PyPdfError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        return {"error": "it is not a PDF that can be read"}


def _read_pages(reader: Any) -> Answer:
    pages: list[Sequence[Line]] = []
    chars = 0
    note = None
    for number, page in enumerate(reader.pages):
        if number >= PDF_PAGES or chars > MAX_CHARS or (number and measure_cpu_seconds_left() < SPARE_CPU_SECONDS):
            note = f"only its first {f'{number} pages were' if number > 1 else 'page was'} read"
            break
        pages.append(_read_lines(page))
        chars += sum(len(line.text) + 1 for line in pages[-1])
    running = _join_pages(pages)
    if not running.text:
        return {"error": "it contains no text (a scan needs OCR first)"}
    return {"text": running.text[:MAX_CHARS], "note": note, "pages": running.starts}


def _read_lines(page: Any) -> Sequence[Line]:
    layout = PageLayout(_list_fonts(page))
    text = page.extract_text(visitor_operand_before=layout.visit_operator, visitor_text=layout.visit_text) or ""
    return _trim_blank_lines(layout.list_lines(text))


def _list_fonts(page: Any) -> Mapping[str, Any]:
    try:
        fonts = page["/Resources"]["/Font"].get_object()
        return {str(name): fonts[name].get_object() for name in fonts}
    except (AttributeError, KeyError, TypeError):
        return {}


@dataclass(slots=True)
class _RunningText:
    """A text, and the positions at which its pages begin. A page without text begins at the position of the next one."""

    text: str = ""
    starts: list[int] = field(default_factory=list)

    def replace(self, pattern: re.Pattern[str], template: str | Callable[[re.Match[str]], str]) -> None:
        """Replace matches as `pattern.sub` does. A page that begins inside a match stays as far from its end."""
        parts, end, grown, position = [], 0, 0, 0
        starts = self.starts
        for found in pattern.finditer(self.text):
            new = found.expand(template) if isinstance(template, str) else template(found)
            while position < len(starts) and starts[position] <= found.start():
                starts[position] += grown
                position += 1
            after = grown + len(new) - len(found[0])
            while position < len(starts) and starts[position] < found.end():
                starts[position] = max(found.start() + grown, starts[position] + after)
                position += 1
            parts += [self.text[end : found.start()], new]
            end, grown = found.end(), after
        self.starts = [*starts[:position], *(start + grown for start in starts[position:])]
        self.text = "".join([*parts, self.text[end:]])

    def strip(self) -> None:
        text = self.text.rstrip()
        self.text = text.lstrip()
        cut = len(text) - len(self.text)
        self.starts = [min(max(0, start - cut), len(self.text)) for start in self.starts]


def _join_pages(pages: Sequence[Sequence[Line]]) -> _RunningText:
    """Return the pages as one text, without headers, page numbers and tables of contents, and with section headings."""
    running = _RunningText()
    parts: list[str] = []  # joined once: the text of a long file would be copied, and searched, for each page
    length, end = 0, ""
    last: Line | None = None
    for lines in _continue_tables(_remove_edges(pages)):
        kept = _trim_blank_lines([line for line in lines if line.table or not _DOT_LEADERS.search(line.text)])
        if kept and last is not None:
            is_apart = ENDED.search(end) or kept[0].begins_block_after(last, on_same_page=False)
            parts.append("\n\n" if is_apart else "\n")
            length += len(parts[-1])
        running.starts.append(length)
        if kept:
            end, last = _join(kept), kept[-1]
            parts.append(end)
            length += len(end)
    running.text = "".join(parts)
    running.replace(_TERM, r"\n\n\1\n: ")
    running.replace(_CAPITALS, r"\n# \1\n")
    running.replace(BROKEN_WORD, "")
    running.replace(_SECTION, _render_section)
    running.replace(BLANK_LINES, "\n\n")
    running.strip()
    return running


def _join(lines: Sequence[Line]) -> str:
    """Return the lines of a page, with a blank one between its blocks."""
    parts: list[str] = []
    last: Line | None = None
    for line in lines:
        is_inked = bool(line.text.strip())
        if last is not None:
            parts.append(line.choose_separator(last) if is_inked else "\n")
        parts.append(line.text)
        last = line if is_inked or last is None else last
    return "".join(parts).strip()


def _continue_tables(pages: Iterable[Sequence[Line]]) -> Iterator[Sequence[Line]]:
    """Yield the pages, where the rest of a table, below it or on the next page, has the names of its columns."""
    above: Table | None = None
    for lines in pages:
        placed = [(line, line.table) for line in lines if line.table]
        for line, table in placed:
            if above:
                table.continue_table(above)
                line.text = table.render()
            above = table
        above = above if placed else None
        yield lines


def _trim_blank_lines(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines without blank ones at the beginning and at the end."""
    inked = [at for at, line in enumerate(lines) if line.text.strip()]
    return lines[inked[0] : inked[-1] + 1] if inked else []


def _render_section(found: re.Match[str]) -> str:
    return f"\n{'#' * (1 + found[2].count('.'))} {found[0]}\n"


def _remove_edges(pages: Sequence[Sequence[Line]]) -> Iterator[Sequence[Line]]:
    """Yield the pages without their headers and footers.

    A line at the edge is removed if it repeats on other pages apart from the page number, or if it begins or ends with the page
    number. A line in which other numbers change is text, such as the total in the last line of an invoice.
    """
    edges = [{*range(min(EDGE_LINES, len(page))), *range(max(0, len(page) - EDGE_LINES), len(page))} for page in pages]
    shift = _find_number_shift(pages, edges)
    repeated: Counter[str] = Counter()
    for number, (page, edge) in enumerate(zip(pages, edges, strict=True)):
        repeated.update({_mask_number(page[at].text, number, shift) for at in edge})
    for number, (page, edge) in enumerate(zip(pages, edges, strict=True)):
        numbered = {at for at in edge if shift is not None and number + shift in _list_numbers(page[at].text)}
        head = {at for at in edge if repeated[_mask_number(page[at].text, number, shift)] >= EDGE_LINE_REPEATS}
        yield [line for at, line in enumerate(page) if at not in numbered | head]


def _find_number_shift(pages: Sequence[Sequence[Line]], edges: Sequence[Iterable[int]]) -> int | None:
    """Return the page number that is printed on the first page; None if no numbers at the edges count the pages."""
    shifts: Counter[int] = Counter()
    for number, (page, edge) in enumerate(zip(pages, edges, strict=True)):
        shifts.update({int(digits) - number for at in edge for digits in _NUMBER.findall(page[at].text)})
    shift, matches = max(shifts.items(), key=lambda counted: counted[1], default=(0, 0))
    return shift if matches >= EDGE_LINE_REPEATS else None


def _mask_number(line: str, number: int, shift: int | None) -> str:
    """Return the line with `#` instead of the number of its page, which is counted from 0."""
    if shift is None:
        return line
    return _NUMBER.sub(lambda digits: "#" if int(digits[0]) == number + shift else digits[0], line)


def _list_numbers(line: str) -> set[int]:
    """Return the numbers at the beginning and end of a line."""
    return {int(digits) for found in _PAGE_NUMBER.finditer(line) for digits in found.groups() if digits}
