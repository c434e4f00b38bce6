"""Find the lines of an exported answer that are not part of its text: the strip, citations, notes and the last line.

`llm-platform research --output answer.md` and the page write them, and `llm-platform verify answer.md` reads them again.
"""

import re
from collections.abc import Sequence

from modules.llm_platform.domain.citations.forms.source_lists import TextLine

_COUNTS = r"(?:\d{1,6} of \d{1,6} hold|\d{1,6} quotes? from \d{1,6} sources?)"
_STRIP = re.compile(rf"[▁▄▆█░▒]{{1,100}} {_COUNTS}")
_COST = re.compile(r"\*[^*]{1,300} · [^*]{1,300}\*")  # "*1.2 s · 1 search (documents) · …*"
_LEFT_OUT = frozenset({"## Citations", "## Notes"})


def find_export_lines(lines: Sequence[TextLine]) -> set[int]:
    """Return the positions of these lines; empty if the text has neither the strip nor the last line of an export."""
    texts = [line.text.strip() for line in lines]
    last = max((at for at, text in enumerate(texts) if text), default=-1)
    strips = {at for at, text in enumerate(texts) if _STRIP.fullmatch(text)}
    costs = {last} if last >= 0 and _COST.fullmatch(texts[last]) else set()
    if not strips and not (costs and "## Sources" in texts):
        return set()
    found, is_left_out = strips | costs, False
    for at, text in enumerate(texts):
        if text.startswith("## "):
            is_left_out = text in _LEFT_OUT
        if is_left_out:
            found.add(at)
    return found
