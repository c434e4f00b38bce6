"""The markup around and inside a sentence of an answer, which a claim does not have."""

import re
import string

from modules.llm_platform.domain.markdown.markers import LINK_TARGET

SPACED_MARKER = re.compile(r"[ ]?\[\d{1,9}\]")
EMPHASIS = re.compile(r"(`[^`]*`)|\*+|(?<!\w)_+|_+(?!\w)|~~")  # group 1 is code, whose signs are not emphasis: `_name`
MARKUP_BEFORE = re.compile(
    r"[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+|>[ \t]*)*(?:\[[ xX]\][ \t]+)?"
)  # before the text of a line
DELIMITERS = re.compile(r"\A[ |:]*-[ |:-]*\Z")  # the row below the header of a table

_LAST_MARKER = re.compile(r"\[\d{1,9}\]\Z")
_MARKER_CHARS = 11
_AFTER_MARKER = string.whitespace + "\u00a0\u3000.,;:!?…)\"'”’»*_|。，、；：？！）」』"
_BEFORE_MARK = " \t,;"
_EMPHASIS_SIGNS = frozenset("`*_~")


def strip_tail(text: str) -> str:
    """Return the text without the markers at its end and the signs after them.

    The text is read backwards, because a search for the last marker takes quadratic time.
    """
    start = end = len(text.rstrip(_AFTER_MARKER))
    while found := _LAST_MARKER.search(text, max(0, start - _MARKER_CHARS), start):
        start = found.start()
        while start and text[start - 1] in _BEFORE_MARK:
            start -= 1
    return text[:start] if start < end else text


def strip_links_and_emphasis(text: str) -> str:
    """Return the words of a text without links and emphasis, with one blank between them."""
    if "](" in text:
        text = LINK_TARGET.sub("", text).replace("[", "")
    if not _EMPHASIS_SIGNS.isdisjoint(text):
        text = EMPHASIS.sub(r"\1", text)
    return " ".join(text.split())
