"""Separate the reasoning in a model's text, `<think>…</think>`, from the answer, also while the text is streamed."""

import re
from typing import Final, NamedTuple

MAX_TAG_CHARS: Final = 60  # longer text in angle brackets is not a reasoning tag

_TAG: Final = re.compile(r"[<◁]\s{0,2}(/?)\s{0,2}think(?:ing)?(?:\s[^<>▷]{0,40})?[>▷]", re.IGNORECASE)
_UNFINISHED_TAG: Final = re.compile(
    r"[<◁]\s{0,2}/?\s{0,2}(?:think(?:ing)?(?:\s[^<>▷]*)?|(?P<start>[a-z]*))", re.IGNORECASE
)


class TextPart(NamedTuple):
    """A part of a text: reasoning with its tags, or answer."""

    text: str
    is_reasoning: bool


class ReasoningSplitter:
    """Splits a text that comes in pieces. The parts and `undecided` together are the text.

    Everything from `<think>` to its `</think>` is reasoning, nested and unclosed blocks too. A closing tag without an opening
    one (some templates open the block in the prompt) means that all text before it was reasoning. A tag between backticks is
    ordinary text.

    - `undecided` is the end of the text so far, if it may be the beginning of a tag.
    - `retractions` counts the closing tags without an opening one. The caller must then take all earlier parts for reasoning.
    """

    def __init__(self) -> None:
        self.undecided = ""
        self.retractions = 0
        self._before = ""  # the character before `undecided`
        self._depth = 0

    def feed(self, piece: str) -> list[TextPart]:
        """Return the parts that the piece decides, in their order."""
        text = self.undecided + piece
        end = self._start_of_unfinished_tag(text) if "<" in text or "◁" in text else len(text)
        parts = self._split(text, end)
        self.undecided, self._before = text[end:], text[end - 1 : end] or self._before
        return parts

    def finish(self) -> list[TextPart]:
        """Return the rest. Nothing may be fed after this."""
        text, self.undecided = self.undecided, ""
        return self._split(text, len(text))

    def _split(self, text: str, end: int) -> list[TextPart]:
        """Return the parts of `text` up to `end`."""
        parts: list[TextPart] = []
        at = 0
        for tag in _TAG.finditer(text, 0, end):
            before = text[tag.start() - 1] if tag.start() else self._before
            if before == "`" and text[tag.end() : tag.end() + 1] == "`":
                # A tag in backticks is mentioned in the text. It opens or closes no block.
                continue
            if not tag[1]:
                if self._depth == 0:
                    parts.append(TextPart(text[at : tag.start()], is_reasoning=False))
                    at = tag.start()
                self._depth += 1
                continue
            if self._depth == 0:
                self.retractions += 1
                parts = [TextPart(text[: tag.end()], is_reasoning=True)]
                at = tag.end()
                continue
            self._depth -= 1
            if self._depth == 0:
                parts.append(TextPart(text[at : tag.end()], is_reasoning=True))
                at = tag.end()
        parts.append(TextPart(text[at:end], is_reasoning=self._depth > 0))
        return [part for part in parts if part.text]

    def _start_of_unfinished_tag(self, text: str) -> int:
        """Return the start of an incomplete tag, or mention of one, at the end, or else the length of the text."""
        start = max(text.rfind("<"), text.rfind("◁"))
        if start < 0 or len(text) - start > MAX_TAG_CHARS:
            return len(text)
        unfinished = _UNFINISHED_TAG.fullmatch(text, start)
        if unfinished and "thinking".startswith((unfinished["start"] or "").lower()):
            return start
        mentioned = (text[start - 1] if start else self._before) == "`" and _TAG.fullmatch(text, start)
        return start if mentioned else len(text)
