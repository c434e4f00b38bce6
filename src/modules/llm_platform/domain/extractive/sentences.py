"""Split a source into the sentences that can be quoted.

These are the sentences of paragraphs and list items, table rows, and headings right above code or a table.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.extractive.block_reader import read_blocks
from modules.llm_platform.domain.extractive.blocks import Block
from modules.llm_platform.domain.extractive.markup import strip_markup
from modules.llm_platform.domain.markdown.cells import list_cell_spans
from modules.llm_platform.domain.text.sentences import ends_sentence, is_question, split_sentences

MAX_TEXT_CHARS = 400_000  # the rest of a longer source is not read
MAX_SENTENCE_CHARS = 1200
MAX_SENTENCES = 600  # sentences of one text
MAX_ROWS_OF_WHOLE = 5000  # the same for a whole document of the operator, which may be a long table
MAX_PARAGRAPHS = 120  # paragraphs of one text
MAX_FOLLOWING_BLOCKS = 10  # list items that a sentence with a colon may announce
MAX_COLUMNS = 40  # a wider table is not quoted
MENU_LINKS = 3
MENU_SHARE = 0.6  # text with a larger share of links is a menu
MAX_ROWS = 8  # a longer table is not quoted whole

_GAP = re.compile(r"\s(?:\.\.\.|…)\s|\s[·|]\s")  # an omission in a search engine's snippet
_LEFT_OUT = re.compile(r"\s*(?:\.\.\.|…)\s*")
_LINKED = re.compile(r"\[([^\]\[]+)\]\([^()\s]*\)")
_FENCE_LINE = re.compile(r"^[ \t]{0,24}```+(.*)$", re.MULTILINE)


@dataclass(slots=True)
class Sentence:
    """A sentence without markup. `position` orders it in its source.

    - `before` is the previous sentence of the same paragraph.
    - `above` is the code right above the paragraph; only the first sentence has it. `after` has the blocks that follow the
      paragraph; only the last sentence has it.
    - `is_complete` is False if a part of the sentence is missing.
    - `term` is the term that the sentence explains in a definition list.
    - `question` is the question right before the sentence: a heading, a paragraph, a term or a sentence.
    - `entry` is the date of the entry of a diary or a log to which the sentence belongs.
    - `intro` is the paragraph that ends in a colon above the list of the sentence.
    - `row` has the cells of a table row. `columns` has the column names, for a row and for the announcement of a table.
      `has_all_rows` is False if another row of the table is too long to be read, so that the rows cannot be compared.
    """

    text: str
    position: int
    heading: str
    is_item: bool
    is_complete: bool
    before: Sentence | None = None
    above: Block | None = None
    after: Sequence[Block] = ()
    term: str = ""
    question: str = ""
    intro: str = ""
    entry: str = ""
    row: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    has_all_rows: bool = True
    is_announcement: bool = False  # a heading right above code or a table


def read_source_blocks(text: str) -> Sequence[Block]:
    """Return the blocks of a source's text."""
    text = text[:MAX_TEXT_CHARS]
    # Code follows an opening fence, and an empty line or nothing follows a closing fence. If the text begins inside of code,
    # its first fence is a closing fence, so the missing opening fence is added.
    ends = [(fence[1].strip(), text[fence.end() : fence.end() + 2]) for fence in _FENCE_LINE.finditer(text)]
    empty = [not name and not following.strip("\n") for name, following in ends]
    if sum(empty[::2]) > sum(empty[1::2]):
        text = f"```\n{text}"
    blocks = read_blocks(text)
    if len(blocks) == 1 and blocks[0].kind == "heading":
        blocks[0].kind = "paragraph"  # a bare answer ("Paris") looks like a heading
    return blocks


def read_sentences(
    text: str, language: str, relevance: Callable[[str], int], most: int = MAX_PARAGRAPHS
) -> Iterator[Sentence]:
    """Return the sentences in order. Of a text with many blocks, only the `most` relevant blocks are read."""
    return list_sentences(read_source_blocks(text), language, relevance, most)


def list_sentences(
    blocks: Sequence[Block],
    language: str,
    relevance: Callable[[str], int],
    most: int = MAX_PARAGRAPHS,
    limit: int = MAX_SENTENCES,
) -> Iterator[Sentence]:
    """Yield the sentences of parsed blocks in order, at most `limit`.

    If there are many blocks, only the `most` relevant ones are read.
    """
    numbers = [number for number, block in enumerate(blocks) if block.kind != "code"]
    if len(numbers) > most:
        numbers = sorted(heapq.nlargest(most, numbers, key=lambda number: (relevance(blocks[number].text), -number)))
    read = (sentence for number in numbers for sentence in _read_block(blocks, number, language))
    for position, sentence in enumerate(itertools.islice(read, limit), 1):
        sentence.position = position
        yield sentence


