"""The parts of a page that fit a question, for a prompt that has no room for the whole page."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.retrieval.bm25 import bm25_scores, match_words, question_words
from modules.llm_platform.domain.retrieval.chunking import split_chunks
from modules.llm_platform.domain.text.page_starts import PageStarts, cut_page_starts
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
    titled_texts: Sequence[tuple[str, str]], question: str, brief_tokens: int, max_tokens: int, language: str = "en"
) -> list[str] | None:
    """Return the passages of all texts together that fit the question best.

    `titled_texts` are pairs (title, text), best first. The result has the passages of each text in its order; a text may have
    none. All have at most `brief_tokens` if the best of them, up to two thirds of that, have every word of the question.
    Otherwise the answer may need facts that share few words with the question, and they have at most `max_tokens`. So has a
    question of fewer than three words, which any passage about its topic has.

    The result is None if no passage has a word of the question, or if the best one is longer than the limit.
    """
    ranked = _rank_together(titled_texts, question, language)
    if not ranked or not ranked[0].score:
        return None
    limit = brief_tokens if _have_all_words(ranked, question, int(brief_tokens * SURE_SHARE)) else max_tokens
    chosen: list[list[tuple[int, int]]] = [[] for _ in titled_texts]
    for passage in _take(ranked, limit):
        chosen[passage.number].append((passage.start, passage.end))
    if not any(chosen):
        return None
    return [_join_spans(text, spans) for (_, text), spans in zip(titled_texts, chosen, strict=True)]


class _Passage(NamedTuple):
    """A part of the text with this number, where it begins and ends there, its words with the title, and its score."""

    number: int
    start: int
    end: int
    text: str
    titled: str
    score: float


def _rank_together(titled_texts: Sequence[tuple[str, str]], question: str, language: str) -> list[_Passage]:
    """Return the passages of all texts, best first. Passages of earlier texts go before equally good ones of later texts."""
    spans = [
        (number, chunk.start, chunk.end)
        for number, (_, text) in enumerate(titled_texts)
        for chunk in split_chunks(text, language=language, max_words=PASSAGE_WORDS)
    ]
    texts = [titled_texts[number][1][start:end] for number, start, end in spans]
    titled = [f"{titled_texts[number][0]}\n{text}" for (number, _, _), text in zip(spans, texts, strict=True)]
    scores = bm25_scores(titled, question)
    passages = [
        _Passage(*span, text, words, score / (1 + RANK_STEP * span[0]))
        for span, text, words, score in zip(spans, texts, titled, scores, strict=True)
    ]
    return sorted(passages, key=lambda passage: -passage.score)


def _take(ranked: Iterable[_Passage], max_tokens: int) -> Iterator[_Passage]:
    """Yield the first passages while they fit into `max_tokens` together."""
    for passage in ranked:
        max_tokens -= count_tokens(passage.text)
        if max_tokens < 0:
            return
        yield passage


def _have_all_words(ranked: Iterable[_Passage], question: str, max_tokens: int) -> bool:
    """Return whether the first passages, up to `max_tokens`, have every word of a question of at least SURE_WORDS words."""
    missing = set(question_words(question).indices)
    if len(missing) < SURE_WORDS:
        return False
    for passage in _take(ranked, max_tokens):
        missing -= set(match_words(passage.titled.split(), missing).indices)
        if not missing:
            return True
    return False


def _join_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return these parts of a text in their order: with GAP where something is left out, else as the text has them."""
    joined, last = "", 0
    for start, end in sorted(spans):
        between = text[last:start]
        joined += f"{between if joined and not between.strip() else GAP if joined else ''}{text[start:end]}"
        last = end
    return joined


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
            starts += cut_page_starts(pages, start, end, offset)
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
