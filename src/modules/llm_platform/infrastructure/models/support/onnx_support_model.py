"""The support model of the package: two cross-encoders in eight bits and less, run by onnxruntime on a CPU.

The one of 22 million parameters reads English, the one of 51 million other languages. English claims that the first one leaves
open are read by both. Each has two heads: whether a passage supports a claim, and whether a sentence answers a question.

`scripts/support_model/` makes the weights from named data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from cachetools import LRUCache

from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.infrastructure.models.onnx_files import ONE_THREAD, ModelFiles

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

MAX_TEXT_CHARS: Final = 2000  # a longer text has more tokens than are read
BATCH_PAIRS: Final = 4  # scored at once, so that the next caller waits for 0.1 seconds at most
REMEMBERED_PAIRS: Final = 4096  # at most about 5 MB
# An English claim between these log-odds is read by the second encoder too: half of the claims that the words leave in doubt.
SECOND_READING_FROM: Final = -3.3
SECOND_READING_TO: Final = 1.0
NOT_INSTALLED: Final = 'the support model needs: pip install "llm-platform[meaning]"; or set CITATION_ENCODER=off'
DAMAGED: Final = "its weights are damaged: pip install --force-reinstall llm-platform; or set CITATION_ENCODER=off"
FILES: Final = ModelFiles(NOT_INSTALLED, DAMAGED)


@dataclass(frozen=True)
class Release:
    """The files of one of the encoders with their SHA-256 digests, and how many tokens of a pair its training read."""

    weights: str
    weights_digest: str
    tokenizer: str
    tokenizer_digest: str
    max_tokens: int


ENGLISH: Final = Release(
    weights="support.onnx",
    weights_digest="cdbf3bae9ee82669ccb86b610f64b93cddfc229209cc7901fc61943e2aaead99",
    tokenizer="tokenizer.json",
    tokenizer_digest="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    max_tokens=104,
)
OTHER_LANGUAGES: Final = Release(
    weights="support_languages.onnx",
    weights_digest="32067fe875e56e7594087afd817dc1ec9dc15fd9663eec6f372b76f082bfb40f",
    tokenizer="tokenizer_languages.json",
    tokenizer_digest="04d58bf83a82dc518d5f481cf7deea2efd838ad603c77a185df8019be1ab1156",
    max_tokens=128,
)

Pair = tuple[str, str]
Head = Literal[0, 1]  # the column of the scores
SUPPORT: Final[Head] = 0
ANSWER: Final[Head] = 1


class OnnxSupportModel(ISupportModel):
    """Scores pairs in one thread of its own, so that all answers together use one core.

    The encoder of English takes 60 MB, the encoder of other languages 110 MB. An encoder is loaded when it reads its first pair.
    `folder` has the weights and the tokenizers. The default is the folder of this module.
    """

    name = "encoder"
    digest = sha256(
        f"{ENGLISH.weights_digest} {OTHER_LANGUAGES.weights_digest} {SECOND_READING_FROM} {SECOND_READING_TO}".encode()
    ).hexdigest()

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(__file__).parent
        self._thread = ThreadPoolExecutor(ONE_THREAD, thread_name_prefix="support-model")
        self._known: LRUCache[tuple[Release, Head, Pair], float] = LRUCache(REMEMBERED_PAIRS)

    def begin_loading(self) -> None:
        self._thread.submit(_load, self._folder, ENGLISH)

    async def score(self, pairs: Sequence[Pair], *, is_english: bool = True) -> list[float]:
        if not is_english:
            return await self._read(OTHER_LANGUAGES, SUPPORT, pairs)
        scores = await self._read(ENGLISH, SUPPORT, pairs)
        is_open = [SECOND_READING_FROM <= score <= SECOND_READING_TO for score in scores]
        further = iter(await self._read(OTHER_LANGUAGES, SUPPORT, list(compress(pairs, is_open))))
        return [(score + next(further)) / 2 if open_ else score for score, open_ in zip(scores, is_open, strict=True)]

    async def score_answers(self, pairs: Sequence[Pair], *, is_english: bool = True) -> list[float]:
        return await self._read(ENGLISH if is_english else OTHER_LANGUAGES, ANSWER, pairs)

    async def _read(self, release: Release, head: Head, pairs: Sequence[Pair]) -> list[float]:
        cut = [(_clean(one), _clean(other)) for one, other in pairs]
        known = {pair: self._known.get((release, head, pair)) for pair in cut}
        scores = {pair: score for pair, score in known.items() if score is not None}
        new = [pair for pair in dict.fromkeys(cut) if pair not in scores]
        loop = asyncio.get_running_loop()
        for first in range(0, len(new), BATCH_PAIRS):
            batch = new[first : first + BATCH_PAIRS]
            scored = await loop.run_in_executor(self._thread, self._score, release, head, batch)
            scores |= zip(batch, scored, strict=True)
        self._known.update({(release, head, pair): scores[pair] for pair in new})
        return [scores[pair] for pair in cut]

    async def aclose(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _score(self, release: Release, head: Head, pairs: Sequence[Pair]) -> list[float]:
        return _load(self._folder, release).score(head, pairs)


class _CrossEncoder:
    def __init__(self, session: InferenceSession, tokenizer: Tokenizer) -> None:
        self._session = session
        self._tokenizer = tokenizer

    def score(self, head: Head, pairs: Sequence[Pair]) -> list[float]:
        """Return the log-odds of each pair. Pairs are run one by one: padding would cost more than a batch saves."""
        return [self._score(one, other)[head] for one, other in pairs]

    def _score(self, one: str, other: str) -> list[float]:
        import numpy as np

        encoded = self._tokenizer.encode(one, other)
        inputs: dict[str, Any] = {
            "input_ids": np.array([encoded.ids], dtype=np.int64),
            "token_type_ids": np.array([encoded.type_ids], dtype=np.int64),
            "attention_mask": np.ones((1, len(encoded.ids)), dtype=np.int64),
        }
        scores: list[float] = self._session.run(None, inputs)[0][0].tolist()
        return scores


def _clean(text: str) -> str:
    """Return the beginning of a text that the tokenizer takes: it refuses halves of surrogate pairs."""
    return text[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode("utf-8")


@cache
def _load(folder: Path, release: Release) -> _CrossEncoder:
    """Return an encoder of a folder, which all platforms of the process share. Only the files of the package have digests."""
    is_package = folder == Path(__file__).parent
    session = FILES.open_session(folder / release.weights, release.weights_digest if is_package else None)
    tokenizer_digest = release.tokenizer_digest if is_package else None
    return _CrossEncoder(
        session, FILES.open_tokenizer(folder / release.tokenizer, tokenizer_digest, release.max_tokens)
    )
