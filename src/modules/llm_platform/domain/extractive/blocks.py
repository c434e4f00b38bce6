"""Read a source's text, Markdown or plain, line by line into blocks: paragraphs, list items, code, headings, tables.

Over 300 lines: each kind of line changes what the next one means, so that they are read in one place.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

# Take the markup off a piece of a source, so that its words can be quoted as they stand.


_DATE_BEFORE = re.compile(r"^(?:\d{1,2}\.? )?[A-Z][a-zé]{2,8}\.? (?:\d{1,2}, )?\d{4}\s+[—–·-]+\s+")

IMAGE = re.compile(r"!\[[^\]\[]{0,300}\](?:\((?:[^()]|\([^()]{0,300}\)){0,600}\)|\[[^\]\[]{0,300}\])")
_LINK = re.compile(r"\[([^\]\[]+)\]\((?:[^()\s]|\([^()]*\))*(?:\s+\"[^\"]*\")?\)")
_REFERENCE = re.compile(r"\[([^\]\[]+)\]\[[^\]]*\]")
_MARKER = re.compile(
    r"\s?(?:\[(?:\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*|\^[\w-]+|edit|citation needed|note \d+)\]|【[^】]{0,12}】)"
)
_STRONG = re.compile(r"(\*\*|(?<!\w)__(?![a-z\d_]+__))(?=[^\s’”'\"])(.+?)(?<=\S)\1")  # `__init__` is a name
_EMPHASIS = re.compile(r"(?<![\w*\\])([*_])(?=[^\s*_’”])([^*_]+?)(?<=\S)\1(?![\w*])")
_ROLE = re.compile(r":[a-z]+(?::[a-z]+)*:`~?\.?([^`<]+?)(?:\s*<[^`>]*>)?`")
_RST_LINK = re.compile(r"`([^`<>]+?)\s*<[^`<>]+>`__?|`([^`<>]+)`_(?!\w)")
_TAG = re.compile(r"</?(?:b|i|em|strong|mark|span|p|br|sup|sub|a|code|u|font|div)(?:\s[^<>]*)?/?>", re.IGNORECASE)
_NAME = re.compile(r"__[a-z\d_]+__")
_CODE_SPAN = re.compile(r"`[^`]*`")
_HIDDEN = "\x00"  # stands in no text that is shown
_HIDDEN_SPAN = re.compile(f"{_HIDDEN}(\\d+){_HIDDEN}")
_BLANKS = re.compile(r"\s+")
_EDGES = re.compile(r"^(?:[>#|]+\s*|\*\*\s*|¶\s*)+|(?:\s*\*\*|\s*¶|\s*\|)+$")


def strip_markup(text: str) -> str:
    """A piece of a source as it is quoted: words as they stand, without links, images, footnote numbers and emphasis.

    Code spans keep every character: `a[1]`, `git diff <path>` and `__new__` are no markup.
    """
    shown = _BLANKS.sub(" ", text).strip()
    shown = _DATE_BEFORE.sub("", shown)
    if "`" not in shown:
        return _without_markup(shown)
    spans: list[str] = []

    def hide(span: re.Match[str]) -> str:
        spans.append(span[0])
        return f"{_HIDDEN}{len(spans) - 1}{_HIDDEN}"

    shown = _CODE_SPAN.sub(hide, _with_plain_code(shown.replace(_HIDDEN, "")))
    return _HIDDEN_SPAN.sub(lambda hidden: spans[int(hidden[1])], _without_markup(shown))


def _with_plain_code(shown: str) -> str:
    """Roles and links of reStructuredText as plain code and text, each code span between single backticks."""
    if "`_" in shown:
        shown = _RST_LINK.sub(lambda link: link[1] or link[2], shown)
    shown = _ROLE.sub(r"`\1`", shown).replace("``", "`")
    return shown.replace("`", "") if shown.count("`") % 2 else shown


def _without_markup(shown: str) -> str:
    if "[" in shown or "【" in shown:
        shown = _LINK.sub(_text_of_link, IMAGE.sub("", shown))
        shown = _REFERENCE.sub(r"\1", _MARKER.sub("", shown))
    if "<" in shown:
        shown = _TAG.sub("", shown)
    if shown[:1] in "*_" and shown[-1:] == shown[:1] and not _NAME.fullmatch(shown):
        shown = shown.strip("*_")
    if "*" in shown or "_" in shown:
        shown = _EMPHASIS.sub(r"\2", _STRONG.sub(r"\2", shown))
    shown = _EDGES.sub("", shown).strip()
    if shown[:1] == "*" and shown.count("*") == 1:
        shown = shown[1:]
    return shown[:-1] if shown.endswith("::") else shown


def _text_of_link(link: re.Match[str]) -> str:
    return "" if link[1].strip("^ ").isdigit() else link[1]  # a linked footnote


BlockKind = Literal["paragraph", "item", "code", "heading", "table"]

MAX_HEADING_WORDS = 12
MAX_HEADING_CHARS = 80
NAVIGATION_LINES = 3  # that many short lines in a row, none of which ends like a sentence
NAVIGATION_LINE_CHARS = 40
CODE_INDENT = 4  # columns
MAX_TERM_LINES = 6  # that one explanation is for
TERM_INDENT = 3  # columns that an explanation stands further in than the term above it
MAX_MARKED_LINE_CHARS = 2000  # a longer line is prose, whatever it begins with
END_CHARS = 8  # that a stop and what may stand behind it take up
PROSE_WORDS = 3  # an indented block of fewer is code
PROSE_SHARE = 0.75  # of its words that are made of letters, in an indented block that is prose
CODE_SHARE = 0.25  # of its lines that may look like code

_FENCE = re.compile(r"\s{0,24}(```+|~~~+)(.*)")  # in a list, or where a page's text was laid out, it is set in
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(\S.*)")
_UNDERLINE = re.compile(r"\s{0,3}(=+|-+|~+|\^+|\*+)\s*$")
_ITEM = re.compile(r"(\s*)(?:[-*+•·‣▪]|\(?\d{1,3}[.)])\s+(\S.*)")
_TABLE = re.compile(r"\s*\|.*\||.*\s\|\s.*\s\|\s")
_TABLE_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?\s*$")
_RULE = re.compile(r"[\s|:+=*_-]{3,}$")
_QUOTE = re.compile(r"^\s{0,3}>\s?")
# Lines that hold nothing to quote: link definitions, directives, comments, lone images and links, what a console shows.
_NOISE = re.compile(
    r"\s*(?:\[[^\]]+\]:\s*\S+.*|\.\. .*|:[\w-]+:.*|<!--.*|!\[[^\]]*\]\([^)]*\)|[-*+•]?\s*\[[^\]]*\]\([^)]*\)"
    r"|https?://\S+|(?:\$|>>>)\s.*)\s*$"
)
_LONE_LINK = re.compile(r"\s*\[[^\]]*\]\([^)]*\)\s*$")  # goes on with a paragraph that was broken around it
_FRONT_MATTER = re.compile(r"\A---\n(?:[^\n]*\n){0,60}?---\n")
_CODE_LINE = re.compile(
    r"[{};]\s*$|^\s*(?:#|//|\$ |>>>|\.\.\. |@|</?\w|[\w.]+\s*(?:=|\+=|:=)\s|[\w.]+\(.*\)\s*$"
    r"|(?:def|class|import|from|return|for|if|with|let|const|var)\s.*[:;(]$)"
)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*[.,;:!?)\"'”’]*$")
_HAS_SENTENCE_END = re.compile(r"[.!?。！？:：][\"'”’»)\]]*(?:\s|$)")
_DEFINED = re.compile(r"\s*:\s+(\S.*)")  # what a definition list says of the lines above
_CODE_TERM = re.compile(r"^\s*[-$@]|\w\(|[<_=\[]")
_OPTION = re.compile(r"\s*--?[A-Za-z][\w-]*(?:[ ,=\[<]|$)")
_SENTENCE_END = re.compile(r"[.!?。！？…:：;][\"'”’»)\]*_`]*$")


@dataclass(slots=True)
class Block:
    """A run of lines that belong together.

    `heading` is the nearest one above, `syntax` the language that a fence names, `term` the line that an indented
    explanation stands under.
    """

    kind: BlockKind
    text: str
    heading: str
    syntax: str = ""
    term: str = ""


def read_blocks(text: str) -> Iterator[Block]:
    """Blocks in order; navigation, link definitions, images and rules are left out."""
    reader = _BlockReader()
    for line in _FRONT_MATTER.sub("", text).splitlines():
        yield from reader.take(line)
    yield from reader.close()


class _BlockReader:
    """Gathers lines into blocks; a state machine of one line's memory."""

    def __init__(self) -> None:
        self._kind: BlockKind = "paragraph"
        self._lines: list[str] = []
        self._heading = ""
        self._fence = ""
        self._syntax = ""
        self._term = ""
        self._blank = True
        self._in_list = False
        self._announced = False  # the last block ended in a colon

    def take(self, line: str) -> Iterator[Block]:
        if self._fence:
            yield from self._in_fence(line)
            return
        if not _QUOTE.sub("", line, count=1).strip():
            if self._kind == "code":
                self._lines.append("")
            else:
                yield from self.close()
            self._blank = True
            return
        yield from self._text_line(line)
        self._blank = False

    def close(self) -> Iterator[Block]:
        """The block gathered so far, if there is one."""
        lines, kind, syntax, term = self._lines, self._kind, self._syntax, self._term
        fenced = bool(self._fence)
        self._lines, self._kind, self._fence, self._syntax, self._term = [], "paragraph", "", "", ""
        if not lines or _is_navigation(kind, lines) or (kind == "table" and not is_table(lines)):
            return
        if kind == "code" and not fenced and not self._announced:
            yield from self._indented(lines)
            return
        if kind == "paragraph" and _OPTION.match(term):
            kind = "item"
        if (
            kind == "paragraph"
            and len(lines) == 1
            and not (term or _is_set_in(lines[0]))
            and _reads_like_a_heading(lines[0])
        ):
            kind = "heading"
            self._heading = strip_markup(lines[0])
        body = _code(lines) if kind == "code" else "\n".join(line.strip() for line in lines)
        if kind not in ("code", "table") and "![" in body:
            body = IMAGE.sub("", body).strip()  # before its exclamation mark passes for the end of a sentence
        self._announced = body.endswith((":", "："))
        yield Block(kind, body, self._heading, syntax, term)

    def _indented(self, lines: Sequence[str]) -> Iterator[Block]:
        """Manuals set their prose in; what an indented stretch holds tells whether it is code."""
        blocks = [_indented_block(part, self._heading) for part in _split_at_blanks(lines)]
        if all(block.kind == "code" for block in blocks):
            yield Block("code", _code(lines), self._heading)
        else:
            yield from blocks

    def _in_fence(self, line: str) -> Iterator[Block]:
        if line.strip().startswith(self._fence):
            yield from self.close()
        else:
            self._lines.append(line)

    def _text_line(self, line: str) -> Iterator[Block]:
        looks_plain = line[0].isalpha() and "|" not in line and not line.startswith("http")
        if looks_plain or len(line) > MAX_MARKED_LINE_CHARS:
            yield from self._prose(line)  # nine lines of ten, without asking what else they might be
            return
        line = _QUOTE.sub("", line, count=1)
        fence = _FENCE.match(line)
        item = _ITEM.match(line)
        if fence:
            yield from self.close()
            self._kind, self._fence = "code", fence.group(1)[:3]
            self._syntax = fence.group(2).strip(" {.}").split(" ")[0]
        elif self._is_code(line, item is not None):
            if self._kind != "code":
                yield from self.close()
                self._kind = "code"
            self._lines.append(line)
        elif heading := _HEADING.match(line):
            yield from self._new_heading(heading.group(1).rstrip("# \t"))
        elif _TABLE.match(line) or (self._kind == "table" and _RULE.match(line)):
            yield from self._table_line(line)
        elif _UNDERLINE.match(line):
            yield from self._underline()
        elif _RULE.match(line) or (_NOISE.match(line) and not (self._lines and _LONE_LINK.match(line))):
            yield from self.close()
        elif item:
            yield from self.close()
            self._kind, self._in_list = "item", True
            self._lines.append(item.group(2))
        else:
            yield from self._prose(line)

    def _table_line(self, line: str) -> Iterator[Block]:
        if self._kind != "table":
            yield from self.close()
            self._kind = "table"
        self._lines.append(line)

    def _prose(self, line: str) -> Iterator[Block]:
        if self._kind in ("code", "table"):
            yield from self.close()
        defined = _DEFINED.match(line)
        if defined and self._kind == "paragraph" and 0 < len(self._lines) <= MAX_TERM_LINES:
            self._term = ", ".join(map(_as_term, self._lines))
            self._lines = [defined.group(1)]
            return
        if self._blank and not line[0].isspace():
            self._in_list = False
        if line[0].isspace() and len(self._lines) == 1 and self._kind == "paragraph":
            yield from self._explained(line)
        self._lines.append(line)

    def _explained(self, line: str) -> Iterator[Block]:
        """What stands further in than the single line above it is explained by, or headed by, that line."""
        above = self._lines[0]
        if not _is_term(above, line):
            return
        self._lines.pop()
        if above.isupper():
            yield from self._new_heading(above)
        else:
            self._term = strip_markup(above)

    def _is_code(self, line: str, item: bool) -> bool:
        indented = _indent(line) >= CODE_INDENT or line[0] == "\t"
        if self._kind == "code":
            return indented
        return indented and self._blank and not self._in_list and not item

    def _new_heading(self, title: str) -> Iterator[Block]:
        yield from self.close()
        self._heading, self._in_list, self._announced = strip_markup(title), False, False
        yield Block("heading", self._heading, self._heading)

    def _underline(self) -> Iterator[Block]:
        if len(self._lines) == 1 and self._kind == "paragraph":
            title = self._lines.pop()
            yield from self._new_heading(title)
        else:
            yield from self.close()


