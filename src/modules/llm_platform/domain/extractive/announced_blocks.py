"""Find the code, table or list that a sentence announces, such as `Install it with this command:`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from modules.llm_platform.domain.extractive.blocks import Block
from modules.llm_platform.domain.extractive.sentences import MAX_ROWS, Sentence, read_table
from modules.llm_platform.domain.text.tokens import split_words

MAX_CODE_LINES = 16
MAX_CODE_CHARS = 900
MAX_LIST_ITEMS = 7
LONG_CODE_WORDS = 30
CODE_CREDIT = 0.85
LONG_CREDIT = 0.35  # long code, or a whole table, because one of its rows is a better answer


@dataclass(eq=False)
class AnnouncedBlocks:
    """The blocks that a sentence announces, to be shown below it. `blocks` is empty if the sentence announces nothing.

    `are_missing` is True if the announced blocks are missing or too long to show. Then `blocks` is empty, too.
    """

    blocks: tuple[Block, ...] = ()
    are_missing: bool = False

    @cached_property
    def words(self) -> list[str]:
        """The words of the code or table. A list has none here, because its items are sentences of their own."""
        return split_words(self.blocks[0].text) if self.blocks and self.blocks[0].kind != "item" else []

    @property
    def credit(self) -> float:
        """The credit that the sentence gets for a term in `words`, 0 to 1."""
        is_short_code = self.blocks and self.blocks[0].kind == "code" and len(self.words) <= LONG_CODE_WORDS
        return CODE_CREDIT if is_short_code else LONG_CREDIT


_NOTHING = AnnouncedBlocks()


def find_announced_blocks(sentence: Sentence, *, asks_how: bool) -> AnnouncedBlocks:
    """Return the blocks that the sentence announces.

    A sentence that ends in a colon announces the blocks below it. If the question `asks_how` to do something, any sentence
    announces short code right below it.
    """
    if sentence.text[-1] in ":：":
        blocks = _list_blocks_to_show(sentence.after)
        return AnnouncedBlocks(blocks, are_missing=not blocks)
    if asks_how and sentence.after and sentence.after[0].kind == "code":
        return AnnouncedBlocks(_list_blocks_to_show(sentence.after))
    return _NOTHING


def _list_blocks_to_show(below: Sequence[Block]) -> tuple[Block, ...]:
    """Return the code, the table or the list items at the beginning of `below`; empty without any, or if they are too long."""
    first = below[0] if below else None
    if first is None:
        return ()
    if first.kind == "code":
        return (first,) if is_short_code(first) else ()
    if first.kind == "table":
        return (first,) if 0 < len(read_table(first)[1]) <= MAX_ROWS else ()
    items = tuple(itertools.takewhile(lambda block: block.kind == "item", below))
    return items if len(items) <= MAX_LIST_ITEMS else ()


def is_short_code(code: Block) -> bool:
    """Return whether the code is short enough to show in an answer. Empty code is not shown."""
    lines = code.text.count("\n") + 1
    return bool(code.text.strip()) and lines <= MAX_CODE_LINES and len(code.text) <= MAX_CODE_CHARS
