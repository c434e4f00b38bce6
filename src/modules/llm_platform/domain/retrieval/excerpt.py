"""The parts of a page that fit a question, for a prompt that has no room for the whole page."""

from typing import Final

from modules.llm_platform.domain.retrieval.bm25 import bm25_scores
from modules.llm_platform.domain.retrieval.chunking import split_chunks
from modules.llm_platform.domain.text.page_starts import PageStarts, part_starts
from modules.llm_platform.domain.text.tokens import count_tokens

PASSAGE_WORDS: Final = 50  # a short paragraph
GAP: Final = "\n\n"


def select_excerpt(text: str, question: str, max_tokens: int, language: str = "en") -> str:
    """Return the passages of `text` that fit the question best, in the order of the text; at most `max_tokens`.

    A text that fits is returned as it is. The best passage is always in it, whatever its length: the prompt is cut later.
    """
    size = count_tokens(text)
    return text if size <= max_tokens else RankedPassages(text, question, language, size).excerpt(max_tokens)


class RankedPassages:
    """The passages of a text by how well they fit a question, for excerpts whose length is known later.

    `size` is the number of tokens of the text, where the caller has counted them.
    """

    def __init__(self, text: str, question: str, language: str = "en", size: int | None = None) -> None:
        self._text = text
        self._spans = [
            (chunk.start, chunk.end) for chunk in split_chunks(text, language=language, max_words=PASSAGE_WORDS)
        ]
        self._passages = [text[start:end] for start, end in self._spans]
        scores = bm25_scores(self._passages, question)
        # equal scores: the first of the text
        self._best = sorted(range(len(self._passages)), key=lambda position: -scores[position])
        self._size = count_tokens(text) if size is None else size

    def excerpt(self, max_tokens: int) -> str:
        if self._size <= max_tokens:
            return self._text
        return GAP.join(self._passages[position] for position in self._choose(max_tokens))

    def page_starts(self, max_tokens: int, pages: PageStarts) -> PageStarts:
        """Return where the pages of the text begin in its excerpt."""
        if self._size <= max_tokens or not pages:
            return pages
        starts: list[tuple[int, int]] = []
        offset = 0
        for start, end in map(self._spans.__getitem__, self._choose(max_tokens)):
            starts += part_starts(pages, start, end, offset)
            offset += end - start + len(GAP)
        return tuple(starts)

    def _choose(self, max_tokens: int) -> list[int]:
        chosen: list[int] = []
        room = max_tokens
        for position in self._best:
            size = count_tokens(self._passages[position])
            if size > room and chosen:
                break
            chosen.append(position)
            room -= size
        return sorted(chosen)
