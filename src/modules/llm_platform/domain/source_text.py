"""Read a source's text, Markdown or plain, as the blocks and sentences that can be quoted from it."""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from modules.llm_platform.domain.text import sentence_spans

BlockKind = Literal["paragraph", "item", "code", "heading", "table"]

MAX_HEADING_WORDS = 12
NAVIGATION_LINES = 3  # that many short lines in a row, none of which ends like a sentence
NAVIGATION_LINE_CHARS = 40
CODE_INDENT = 4  # columns
MAX_TEXT_CHARS = 400_000  # of one source; what follows is not read
MAX_SENTENCE_CHARS = 1200
MAX_MARKED_LINE_CHARS = 2000  # a longer line is prose, whatever it begins with
MAX_SENTENCES = 600  # of one text
MAX_PARAGRAPHS = 40  # of one text
MAX_FOLLOWING_BLOCKS = 10  # list items after a sentence that ends in a colon

_FENCE = re.compile(r"\s{0,3}(```+|~~~+)(.*)")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(\S.*)")
_UNDERLINE = re.compile(r"\s{0,3}(=+|-+|~+|\^+|\*+)\s*$")
_ITEM = re.compile(r"(\s*)(?:[-*+•·‣▪]|\(?\d{1,3}[.)])\s+(\S.*)")
_TABLE = re.compile(r"\s*\|.*\||.*\s\|\s.*\s\|\s")
_RULE = re.compile(r"[\s|:+=*_-]{3,}$")
_QUOTE = re.compile(r"^\s{0,3}>\s?")
# Lines that hold nothing to quote: link definitions, directives, comments, lone images and links, what a console shows.
_NOISE = re.compile(
    r"\s*(?:\[[^\]]+\]:\s*\S+.*|\.\. .*|:[\w-]+:.*|<!--.*|!\[[^\]]*\]\([^)]*\)|[-*+•]?\s*\[[^\]]*\]\([^)]*\)"
    r"|https?://\S+|(?:\$|>>>)\s.*)\s*$"
)
_LONE_LINK = re.compile(r"\s*\[[^\]]*\]\([^)]*\)\s*$")  # goes on with a paragraph that was broken around it
_FRONT_MATTER = re.compile(r"\A---\n(?:[^\n]*\n){0,60}?---\n")
_ENDS_LIKE_A_SENTENCE = re.compile(r"[.!?。！？…:：;][\"'”’»)\]*_`]*$")
_GAP = re.compile(r"\s(?:\.\.\.|…)\s|\s[·|]\s")  # where a search engine left something out of a snippet
_LEFT_OUT = re.compile(r"\s*(?:\.\.\.|…)\s*")
_DATE_BEFORE = re.compile(r"^(?:\d{1,2}\.? )?[A-Z][a-zé]{2,8}\.? (?:\d{1,2}, )?\d{4}\s+[—–·-]+\s+")

_IMAGE = re.compile(r"!\[[^\]\[]{0,300}\](?:\((?:[^()]|\([^()]{0,300}\)){0,600}\)|\[[^\]\[]{0,300}\])")
_LINK = re.compile(r"\[([^\]\[]+)\]\((?:[^()\s]|\([^()]*\))*(?:\s+\"[^\"]*\")?\)")
_REFERENCE = re.compile(r"\[([^\]\[]+)\]\[[^\]]*\]")
_MARKER = re.compile(
    r"\s?(?:\[(?:\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*|\^[\w-]+|edit|citation needed|note \d+)\]|【[^】]{0,12}】)"
)
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_EMPHASIS = re.compile(r"(?<![\w*\\])([*_])(?=[^\s*_])([^*_]+?)(?<=\S)\1(?![\w*])")
_ROLE = re.compile(r":[a-z]+(?::[a-z]+)*:`~?\.?([^`<]+?)(?:\s*<[^`>]*>)?`")
_TAG = re.compile(r"</?(?:b|i|em|strong|mark|span|p|br|sup|sub|a|code|u|font|div)(?:\s[^<>]*)?/?>", re.IGNORECASE)
_BLANKS = re.compile(r"\s+")
_EDGES = re.compile(r"^(?:[>#|]+\s*|\*\*\s*|¶\s*)+|(?:\s*\*\*|\s*¶|\s*\|)+$")


