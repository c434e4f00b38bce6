"""The fake embedder keeps the promises of every embedder."""

from __future__ import annotations

import pytest
from tests.fakes.embedder import EmbedderContract, HashEmbedder

from modules.llm_platform.domain.exceptions import EmbeddingError


class TestHashEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> HashEmbedder:
        return HashEmbedder()


async def test_a_scripted_failure() -> None:
    """It raises what it was given, and remembers what was asked."""
    embedder = HashEmbedder(error=EmbeddingError())
    with pytest.raises(EmbeddingError):
        await embedder.embed(["a", "b"])
    assert embedder.calls == [("a", "b")]