def _as_term(line: str) -> str:
    """A term as it is said before what explains it: an option or a signature as code."""
    bare = line.strip()
    return f"`{bare}`" if "`" not in bare and _CODE_TERM.search(bare) else strip_markup(bare)


def ends_like_a_sentence(text: str) -> bool:
    return bool(_SENTENCE_END.search(text.rstrip()[-END_CHARS:]))


def is_table(lines: Sequence[str]) -> bool:
    """Whether these are a Markdown table: a row of names, a rule, rows."""
    return len(lines) > 2 and bool(_TABLE_RULE.match(lines[1]))


def _is_set_in(line: str) -> bool:
    return _indent(line) >= TERM_INDENT


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _split_at_blanks(lines: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for line in (*lines, ""):
        if line:
            part.append(line)
        elif part:
            yield part
            part = []


def _code(lines: Sequence[str]) -> str:
    return textwrap.dedent("\n".join(lines)).strip("\n")


def _is_term(above: str, line: str) -> bool:
    """Whether the line stands further in than the one above, and that one reads like what it explains."""
    return _indent(line) >= _indent(above) + TERM_INDENT and _reads_like_a_heading(above)


def _indented_block(lines: Sequence[str], heading: str) -> Block:
    has_term = len(lines) > 1 and _is_term(lines[0], lines[1])
    told = lines[1:] if has_term else lines
    kind: BlockKind = "item" if _OPTION.match(lines[0]) else _indented_kind("\n".join(told))
    if kind == "code":
        return Block(kind, _code(lines), heading)
    return Block(
        kind, "\n".join(line.strip() for line in told), heading, term=strip_markup(lines[0]) if has_term else ""
    )


def _indented_kind(body: str) -> BlockKind:
    found, lines = body.split(), body.split("\n")
    if len(found) < PROSE_WORDS or not _HAS_SENTENCE_END.search(body):
        return "code"
    prose = sum(bool(_WORD.match(word)) for word in found) >= PROSE_SHARE * len(found)
    return (
        "paragraph"
        if prose and sum(bool(_CODE_LINE.search(line)) for line in lines) <= CODE_SHARE * len(lines)
        else "code"
    )


def _is_navigation(kind: BlockKind, lines: Sequence[str]) -> bool:
    """Short lines under each other that never end a sentence: menus, breadcrumbs, addresses."""
    if kind != "paragraph" or len(lines) < NAVIGATION_LINES:
        return False
    return all(len(line) < NAVIGATION_LINE_CHARS and not ends_like_a_sentence(line) for line in lines)


def _reads_like_a_heading(line: str) -> bool:
    bare = line.strip()
    return (
        len(bare.split()) <= MAX_HEADING_WORDS
        and len(bare) <= MAX_HEADING_CHARS
        and not ends_like_a_sentence(bare)
        and "…" not in bare
    )
