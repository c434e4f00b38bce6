"""Reads one file as a document: its title, and the text that quotes point into."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Final

from modules.llm_platform.domain.markdown.outline import heading_title, read_outline
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.documents.decoding import EmptyDocument, UnreadableDocument, decode, printable
from modules.llm_platform.infrastructure.documents.folder import FoundFile
from modules.llm_platform.infrastructure.documents.parser_process import FILE_KINDS, DocumentParser, Parsed

MAX_TEXT_BYTES: Final = 5_000_000  # of a text or HTML file; what follows is not read
MAX_FILE_BYTES: Final = 50_000_000  # of a PDF or archive, which cannot be read in part
MAX_TITLE_CHARS: Final = 200
TITLE_WITHIN_CHARS: Final = 5000  # a heading further down is not the document's title
MAX_HEADING_LEVEL: Final = 6

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.{0,5000}?\n)??(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_MATTER_TITLE = re.compile(r"^title:[ \t]*(?P<quote>[\"']?)(?P<title>[^\n]+?)(?P=quote)[ \t]*$", re.MULTILINE)
_ADORNMENT = re.compile(r"([=\-`:.'\"~^_*+#<>])\1{2,}")
_MARKUP = re.compile(r"!?\[([^\]\[]*)\]\([^()\s]*\)|[`*]|[ \t]#+[ \t]*$|\{#[\w-]+\}")


def read_text(root: Path, file: FoundFile, parser: DocumentParser, redactor: Redactor) -> Parsed:
    """The text and title of one file. Raises UnreadableDocument with the reason, EmptyDocument where there is no text."""
    parsed = _parse(root, file, parser)
    text = redactor.text(parsed.text)
    if not text or text.isspace():
        raise EmptyDocument("it holds no text")
    heading = None if file.suffix == ".pdf" else first_heading(text)  # a PDF's first heading is that of some section
    title = redactor.text(parsed.title or heading or _name(file.path))[:MAX_TITLE_CHARS]
    return Parsed(text, title, parsed.note)


def _parse(root: Path, file: FoundFile, parser: DocumentParser) -> Parsed:
    if file.suffix[1:] in FILE_KINDS:
        if file.stamp[0] > MAX_FILE_BYTES:
            raise UnreadableDocument(f"it is larger than {MAX_FILE_BYTES // 1_000_000} MB")
        return parser.file(file.suffix[1:], root / file.path)
    data = _bytes(root / file.path)
    cut = f"only its first {MAX_TEXT_BYTES // 1_000_000} MB were read" if len(data) > MAX_TEXT_BYTES else None
    decoded = decode(data[:MAX_TEXT_BYTES], html=file.suffix in {".html", ".htm"})
    note = cut or decoded.note
    if file.suffix in {".html", ".htm"}:
        parsed = parser.html(decoded.text)
        return Parsed(parsed.text, parsed.title, note or parsed.note)
    if file.suffix == ".rst":
        return Parsed(_with_marked_headings(decoded.text), None, note)
    return Parsed(decoded.text, None, note) if file.suffix == ".txt" else _markdown(decoded.text, note)


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            return opened.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise UnreadableDocument(f"it cannot be opened ({error.strerror})") from error


def _with_marked_headings(text: str) -> str:
    """reStructuredText with headings as Markdown. Any character may underline a heading, and overline it too; levels follow
    from the order in which the styles occur. docutils would drop the content of unknown directives, which is most of the
    documentation of a Python project.
    """
    lines = text.split("\n")
    levels: dict[tuple[str, bool], int] = {}
    marked: list[str] = []
    place = 0
    while place < len(lines):
        over = 1 if _ADORNMENT.fullmatch(lines[place].rstrip()) else 0
        title, under = [*lines[place + over : place + over + 2], "", ""][:2]
        mark = under.rstrip()
        is_heading = _is_underlined(title, mark) and (lines[place].rstrip() == mark if over else title[0] != " ")
        if is_heading:
            level = levels.setdefault((mark[0], bool(over)), len(levels) + 1)
            marked += ["", f"{'#' * min(level, MAX_HEADING_LEVEL)} {title.strip()}", ""]
            place += 2 + over
        else:
            marked.append(lines[place])
            place += 1
    return "\n".join(marked)


def _is_underlined(title: str, mark: str) -> bool:
    plain = title.strip()
    return bool(_ADORNMENT.fullmatch(mark)) and 0 < len(plain) <= len(mark) and not _ADORNMENT.fullmatch(plain)


def _markdown(text: str, note: str | None) -> Parsed:
    """Markdown without its front matter, whose title is used."""
    matter = _FRONT_MATTER.match(text)
    if not matter:
        return Parsed(text, None, note)
    titled = _MATTER_TITLE.search(matter[0])
    return Parsed(text[matter.end() :], titled["title"].strip() if titled else None, note)


def first_heading(text: str) -> str | None:
    """The first heading near the beginning, without Markdown syntax."""
    beginning = text[:TITLE_WITHIN_CHARS]
    heading = next((block for block in read_outline(beginning) if block.kind == "heading"), None)
    title = heading_title(beginning[heading.start : heading.end]) if heading else ""
    return " ".join(_MARKUP.sub(r"\1", title).split()) or None


def _name(path: str) -> str:
    """The file's name as a title: `getting-started.md` gives `getting started`."""
    return re.sub(r"[-_]+", " ", printable(PurePosixPath(path).stem)).strip() or "document"
