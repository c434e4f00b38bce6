"""The sentence encoder of the package: it measures closeness with one model for English and one for all languages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

from modules.llm_platform.domain.exceptions import EmbeddingConfigError
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.sentence_encoder import ISentenceEncoder
from modules.llm_platform.infrastructure.models.onnx_files import ONE_THREAD
from modules.llm_platform.infrastructure.models.sentences import vectors
from modules.llm_platform.infrastructure.models.sentences.vectors import SentenceVectors

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.models.sentences.vectors import Vector

MAX_ENCODED_CHARS: Final = 600  # the rest of a longer text is not read
REMEMBERED_SENTENCES: Final = 8192  # 17 MB
BATCH_SENTENCES: Final = 16  # encoded at once, so that the next caller waits for 0.2 seconds at most


class PackagedSentenceEncoder(ISentenceEncoder):
    """Encodes each sentence once, in one thread of its own. A model is loaded when it is first needed.

    `begin_loading` uses another thread, so that one model can encode while another is loaded. `static` are the vectors of
    `find_nearest`.
    """

    name = "sentences"

    def __init__(self, static: IEmbedder | None = None) -> None:
        self._static = static
        self._thread = ThreadPoolExecutor(ONE_THREAD, thread_name_prefix="sentence-encoder")
        self._begun: set[bool] = set()  # the models, by `is_english`, whose loading has begun
        self._loader = ThreadPoolExecutor(ONE_THREAD, thread_name_prefix="sentence-encoder-loading")
        self._known: LRUCache[tuple[bool, str], Vector] = LRUCache(REMEMBERED_SENTENCES)

    def begin_loading(self, *, is_english: bool = False) -> None:
        if is_english not in self._begun:
            self._begun.add(is_english)
            self._loader.submit(vectors.load_english if is_english else vectors.load_universal)

    async def measure_closeness(
        self, question: str, sentences: Sequence[str], *, is_english: bool = False
    ) -> list[float]:
        if not sentences:
            return []
        load = vectors.load_english if is_english else vectors.load_universal
        loop = asyncio.get_running_loop()
        asked = await loop.run_in_executor(self._thread, _encode_question, load, _clean(question))
        texts = [_clean(text) for text in sentences]
        found = {text: self._known[is_english, text] for text in texts if (is_english, text) in self._known}
        new = [text for text in dict.fromkeys(texts) if text and text not in found]
        for first in range(0, len(new), BATCH_SENTENCES):
            batch = new[first : first + BATCH_SENTENCES]
            encoded = await loop.run_in_executor(self._thread, _encode_sentences, load, batch)
            found |= zip(batch, encoded, strict=True)
            self._known.update({(is_english, text): found[text] for text in batch})  # also kept if the caller gives up
        return [float(asked @ found[text]) if text else 0.0 for text in texts]

    async def find_nearest(self, question: str, sentences: Sequence[str], count: int) -> list[int]:
        if self._static is None or not self._static.dimension:
            return []
        try:
            asked, *found = await self._static.embed([_clean(question), *map(_clean, sentences)])
        except EmbeddingConfigError:  # its packages are not installed, which the search of documents reports
            return []
        if asked is None or not any(found):
            return []
        import numpy as np

        indices = [index for index, vector in enumerate(found) if vector is not None]
        closeness = np.array([found[index] for index in indices]) @ np.array(asked)
        return [indices[place] for place in np.argsort(-closeness, kind="stable")[:count]]

    async def list_unknown_words(self, words: Sequence[str]) -> list[str]:
        known = await asyncio.get_running_loop().run_in_executor(self._thread, vectors.load_vocabulary)
        return [word for word in words if word not in known]

    async def aclose(self) -> None:
        for executor in (self._loader, self._thread):
            executor.shutdown(wait=False, cancel_futures=True)


def _encode_question(load: Callable[[], SentenceVectors], text: str) -> Vector:
    return load().encode_question(text)


def _encode_sentences(load: Callable[[], SentenceVectors], texts: Sequence[str]) -> Sequence[Vector]:
    return load().encode_sentences(texts)


def _clean(text: str) -> str:
    """Return the beginning of a text, or an empty string if it has no letter or digit. Lone surrogates are replaced."""
    kept = text[:MAX_ENCODED_CHARS].encode("utf-8", "replace").decode("utf-8")
    return kept if any(map(str.isalnum, kept)) else ""
