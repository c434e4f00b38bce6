"""Static embeddings from the vectors and the tokenizer in wordllama's wheel, without a model at run time.

wordllama's loader contacts a model hub and configures logging, so the two files are read here. A text's vector is the mean of
its tokens' vectors: good for English, fair for other languages of Latin script, weak elsewhere. Frequent tokens have full
weight: less weight made hybrid search worse (mean nDCG@10 .537 against .547 on six sets of questions).
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
from modules.llm_platform.domain.package import has_wordllama_wheel, no_wordllama
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.retrieval.embeddable import cut_to_window
from modules.llm_platform.domain.retrieval.mean_centering import MIN_LENGTH

if TYPE_CHECKING:
    import numpy
    from tokenizers import Tokenizer

MODEL: Final = "l2_supercat_256"
DIMENSION: Final = 256
WINDOW_TOKENS: Final = 1024  # window of the training; the mean of more tokens says less
BATCH_TEXTS: Final = 256  # texts embedded at once; a thousand tokens take 1 MB
INLINE_CHARS: Final = 2000  # faster than starting a thread
WEIGHTS: Final = f"weights/{MODEL}.safetensors"
TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
REINSTALL: Final = 'pip install --force-reinstall "llm-platform[retrieval]"'
NOT_INSTALLED: Final = (
    'the embedded embedder needs other packages: pip install "llm-platform[retrieval]"; or set '
    "EMBEDDER=none to search by keywords alone"
)


class WordllamaEmbedder(IEmbedder):
    """Embedder with the model of wordllama. Its first use loads 16 MB.

    `folder` has wordllama's files. The default is the folder of the installed wheel.
    """

    name = f"wordllama/{MODEL}"
    dimension = DIMENSION
    window_tokens = WINDOW_TOKENS

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._loaded: _Model | None = None
        self._loading = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        if self._loaded and sum(map(len, texts)) <= INLINE_CHARS:
            return self._embed(texts)
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> list[Vector | None]:
        model = self._load_model()
        visible = cut_to_window(texts, WINDOW_TOKENS)
        positions = [position for position, text in enumerate(visible) if text]
        vectors: list[Vector | None] = [None] * len(texts)
        for first in range(0, len(positions), BATCH_TEXTS):
            batch = positions[first : first + BATCH_TEXTS]
            for position, vector in zip(batch, model.vectors([visible[position] for position in batch]), strict=True):
                vectors[position] = vector
        return vectors

    def _load_model(self) -> _Model:
        with self._loading:  # loads once
            if self._loaded is None:
                self._loaded = _load(self._folder)
            return self._loaded


class _Model:
    def __init__(self, table: numpy.ndarray[Any, Any], tokenizer: Tokenizer) -> None:
        self._table = table
        self._tokenizer = tokenizer

    def vectors(self, texts: Sequence[str]) -> list[Vector | None]:
        """Return the means of the tokens' vectors, of length 1, for texts that are not empty.

        Arrays take an eighth of the memory of lists.
        """
        import numpy as np

        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        # A product with ones per text: `sum` takes twice as long, `reduceat` over all texts ten times.
        ones = np.ones(max(len(encoding) for encoding in encoded), dtype=self._table.dtype)
        sums = np.stack([ones[: len(encoding)] @ self._table.take(encoding.ids, axis=0) for encoding in encoded])
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        usable = (lengths[:, 0] > MIN_LENGTH) & np.isfinite(lengths[:, 0])
        rows = sums / np.where(lengths > MIN_LENGTH, lengths, 1)
        return [array("f", row.tobytes()) if good else None for row, good in zip(rows, usable.tolist(), strict=True)]


def _load(folder: Path | None) -> _Model:
    if folder is None:
        found = find_spec("wordllama")  # does not import it
        if found is None or not found.submodule_search_locations:
            raise EmbeddingConfigError(NOT_INSTALLED if has_wordllama_wheel() else no_wordllama())
        folder = Path(next(iter(found.submodule_search_locations)))
    try:
        import numpy  # noqa: F401  safetensors imports it by name
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
