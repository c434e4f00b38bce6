"""Words of strangers in what a model is told: they stand between fence lines, and what looks like our own marks is defused."""

from __future__ import annotations

import hashlib
import re

# `[1]` where no word and no bracket stands before it. It begins with the bracket, since that is found at once.
_MARKER_LIKE = re.compile(r"\[(?<![\w\])]\[)(\d{1,3}(?:\s*[,–-]\s*\d{1,3})*)\]|【(?<![\w\])]【)([^】]{0,20})】")
_ROLE_LIKE = re.compile(r"<(?=[|/]|(?:system|user|assistant|tool|source|search_results)\w*\b)", re.IGNORECASE)
# Tag characters and direction marks: a page can hide orders in them that its reader never sees.
_UNSEEN = re.compile("[\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_FENCE_CHARS = 16


def fence_line(*parts: str) -> str:
    """A line that none of these parts can hold, since it depends on all of them; the same request has the same line."""
    digest = hashlib.sha256(b"\x00".join(part.encode(errors="replace") for part in parts))
    return f"=== {digest.hexdigest()[:_FENCE_CHARS]} ==="


def neutralised(text: str) -> str:
    """Text of a stranger in which nothing passes for a source's number, a chat role or an unseen order."""
    seen = text if text.isascii() else _UNSEEN.sub("", text)
    numbered = _MARKER_LIKE.sub(lambda found: f"({found.group(1) or found.group(2)})", seen)
    return _ROLE_LIKE.sub("‹", numbered)


def one_line(text: str) -> str:
    """The text without line breaks and runs of blanks."""
    return " ".join(text.split())
