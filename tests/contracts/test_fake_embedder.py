"""The fake embedder fulfils the contract of every embedder."""

from __future__ import annotations

import pytest
from tests.fakes.embedder import EmbedderContract, HashEmbedder

from modules.llm_platform.domain.exceptions import EmbeddingError


class TestHashEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> HashEmbedder:
        return HashEmbedder()


async def test_a_scripted_failure() -> None:
    """The embedder raises the given error, and records the texts."""
    embedder = HashEmbedder(error=EmbeddingError())
    with pytest.raises(EmbeddingError):
        await embedder.embed(["a", "b"])
    assert embedder.calls == [("a", "b")]
