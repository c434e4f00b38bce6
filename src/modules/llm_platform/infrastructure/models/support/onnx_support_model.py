"""The support model of the package: four cross-encoders in eight bits and less, run by onnxruntime on a CPU.

One of 22 million parameters reads English claims, and one of 33 million English questions. Two of 51 million parameters read
claims and questions in other languages and across languages. The one for claims also reads the English claims that the first one
leaves open. The two share 30 million parameters, the vectors of the pieces of words, which are in a file of their own.

`scripts/support_model/` makes the weights from named data.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import compress
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from cachetools import LRUCache

from modules.llm_platform.domain.ports.support_model import ClaimToRead, ISupportModel, Task
from modules.llm_platform.infrastructure.models.onnx_files import ONE_THREAD, SLOW_FUSIONS, ModelFiles

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

MAX_TEXT_CHARS: Final = 2000  # a longer text has more tokens than are read
BATCH_PAIRS: Final = 4  # scored at once, so that the next caller waits for 0.1 seconds at most
REMEMBERED_PAIRS: Final = 4096  # at most about 5 MB
# An English claim is first read beside its quote. If the score is within QUOTE_IS_OPEN, it is also read beside its passage (five
# of six claims; if this is the quote itself, the score counts twice). If the mean of both is within MEAN_IS_OPEN, the encoder of
# other languages reads it, too (two of five claims).
QUOTE_IS_OPEN: Final = (-3.2, 3.0)
MEAN_IS_OPEN: Final = (-3.0, 0.0)
NOT_INSTALLED: Final = 'the support model needs: pip install "llm-platform[meaning]"; or set CITATION_ENCODER=off'
DAMAGED: Final = "its weights are damaged: pip install --force-reinstall llm-platform; or set CITATION_ENCODER=off"
FILES: Final = ModelFiles(NOT_INSTALLED, DAMAGED)


@dataclass(frozen=True)
class Release:
    """The files of one of the encoders with their SHA-256 digests.

    - `tasks` are what the scores of a pair are about, in the order of the scores.
    - `words` is a file beside the weights, to which the weights refer: the vectors of the pieces of words.
    - `max_tokens` is how many tokens of a pair the training read.
    """

    tasks: tuple[Task, ...]
    weights: str
    weights_digest: str
    tokenizer: str
    tokenizer_digest: str
    max_tokens: int
    words: str | None = None
    words_digest: str = ""


ENGLISH_CLAIMS: Final = Release(
    tasks=("support",),
    weights="support.onnx",
    weights_digest="675cd3a93682a0e3aceb348a81a8c56fbe9fe0f1e6c15452558e456818d6efb0",
    tokenizer="tokenizer.json",
    tokenizer_digest="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    max_tokens=104,
)
ENGLISH_QUESTIONS: Final = Release(
    tasks=("answer",),
    weights="answers_english.onnx",
    weights_digest="5d1281d411f7c56e2ae197098dbbdafd98ce7aa5a78086eab7da44f02f4d48cd",
    tokenizer=ENGLISH_CLAIMS.tokenizer,
    tokenizer_digest=ENGLISH_CLAIMS.tokenizer_digest,
    max_tokens=112,
)
OTHER_CLAIMS: Final = Release(
    tasks=("support",),
    weights="support_languages.onnx",
    weights_digest="c5737b69fe809bd25264dda7f099f3b3052647c530be98cd531dd9465ca4bbc8",
    tokenizer="tokenizer_languages.json",
    tokenizer_digest="04d58bf83a82dc518d5f481cf7deea2efd838ad603c77a185df8019be1ab1156",
    max_tokens=128,
    words="words_languages.bin",
    words_digest="8e11a46b1e6d5288f6fc95ff48e7e16a72f7f467207adc7bf1cca462583de4f6",
)
OTHER_QUESTIONS: Final = replace(
    OTHER_CLAIMS,
    tasks=("answer",),
    weights="answers_languages.onnx",
    weights_digest="b14d43f7752016a332136a61b227c78542d27c61cf82df5ad587381d292ec2db",
)

Pair = tuple[str, str]


class OnnxSupportModel(ISupportModel):
    """Scores pairs in one thread of its own, so that all answers together use one core.

    The encoders of English take 60 and 80 MB, one of other languages 105 and both of these 140. An encoder is loaded when it
    reads its first pair.
    `folder` has the weights and the tokenizers. The default is the folder of this module.
    """

    name = "encoder"
    digest = sha256(
        f"{ENGLISH_CLAIMS.weights_digest} {OTHER_CLAIMS.weights_digest} {OTHER_CLAIMS.words_digest} "
        f"{QUOTE_IS_OPEN} {MEAN_IS_OPEN} {SLOW_FUSIONS}".encode()
    ).hexdigest()

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(__file__).parent
        self._thread = ThreadPoolExecutor(ONE_THREAD, thread_name_prefix="support-model")
        self._known: LRUCache[tuple[Release, Task, Pair], float] = LRUCache(REMEMBERED_PAIRS)

    def begin_loading(self, task: Task = "support") -> None:
        self._thread.submit(_load, self._folder, ENGLISH_CLAIMS if task == "support" else ENGLISH_QUESTIONS)

    async def score(self, claims: Sequence[ClaimToRead], *, is_english: bool = True) -> list[float]:
        beside_passage = [(one.claim, one.passage) for one in claims]
        if not is_english:
            return await self._read(OTHER_CLAIMS, "support", beside_passage)
        beside_quote = await self._read(ENGLISH_CLAIMS, "support", [(one.claim, one.quote) for one in claims])
        readings = [[score] for score in beside_quote]
        for release, (lowest, highest) in ((ENGLISH_CLAIMS, QUOTE_IS_OPEN), (OTHER_CLAIMS, MEAN_IS_OPEN)):
            is_open = [lowest <= fmean(scores) <= highest for scores in readings]
            further = await self._read(release, "support", list(compress(beside_passage, is_open)))
            for scores, score in zip(compress(readings, is_open), further, strict=True):
                scores.append(score)
        return [fmean(scores) for scores in readings]

    async def score_answers(self, pairs: Sequence[Pair], *, is_english: bool = True) -> list[float]:
        return await self._read(ENGLISH_QUESTIONS if is_english else OTHER_QUESTIONS, "answer", pairs)

    async def _read(self, release: Release, task: Task, pairs: Sequence[Pair]) -> list[float]:
        cut = [(_clean(one), _clean(other)) for one, other in pairs]
        known = {pair: self._known.get((release, task, pair)) for pair in cut}
        scores = {pair: score for pair, score in known.items() if score is not None}
        new = [pair for pair in dict.fromkeys(cut) if pair not in scores]
        loop = asyncio.get_running_loop()
        for first in range(0, len(new), BATCH_PAIRS):
            batch = new[first : first + BATCH_PAIRS]
            scored = await loop.run_in_executor(self._thread, self._score, release, task, batch)
            scores |= zip(batch, scored, strict=True)
        self._known.update({(release, task, pair): scores[pair] for pair in new})
        return [scores[pair] for pair in cut]

    async def aclose(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _score(self, release: Release, task: Task, pairs: Sequence[Pair]) -> list[float]:
        return _load(self._folder, release).score(release.tasks.index(task), pairs)


class _CrossEncoder:
    def __init__(self, session: InferenceSession, tokenizer: Tokenizer) -> None:
        self._session = session
        self._tokenizer = tokenizer

    def score(self, column: int, pairs: Sequence[Pair]) -> list[float]:
        """Return the log-odds of each pair, from one column of the scores.

        Pairs are run one by one: padding would cost more than a batch saves.
        """
        return [self._score(one, other)[column] for one, other in pairs]

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
    if release.words:
        FILES.check(folder / release.words, release.words_digest if is_package else None)
    session = FILES.open_session(folder / release.weights, release.weights_digest if is_package else None)
    tokenizer_digest = release.tokenizer_digest if is_package else None
    return _CrossEncoder(session, _load_tokenizer(folder / release.tokenizer, tokenizer_digest, release.max_tokens))


@cache
def _load_tokenizer(path: Path, digest: str | None, max_tokens: int) -> Tokenizer:
    """Return a tokenizer, which the two encoders of other languages share: it takes 50 MB."""
    return FILES.open_tokenizer(path, digest, max_tokens)
