"""The output of one pass over a part of a line.

`inline_pass` decides what becomes of the text, and `inline_links` what becomes of links. Both write through `InlineOutput`, which
keeps pieces that are adjacent in the output from forming a link or code.
"""

import re

_ONLY_MARKERS = re.compile(r"[ \t>*+\-0-9.)#]*\Z")
_GAP = re.compile(r"""(?=[.,;:!?)\]"'’”»*_~|…，。、；：？！）」』]*(?:\s|\Z))|(?=[^\x00-\x7f])""")


class InlineOutput:
    """The sanitised pieces of a text, and how much of the text is handled.

    - `pieces` joined are the output.
    - `done` is an offset of the text. The text before it is handled.
    - `open_brackets` is the number of literal brackets that are open.
    - `colon_defines` is True if a colon right after the last `]` would make it the label of a link definition.
    - `has_removed` is True if something was removed, so that the text around it is adjacent now.
    """

    def __init__(self, text: str, *, begins_line: bool) -> None:
        self.pieces: list[str] = []
        self.done = 0
        self.open_brackets = 0
        self.colon_defines = False
        self.has_removed = False
        self._text = text
        self._begins_line = begins_line
        self._line_markers = 0  # the pieces at the beginning that are known to be markers of lists and quotes

    def copy(self, end: int) -> None:
        """Copy the text up to `end`."""
        if end > self.done:
            self.write(self._text[self.done : end])
            self.done = end

    def write(self, piece: str) -> None:
        """Append a piece, which is not empty, after a blank if it would form a link or code with the last one."""
        if self.pieces:
            last, first = self.pieces[-1][-1:], piece[0]
            if (last == "]" and first in "(:" and (first == "(" or self.colon_defines)) or last == first == "`":
                piece = " " + piece
        self.pieces.append(piece)

    def replace(self, at: int, piece: str, end: int) -> None:
        """Copy the text up to `at`, and write `piece` instead of the text up to `end`."""
        self.copy(at)
        if piece:
            self.write(piece)
        self.done = end

    def remove(self, end: int) -> None:
        """Remove the text up to `end`, and the blank before it if a blank or punctuation follows."""
        self.has_removed = True
        if self.open_brackets:
            self.pieces.append("…")  # keeps digits on both sides from becoming a marker
        elif self.is_line_start():
            while self._text[end : end + 1] in (" ", "\t"):
                end += 1
        elif _GAP.match(self._text, end):
            self._strip_blanks()
        self.done = end

    def _strip_blanks(self) -> None:
        while self.pieces and not self.pieces[-1].strip(" \t"):
            self.pieces.pop()
        if self.pieces:
            self.pieces[-1] = self.pieces[-1].rstrip(" \t")

    def is_line_start(self) -> bool:
        """Return whether the line has nothing so far except markers of lists and quotes."""
        if not self._begins_line:
            return False
        # Each piece is matched once, because pieces that are known to be markers never change.
        while self._line_markers < len(self.pieces) and _ONLY_MARKERS.match(self.pieces[self._line_markers]):
            self._line_markers += 1
        return self._line_markers == len(self.pieces)