@dataclass(slots=True)
class Block:
    """A run of lines that belong together. `heading` is the nearest one above, `syntax` the language that a fence names."""

    kind: BlockKind
    text: str
    heading: str
    syntax: str = ""


@dataclass(slots=True)
class Sentence:
    """Something that can be quoted, cleaned of markup. `position` orders it in its source.

    `before` is the sentence before it in the same paragraph, `after` the blocks that follow its paragraph where it is the
    last one. `whole` is False where the text was cut in the middle of it.
    """

    text: str
    position: int
    heading: str
    item: bool
    whole: bool
    before: Sentence | None = None
    after: Sequence[Block] = ()


def read_sentences(
    text: str, language: str, relevance: Callable[[str], int], most: int = MAX_PARAGRAPHS
) -> Iterator[Sentence]:
    """The sentences of paragraphs and list items, in order; of a long text only those of the `most` relevant ones."""
    blocks = list(read_blocks(text[:MAX_TEXT_CHARS]))
    if len(blocks) == 1 and blocks[0].kind == "heading":
        blocks[0].kind = "paragraph"  # a bare answer ("Paris") looks like a heading
    alone = len(blocks) == 1
    position = 0
    for number in _most_relevant(blocks, relevance, most):
        block = blocks[number]
        before: Sentence | None = None
        pieces = list(itertools.islice(_pieces(block, language), MAX_SENTENCES - position))
        for nth, (piece, cut) in enumerate(pieces, 1):
            shown = clean(piece) if len(piece) <= 2 * MAX_SENTENCE_CHARS else ""
            if not shown or len(shown) > MAX_SENTENCE_CHARS:
                before = None
                continue
            ended = bool(_ENDS_LIKE_A_SENTENCE.search(shown))
            whole = not cut and (ended or block.kind == "item" or alone)
            position += 1
            before = Sentence(shown, position, block.heading, block.kind == "item", whole, before)
            if nth == len(pieces) and shown[-1] in ":：":
                before.after = blocks[number + 1 : number + 2 + MAX_FOLLOWING_BLOCKS]
            yield before


def _most_relevant(blocks: Sequence[Block], relevance: Callable[[str], int], most: int) -> Sequence[int]:
    """Numbers of the blocks to read, in order."""
    numbers = [number for number, block in enumerate(blocks) if block.kind in ("paragraph", "item")]
    if len(numbers) <= most:
        return numbers
    best = heapq.nlargest(most, numbers, key=lambda number: (relevance(blocks[number].text), -number))
    return sorted(best)


def _pieces(block: Block, language: str) -> Iterator[tuple[str, bool]]:
    """Sentences of a block as written, and whether each was cut short by whoever made the snippet."""
    for start, end in sentence_spans(block.text, language):
        parts = _GAP.split(block.text[start:end])
        for number, part in enumerate(parts):
            begun = _LEFT_OUT.match(part)
            part = part[begun.end() :] if begun else part
            starts_late = number > 0 or (begun is not None and not part[:1].isupper())
            ends_early = number < len(parts) - 1 or part.rstrip().endswith(("...", "…"))
            yield part, starts_late or ends_early


