"""Static embeddings without a model at run time: the vectors and the tokenizer that come inside wordllama's wheel.

Its own loader asks a model hub and sets up logging for the whole process, so its two files are read here. A text's vector
is the plain mean of its tokens' vectors: good for English, fair for other languages of Latin script, weak elsewhere.

Frequent tokens are not counted for less. That helps vectors alone on some texts, but together with words, which weigh rare
ones themselves, it was worse on four of six sets of questions and better on one (nDCG@10 .547 against .537 in the mean).
"""

from __future__ import annotations

import asyncio
import threading
from array import array
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.exceptions import EmbeddingConfigError
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.wheels import has_wordllama_wheel, no_wordllama
from modules.llm_platform.infrastructure.vectors.embeddable import beginnings

if TYPE_CHECKING:
    import numpy
    from tokenizers import Tokenizer

MODEL: Final = "l2_supercat_256"
DIMENSION: Final = 256
WINDOW_TOKENS: Final = 1024  # what the vectors were trained with; the mean of more says less and less
BATCH_TEXTS: Final = 256  # at once: their tokens' vectors take 1 MB for every thousand tokens
QUICK_CHARS: Final = 2000  # embedded sooner than another thread could begin
LEAST_LENGTH: Final = 1e-6  # of a vector that points anywhere
WEIGHTS: Final = f"weights/{MODEL}.safetensors"
TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
REINSTALL: Final = 'pip install --force-reinstall "llm-platform[retrieval]"'
NOT_INSTALLED: Final = (
    'the embedded embedder needs other packages: pip install "llm-platform[retrieval]"; or set '
    "EMBEDDER=none to search by keywords alone"
)


class WordllamaEmbedder(IEmbedder):
    """Loads its 16 MB on first use. `folder` is wordllama's, for those who keep its files elsewhere."""

    name = f"wordllama/{MODEL}"
    dimension = DIMENSION
    window_tokens = WINDOW_TOKENS

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._loaded: _Model | None = None
        self._loading = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        if self._loaded and sum(map(len, texts)) <= QUICK_CHARS:
            return self._embed(texts)
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> list[Vector | None]:
        model = self._model()
        begun = beginnings(texts, WINDOW_TOKENS)
        places = [place for place, text in enumerate(begun) if text]
        vectors: list[Vector | None] = [None] * len(texts)
        for first in range(0, len(places), BATCH_TEXTS):
            batch = places[first : first + BATCH_TEXTS]
            for place, vector in zip(batch, model.vectors([begun[place] for place in batch]), strict=True):
                vectors[place] = vector
        return vectors

    def _model(self) -> _Model:
        with self._loading:  # two callers at the start load it once
            if self._loaded is None:
                self._loaded = _load(self._folder or _wheel())
            return self._loaded


class _Model:
    def __init__(self, table: numpy.ndarray[Any, Any], tokenizer: Tokenizer) -> None:
        self._table = table
        self._tokenizer = tokenizer

    def vectors(self, texts: Sequence[str]) -> list[Vector | None]:
        """Means of the tokens' vectors, of length 1. Arrays, since lists of numbers take eight times the memory, and twice
        the time until the store has them. The texts are not empty.
        """
        import numpy as np

        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        # One by one, since to sum all at once with `reduceat` takes ten times as long; a product with ones, since `sum`
        # takes twice as long.
        ones = np.ones(max(len(each) for each in encoded), dtype=self._table.dtype)
        sums = np.stack([ones[: len(each)] @ self._table.take(each.ids, axis=0) for each in encoded])
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        usable = (lengths[:, 0] > LEAST_LENGTH) & np.isfinite(lengths[:, 0])
        rows = sums / np.where(lengths > LEAST_LENGTH, lengths, 1)
        return [array("f", row.tobytes()) if good else None for row, good in zip(rows, usable.tolist(), strict=True)]


def _wheel() -> Path:
    found = find_spec("wordllama")  # finds it without running it
    if found is None or not found.submodule_search_locations:
        raise EmbeddingConfigError(NOT_INSTALLED if has_wordllama_wheel() else no_wordllama())
    return Path(next(iter(found.submodule_search_locations)))


def _load(folder: Path) -> _Model:
    try:
        import numpy  # noqa: F401  safetensors asks for it by a word
        from safetensors import SafetensorError, safe_open
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbeddingConfigError(NOT_INSTALLED) from error
    if not (folder / WEIGHTS).is_file() or not (folder / TOKENIZER).is_file():
        raise EmbeddingConfigError(f"wordllama lacks its vectors: {REINSTALL}")
    try:
        with safe_open(folder / WEIGHTS, framework="np") as weights:
            table = weights.get_tensor("embedding.weight").astype("float32")
    except (OSError, SafetensorError) as error:
        raise EmbeddingConfigError(f"wordllama's vectors cannot be read: {REINSTALL}") from error
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(WINDOW_TOKENS)
    return _Model(table, tokenizer)
