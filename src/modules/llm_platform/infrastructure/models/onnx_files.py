"""Open the ONNX files of the small models: their digests are checked, and each runs in one thread."""

from __future__ import annotations

import os
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modules.llm_platform.domain.exceptions import SupportModelError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

PACKAGES: Final = ("onnxruntime", "tokenizers", "numpy")
ONE_THREAD: Final = 1
NO_TELEMETRY: Final = "ORT_DISABLE_TELEMETRY"
# The fused kernel adds up one number after another, and makes all models about 25 % slower. Scores differ by up to 0.3.
SLOW_FUSIONS: Final = ("SkipLayerNormFusion",)


class ModelFiles:
    """Opens the files of a model. Both libraries raise bare errors, so SupportModelError is raised for all of them.

    `not_installed` and `damaged` are messages that tell the user what to do.
    """

    def __init__(self, not_installed: str, damaged: str) -> None:
        self._not_installed = not_installed
        self._damaged = damaged

    def open_session(self, weights: Path, digest: str | None) -> InferenceSession:
        """Return a session that runs the weights. The digest is not checked if it is None.

        onnxruntime 1.29 and later send telemetry to Microsoft from Linux and macOS, and keep a device id in the user's cache,
        unless this variable is set before the first import.
        """
        os.environ[NO_TELEMETRY] = "1"  # noqa: TID251  written for a library, not read
        try:
            import numpy  # noqa: F401  onnxruntime imports it by name
            from onnxruntime import InferenceSession, SessionOptions
        except ImportError as error:
            raise SupportModelError(self._not_installed) from error
        options = SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = ONE_THREAD
        options.enable_cpu_mem_arena = False  # the arena would keep 20 MB more
        self.check(weights, digest)  # given as bytes, the weights would be in memory twice
        return InferenceSession(
            str(weights), options, providers=["CPUExecutionProvider"], disabled_optimizers=list(SLOW_FUSIONS)
        )

    def open_tokenizer(self, path: Path, digest: str | None, max_tokens: int) -> Tokenizer:
        """Return a tokenizer that cuts the longer text of a pair until both together have `max_tokens`."""
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise SupportModelError(self._not_installed) from error
        self.check(path, digest)
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens, strategy="longest_first")
        return tokenizer

    def check(self, path: Path, digest: str | None) -> None:
        """Raise SupportModelError if the file cannot be read or has another digest."""
        try:
            with path.open("rb") as content:
                found = file_digest(content, sha256).hexdigest()
        except OSError as error:
            raise SupportModelError(self._damaged) from error
        if digest is not None and found != digest:
            raise SupportModelError(self._damaged)
