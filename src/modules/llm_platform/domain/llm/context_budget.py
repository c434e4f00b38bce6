"""Fit sources into a token budget: by their beginnings, or by the passages that fit a question."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.retrieval.excerpt import select_best_passages, select_excerpt
from modules.llm_platform.domain.text.language import DEFAULT_LANGUAGE
from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.scripts import UNSPACED
from modules.llm_platform.domain.text.sentences import Span, iterate_sentences
from modules.llm_platform.domain.text.tokens import MAX_CHARS_PER_TOKEN, count_tokens, cut_to_tokens

SOURCES_BUDGET_TOKENS = 4000
MIDDLE_CUT = "\n[… cut …]\n"  # replaces the middle of a text
BRIEF_SHARE = 0.3  # share of the budget that is enough for a question whose words are all in a few passages
ONE_STEP_SHARE = 0.5  # share of the budget that is enough for any question that one search answers
# A small model answers more questions rightly from fewer passages, although these have fewer of the facts (ADR 104).
SMALL_BUDGET_TOKENS = 1500
SMALL_BRIEF_TOKENS = 240
SMALL_ONE_STEP_TOKENS = 400
SMALL_READ_TOKENS = 300  # of passages that small models have ranked by what they say

# A word, or one character of a script without spaces between words.
_PIECE = lazy_pattern(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")


@dataclass(frozen=True, slots=True)
class BudgetedText:
    """The sources in order, each with a part of its text, and the number of tokens cut off in all."""

    sources: tuple[Source, ...]
    truncated_tokens: int


def fit_to_question(
    sources: Sequence[Source],
    question: str,
    budget_tokens: int = SOURCES_BUDGET_TOKENS,
    language: str = DEFAULT_LANGUAGE,
    *,
    is_one_step: bool = True,
) -> BudgetedText:
    """Cut the texts to the passages that fit the question best, at most `budget_tokens` together.

    If `is_one_step`, the passages of all sources are ranked together, and sources without a chosen passage are left out. The
    passages take BRIEF_SHARE of the budget if they have all words of the question, else ONE_STEP_SHARE. A budget of at most
    SMALL_BUDGET_TOKENS belongs to a small model, so its passages take at most SMALL_BRIEF_TOKENS or SMALL_ONE_STEP_TOKENS.

    Otherwise, and if no passage has a word of the question, the source at rank n gets 1/n of the share of the first source,
    and the tokens that better sources leave. The answer is mostly in the first source, seldom at its beginning.
    """
    sizes = [count_tokens(source.text) for source in sources]
    if is_one_step and (together := _fit_together(sources, sizes, question, budget_tokens, language)):
        return together
    if sum(sizes) <= budget_tokens:
        return BudgetedText(tuple(sources), 0)
    excerpts = [
        source.model_copy(update={"text": select_excerpt(source.text, question, share, language)})
        for source, share in zip(sources, _ranked_shares(sizes, budget_tokens), strict=True)
    ]
    fitted = fit_to_budget(excerpts, budget_tokens)  # a best passage may be longer than its share
    return BudgetedText(fitted.sources, sum(sizes) - sum(count_tokens(source.text) for source in fitted.sources))


def _fit_together(
    sources: Sequence[Source], sizes: Sequence[int], question: str, budget_tokens: int, language: str
) -> BudgetedText | None:
    """Return the sources that have one of the best passages, with these alone; None if the question ranks no passage."""
    brief_tokens, max_tokens = int(budget_tokens * BRIEF_SHARE), int(budget_tokens * ONE_STEP_SHARE)
    if budget_tokens <= SMALL_BUDGET_TOKENS:
        brief_tokens, max_tokens = min(brief_tokens, SMALL_BRIEF_TOKENS), min(max_tokens, SMALL_ONE_STEP_TOKENS)
    if sum(sizes) <= brief_tokens:
        return BudgetedText(tuple(sources), 0)
    titled = [(source.title, source.text) for source in sources]
    texts = select_best_passages(titled, question, brief_tokens, max_tokens, language)
    if texts is None:
        return None
    return keep_passages(sources, texts, sum(sizes))


def keep_passages(sources: Sequence[Source], texts: Sequence[str], size: int) -> BudgetedText:
    """Return the sources with these passages instead of their texts, and without sources that have none.

    `size` is the number of tokens of the texts.
    """
    kept = tuple(source.model_copy(update={"text": text}) for source, text in zip(sources, texts, strict=True) if text)
    return BudgetedText(kept, size - sum(count_tokens(source.text) for source in kept))


def fit_to_budget(sources: Sequence[Source], budget_tokens: int = SOURCES_BUDGET_TOKENS) -> BudgetedText:
    """Cut the texts to `budget_tokens` together, at ends of sentences where one fits, else between words.

    Tokens that one source leaves go to the others, the better-ranked first, until no further sentence fits.
    """
    sizes = [count_tokens(source.text) for source in sources]
    if sum(sizes) <= budget_tokens:
        return BudgetedText(tuple(sources), 0)
    shares = _fair_shares(sizes, max(0, budget_tokens))
    window = MAX_CHARS_PER_TOKEN * max(0, budget_tokens)
    cuts = [_Cut(source.text, size, share, window) for source, size, share in zip(sources, sizes, shares, strict=True)]
    left = budget_tokens - sum(cut.used for cut in cuts)
    for cut in cuts:
        left -= cut.extend(left)
    fitted = tuple(
        source if cut.is_complete else source.model_copy(update={"text": cut.text})
        for source, cut in zip(sources, cuts, strict=True)
    )
    return BudgetedText(fitted, sum(sizes) - sum(cut.used for cut in cuts))


def cut_middle(text: str, budget_tokens: int) -> str:
    """Return the text, or its beginning and its end, in which a message says what it wants, with a mark between them."""
    if count_tokens(text) <= budget_tokens:
        return text
    half = (budget_tokens - count_tokens(MIDDLE_CUT)) // 2
    if half <= 0:
        return ""
    return f"{cut_to_tokens(text, half)}{MIDDLE_CUT}{cut_to_tokens(text[::-1], half)[::-1]}"


def _fair_shares(sizes: Sequence[int], budget: int) -> list[int]:
    """Return max-min fair shares of the budget.

    No share exceeds the size of its text, and none is less than an equal part of what smaller texts leave.
    """
    shares = [0] * len(sizes)
    left, waiting = budget, len(sizes)
    for position in sorted(range(len(sizes)), key=sizes.__getitem__):
        shares[position] = min(sizes[position], left // waiting)
        left -= shares[position]
        waiting -= 1
    return shares


def _ranked_shares(sizes: Sequence[int], budget: int) -> list[int]:
    """Return shares that fall as 1/rank; what a short text leaves goes to those after it."""
    shares: list[int] = []
    weights = [1 / rank for rank in range(1, len(sizes) + 1)]
    left, waiting = budget, sum(weights)
    for size, weight in zip(sizes, weights, strict=True):
        shares.append(min(size, int(left * weight / waiting)))
        left -= shares[-1]
        waiting -= weight
    return shares


class _Cut:
    """The beginning of one text, which grows by whole sentences; `used` counts its tokens."""

    def __init__(self, text: str, size: int, share: int, window: int) -> None:
        self._full = text
        self._end = 0
        self._sentences: Iterator[Span] = iter(())
        self._waiting: Span | None = None
        self.used = 0
        if size <= share:
            self._end, self.used = len(text), size
            return
        self._sentences = iterate_sentences(text[:window])
        self.extend(share)
        if not self._end:
            self._end = _end_of_words(text[:window], share)
            self.used = count_tokens(self.text)

    @property
    def is_complete(self) -> bool:
        return self._end == len(self._full)

    @property
    def text(self) -> str:
        return self._full[: self._end]

    def extend(self, room: int) -> int:
        """Add further sentences while they fit into `room` tokens; return the number of tokens added."""
        before = self.used
        while (following := self._waiting or next(self._sentences, None)) is not None:
            self._waiting = following
            more = count_tokens(self._full[self._end : following[1]])
            if self.used + more - before > room:
                break
            self._end, self._waiting = max(self._end, following[1]), None
            self.used += more
        return self.used - before


def _end_of_words(text: str, room: int) -> int:
    """Return the end of the last word that fits into `room` tokens."""
    end = 0
    for piece in _PIECE.finditer(text):
        room -= count_tokens(piece.group())
        if room < 0:
            break
        end = piece.end()
    return end
