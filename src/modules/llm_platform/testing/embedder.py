"""An embedder that needs no model, and the promises of `IEmbedder` as tests that every embedder's suite subclasses."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Final
from zlib import crc32

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.text.tokens import words
from shared.exceptions import AppException

DIMENSION: Final = 64
WINDOW_TOKENS: Final = 512
SAME: Final = 1e-4  # between two vectors of the same text
NOTHING_TO_EMBED: Final = ("", "   ", "\n\t", "\u200b", "\u00a0")
HARD_TEXTS: Final = (
    "日本語のテキスト",
    "👍👍👍",
    "a\0b",
    "\ud800 half a pair",
    "\u202eright to left",
    "x" * 30_000,
    "ß" * 5,
)


class HashEmbedder(IEmbedder):
    """Texts that share words are near each other, as if they shared a meaning.

    `error` is raised instead, after `delay_s`. `calls` keeps the texts that were asked for.
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
        for word in words(text)[: self.window_tokens]:
            number = crc32(word.encode("utf-8", "replace"))
            sums[number % self.dimension] += 1.0 if number & 0x8000_0000 else -1.0
            sums[number // self.dimension % self.dimension] += 1.0
        length = math.hypot(*sums)
        return [x / length for x in sums] if length else None


class EmbedderContract:
    """Subclass and give the fixture `embedder`."""

    async def test_one_vector_for_each_text_in_order(self, embedder: IEmbedder) -> None:
        """Each of the promised dimension and of length 1, the same alone as among others."""
        texts = ["How do I cancel a task?", "A cat sleeps on the mat.", "How do I cancel a task?"]
        first, second, third = await embedder.embed(texts)
        assert first is not None and second is not None and third is not None
        assert [len(vector) for vector in (first, second, third)] == [embedder.dimension] * 3
        assert all(abs(math.hypot(*vector) - 1) < SAME for vector in (first, second))
        assert max(abs(a - b) for a, b in zip(first, third, strict=True)) < SAME
        (alone,) = await embedder.embed(texts[1:2])
        assert alone is not None
        assert max(abs(a - b) for a, b in zip(second, alone, strict=True)) < SAME

    async def test_no_texts_no_vectors(self, embedder: IEmbedder) -> None:
        """Nothing asked, nothing answered."""
        assert await embedder.embed([]) == []

    async def test_nothing_to_embed_is_none(self, embedder: IEmbedder) -> None:
        """Blank texts have no vector, and do not disturb the others."""
        vectors = await embedder.embed([*NOTHING_TO_EMBED, "a word", *NOTHING_TO_EMBED])
        count = len(NOTHING_TO_EMBED)
        assert vectors[:count] == vectors[count + 1 :] == [None] * count
        assert vectors[count] is not None

    async def test_never_nan(self, embedder: IEmbedder) -> None:
        """Whatever the text, its numbers are finite, or there are none."""
        vectors = await embedder.embed(HARD_TEXTS)
        assert len(vectors) == len(HARD_TEXTS)
        for vector in vectors:
            assert vector is None or (len(vector) == embedder.dimension and all(map(math.isfinite, vector)))

    async def test_what_is_longer_than_the_window_is_cut(self, embedder: IEmbedder) -> None:
        """A long text is embedded by its beginning: it does not fail."""
        (vector,) = await embedder.embed(["word " * (embedder.window_tokens * 3)])
        assert vector is not None

    async def test_like_is_nearer_than_unlike(self, embedder: IEmbedder) -> None:
        """What shares its subject is nearer than what does not."""
        asked, near, far = await embedder.embed(
            ["cancel a running task", "a running task can be cancelled: cancel it", "recipes for apple cake"]
        )
        assert asked is not None
        assert near is not None
        assert far is not None
        assert _cosine(asked, near) > _cosine(asked, far)

    async def test_callers_side_by_side(self, embedder: IEmbedder) -> None:
        """Each gets the vectors of its own texts."""
        texts = [f"text number {number}" for number in range(20)]
        apart = [(await embedder.embed([text]))[0] for text in texts]
        together = [found[0] for found in await asyncio.gather(*(embedder.embed([text]) for text in texts))]
        for one, other in zip(apart, together, strict=True):
            assert one is not None and other is not None
            assert _cosine(one, other) > 1 - SAME


def _cosine(one: Vector, other: Vector) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))
