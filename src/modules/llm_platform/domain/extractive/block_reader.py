"""Read the blocks of a source's text, Markdown or plain: paragraphs, list items, code, headings, tables.

`read_blocks` takes the text of a source. The module `sentences` splits the blocks into sentences that can be quoted.
"""

import itertools
import re
from collections.abc import Collection, Sequence

from modules.llm_platform.domain.extractive.blocks import Block, BlockKind, BlockWriter, UnfinishedBlock
from modules.llm_platform.domain.extractive.entries import DiaryStyle, detect_diary_style, is_date, split_date
from modules.llm_platform.domain.extractive.markup import strip_markup
from modules.llm_platform.domain.markdown.outline import heading_title, read_outline
from modules.llm_platform.domain.text.sentences import ends_sentence

CODE_INDENT = 4  # columns
MAX_TERM_LINES = 6  # terms that share one explanation
MAX_MARKED_LINE_CHARS = 2000  # a longer line is always prose

_ITEM = re.compile(r"(\s*)(?:[-*+•·‣▪]|\(?\d{1,3}[.)]|\(?[a-z]\))\s+(\S.*)")
_CLAUSE_NUMBER = re.compile(r"^ {0,3}(\d{1,2})\.(\d{1,2})\.?[ \t]+(?=[^\W\d_])", re.MULTILINE)  # `2.1 The rent is …`
_TABLE = re.compile(r"\s*\|.*\||.*\s\|\s.*\s\|\s")
_RULE = re.compile(r"[\s|:+=*_-]{3,}$")  # a rule, or the row below a table header
_QUOTE = re.compile(r"^\s{0,3}>(?:\s|$)")
# Matches lines with nothing to quote: link definitions, directives, comments, lone images and links, console lines.
_NOISE = re.compile(
    r"\s*(?:\[[^\]]+\]:\s*\S+.*|\.\. .*|:[\w-]+:.*|<!--.*|!\[[^\]]*\]\([^)]*\)|(?:[-*+•]\s*)?\[[^\]]*\]\([^)]*\)"
    r"|https?://\S+|(?:\$|>>>)\s.*)\s*$"
)
_LONE_LINK = re.compile(r"\s*\[[^\]]*\]\([^)]*\)\s*$")  # continues the paragraph around it
_FRONT_MATTER = re.compile(r"\A---\n(?:[^\n]*\n){0,60}?---\n")
_EXPLANATION = re.compile(r"\s*:\s+(\S.*)")  # the explanation of the terms in the lines above
_CODE_TERM = re.compile(r"^\s*[-$@]|\w\(|[<_=\[]")


def read_blocks(text: str) -> list[Block]:
    """Return the blocks in order, without navigation, link definitions, images and rules."""
    text = _FRONT_MATTER.sub("", "\n".join(text.splitlines()))
    style = detect_diary_style(text)
    writer = BlockWriter(style)
    prose = _ProseReader(writer, style, _find_clause_numbers(text))
    for part in read_outline(text):
        written = text[part.start : part.end]
        match part.kind:
            case "heading":
                prose.begin_section(heading_title(written))
            case "code":
                prose.end_block()
                writer.add_fenced_code(*_read_fence(written))
            case "prose":
                for line in written.split("\n"):
                    prose.take(line)
                prose.take("")
    prose.end_block()
    if style.dates_begin_lines:
        _end_last_entry(writer.blocks)
    return writer.blocks


def _find_clause_numbers(text: str) -> set[tuple[str, str]]:
    """Return the numbers of clauses that have a successor or predecessor, such as 2.1 and 2.2. `2.5 Million` has neither."""
    numbers = [number.groups() for number in _CLAUSE_NUMBER.finditer(text)]
    pairs = itertools.pairwise(numbers)
    follow = [pair for pair in pairs if pair[0][0] == pair[1][0] and int(pair[1][1]) == int(pair[0][1]) + 1]
    return {(number[0], number[1]) for pair in follow for number in pair}


def _end_last_entry(blocks: Sequence[Block]) -> None:
    """End the last entry of a diary after its first block. The text below may be about something else."""
    begins = [at for at, block in enumerate(blocks) if block.entry and (not at or blocks[at - 1].entry != block.entry)]
    for block in blocks[begins[-1] + 1 :] if begins else ():
        block.entry = ""


def _read_fence(written: str) -> tuple[list[str], str]:
    """Return the lines of fenced code, and the language that the fence names."""
    opening, *lines = written.rstrip("\n").split("\n")
    if lines and not lines[-1].strip("`~ \t>"):
        lines.pop()
    if opening.lstrip().startswith(">"):
        lines = [_QUOTE.sub("", line, count=1) for line in lines]
    return lines, opening.strip(" \t>`~{.}").split(" ")[0]


