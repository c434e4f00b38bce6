"""The parts of a page that fit a question, for a prompt that has no room for the whole page."""

from collections import Counter
from math import log
from typing import Final

from modules.llm_platform.domain.retrieval.bm25 import SparseVector, matched_words, question_words, word_beginnings
from modules.llm_platform.domain.retrieval.chunking import split_chunks
from modules.llm_platform.domain.text.tokens import count_tokens, fold

PASSAGE_WORDS: Final = 50  # a short paragraph
GAP: Final = "\n\n"
NO_WORDS: Final = SparseVector([], [])


def fitting_excerpt(text: str, question: str, max_tokens: int, language: str = "en") -> str:
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
        self._passages = [
            text[chunk.start : chunk.end] for chunk in split_chunks(text, language=language, max_words=PASSAGE_WORDS)
        ]
        scores = _scores(self._passages, question)
        # equal scores: the first of the text
        self._best = sorted(range(len(self._passages)), key=lambda position: -scores[position])
        self._size = count_tokens(text) if size is None else size

    def excerpt(self, max_tokens: int) -> str:
        if self._size <= max_tokens:
            return self._text
        chosen: list[int] = []
        room = max_tokens
        for position in self._best:
            size = count_tokens(self._passages[position])
            if size > room and chosen:
                break
            chosen.append(position)
            room -= size
        return GAP.join(self._passages[position] for position in sorted(chosen))


def _scores(passages: list[str], question: str) -> list[float]:
    """BM25 within the page: a word that stands in every passage of it says nothing.

    Most passages share no word with the question, which is seen without their vectors.
    """
    beginnings, asked = word_beginnings(question), frozenset(question_words(question).indices)
    vectors = [
        matched_words(passage, asked) if any(map(fold(passage).__contains__, beginnings)) else NO_WORDS
        for passage in passages
    ]
    frequency = Counter(index for vector in vectors for index in vector.indices)
    total = len(passages)
    weights = {index: log(1 + (total - frequency[index] + 0.5) / (frequency[index] + 0.5)) for index in asked}
    return [
        sum(weights[index] * value for index, value in zip(vector.indices, vector.values, strict=True))
        for vector in vectors
    ]
