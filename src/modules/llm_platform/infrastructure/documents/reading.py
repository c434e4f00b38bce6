"""Reads one file as a document: its title, and the text that quotes point into."""

import re
import tomllib
from pathlib import Path, PurePosixPath
from typing import Final

from modules.llm_platform.domain.markdown.outline import heading_title, read_outline
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.text.page_starts import convert_page_starts
from modules.llm_platform.infrastructure.documents.folder import FoundFile, get_suffix
from modules.llm_platform.infrastructure.documents.tables import divide_tables, read_values
from modules.llm_platform.infrastructure.parsing.decoding import (
    EmptyDocument,
    UnreadableDocument,
    decode,
    replace_unprintable,
)
from modules.llm_platform.infrastructure.parsing.parser_process import FILE_KINDS, DocumentParser, Parsed

DOCUMENT_TEXT_BYTES: Final = 5_000_000  # longest text or HTML file; the rest is not read
DOCUMENT_FILE_BYTES: Final = 50_000_000  # largest PDF or archive, which cannot be read in part
DOCUMENT_TITLE_CHARS: Final = 200
TITLE_WITHIN_CHARS: Final = 5000  # a heading further down is not the document's title

_WITH_TABLES = frozenset((".md", ".markdown", ".html", ".htm", ".pdf", ".docx", ".xlsx", ".pptx", ".epub"))
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.{0,5000}?\n)??(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
# A line of YAML: indented, with a key, an item of a list, a comment, or a bracket. A text may begin with a rule, too.
_MATTER_LINE = re.compile(r"[ \t]|[^\n]*?:(?:[ \t]|$)|-[ \t]|[#\]}{\[]|$")
# A value of YAML is after its key, or indented below `>` or `|`.
_MATTER_TITLE = re.compile(r"^title:(?:[ \t]*[>|][+-]?[ \t]*\n((?:[ \t][^\n]*\n)+)|([^\n]+)$)", re.MULTILINE)
_TOML_MATTER = re.compile(r"\A\+\+\+[ \t]*\n(.{0,5000}?\n)??\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_QUOTED = re.compile(r"([\"'])(.+)\1\Z")
_ADORNMENT = re.compile(r"([=\-`:.'\"~^_*+#<>])\1{2,}")
# An entry of a log is a line that is not indented, with the indented lines below it.
_ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)
_MARKUP = re.compile(r"!?\[([^\]\[]*)\]\([^()\s]*\)|[`*]|[ \t]#+[ \t]*$|\{#[\w-]+\}")


def read_text(root: Path, file: FoundFile, parser: DocumentParser, redactor: Redactor) -> Parsed:
    """Return the text and title of one file. Raises UnreadableDocument with the reason, and EmptyDocument without a text."""
    if file.suffix[1:] in FILE_KINDS and file.stamp[0] > DOCUMENT_FILE_BYTES:
        raise UnreadableDocument(f"it is larger than {DOCUMENT_FILE_BYTES // 1_000_000} MB")
    return read_content(file.path, root / file.path, parser, redactor)


def read_content(name: str, file: Path | bytes, parser: DocumentParser, redactor: Redactor) -> Parsed:
    """Read a file, or the bytes of a file with this name, as `read_text` does."""
    suffix = get_suffix(name)
    parsed = _parse(suffix, file, parser)

    def convert(part: str) -> str:
        return redactor.text(divide_tables(part) if suffix in _WITH_TABLES else part)

    text = convert(parsed.text)
    if not text or text.isspace():
        raise EmptyDocument("it contains no text")
    # The first heading of a PDF names a section, and the first heading of a workbook names a sheet.
    heading = None if suffix in (".pdf", ".xlsx") else find_first_heading(text)
    title = redactor.text(parsed.title or heading or _name(name))[:DOCUMENT_TITLE_CHARS]
    return Parsed(text, title, parsed.note, pages=convert_page_starts(parsed.text, parsed.pages, convert, text))


def _parse(suffix: str, file: Path | bytes, parser: DocumentParser) -> Parsed:
    if suffix[1:] in FILE_KINDS:
        return parser.file(suffix[1:], file)
    data = file if isinstance(file, bytes) else _read_bytes(file)
    cut = f"only its first {DOCUMENT_TEXT_BYTES // 1_000_000} MB were read" if len(data) > DOCUMENT_TEXT_BYTES else None
    decoded = decode(data[:DOCUMENT_TEXT_BYTES], html=suffix in {".html", ".htm"})
    note = cut or decoded.note
    if suffix in {".html", ".htm"}:
        parsed = parser.html(decoded.text)
        return Parsed(parsed.text, parsed.title, note or parsed.note)
    if suffix == ".rst":
        return Parsed(_mark_headings(decoded.text), None, note)
    if suffix in (".csv", ".tsv"):
        return Parsed(read_values(decoded.text), None, note)
    if suffix == ".log":
        return Parsed(_ENTRY.sub("- ", decoded.text), None, note)  # a list, else its lines are read as one paragraph
    title, body = (None, decoded.text) if suffix in (".txt", ".text") else _split_front_matter(decoded.text)
    return Parsed(body, title, note)


def _split_front_matter(text: str) -> tuple[str | None, str]:
    """Return the title that the front matter of a Markdown file has, and the text after the front matter."""
    if (matter := _find_yaml_matter(text)) is not None:
        return _read_yaml_title(matter[0]), text[matter.end() :]
    if (matter := _TOML_MATTER.match(text)) is not None:
        try:
            title = tomllib.loads(matter[1] or "").get("title")
        except (tomllib.TOMLDecodeError, RecursionError):
            return None, text  # lines between two rows of plus signs
        return " ".join(title.split()) or None if isinstance(title, str) else None, text[matter.end() :]
    return None, text


def _find_yaml_matter(text: str) -> re.Match[str] | None:
    found = _FRONT_MATTER.match(text)
    if found is None:
        return None
    lines = (found[1] or "").split("\n")
    has_key = any(":" in line and not line.startswith("#") for line in lines)
    return found if (has_key or not any(lines)) and all(map(_MATTER_LINE.match, lines)) else None


def _read_yaml_title(matter: str) -> str | None:
    titled = _MATTER_TITLE.search(matter)
    title = " ".join((titled[1] or titled[2]).split()) if titled else ""
    quoted = _QUOTED.match(title)
    return (quoted[2].strip() if quoted else title) or None


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            return opened.read(DOCUMENT_TEXT_BYTES + 1)
    except OSError as error:
        raise UnreadableDocument(f"it cannot be opened ({error.strerror})") from error


def _mark_headings(text: str) -> str:
    """Return reStructuredText with its headings as Markdown. Any character may underline or overline a heading, and
    levels follow from the order of the styles. docutils would drop the content of unknown directives, which is most of the
    documentation of a Python project.
    """
    lines = text.split("\n")
    levels: dict[tuple[str, bool], int] = {}
    marked: list[str] = []
    position = 0
    while position < len(lines):
        over = 1 if _ADORNMENT.fullmatch(lines[position].rstrip()) else 0
        title, under = [*lines[position + over : position + over + 2], "", ""][:2]
        plain, mark = title.strip(), under.rstrip()
        underlined = _ADORNMENT.fullmatch(mark) and 0 < len(plain) <= len(mark) and not _ADORNMENT.fullmatch(plain)
        if underlined and (lines[position].rstrip() == mark if over else title[0] != " "):
            level = levels.setdefault((mark[0], bool(over)), len(levels) + 1)
            marked += ["", f"{'#' * min(level, 6)} {plain}", ""]
            position += 2 + over
        else:
            marked.append(lines[position])
            position += 1
    return "\n".join(marked)


def find_first_heading(text: str) -> str | None:
    """Return the first heading near the beginning, without Markdown syntax."""
    beginning = text[:TITLE_WITHIN_CHARS]
    heading = next((block for block in read_outline(beginning) if block.kind == "heading"), None)
    title = heading_title(beginning[heading.start : heading.end]) if heading else ""
    return " ".join(_MARKUP.sub(r"\1", title).split()) or None


def _name(path: str) -> str:
    """Return the file's name as a title: `getting-started.md` gives `getting started`."""
    return re.sub(r"[-_]+", " ", replace_unprintable(PurePosixPath(path).stem)).strip() or "document"
