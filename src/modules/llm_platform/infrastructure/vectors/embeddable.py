"""What of a text an embedder is given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.text.tokens import first_tokens
from modules.llm_platform.infrastructure.vectors.payloads import clean

CHARS_PER_TOKEN_AT_MOST: Final = 16  # no further into a text do we look for what fills the window

_VISIBLE = re.compile("[^\\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe0e\ufe0f\ufeff]")


def beginnings(texts: Sequence[str], window_tokens: int) -> list[str]:
    """As much of each text as fits into the window; empty where there is nothing that anybody could see."""
    return [_beginning(text, window_tokens) for text in texts]


def _beginning(text: str, window_tokens: int) -> str:
    text = clean(text[: window_tokens * CHARS_PER_TOKEN_AT_MOST])
    if not _VISIBLE.search(text):
        return ""
    visible = len(text) - text.count(" ") - text.count("\n")  # a token has one of them at least
    return text if visible <= window_tokens else first_tokens(text, window_tokens)
