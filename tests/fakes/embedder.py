"""An embedder without a model, and the contract of `IEmbedder`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Final
from zlib import crc32

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.text.tokens import split_words
from shared.exceptions import AppException

DIMENSION: Final = 64
WINDOW_TOKENS: Final = 512
TOLERANCE: Final = 1e-4  # difference between two vectors of the same text
BLANK_TEXTS: Final = ("", "   ", "\n\t", "\u200b", "\u00a0")
UNUSUAL_TEXTS: Final = (
    "日本語のテキスト",
    "👍👍👍",
    "a\0b",
    "\ud800 half a pair",
    "\u202eright to left",
    "x" * 30_000,
    "ß" * 5,
)


class HashEmbedder(IEmbedder):
    """Embeds texts by hashes of their words, so that texts with common words are similar.

    `error` is raised instead, after `delay_s` seconds. `calls` records the texts.
    """

    def __init__(
        self,
        dimension: int = DIMENSION,
        *,
        name: str | None = None,
        window_tokens: int = WINDOW_TOKENS,
        error: AppException | None = None,
        delay_s: float = 0.0,
    ) -> None:
        self.name = name or f"hash/{dimension}"
        self.dimension = dimension
        self.window_tokens = window_tokens
        self.calls: list[tuple[str, ...]] = []
        self._error = error
        self._delay_s = delay_s

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        self.calls.append(tuple(texts))
        await asyncio.sleep(self._delay_s)
        if self._error is not None:
            raise self._error
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Vector | None:
        sums = [0.0] * self.dimension
        for word in split_words(text)[: self.window_tokens]:
            number = crc32(word.encode("utf-8", "replace"))
            sums[number % self.dimension] += 1.0 if number & 0x8000_0000 else -1.0
            sums[number // self.dimension % self.dimension] += 1.0
        length = math.hypot(*sums)
        return [x / length for x in sums] if length else None


class EmbedderContract:
    """Subclass it and add the fixture `embedder`."""

    async def test_one_unit_vector_per_text_in_order(self, embedder: IEmbedder) -> None:
        """Vectors have the dimension of the embedder and length 1; batching does not change them."""
        texts = ["How do I cancel a task?", "A cat sleeps on the mat.", "How do I cancel a task?"]
        first, second, third = await embedder.embed(texts)
        assert None not in (first, second, third)
        assert [len(vector) for vector in (first, second, third)] == [embedder.dimension] * 3
        assert all(abs(math.hypot(*vector) - 1) < TOLERANCE for vector in (first, second))
        assert max(abs(a - b) for a, b in zip(first, third, strict=True)) < TOLERANCE
        (alone,) = await embedder.embed(texts[1:2])
        assert alone is not None
        assert max(abs(a - b) for a, b in zip(second, alone, strict=True)) < TOLERANCE

    async def test_no_texts_return_no_vectors(self, embedder: IEmbedder) -> None:
        """An empty list returns an empty list."""
        assert await embedder.embed([]) == []

    async def test_blank_text_has_no_vector(self, embedder: IEmbedder) -> None:
        """A blank text has no vector and does not change the others."""
        vectors = await embedder.embed([*BLANK_TEXTS, "a word", *BLANK_TEXTS])
        count = len(BLANK_TEXTS)
        assert vectors[:count] == vectors[count + 1 :] == [None] * count
        assert vectors[count] is not None

    async def test_vectors_are_finite(self, embedder: IEmbedder) -> None:
        """A vector of any text has finite numbers only."""
        vectors = await embedder.embed(UNUSUAL_TEXTS)
        assert len(vectors) == len(UNUSUAL_TEXTS)
        for vector in vectors:
            assert vector is None or (len(vector) == embedder.dimension and all(map(math.isfinite, vector)))

    async def test_long_text_is_truncated(self, embedder: IEmbedder) -> None:
        """A text longer than the window does not fail."""
        (vector,) = await embedder.embed(["word " * (embedder.window_tokens * 3)])
        assert vector is not None

    async def test_related_text_is_more_similar(self, embedder: IEmbedder) -> None:
        """A text on the same subject is more similar than another one."""
        asked, near, far = await embedder.embed(
            ["cancel a running task", "a running task can be cancelled: cancel it", "recipes for apple cake"]
        )
        assert asked is not None
        assert near is not None
        assert far is not None
        assert _cosine(asked, near) > _cosine(asked, far)

    async def test_calls_can_run_concurrently(self, embedder: IEmbedder) -> None:
        """Each gets the vectors of its own texts."""
        texts = [f"text number {number}" for number in range(20)]
        apart = [(await embedder.embed([text]))[0] for text in texts]
        together = [found[0] for found in await asyncio.gather(*(embedder.embed([text]) for text in texts))]
        for one, other in zip(apart, together, strict=True):
            assert None not in (one, other)
            assert _cosine(one, other) > 1 - TOLERANCE


def _cosine(one: Vector, other: Vector) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))
