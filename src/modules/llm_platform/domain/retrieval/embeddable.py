"""Cut texts to the window of an embedder. `NoneEmbedder` is the embedder that makes no vectors."""

import re
from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.domain.text.tokens import MAX_CHARS_PER_TOKEN, cut_to_tokens

NO_EMBEDDER: Final = "EMBEDDER=none: keyword search only"

_VISIBLE = re.compile("[^\\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe0e\ufe0f\ufeff]")


def cut_to_window(texts: Sequence[str], window_tokens: int) -> list[str]:
    """Return the beginning of each text that fits into the window; empty if it has no visible character."""
    return [_cut_one_to_window(text, window_tokens) for text in texts]


def _cut_one_to_window(text: str, window_tokens: int) -> str:
    text = replace_surrogates(text[: window_tokens * MAX_CHARS_PER_TOKEN])
    if not _VISIBLE.search(text):
        return ""
    visible = len(text) - text.count(" ") - text.count("\n")  # each token has at least one visible character
    return text if visible <= window_tokens else cut_to_tokens(text, window_tokens)


class NoneEmbedder(IEmbedder):
    """Makes no vectors: a collection that is indexed with it is searched by keywords only."""

    name = "none"
    dimension = 0
    window_tokens = 1_000_000  # so large that no text is cut

    def __init__(self, why_no_vectors: str = NO_EMBEDDER) -> None:
        self.why_no_vectors = why_no_vectors

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [None] * len(texts)
