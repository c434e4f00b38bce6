"""The parts of a page that fit a question, for a prompt that has no room for the whole page."""

from __future__ import annotations

from collections import Counter
from math import log
from typing import Final

from modules.llm_platform.domain.retrieval.bm25 import passage_words, question_words
from modules.llm_platform.domain.retrieval.chunking import split_chunks
from modules.llm_platform.domain.text.tokens import count_tokens

PASSAGE_WORDS: Final = 50  # of a passage: a short paragraph
GAP: Final = "\n\n"


def fitting_excerpt(text: str, question: str, max_tokens: int, language: str = "en") -> str:
    """The passages of `text` that fit the question best, in the order of the text; at most `max_tokens`.

    A text that fits is returned as it is. The best passage is always in it, whatever its length: the prompt is cut later.
    """
    if count_tokens(text) <= max_tokens:
        return text
    passages = [text[each.start : each.end] for each in split_chunks(text, language=language, max_words=PASSAGE_WORDS)]
    scores = _scores(passages, question)
    chosen: list[int] = []
    room = max_tokens
    for place in sorted(range(len(passages)), key=lambda each: -scores[each]):  # equal scores: the first of the text
        size = count_tokens(passages[place])
        if size > room and chosen:
            break
        chosen.append(place)
        room -= size
    return GAP.join(passages[place] for place in sorted(chosen))


def _scores(passages: list[str], question: str) -> list[float]:
    """BM25 within the page: a word that stands in every passage of it says nothing."""
    vectors = [passage_words(passage) for passage in passages]
    frequency = Counter(index for vector in vectors for index in vector.indices)
    total = len(passages)
    weights = {
        index: log(1 + (total - frequency[index] + 0.5) / (frequency[index] + 0.5))
        for index in question_words(question).indices
    }
    return [
        sum(weights.get(index, 0.0) * value for index, value in zip(vector.indices, vector.values, strict=True))
        for vector in vectors
    ]
