"""The links and images of a part of a line: their words stay, and their targets only if they are sources."""

import re
from dataclasses import dataclass

from modules.llm_platform.domain.markdown.addresses import KnownAddresses, format_target
from modules.llm_platform.domain.markdown.code_spans import CodeSpans, pair_brackets
from modules.llm_platform.domain.markdown.inline_output import InlineOutput
from modules.llm_platform.domain.markdown.markers import MARKER

TARGET = re.compile(
    r"""\((?:[ \t]*(<[^<>\n]*>|(?=[^\s)])[^\s()]*(?:\([^\s()]*\)[^\s()]*)*))?"""
    r"""(?:[ \t]+(?:"[^"\n]*"|'[^'\n]*'|\([^()\n]*\)))?[ \t]*\)"""
)
_REFERENCE = re.compile(r"\[[^\[\]\n]{0,200}\]")


@dataclass(slots=True)
class _LinkEnd:
    """What to do at the `]` of a link.

    - `resume` is the offset at which the text continues.
    - `target` is written instead of the `]` and what follows; it is empty if only the words of the link stay.
    - `opening` is the index of its `[` in the pieces of the output; it has no meaning without a target.
    """

    resume: int
    target: str = ""
    opening: int = -1


class InlineLinks:
    """Finds the links of a text, and writes them in two steps: their beginning when they open, their target when they close."""

    def __init__(self, text: str, code: CodeSpans, known: KnownAddresses, output: InlineOutput) -> None:
        self._text, self._known, self._output = text, known, output
        self._pairs = pair_brackets(text, code) if "](" in text or "][" in text else {}
        self._ends: dict[int, _LinkEnd] = {}  # by the offset of the `]`
        self._last_link = -1  # the number of pieces after the last link was written

    def find_close(self, at: int) -> int | None:
        """Return the offset of the `]` that closes the `[` at this offset."""
        return self._pairs.get(at)

    def open(self, at: int, close: int, *, inside: int) -> bool:
        """Handle the beginning of `[text](target)`, `[text][label]` or an image. Return False if this is not a link.

        `inside` is where the text begins, and `close` is its `]`.
        """
        target = TARGET.match(self._text, close + 1)
        if target is not None:
            url = self._known.exact((target[1] or "").strip("<>"))
            is_kept = url is not None and close > inside
            self._write_start(at, inside, is_kept=is_kept)
            ending = f"]({format_target(url)})" if url is not None and is_kept else ""
            self._ends[close] = _LinkEnd(target.end(), ending, len(self._output.pieces) - 1)
            return True
        label = _REFERENCE.match(self._text, close + 1)
        if label is None or (at and (self._text[at - 1].isalnum() or self._text[at - 1] == "]")):
            return False
        self._write_start(at, inside, is_kept=False)
        is_marker = MARKER.match(self._text, close + 1) is not None
        self._ends[close] = _LinkEnd(close + 1 if is_marker else label.end())
        return True

    def _write_start(self, at: int, inside: int, *, is_kept: bool) -> None:
        output = self._output
        output.copy(at)
        output.has_removed = True
        if is_kept:
            if output.pieces and output.pieces[-1][-1:] == "!":
                output.write(" ")
            output.write("[")
        output.done = inside

    def close(self, at: int) -> bool:
        """Handle the `]` at this offset if a link ends there, with its target if that is a source. Return False if none ends."""
        end = self._ends.get(at)
        if end is None:
            return False
        output = self._output
        output.copy(at)
        if end.target and output.pieces[end.opening : end.opening + 1] == ["["]:
            if self._last_link > end.opening:
                output.pieces[end.opening] = ""  # of two nested links, only the inner link is a link
            else:
                output.pieces.append(end.target)
                self._last_link = len(output.pieces)
        output.done = end.resume
        return True