class _ProseReader:
    """Joins lines to paragraphs, list items, tables and indented code.

    Each line continues the current block, or ends it and begins the next one.
    """

    def __init__(self, writer: BlockWriter, style: DiaryStyle, clauses: Collection[tuple[str, str]]) -> None:
        """Give finished blocks to `writer`. `clauses` are the numbers of the clauses of the text."""
        self._writer, self._style, self._clauses = writer, style, clauses
        self._block = UnfinishedBlock()
        self._follows_blank = True
        self._in_list = False

    def begin_section(self, title: str) -> None:
        self.end_block()
        self._in_list = False
        self._writer.begin_section(title)

    def end_block(self) -> None:
        """Write the current block, if it has lines."""
        block, self._block = self._block, UnfinishedBlock()
        if block.lines:
            self._writer.add(block)

    def take(self, line: str) -> None:
        unquoted = _QUOTE.sub("", line, count=1)
        is_blank = not unquoted.strip()
        if is_blank:
            self._take_blank()
        elif self._style.dates_are_headings and is_date(line.strip()):
            self.begin_section(line.strip())
        elif _is_plain(line):
            self._take_prose(line)
        else:
            self._take_marked(unquoted)
        self._follows_blank = is_blank

    def _take_blank(self) -> None:
        if self._block.kind == "code":
            self._block.lines.append("")
        else:
            self.end_block()

    def _take_marked(self, line: str) -> None:
        """Take a line that may begin with the mark of a list item, a clause, code, or something that cannot be quoted."""
        item = self._match_item(line)
        if self._begins_clause(line):
            self._begin_clause(line)
        elif self._is_code(line, is_item=item is not None):
            self._extend("code", line)
        elif self._is_table_line(line):
            self._extend("table", line)
        elif self._is_noise(line):
            self.end_block()
        elif item:
            self._begin_item(item)
        else:
            self._take_prose(line)

    def _take_prose(self, line: str) -> None:
        if self._block.kind in ("code", "table"):
            self.end_block()
        lines = self._block.lines
        is_paragraph = self._block.kind == "paragraph"
        explanation = _EXPLANATION.match(line)
        if explanation and is_paragraph and 0 < len(lines) <= MAX_TERM_LINES:
            self._block.term = ", ".join(map(_format_term, lines))
            self._block.lines = [explanation.group(1)]
            return
        is_indented = line[0].isspace()
        if self._follows_blank and not is_indented:
            self._in_list = False
        if is_indented and is_paragraph and len(lines) == 1 and lines[0].isupper():
            self.begin_section(lines.pop())  # a heading of a manual, with its text indented below
        self._block.lines.append(line)

    def _extend(self, kind: BlockKind, line: str) -> None:
        """Add a line to the current block if it is of this kind. Otherwise begin a block with it."""
        if self._block.kind != kind:
            self.end_block()
            self._block.kind = kind
        self._block.lines.append(line)

    def _is_code(self, line: str, *, is_item: bool) -> bool:
        """Return whether a line is indented code, and not the text of a list item."""
        is_indented = len(line) - len(line.lstrip()) >= CODE_INDENT or line[0] == "\t"
        may_begin = self._follows_blank and not self._in_list and not is_item
        return is_indented and (may_begin or self._block.kind == "code")

    def _is_table_line(self, line: str) -> bool:
        return bool(_TABLE.match(line) or (self._block.kind == "table" and _RULE.match(line)))

    def _is_noise(self, line: str) -> bool:
        """Return whether a line has nothing to quote. A link within a paragraph belongs to it."""
        continues_text = self._block.lines and _LONE_LINK.match(line)
        return bool(_RULE.match(line) or (_NOISE.match(line) and not continues_text))

    def _match_item(self, line: str) -> re.Match[str] | None:
        item = _ITEM.match(line)
        if item and self._style.dates_begin_lines and line.lstrip()[0].isdigit() and split_date(line.lstrip()).date:
            return None  # `4. März: Frost` is no fourth item
        return item

    def _begin_item(self, item: re.Match[str]) -> None:
        self.end_block()
        number = "".join(filter(str.isdigit, item.string[: item.start(2)]))
        self._block = UnfinishedBlock("item", [item.group(2)], number=number)
        self._in_list = True

    def _begins_clause(self, line: str) -> bool:
        """Return whether a line begins a clause, and not in the middle of a sentence."""
        block, number = self._block, _CLAUSE_NUMBER.match(line)
        if number is None or number.groups() not in self._clauses or block.kind not in ("paragraph", "item"):
            return False
        return not block.lines or block.kind == "item" or ends_sentence(block.lines[-1])

    def _begin_clause(self, line: str) -> None:
        """Begin a paragraph, below the title of its section if the title is right above."""
        if self._block.is_section_title:
            self.begin_section(self._block.lines.pop())
        else:
            self.end_block()
        self._block.lines.append(line)


def _is_plain(line: str) -> bool:
    """Return whether a line is prose without further checks: it has no mark for `_take_marked`, or is very long."""
    is_text = line[0].isalpha() and line[1:2] != ")" and "|" not in line and not line.startswith("http")
    return is_text or len(line) > MAX_MARKED_LINE_CHARS


def _format_term(line: str) -> str:
    """Return a term as shown before its explanation: options and signatures as code."""
    bare = line.strip()
    return f"`{bare}`" if "`" not in bare and _CODE_TERM.search(bare) else strip_markup(bare)
