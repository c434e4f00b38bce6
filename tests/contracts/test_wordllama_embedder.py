"""wordllama's vectors, read from its wheel, fulfil the contract of every embedder."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.embedder import EmbedderContract

from modules.llm_platform.domain.dtos.retrieval_dtos import Collection
from modules.llm_platform.domain.exceptions import EmbeddingConfigError, VectorStoreConfigError
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore
from modules.llm_platform.infrastructure.models import wordllama_embedder
from modules.llm_platform.infrastructure.models.wordllama_embedder import TOKENIZER, WEIGHTS, WordllamaEmbedder

LOADED = WordllamaEmbedder()


class TestWordllama(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> WordllamaEmbedder:
        return LOADED


async def test_meaning_not_only_words() -> None:
    """A question is close to its answer without a common word."""
    asked, answer, other = await LOADED.embed(
        ["how to repair an automobile", "fixing your broken car engine", "the history of medieval poetry"]
    )
    near, far = (sum(a * b for a, b in zip(asked or (), vector or (), strict=True)) for vector in (answer, other))
    assert near > far + 0.1


async def test_more_texts_than_a_batch() -> None:
    """Each text gets its own vector, and empty texts get none."""
    texts = [f"number {number}" if number % 3 else "" for number in range(600)]
    vectors = await LOADED.embed(texts)
    assert [vector is None for vector in vectors] == [not text for text in texts]
    (alone,) = await LOADED.embed([texts[400]])
    assert vectors[400] == pytest.approx(alone, abs=1e-5)


async def test_loaded_once() -> None:
    """Concurrent first callers share one load."""
    embedder = WordllamaEmbedder()
    await asyncio.gather(*(embedder.embed([f"text {number}"]) for number in range(4)))
    loaded = embedder._loaded
    await embedder.embed(["one more"])
    assert embedder._loaded is loaded


def test_the_package_itself_is_never_run() -> None:
    """wordllama configures logging for the whole process and may contact a hub, so none of its code is imported."""
    code = (
        "import asyncio, logging, sys\n"
        "from modules.llm_platform.infrastructure.models.wordllama_embedder import WordllamaEmbedder\n"
        "assert 'numpy' not in sys.modules\n"
        "asyncio.run(WordllamaEmbedder().embed(['a text']))\n"
        "assert 'wordllama' not in sys.modules and not logging.getLogger().handlers\n"
    )
    source = Path(wordllama_embedder.__file__).parents[4]
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env={"PYTHONPATH": str(source)})
    assert logging.getLogger("wordllama").level == logging.NOTSET


async def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the install command, and says what works without the package."""
    monkeypatch.setattr(wordllama_embedder, "find_spec", lambda _: None)
    with pytest.raises(EmbeddingConfigError, match=r'pip install "llm-platform\[retrieval\]".*EMBEDDER=none'):
        await WordllamaEmbedder().embed(["a"])


@pytest.mark.parametrize("missing", ["tokenizers", "safetensors", "numpy"])
async def test_half_installed(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same message appears if a package that is needed for reading is missing."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(EmbeddingConfigError, match="pip install"):
        await WordllamaEmbedder().embed(["a"])


async def test_damaged_files(tmp_path: Path) -> None:
    """Missing or incomplete files are an installation fault with a remedy."""
    with pytest.raises(EmbeddingConfigError, match="force-reinstall"):
        await WordllamaEmbedder(tmp_path).embed(["a"])
    for name in (WEIGHTS, TOKENIZER):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"\x08\0\0\0")
    with pytest.raises(EmbeddingConfigError, match="force-reinstall"):
        await WordllamaEmbedder(tmp_path).embed(["a"])


async def test_a_collection_of_another_weighting_is_refused(tmp_path: Path) -> None:
    """Vectors with weighted means were stored under another name and cannot be mixed with ours. The remedy is reported."""
    store = QdrantEdgeVectorStore(tmp_path)
    old = Collection(name="docs", embedder=f"{WordllamaEmbedder.name}/rank300", dimension=WordllamaEmbedder.dimension)
    await store.prepare(old)
    await store.finish("docs")
    with pytest.raises(VectorStoreConfigError, match="index again"):
        await store.prepare(old.model_copy(update={"embedder": WordllamaEmbedder.name}))
    await store.aclose()
