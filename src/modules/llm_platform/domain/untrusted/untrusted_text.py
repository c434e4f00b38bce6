"""Neutralise untrusted text: no control characters for readers; in prompts fence lines, no citation markers or chat roles."""

import hashlib
import re

# `[1]` without a word or bracket before it. The pattern begins with the bracket, which the search finds fast.
_MARKER_LIKE = re.compile(r"\[(?<![\w\])]\[)(\d{1,3}(?:\s*[,–-]\s*\d{1,3})*)\]|【(?<![\w\])]【)([^】]{0,20})】")
_ROLE_LIKE = re.compile(r"<(?=[|/]|(?:system|user|assistant|tool|source|search_results)\w*\b)", re.IGNORECASE)
# Tag characters and direction marks: a page can hide instructions in them that no reader sees.
_INVISIBLE = re.compile("[\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
# What a terminal obeys (C0, C1) and what turns the order of the characters around it; tabs and line ends stay.
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_FENCE_CHARS = 16


def fence_line(*parts: str) -> str:
    """Return a line that none of these parts can contain, since it is a digest of all of them; equal for equal requests."""
    digest = hashlib.sha256(b"\x00".join(part.encode(errors="replace") for part in parts))
    return f"=== {digest.hexdigest()[:_FENCE_CHARS]} ==="


def neutralise(text: str) -> str:
    """Return the text without anything that looks like a citation marker or a chat role, and without invisible characters."""
    visible = text if text.isascii() else _INVISIBLE.sub("", text)
    numbered = _MARKER_LIKE.sub(lambda found: f"({found.group(1) or found.group(2)})", visible)
    return _ROLE_LIKE.sub("‹", numbered)


def remove_controls(text: str) -> str:
    """Return the text without control characters, except tabs and line ends, and without bidirectional overrides."""
    return text if text.isprintable() else CONTROL_CHARACTERS.sub("", text)


def one_line(text: str) -> str:
    """Return the text on one line, with single spaces."""
    return " ".join(text.split())
