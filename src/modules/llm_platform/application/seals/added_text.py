"""Find what the platform adds to an answer after its citations were checked: no source says it."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import astuple

from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.text.sentences import Span


class AddedText:
    """The messages and the disputed quotes of an answer."""

    def __init__(self, text: str, language: str) -> None:
        self._text, self._messages = text, get_messages(language)
        self._catalogue = frozenset(astuple(self._messages))
        before, _, rest = self._messages.still_open.partition("{questions}")
        between, _, after = rest.partition("{queries}")
        self._still_open = before, between, after
        self._paragraphs, self._lines = _list_starts(text, "\n\n"), _list_starts(text, "\n")
        self._is_message: dict[int, bool] = {}
        self._is_quote: dict[int, bool] = {}

    def has_message(self, span: Span) -> bool:
        """Return whether the sentence is part of a message: why a search ended, or which questions it did not answer."""
        number = bisect_right(self._paragraphs, span[0])
        if number not in self._is_message:
            self._is_message[number] = self._reads_as_message(self._cut(self._paragraphs, number).strip())
        return self._is_message[number]

    def has_disputed_quote(self, span: Span) -> bool:
        """Return whether the line is a quote of the ledger with its number of voices."""
        number = bisect_right(self._lines, span[1])
        if number not in self._is_quote:
            line = self._cut(self._lines, number).rstrip("\n")
            note = line[line.rfind("(") :].strip()
            self._is_quote[number] = line.startswith("- ") and self._messages.is_disputed_quote_note(note)
        return self._is_quote[number]

    def _reads_as_message(self, paragraph: str) -> bool:
        if paragraph in self._catalogue:
            return True
        before, between, after = self._still_open
        if "\n" in paragraph or len(paragraph) < len(before) + len(between) + len(after):
            return False
        inside = paragraph[len(before) : len(paragraph) - len(after)]
        return paragraph.startswith(before) and paragraph.endswith(after) and between in inside

    def _cut(self, starts: Sequence[int], number: int) -> str:
        return self._text[starts[number - 1] : starts[number] if number < len(starts) else None]


def _list_starts(text: str, separator: str) -> list[int]:
    """Return the offsets of the parts that the separator divides a text into."""
    starts, at = [0], text.find(separator)
    while at >= 0:
        starts.append(at + len(separator))
        at = text.find(separator, starts[-1])
    return starts
