"""Compare a claim with the best passage of a source, and find the sentences of the source that are about a fact of the claim.

A long page contains most numbers and names somewhere. So a fact is only confirmed by sentences that share most of the clause
around it: "The fort has 12 gates" is not confirmed by a sentence that a wall has 12 towers.

Sets of sentences of a source, and sets of words of a claim, are bitmasks.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final

from modules.llm_platform.domain.citations.compare.alignment import Passage, SourceText
from modules.llm_platform.domain.citations.compare.mismatches import shift
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.positions import ClaimWordNumber, SentenceNumber
from modules.llm_platform.domain.text.sentences import Span

MIN_CONTEXT: Final = 2  # if a clause has fewer content words besides the fact, the whole claim is the context
NEARLY_BEST_CONFIRMING: Final = 0.9  # a confirming sentence needs this share of the best sentence's score
OWN_WEIGHT, BEFORE_WEIGHT = 2, 1  # the weights of a word in the sentence and in the two sentences before it


class Comparison:
    """A claim and the passage of a source that fits it best. `passage_facts` are the facts of the passage."""

    def __init__(self, claim: Claim, source: SourceText, passage: Passage) -> None:
        self.claim, self.source, self.passage = claim, source, passage
        self.passage_facts = source.read_facts(passage.span)

    def read_facts(self, sentence: SentenceNumber) -> TextFacts:
        return self.source.read_facts(self.source.spans[sentence])

    def locate(self, sentence: SentenceNumber, span: Span) -> Span:
        """Convert a span of a sentence into a span of the source."""
        return shift(span, self.source.spans[sentence][0])

    def locate_in_passage(self, span: Span) -> Span:
        """Convert a span of the passage into a span of the source."""
        return shift(span, self.passage.span[0])

    def list_sentences_like_best(self) -> list[SentenceNumber]:
        """Return the best sentence, then the other sentences that share at least the same words with the claim."""
        masks, (best, *others) = self.passage.masks, self.passage.sentences
        return [best, *(sentence for sentence in others if masks[sentence] & masks[best] == masks[best])]

    def find_sentences_lacking(
        self, position: ClaimWordNumber, has_fact: Callable[[TextFacts], bool] | None = None
    ) -> list[SentenceNumber]:
        """Return the sentences about a fact if none of them has the fact, else an empty list.

        These sentences share most of the clause around the fact, or most of the whole claim. `has_fact` returns whether a
        sentence has the fact; without it, the fact is the word at `position`.
        """
        masks, word = self.passage.masks, 1 << position
        best = masks[self.passage.ranked[0]]
        lacking: list[SentenceNumber] = []
        for context in self._list_contexts(position):
            if best & word and context & ~best == 0:
                return []  # usually the best sentence has the fact and its whole context
            sentences = self._find_best_sentences(context)
            if any(
                has_fact(self.read_facts(sentence)) if has_fact else masks[sentence] & word for sentence in sentences
            ):
                return []
            lacking = lacking or sentences
        return lacking

    def _list_contexts(self, position: ClaimWordNumber) -> Iterator[int]:
        """Yield the other content words of the clause around a fact, then the content words of the whole claim, as bits."""
        fact = 1 << position
        clause = next(clause for clause in self.claim.clauses if clause & fact)
        for context in dict.fromkeys(words & self.claim.content & ~fact for words in (clause, sum(self.claim.clauses))):
            if context.bit_count() >= MIN_CONTEXT or context == self.claim.content & ~fact:
                yield context

    def _find_best_sentences(self, context: int) -> list[SentenceNumber]:
        """Return the sentences that share most of these words, or nearly as many.

        Words that are only in the two sentences before count less.
        """
        scores: dict[SentenceNumber, int] = {}
        for sentence, words, words_before in self._masks_by_rank:
            own = words & context
            before = words_before & context & ~own
            scores[sentence] = OWN_WEIGHT * own.bit_count() + BEFORE_WEIGHT * before.bit_count()
        enough = max(scores.values()) * NEARLY_BEST_CONFIRMING
        return [sentence for sentence, score in scores.items() if score >= enough] if enough else []

    @cached_property
    def _masks_by_rank(self) -> list[tuple[SentenceNumber, int, int]]:
        """Each ranked sentence, with the words of the claim in it and in the two sentences before it, as bits."""
        masks = self.passage.masks
        return [
            (sentence, masks[sentence], masks[SentenceNumber(sentence - 1)] | masks[SentenceNumber(sentence - 2)])
            for sentence in self.passage.ranked
        ]
