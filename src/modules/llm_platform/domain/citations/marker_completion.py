"""Add the markers that the author of an answer left out, to sentences without a marker that a source supports."""

import re
from copy import copy

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.read.sentences import AnswerSentence, AnswerText, read_answer
from modules.llm_platform.domain.markdown.blocks import BlockTracker, expand_tabs
from modules.llm_platform.domain.text.sentences import STOPS, WIDE_STOPS, ends_sentence

MAX_COMPLETED_CHARS = 3000  # a longer one gets no marker
MAX_UNITS = 2000  # sentences and lines of one answer; later ones get no markers

_NEXT_WORDS = " Then it"  # follow a sentence, so that an abbreviation at its end is recognised
_LAST_STOP = re.compile(rf"(?<![.…])[{STOPS}{WIDE_STOPS}]\Z")
_ORDINAL_END = re.compile(r"(?<!\d)\d{1,2}\.\s*\Z")  # "am 5." may go on with "des Monats"
_ROW_END = " \t|"


class MarkerCompleter:
    """Adds missing markers to the units of a sanitised answer (`AnswerSanitizer.units`).

    - `added` are the offsets of the added markers in the result.
    - `ended` are the finished sentences, with the markers that their author wrote.

    A finished sentence is returned at once. A line without a full stop and without a marker waits for the next unit, because
    the sentence may continue there.
    """

    def __init__(self, checker: CitationChecker, language: str) -> None:
        self._checker, self._language = checker, language
        self.added: list[int] = []
        self.ended: list[AnswerSentence] = []
        self._blocks = BlockTracker()  # state before the line in which the pending text begins
        self._line = ""  # the part of that line that was returned
        self._pending = ""  # begins with a line or a sentence
        self._length = 0  # length of the returned text
        self._units = 0

    def feed(self, unit: str) -> str:
        """Add the next sentence or line, and return the text that is now complete; empty if none is."""
        self._pending += unit
        return self._read(is_complete=False) if self._pending else ""

    def finish(self, rest: str) -> str:
        """Return the pending text with the rest of the answer, which may be any number of units."""
        self._pending += rest
        return self._read(is_complete=True) if self._pending else ""

    def _read(self, *, is_complete: bool) -> str:
        """Return the sentences that ended in the pending text, with their markers."""
        self._units += 1
        if self._units > MAX_UNITS:
            rest, self._pending = self._pending, ""  # the state of the line is not needed any more
            return rest
        blocks = copy(self._blocks)
        if self._line:
            blocks.take(expand_tabs(self._line))
        is_line = is_complete or self._pending.endswith("\n")
        text = read_answer(self._pending + ("" if is_line else _NEXT_WORDS), self._language, blocks=blocks)
        end = len(self._pending)
        open_from = end if is_complete else self._open_from(text, is_line=is_line)
        ended = [sentence for sentence in text.sentences if sentence.start < open_from]
        self.ended += ended
        insertions = [insertion for sentence in ended if (insertion := self._choose_marker(sentence)) is not None]
        return self._release(end if end - open_from > MAX_COMPLETED_CHARS else open_from, insertions)

    def _open_from(self, text: AnswerText, *, is_line: bool) -> int:
        """Return the offset from which the text may still change.

        It is the start of the last sentence, or of its line if the sentence begins the line. If the sentence has ended, it is the
        end of the text.
        """
        end = len(self._pending)
        may_go_on = not is_line and _ORDINAL_END.search(self._pending) is not None
        sentences = [one for one in text.sentences if one.start < end] if may_go_on else text.sentences
        last = sentences[-1] if sentences else None
        if last is None or last.start >= end or last.end <= self._pending.rfind("\n", 0, end - 1):
            return end
        if (
            last.end <= end
            and not may_go_on
            and (not is_line or last.cited or ends_sentence(last.claim) or not self._checker.is_statement(last))
        ):
            return end
        line = self._pending.rfind("\n", 0, last.start) + 1
        begins_line = (line or not self._line) and (len(sentences) == 1 or sentences[-2].end <= line)
        return line if begins_line else last.start

    def _choose_marker(self, sentence: AnswerSentence) -> tuple[int, str] | None:
        """Return the marker that a sentence gets, and where; None if it has one, needs none, or no source supports it."""
        if sentence.cited or not self._checker.is_statement(sentence):
            return None
        at = _find_marker_position(self._pending, sentence)
        line = self._pending.rfind("\n", 0, at) + 1
        if self._pending.count("[", line, at) != self._pending.count("]", line, at):
            return None  # inside the text of a link
        number = self._checker.find_source(sentence)
        return None if number is None else (at, f" [{number}]")

    def _release(self, end: int, insertions: list[tuple[int, str]]) -> str:
        """Return the pending text up to `end` with the markers, and remember where it ended."""
        parts, done = [], 0
        for at, marker in insertions:
            parts += [self._pending[done:at], marker]
            self._length += at - done
            self.added.append(self._length + marker.index("["))
            self._length += len(marker)
            done = at
        parts.append(self._pending[done:end])
        self._length += end - done
        *lines, rest = (self._line + self._pending[:end]).split("\n")
        for line in lines:
            self._blocks.take(expand_tabs(line))
        self._line = rest
        self._pending = self._pending[end:]
        return "".join(parts)


def _find_marker_position(text: str, sentence: AnswerSentence) -> int:
    """Return the offset before the full stop or before the bar that ends a table row, else after the sentence."""
    end = len(text[: sentence.end].rstrip(_ROW_END)) if text[: sentence.end].endswith("|") else sentence.end
    stop = _LAST_STOP.search(text, max(sentence.start, end - 2), end)
    return stop.start() if stop else end
