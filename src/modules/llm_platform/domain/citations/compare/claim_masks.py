"""Rank the sentences of a source by the words of a claim that they have.

Sets of words of a claim, and sets of sentences, are bitmasks: a page has hundreds of sentences, and bitmasks compare whole sets
in one step.
"""

from collections.abc import Callable, Sequence
from functools import cache

from modules.llm_platform.domain.text.positions import SentenceNumber

RANKED_SENTENCES = 16  # the best sentences, in which the facts of a claim are looked for


class ClaimMasks(dict[SentenceNumber, int]):
    """The words of a claim that each sentence has, as bits, computed when a sentence is looked up.

    `with_words` has, for each word of the claim, the sentences that have it. A page has hundreds of sentences that share a
    word with a claim, but these sentences share only a few different sets of words.
    """

    def __init__(self, with_words: Sequence[int]) -> None:
        super().__init__()
        self._with_words = [(1 << position, sentences) for position, sentences in enumerate(with_words) if sentences]
        self.all_words = sum([bit for bit, _ in self._with_words])

    def __missing__(self, sentence: SentenceNumber) -> int:
        mask = 0
        if sentence >= 0:
            for bit, sentences in self._with_words:
                if sentences >> sentence & 1:
                    mask |= bit
        self[sentence] = mask
        return mask

    def rank(self, worth: Callable[[int], float]) -> list[SentenceNumber]:
        """Return the RANKED_SENTENCES with the highest worth of their words. Ties keep their order."""
        alike: dict[int, int] = {}  # maps each set of words to the sentences that have exactly these
        for bit, sentences in self._with_words:
            for mask, known in list(alike.items()):
                if both := known & sentences:
                    alike[mask | bit] = both
                    if both == known:
                        del alike[mask]
                    else:
                        alike[mask] = known ^ both
                    sentences ^= both
            if sentences:
                alike[bit] = sentences
        by_worth: dict[float, int] = {}
        for mask, sentences in alike.items():
            by_worth[worth(mask)] = by_worth.get(worth(mask), 0) | sentences
        found: list[int] = []
        for value in sorted(by_worth, reverse=True):
            found += _list_positions(by_worth[value])
            if len(found) >= RANKED_SENTENCES:
                break
        return [SentenceNumber(number) for number in found[:RANKED_SENTENCES]]


class MaskWeights(dict[int, float]):
    """The total weight of the words in each mask, computed once for each mask."""

    def __init__(self, weights: list[float]) -> None:
        self._weights = weights

    def __missing__(self, mask: int) -> float:
        weights = self._weights
        worth = self[mask] = sum([weights[position] for position in _list_positions(mask)])
        return worth


def _list_positions(bits: int) -> Sequence[int]:
    """Return the positions of the bits that are set, lowest first."""
    if bits < 1 << 8:
        return _list_positions_in_byte(bits)
    octets = enumerate(bits.to_bytes((bits.bit_length() + 7) // 8, "little"))
    return [8 * number + position for number, octet in octets if octet for position in _list_positions_in_byte(octet)]


@cache
def _list_positions_in_byte(octet: int) -> tuple[int, ...]:
    return tuple(position for position in range(8) if octet >> position & 1)