def clean(text: str) -> str:
    """A piece of a source as it is quoted: words as they stand, without links, images, footnote numbers and emphasis."""
    shown = _BLANKS.sub(" ", text).strip()
    shown = _DATE_BEFORE.sub("", shown)
    if "[" in shown or "【" in shown:
        shown = _LINK.sub(_text_of_link, _IMAGE.sub("", shown))
        shown = _REFERENCE.sub(r"\1", _MARKER.sub("", shown))
    if "<" in shown:
        shown = _TAG.sub("", shown)
    if "`" in shown:
        shown = _ROLE.sub(r"`\1`", shown).replace("``", "`")
        if shown.count("`") % 2:
            shown = shown.replace("`", "")
    if shown[:1] in "*_" and shown[-1:] == shown[:1]:
        shown = shown.strip("*_")
    if "*" in shown or "_" in shown:
        shown = "`".join(
            part if inside % 2 else _EMPHASIS.sub(r"\2", _STRONG.sub(r"\2", part))
            for inside, part in enumerate(shown.split("`"))
        )
    shown = _EDGES.sub("", shown).strip()
    if shown[:1] == "*" and shown.count("*") == 1:
        shown = shown[1:]
    return shown[:-1] if shown.endswith("::") else shown


def _text_of_link(link: re.Match[str]) -> str:
    return "" if link[1].strip("^ ").isdigit() else link[1]  # a linked footnote


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
        self._blank = True
        self._in_list = False

    def take(self, line: str) -> Iterator[Block]:
        if self._fence:
            yield from self._in_fence(line)
            return
        if not line.strip():
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
        lines, kind, syntax = self._lines, self._kind, self._syntax
        self._lines, self._kind, self._fence, self._syntax = [], "paragraph", "", ""
        if not lines or _is_navigation(kind, lines):
            return
        if kind == "paragraph" and len(lines) == 1 and _reads_like_a_heading(lines[0]):
            kind = "heading"
            self._heading = clean(lines[0])
        body = "\n".join(lines).strip("\n") if kind == "code" else "\n".join(line.strip() for line in lines)
        if kind != "code" and "![" in body:
            body = _IMAGE.sub("", body).strip()  # before its exclamation mark passes for the end of a sentence
        yield Block(kind, body, self._heading, syntax)

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
        elif _UNDERLINE.match(line):
            yield from self._underline()
        elif (
            _RULE.match(line)
            or _TABLE.match(line)
            or (_NOISE.match(line) and not (self._lines and _LONE_LINK.match(line)))
        ):
            yield from self.close()
        elif item:
            yield from self.close()
            self._kind, self._in_list = "item", True
            self._lines.append(item.group(2))
        else:
            yield from self._prose(line)

    def _prose(self, line: str) -> Iterator[Block]:
        if self._kind == "code":
            yield from self.close()
        if self._blank and not line[0].isspace():
            self._in_list = False
        self._lines.append(line)

    def _is_code(self, line: str, item: bool) -> bool:
        indented = len(line) - len(line.lstrip()) >= CODE_INDENT or line[0] == "\t"
        if self._kind == "code":
            return indented
        return indented and self._blank and not self._in_list and not item

    def _new_heading(self, title: str) -> Iterator[Block]:
        yield from self.close()
        self._heading, self._in_list = clean(title), False
        yield Block("heading", self._heading, self._heading)

    def _underline(self) -> Iterator[Block]:
        if len(self._lines) == 1 and self._kind == "paragraph":
            title = self._lines.pop()
            yield from self._new_heading(title)
        else:
            yield from self.close()


def _is_navigation(kind: BlockKind, lines: Sequence[str]) -> bool:
    """Short lines under each other that never end a sentence: menus, breadcrumbs, addresses."""
    if kind != "paragraph" or len(lines) < NAVIGATION_LINES:
        return False
    return all(len(line) < NAVIGATION_LINE_CHARS and not _ENDS_LIKE_A_SENTENCE.search(line.rstrip()) for line in lines)


def _reads_like_a_heading(line: str) -> bool:
    bare = line.strip()
    return (
        len(bare.split()) <= MAX_HEADING_WORDS
        and len(bare) <= 80
        and not _ENDS_LIKE_A_SENTENCE.search(bare)
        and "…" not in bare
    )
