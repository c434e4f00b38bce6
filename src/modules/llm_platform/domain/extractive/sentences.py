"""Read a source's text, Markdown or plain, as the sentences that can be quoted from it.

Besides the sentences of paragraphs and list items these are the rows of tables, and headings right above code, which
announce it.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.extractive.blocks import Block, ends_like_a_sentence, read_blocks, strip_markup
from modules.llm_platform.domain.text.tokens import sentence_spans

MAX_TEXT_CHARS = 400_000  # of one source; what follows is not read
MAX_SENTENCE_CHARS = 1200
MAX_SENTENCES = 600  # of one text
MAX_PARAGRAPHS = 40  # of one text
MAX_FOLLOWING_BLOCKS = 10  # list items after a sentence that ends in a colon
MAX_COLUMNS = 6  # a wider table cannot be read in an answer
MENU_LINKS = 3
MENU_SHARE = 0.6  # of the text that is linked
MAX_ROWS = 8  # of a table that is quoted whole

_GAP = re.compile(r"\s(?:\.\.\.|…)\s|\s[·|]\s")  # where a search engine left something out of a snippet
_LEFT_OUT = re.compile(r"\s*(?:\.\.\.|…)\s*")
_LINKED = re.compile(r"\[([^\]\[]+)\]\([^()\s]*\)")
_NAME_LINE = re.compile(r"\S{1,40}(?: ?\(\d\w?\))?\s[-–—]{1,2}\s\S")  # `chsh - changes the login shell`
_FENCE_LINE = re.compile(r"^[ \t]{0,24}```+(.*)$", re.MULTILINE)
_CELL_END = re.compile(r"(?<!\\)\|")


@dataclass(slots=True)
class Sentence:
    """Something that can be quoted, cleaned of markup. `position` orders it in its source.

    `before` is the sentence before it in the same paragraph; where it is the first, `above` is the code right above its
    paragraph, and where it is the last, `after` are the blocks that follow. `whole` is False where the text was cut in the
    middle of it. `opens` says that it is the first after a heading or of the text, `term` is what it explains, `intro` the
    sentence with a colon that its list stands under. The row of a table has its cells in `row`; it and what announces the
    table have the names of the columns in `columns`.
    """

    text: str
    position: int
    heading: str
    item: bool
    whole: bool
    before: Sentence | None = None
    above: Block | None = None
    after: Sequence[Block] = ()
    opens: bool = False
    term: str = ""
    intro: str = ""
    row: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    announces: bool = False  # a heading right above code or a table


def blocks_of(text: str) -> Sequence[Block]:
    """The blocks of a source's text, read once for all questions."""
    blocks = list(read_blocks(_with_fences(text[:MAX_TEXT_CHARS])))
    if len(blocks) == 1 and blocks[0].kind == "heading":
        blocks[0].kind = "paragraph"  # a bare answer ("Paris") looks like a heading
    return blocks


def _with_fences(text: str) -> str:
    """A passage that was cut in the middle of code: its first fence ends that code, and would begin some otherwise.

    Code follows right behind the fence that begins it, an empty line behind the one that ends it.
    """
    fences = list(_FENCE_LINE.finditer(text))
    empty = [not fence[1].strip() and text.startswith("\n\n", fence.end()) for fence in fences]
    return f"```\n{text}" if sum(empty[::2]) > sum(empty[1::2]) else text


def read_sentences(
    text: str, language: str, relevance: Callable[[str], int], most: int = MAX_PARAGRAPHS
) -> Iterator[Sentence]:
    """What can be quoted, in order; of a long text only what stands in the `most` relevant blocks."""
    return sentences_in(blocks_of(text), language, relevance, most)


def sentences_in(
    blocks: Sequence[Block], language: str, relevance: Callable[[str], int], most: int = MAX_PARAGRAPHS
) -> Iterator[Sentence]:
    """The same of blocks that were read before."""
    read = (
        sentence
        for number in _most_relevant(blocks, relevance, most)
        for sentence in _sentences_of(blocks, number, language)
    )
    for position, sentence in enumerate(itertools.islice(read, MAX_SENTENCES), 1):
        sentence.position = position
        yield sentence


