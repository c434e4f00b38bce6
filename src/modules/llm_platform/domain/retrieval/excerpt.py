"""The parts of a page that fit a question, for a prompt that has no room for the whole page."""

from collections.abc import Iterator, Sequence
from typing import Final

from modules.llm_platform.domain.retrieval.bm25 import bm25_scores, match_words, question_words
from modules.llm_platform.domain.retrieval.chunking import split_chunks
from modules.llm_platform.domain.text.page_starts import PageStarts, part_starts
from modules.llm_platform.domain.text.tokens import count_tokens

PASSAGE_WORDS: Final = 50  # a short paragraph
GAP: Final = "\n\n"
SURE_SHARE: Final = 2 / 3  # the best passages must have all words of the question within this share of the tokens
SURE_WORDS: Final = 3  # a question of fewer words is a topic, or any passage about its topic has them
RANK_STEP: Final = 0.05  # the score of a passage is divided by 1 plus this times the rank of its text


def select_excerpt(text: str, question: str, max_tokens: int, language: str = "en") -> str:
    """Return the passages of `text` that fit the question best, in the order of the text; at most `max_tokens`.

    A text that fits is returned as it is. The best passage is always in it, whatever its length: the prompt is cut later.
    """
    size = count_tokens(text)
    return text if size <= max_tokens else RankedPassages(text, question, language, size).excerpt(max_tokens)


def select_best_passages(
    titled_texts: Sequence[tuple[str, str]], question: str, max_tokens: int, language: str = "en"
) -> list[str] | None:
    """Return the passages of all texts together that fit the question best, or None if they may not answer it.

    `titled_texts` are pairs (title, text), best first. The result has the passages of each text in its order, joined by GAP;
    most texts have none. It is None if the question has fewer than three words, or if the best passages, up to two thirds of
    `max_tokens`, lack one of them: the answer may then need facts that share few words with the question.
    """
    missing = set(question_words(question).indices)
    if len(missing) < SURE_WORDS:
        return None
    ranked = _rank_together(titled_texts, question, language)
    chosen: list[list[tuple[int, int]]] = [[] for _ in titled_texts]
    used = 0
    for number, start, end in ranked:
        title, text = titled_texts[number]
        passage = text[start:end]
        size = count_tokens(passage)
        if used + size > max_tokens:
            break
        used += size
        chosen[number].append((start, end))
        if missing:
            missing -= set(match_words(f"{title}\n{passage}".split(), missing).indices)
            if missing and used > max_tokens * SURE_SHARE:
                return None
    if missing:
        return None
    texts = (text for _, text in titled_texts)
    return [
        GAP.join(text[start:end] for start, end in sorted(spans)) for text, spans in zip(texts, chosen, strict=True)
    ]


def _rank_together(
    titled_texts: Sequence[tuple[str, str]], question: str, language: str
) -> Iterator[tuple[int, int, int]]:
    """Yield the passages of all texts, best first: the number of the text, and where the passage begins and ends in it."""
    spans = [
        (number, chunk.start, chunk.end)
        for number, (_, text) in enumerate(titled_texts)
        for chunk in split_chunks(text, language=language, max_words=PASSAGE_WORDS)
    ]
    titled = [f"{titled_texts[number][0]}\n{titled_texts[number][1][start:end]}" for number, start, end in spans]
    scores = bm25_scores(titled, question)
    best = sorted(range(len(spans)), key=lambda at: -scores[at] / (1 + RANK_STEP * spans[at][0]))
    return (spans[at] for at in best)


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
