"""The part of a text that fits an embedder, and the embedder that makes no vectors."""

import re
from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.domain.text.tokens import MAX_CHARS_PER_TOKEN, cut_to_tokens

NO_EMBEDDER: Final = "EMBEDDER=none: keyword search only"

_VISIBLE = re.compile("[^\\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe0e\ufe0f\ufeff]")


def beginnings(texts: Sequence[str], window_tokens: int) -> list[str]:
    """Return as much of each text as fits into the window; empty where there is no visible character."""
    return [_beginning(text, window_tokens) for text in texts]


def _beginning(text: str, window_tokens: int) -> str:
    text = replace_surrogates(text[: window_tokens * MAX_CHARS_PER_TOKEN])
    if not _VISIBLE.search(text):
        return ""
    visible = len(text) - text.count(" ") - text.count("\n")  # a token has one of them at least
    return text if visible <= window_tokens else cut_to_tokens(text, window_tokens)


class NoneEmbedder(IEmbedder):
    """Makes no vectors: a collection that is indexed with it is searched by keywords only."""

    name = "none"
    dimension = 0
    window_tokens = 1_000_000  # it cuts nothing

    def __init__(self, why_no_vectors: str = NO_EMBEDDER) -> None:
        self.why_no_vectors = why_no_vectors

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [None] * len(texts)