def _most_relevant(blocks: Sequence[Block], relevance: Callable[[str], int], most: int) -> Sequence[int]:
    """Numbers of the blocks to read, in order."""
    numbers = [number for number, block in enumerate(blocks) if block.kind != "code"]
    if len(numbers) <= most:
        return numbers
    best = heapq.nlargest(most, numbers, key=lambda number: (relevance(blocks[number].text), -number))
    return sorted(best)


def _sentences_of(blocks: Sequence[Block], number: int, language: str) -> Iterator[Sentence]:
    block = blocks[number]
    if block.kind == "table":
        return _rows(block)
    if block.kind == "heading":
        return _announcement(blocks, number)
    return _sentences(blocks, number, language)


def _sentences(blocks: Sequence[Block], number: int, language: str) -> Iterator[Sentence]:
    """The sentences of a paragraph or a list item."""
    block = blocks[number]
    item = block.kind == "item"
    opens = number == 0 or blocks[number - 1].kind == "heading"
    intro = _intro(blocks, number) if item else ""
    before: Sentence | None = None
    pieces = list(itertools.islice(_pieces(block, language), MAX_SENTENCES))
    for nth, (piece, cut) in enumerate(pieces, 1):
        shown = strip_markup(piece) if len(piece) <= 2 * MAX_SENTENCE_CHARS and not _is_menu(piece) else ""
        if not shown or len(shown) > MAX_SENTENCE_CHARS:
            before = None
            continue
        ended = ends_like_a_sentence(shown)
        whole = not cut and (ended or item or len(blocks) == 1 or bool(_NAME_LINE.match(shown)))
        before = Sentence(shown, 0, block.heading, item, whole, before, intro=intro)
        if nth == 1:
            before.opens, before.term = opens, block.term
            before.above = blocks[number - 1] if number and blocks[number - 1].kind == "code" else None
        if nth == len(pieces):
            before.after = blocks[number + 1 : number + 2 + MAX_FOLLOWING_BLOCKS]
        yield before


def _is_menu(piece: str) -> bool:
    """Links to other places, and hardly a word between them."""
    links = _LINKED.findall(piece) if piece.count("](") >= MENU_LINKS else []
    return bool(links) and sum(map(len, links)) > MENU_SHARE * len(_LINKED.sub(r"\1", piece))


def _intro(blocks: Sequence[Block], number: int) -> str:
    """The paragraph with a colon at its end that a list begins with, where it is short enough to be said again."""
    first = number
    while first and blocks[first - 1].kind == "item":
        first -= 1
    above = blocks[first - 1] if first else None
    if above is None or above.kind != "paragraph" or not above.text.endswith((":", "：")):
        return ""
    return above.text


def _announcement(blocks: Sequence[Block], number: int) -> Iterator[Sentence]:
    """A heading with code right below it says what the code is for."""
    after = blocks[number + 1 : number + 2]
    if after and after[0].kind == "code" and blocks[number].text:
        yield _announced(blocks[number].text, after[0])


def _announced(heading: str, block: Block, columns: tuple[str, ...] = ()) -> Sentence:
    title = heading.rstrip(":：")
    return Sentence(f"{title}:", 0, title, item=False, whole=True, after=(block,), announces=True, columns=columns)


def read_table(block: Block) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The names of the columns and the rows that have as many cells, at least two of them not empty."""
    names, _, *lines = block.text.split("\n")
    columns = _cells(names)
    if not 1 < len(columns) <= MAX_COLUMNS:
        return columns, []
    rows = (_cells(line) for line in lines if len(line) <= MAX_SENTENCE_CHARS)
    return columns, [cells for cells in rows if len(cells) == len(columns) and sum(map(bool, cells)) > 1]


def _rows(block: Block) -> Iterator[Sentence]:
    """Each row by itself, and before them the whole table where it is small and its heading says what it is."""
    columns, rows = read_table(block)
    if block.heading and 1 < len(rows) <= MAX_ROWS:
        yield _announced(block.heading, block, columns)
    for cells in rows:
        yield Sentence(" | ".join(cells), 0, block.heading, item=True, whole=True, row=cells, columns=columns)


def _cells(line: str) -> tuple[str, ...]:
    bare = line.strip()
    bare = bare.removeprefix("|")
    bare = bare.removesuffix("|") if not bare.endswith("\\|") else bare
    return tuple(strip_markup(cell) for cell in _CELL_END.split(bare))


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