def _read_block(blocks: Sequence[Block], number: int, language: str) -> Iterator[Sentence]:
    block = blocks[number]
    if block.kind == "table":
        columns, rows = read_table(block)
        if block.heading and 1 < len(rows) <= MAX_ROWS:
            yield _make_announcement(block.heading, block, columns)
        has_all_rows = all(len(line) <= MAX_SENTENCE_CHARS for line in block.text.split("\n"))
        for cells in rows:
            text = " | ".join(cells)
            yield Sentence(
                text,
                0,
                block.heading,
                is_item=True,
                is_complete=True,
                row=cells,
                columns=columns,
                has_all_rows=has_all_rows,
            )
    elif block.kind == "heading":  # right above code it announces the code
        after = blocks[number + 1 : number + 2]
        if after and after[0].kind == "code" and block.text:
            yield _make_announcement(block.text, after[0])
    else:
        yield from _read_prose(blocks, number, language)


def _read_prose(blocks: Sequence[Block], number: int, language: str) -> Iterator[Sentence]:
    """Yield the sentences of a paragraph or a list item."""
    block = blocks[number]
    item = block.kind == "item"
    intro = _find_introduction(blocks, number) if item else ""
    before: Sentence | None = None
    pieces = list(itertools.islice(_split_at_gaps(block, language), MAX_SENTENCES))
    for nth, (piece, cut) in enumerate(pieces, 1):
        shown = strip_markup(piece) if len(piece) <= 2 * MAX_SENTENCE_CHARS and not _is_menu(piece) else ""
        if not shown or len(shown) > MAX_SENTENCE_CHARS:
            before = None
            continue
        ended = ends_sentence(shown)
        is_complete = not cut and (ended or item or len(blocks) == 1)
        before = Sentence(shown, 0, block.heading, item, is_complete, before, intro=intro, entry=block.entry)
        if before.before and is_question(before.before.text):
            before.question = before.before.text
        if nth == 1:
            before.term = block.term
            before.question = _find_question(blocks, number, language)
            before.above = blocks[number - 1] if number and blocks[number - 1].kind == "code" else None
        if nth == len(pieces):
            before.after = blocks[number + 1 : number + 2 + MAX_FOLLOWING_BLOCKS]
        yield before


def _is_menu(piece: str) -> bool:
    """Return whether nearly all of the text is links."""
    links = _LINKED.findall(piece) if piece.count("](") >= MENU_LINKS else []
    return bool(links) and sum(map(len, links)) > MENU_SHARE * len(_LINKED.sub(r"\1", piece))


def _find_introduction(blocks: Sequence[Block], number: int) -> str:
    """Return the paragraph above a list, when it ends in a colon."""
    first = number
    while first and blocks[first - 1].kind == "item":
        first -= 1
    above = blocks[first - 1] if first else None
    if above is None or above.kind != "paragraph" or not above.text.endswith((":", "：")):
        return ""
    return above.text


def _find_question(blocks: Sequence[Block], number: int, language: str) -> str:
    """Return the question right above a paragraph or a list item: its term, a heading, or the end of a paragraph."""
    above = blocks[number - 1] if number else None
    text = blocks[number].term or (above.text if above and above.kind in ("heading", "paragraph") else "")
    if not is_question(strip_markup(text)):
        return ""
    start, end = split_sentences(text, language)[-1]
    return strip_markup(text[start:end])


def _make_announcement(heading: str, block: Block, columns: tuple[str, ...] = ()) -> Sentence:
    title = heading.rstrip(":：")
    return Sentence(
        f"{title}:", 0, title, is_item=False, is_complete=True, after=(block,), is_announcement=True, columns=columns
    )


def read_table(block: Block) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the column names, and the rows that have text in at least two cells.

    Empty cells are added to a row with fewer cells than columns, as in GFM. A row with more cells, or longer than
    MAX_SENTENCE_CHARS, is left out. A table of one column or of more than MAX_COLUMNS has no rows.
    """
    names, _, *lines = block.text.split("\n")
    columns = split_cells(names)
    if not 1 < len(columns) <= MAX_COLUMNS:
        return columns, []
    rows = (split_cells(line) for line in lines if len(line) <= MAX_SENTENCE_CHARS)
    return columns, [
        cells + ("",) * (len(columns) - len(cells))
        for cells in rows
        if len(cells) <= len(columns) and sum(map(bool, cells)) > 1
    ]


def split_cells(line: str) -> tuple[str, ...]:
    return tuple(strip_markup(line[begin:end]) for begin, end in list_cell_spans(line))


def _split_at_gaps(block: Block, language: str) -> Iterator[tuple[str, bool]]:
    """Yield each sentence of a block as written, and whether a part of it is missing."""
    for start, end in split_sentences(block.text, language):
        parts = _GAP.split(block.text[start:end])
        for number, part in enumerate(parts):
            begun = _LEFT_OUT.match(part)
            part = part[begun.end() :] if begun else part
            starts_late = number > 0 or (begun is not None and not part[:1].isupper())
            ends_early = number < len(parts) - 1 or part.rstrip().endswith(("...", "…"))
            yield part, starts_late or ends_early
