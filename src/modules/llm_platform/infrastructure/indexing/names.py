"""Text of any origin as UTF-8 can hold it."""

from __future__ import annotations

from pathlib import Path


def clean(text: str) -> str:
    """The same text; half a pair of surrogates, as in names of files that are no UTF-8, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def shown(path: Path) -> str:
    """A path for people: what cannot be printed is replaced."""
    name = str(path)
    return name if name.isprintable() else "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
