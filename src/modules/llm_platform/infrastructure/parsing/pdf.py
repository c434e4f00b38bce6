"""The text of a PDF file."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from modules.llm_platform.infrastructure.parsing.answer import (
    BLANK_LINES,
    MAX_CHARS,
    NEEDS_EXTRA,
    Answer,
    File,
    opened_file,
    own_title,
)
from modules.llm_platform.infrastructure.parsing.limits import cpu_seconds_left

MAX_PAGES = 2000
SPARE_CPU_SECONDS = 1.0  # kept from a document's time for its last page and for joining the pages
WORD_GAP = -150  # thousandths of the font size: kerning is narrower, a blank is wider
CERTAIN_GAP = -1000  # wider than any font's blank
EDGE_LINES = 2  # lines at the top and bottom of a page, with its header and number
MIN_REPEATS = 3  # pages with the same line at the edge

_BROKEN_WORD = re.compile(r"(?<=[^\W\d_])[-\u00ad]\n(?=[a-zà-ÿа-яё])")
_DOT_LEADERS = re.compile(r"(?:\.[ \t]?){5}|\.[ \t]+\.[ \t]+\d+[ \t]*\Z")
_NUMBER = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(r"\A\s*(\d{1,4})\b(?![.\d])|(?<![.\d])\b(\d{1,4})\s*\Z")
_SECTION = re.compile(
    r"^(?:Chapter |Appendix )?(\d+|[A-Z])((?:\.\d+){1,4})\.?[ \t]+(?=\S)([^\n]{2,80})(?<![.:;,])$", re.MULTILINE
)
_TERM = re.compile(
    r"(?<=[.:\n])\n(-{1,2}[A-Za-z][\w-]*(?: [a-z][\w-]*)?|[a-z_][\w-]*|[A-Z][A-Z_]{3,})[\n ](?=[A-Z][a-z]* ?[a-z])"
)  # an option or a name on a line of its own, then a sentence that explains it
_CAPITALS = re.compile(r"^(?:CHAPTER[ \n]\w+\n)?(?=[^\n]*[A-Z]{4} )([A-Z][A-Z0-9 ,'’&/-]{6,79})$", re.MULTILINE)
_ENDED = re.compile(r"[.!?:;][\"'”’)\]]*\Z")


def pdf_text(file: File) -> Answer:
    """Return the text of a PDF's pages, with hyphenated words joined."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        return {"error": NEEDS_EXTRA}
    try:
        with opened_file(file) as opened:
            reader = PdfReader(opened, strict=False)
            if reader.is_encrypted and not reader.decrypt(""):
                return {"error": "it is encrypted: save it without a password"}
            return {"title": own_title(getattr(reader.metadata, "title", None)), **_pages(reader)}
    except OSError:
        return {"error": "it cannot be opened"}
    except (PyPdfError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        return {"error": "it is not a PDF that can be read"}


def _pages(reader: Any) -> Answer:
    pages: list[str] = []
    note = None
    for number, page in enumerate(reader.pages):
        if number >= MAX_PAGES or sum(map(len, pages)) > MAX_CHARS or (number and cpu_seconds_left() < SPARE_CPU_SECONDS):
            note = f"only its first {number} pages were read"
            break
        pages.append((page.extract_text(visitor_operand_before=_keep_blanks) or "").strip())
    running = _running_text(pages)
    if not running.text:
        return {"error": "it holds no text (a scan needs OCR first)"}
    return {"text": running.text[:MAX_CHARS], "note": note, "pages": running.starts}


def _keep_blanks(operator: bytes, operands: Any, *_: Any) -> None:
    """Widen the gaps between words. Some fonts have no blank, and their gaps are narrower than pypdf expects."""
    if operator != b"TJ" or not operands or not isinstance(operands[0], list):
        return
    parts = operands[0]
    for at in range(len(parts) - 2, 0, -1):
        if isinstance(parts[at], (int, float)) and parts[at] <= WORD_GAP:
            parts[at : at + 1] = [CERTAIN_GAP, parts[at] - CERTAIN_GAP]  # the sum is unchanged


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


def _running_text(pages: list[str]) -> _RunningText:
    """Return the pages as one text, without headers, page numbers and tables of contents, and with section headings."""
    running = _RunningText()
    for lines in _without_edges([page.split("\n") for page in pages]):
        page = "\n".join(line for line in lines if not _DOT_LEADERS.search(line)).strip()
        if page:
            continues = running.text and not _ENDED.search(running.text)
            running.text += ("\n" if continues else "\n\n") * bool(running.text)
        running.starts.append(len(running.text))
        running.text += page
    running.replace(_TERM, r"\n\n\1\n: ")
    running.replace(_CAPITALS, r"\n# \1\n")
    running.replace(_BROKEN_WORD, "")
    running.replace(_SECTION, _section)
    running.replace(BLANK_LINES, "\n\n")
    running.strip()
    return running


def _section(found: re.Match[str]) -> str:
    return f"\n{'#' * (1 + found[2].count('.'))} {found[0]}\n"


def _without_edges(pages: list[list[str]]) -> Iterator[list[str]]:
    """Pages without the edge lines that repeat on other pages or hold the page number."""
    edges = [{*range(min(EDGE_LINES, len(page))), *range(max(0, len(page) - EDGE_LINES), len(page))} for page in pages]
    repeated: Counter[str] = Counter()
    shifts: Counter[int] = Counter()
    for number, (page, edge) in enumerate(zip(pages, edges, strict=True)):
        repeated.update({_NUMBER.sub("#", page[at]) for at in edge})
        shifts.update({printed - number for at in edge for printed in _numbers(page[at])})
    shift, matches = max(shifts.items(), key=lambda counted: counted[1], default=(0, 0))
    for number, (page, edge) in enumerate(zip(pages, edges, strict=True)):
        numbered = {at for at in edge if matches >= MIN_REPEATS and number + shift in _numbers(page[at])}
        head = {at for at in edge if repeated[_NUMBER.sub("#", page[at])] >= MIN_REPEATS}
        yield [line for at, line in enumerate(page) if at not in numbered | head]


def _numbers(line: str) -> set[int]:
    """Return the numbers at the beginning and end of a line."""
    return {int(digits) for found in _PAGE_NUMBER.finditer(line) for digits in found.groups() if digits}
