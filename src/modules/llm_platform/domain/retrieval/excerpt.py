"""Select the passages of pages that fit a question best, for a prompt that has no room for whole pages.

Each text is split into short passages, and BM25 scores them. `select_excerpt` is for one text, `select_best_passages` for
several texts that share one limit. `rank_passages` and `join_passages` are its two steps, for a caller that ranks them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.retrieval.bm25 import make_matching_vector, make_question_vector, score_by_bm25
from modules.llm_platform.domain.retrieval.chunking import split_chunks
from modules.llm_platform.domain.text.page_starts import PageStarts, cut_page_starts
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.tokens import count_tokens

PASSAGE_WORDS: Final = 50  # a short paragraph
GAP: Final = "\n\n"
BRIEF_SHARE: Final = 2 / 3  # a brief selection must have all words of the question within this share of its tokens
MIN_BRIEF_WORDS: Final = 3  # a question of fewer words is a topic, and any passage on the topic has its words
RANK_STEP: Final = 0.05  # the score of a passage is divided by 1 plus this times the rank of its text


def select_excerpt(text: str, question: str, max_tokens: int, language: str = "en") -> str:
    """Return the passages of `text` that fit the question best, in the order of the text; at most `max_tokens`.

    A text that fits is returned as it is. The best passage is always returned, even if it is too long: the prompt is cut later.
    """
    size = count_tokens(text)
    return text if size <= max_tokens else RankedPassages(text, question, language, size).select_excerpt(max_tokens)


def select_best_passages(
    titled_texts: Sequence[tuple[str, str]], question: str, brief_tokens: int, max_tokens: int, language: str = "en"
) -> list[str] | None:
    """Return the passages of all texts together that fit the question best.

    `titled_texts` are pairs (title, text), best first. The result has one string for each text: its passages in their order,
    or nothing. The passages have at most `brief_tokens` together if the first two thirds of them have every word of the
    question. Otherwise the answer may need facts that share few words with the question, and the limit is `max_tokens`.
    A question of fewer than three words always has this limit, because any passage on its topic has its words.

    The result is None if no passage has a word of the question, or if the best passage is longer than the limit.
    """
    ranked = rank_passages(titled_texts, question, language)
    if not ranked or not ranked[0].score:
        return None
    limit = brief_tokens if _have_all_words(ranked, question, int(brief_tokens * BRIEF_SHARE)) else max_tokens
    return join_passages(titled_texts, ranked, limit)


def join_passages(
    titled_texts: Sequence[tuple[str, str]], ranked: Iterable[TextPassage], max_tokens: int
) -> list[str] | None:
    """Return for each text the first passages that fit into `max_tokens` together, in the order of the text, or nothing.

    The result is None if the first passage does not fit.
    """
    chosen: list[list[Span]] = [[] for _ in titled_texts]
    for passage in _take_fitting(ranked, max_tokens):
        chosen[passage.text_number].append(passage.span)
    if not any(chosen):
        return None
    return [_join_spans(text, spans) for (_, text), spans in zip(titled_texts, chosen, strict=True)]


class TextPassage(NamedTuple):
    """A passage of the text with the number `text_number`. `titled` is the passage below the title of its text."""

    text_number: int
    span: Span
    text: str
    titled: str
    score: float = 0.0


def rank_passages(titled_texts: Sequence[tuple[str, str]], question: str, language: str) -> list[TextPassage]:
    """Return the passages of all texts, best first. Passages of earlier texts go before equally good ones of later texts."""
    passages = [
        TextPassage(number, (start, end), text[start:end], f"{title}\n{text[start:end]}")
        for number, (title, text) in enumerate(titled_texts)
        for start, end in _split_passages(text, language)
    ]
    scores = score_by_bm25([passage.titled for passage in passages], question)
    scored = [
        passage._replace(score=score / (1 + RANK_STEP * passage.text_number))
        for passage, score in zip(passages, scores, strict=True)
    ]
    return sorted(scored, key=lambda passage: -passage.score)


def _split_passages(text: str, language: str) -> list[Span]:
    return [(chunk.start, chunk.end) for chunk in split_chunks(text, language=language, max_words=PASSAGE_WORDS)]


def _take_fitting(ranked: Iterable[TextPassage], max_tokens: int) -> Iterator[TextPassage]:
    """Yield the first passages while they fit into `max_tokens` together."""
    for passage in ranked:
        max_tokens -= count_tokens(passage.text)
        if max_tokens < 0:
            return
        yield passage


def _have_all_words(ranked: Iterable[TextPassage], question: str, max_tokens: int) -> bool:
    """Return whether the first passages, up to `max_tokens`, have every word of a question of at least MIN_BRIEF_WORDS words."""
    missing = set(make_question_vector(question).indices)
    if len(missing) < MIN_BRIEF_WORDS:
        return False
    for passage in _take_fitting(ranked, max_tokens):
        missing -= set(make_matching_vector(passage.titled.split(), missing).indices)
        if not missing:
            return True
    return False


def _join_spans(text: str, spans: Iterable[Span]) -> str:
    """Return these parts of a text in their order. GAP stands where the text between two parts is left out."""
    joined, last = "", 0
    for start, end in sorted(spans):
        between = text[last:start]
        joined += f"{between if joined and not between.strip() else GAP if joined else ''}{text[start:end]}"
        last = end
    return joined


class RankedPassages:
    """The passages of a text, ranked by a question before the length of the excerpt is known.

    `size` is the number of tokens of the text, if the caller has counted them.
    """

    def __init__(self, text: str, question: str, language: str = "en", size: int | None = None) -> None:
        self._text = text
        self._spans = _split_passages(text, language)
        self._passages = [text[start:end] for start, end in self._spans]
        scores = score_by_bm25(self._passages, question)
        # Passages with equal scores keep their order.
        self._best = sorted(range(len(self._passages)), key=lambda position: -scores[position])
        self._size = count_tokens(text) if size is None else size

    def select_excerpt(self, max_tokens: int) -> str:
        if self._size <= max_tokens:
            return self._text
        return GAP.join(self._passages[position] for position in self._choose_positions(max_tokens))

    def find_page_starts(self, max_tokens: int, pages: PageStarts) -> PageStarts:
        """Return where the pages of the text begin in the excerpt of this length."""
        if self._size <= max_tokens or not pages:
            return pages
        starts: list[tuple[int, int]] = []
        offset = 0
        for start, end in map(self._spans.__getitem__, self._choose_positions(max_tokens)):
            starts += cut_page_starts(pages, start, end, offset)
            offset += end - start + len(GAP)
        return tuple(starts)

    def _choose_positions(self, max_tokens: int) -> list[int]:
        chosen: list[int] = []
        room = max_tokens
        for position in self._best:
            size = count_tokens(self._passages[position])
            if size > room and chosen:
                break
            chosen.append(position)
            room -= size
        return sorted(chosen)
