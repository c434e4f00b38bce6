"""Fit sources into a token budget, fairly: short ones stay whole, long ones share what is left (requirements RB8 to RB11)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.text.tokens import Span, count_tokens, each_sentence

SOURCES_BUDGET_TOKENS = 4000  # requirements RB8 to RB11: results are cut to about this much

CHARS_PER_TOKEN_AT_MOST = 16  # no further into a text do we look for what may fit into its share

# A word, or one character of a script that writes without spaces (Thai, Lao, Myanmar, Khmer, kana, CJK, Hangul).
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\ud7af\uf900-\ufaff"
_PIECE = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")


@dataclass(frozen=True, slots=True)
class BudgetedText:
    """The sources, in their order, each with a beginning of its text, and how many tokens were cut off in all."""

    sources: tuple[Source, ...]
    truncated_tokens: int


def fit_to_budget(sources: Sequence[Source], budget_tokens: int = SOURCES_BUDGET_TOKENS) -> BudgetedText:
    """Cut the texts to `budget_tokens` together, at ends of sentences where one fits, else between words.

    Each text kept is the beginning of the text given. What one source leaves of its share goes to the others, the
    better-ranked first, until no further sentence of any fits.
    """
    sizes = [count_tokens(source.text) for source in sources]
    if sum(sizes) <= budget_tokens:
        return BudgetedText(tuple(sources), 0)
    shares = _fair_shares(sizes, max(0, budget_tokens))
    window = CHARS_PER_TOKEN_AT_MOST * max(0, budget_tokens)
    cuts = [_Cut(source.text, size, share, window) for source, size, share in zip(sources, sizes, shares, strict=True)]
    left = budget_tokens - sum(cut.used for cut in cuts)
    for cut in cuts:
        left -= cut.extend(left)
    kept = tuple(
        source if cut.whole else source.model_copy(update={"text": cut.text})
        for source, cut in zip(sources, cuts, strict=True)
    )
    return BudgetedText(kept, sum(sizes) - sum(cut.used for cut in cuts))


def _fair_shares(sizes: Sequence[int], budget: int) -> list[int]:
    """Water-filling: nobody gets more than the size, and nobody less than an equal part of what the smaller ones left."""
    shares = [0] * len(sizes)
    left, waiting = budget, len(sizes)
    for position in sorted(range(len(sizes)), key=sizes.__getitem__):
        shares[position] = min(sizes[position], left // waiting)
        left -= shares[position]
        waiting -= 1
    return shares


class _Cut:
    """A beginning of one text that grows by whole sentences; `used` counts its tokens and never exceeds what was granted."""

    def __init__(self, text: str, size: int, share: int, window: int) -> None:
        self._full = text
        self._end = 0
        self._sentences: Iterator[Span] = iter(())
        self._waiting: Span | None = None
        self.used = 0
        if size <= share:
            self._end, self.used = len(text), size
            return
        self._sentences = each_sentence(text[:window])
        self.extend(share)
        if not self._end:
            self._end = _end_of_words(text[:window], share)
            self.used = count_tokens(self.text)

    @property
    def whole(self) -> bool:
        return self._end == len(self._full)

    @property
    def text(self) -> str:
        return self._full[: self._end]

    def extend(self, room: int) -> int:
        """Take further sentences while they fit into `room` tokens; how many tokens that took."""
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
    """Where the last word ends that still fits into `room` tokens."""
    end = 0
    for piece in _PIECE.finditer(text):
        room -= count_tokens(piece.group())
        if room < 0:
            break
        end = piece.end()
    return end
