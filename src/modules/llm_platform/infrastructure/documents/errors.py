"""Why one document is left out of the search."""

from __future__ import annotations


class UnreadableDocument(Exception):  # noqa: N818  it is a word about a file, not a failure of ours
    """This file cannot be searched; the message says why in words for its owner, without any of its content."""


class EmptyDocument(UnreadableDocument):
    """It can be read, and there is not a word in it."""
