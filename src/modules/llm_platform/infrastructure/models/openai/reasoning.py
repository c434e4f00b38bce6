"""Removes reasoning blocks, control characters and secrets from a model's text, also from a streamed one."""

import re
from collections.abc import Iterable

from modules.llm_platform.domain.llm.reasoning_tags import ReasoningSplitter, TextPart
from modules.llm_platform.domain.privacy.redaction import MIN_SECRET_CHARS, Redactor

_CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f"  # tab and line ends stay
_CONTROLS = re.compile(f"[{_CONTROL}]")
_UNPRINTABLE = re.compile(f"[{_CONTROL}\ud800-\udfff]")


def clean(text: str) -> str:
    """Return the text without control characters. Halves of a surrogate pair are joined, and lone ones become U+FFFD."""
    if not _UNPRINTABLE.search(text):
        return text
    return _CONTROLS.sub("", text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


class ReasoningFilter:
    """Passes the readable part of a streamed text on and buffers what may be the beginning of a tag or a secret.

    Reasoning is what `ReasoningSplitter` says. `retractions` counts how often text that was passed on has turned out to be
    reasoning: the caller must discard the text before.
    """

    def __init__(self, redactor: Redactor, api_key: str = "") -> None:
        """Create a filter. `api_key` is removed even if two pieces divide it."""
        self.retractions = 0
        self._redactor = redactor
        self._key = api_key if len(api_key) >= MIN_SECRET_CHARS else ""
        self._splitter = ReasoningSplitter()
        self._tail = ""  # readable, but possibly the beginning of the key or half a surrogate pair
        self._has_text = False

    def feed(self, piece: str) -> str:
        """Return the next readable text, possibly empty."""
        return self._release(self._join_answer(self._splitter.feed(piece)), final=False)

    def finish(self) -> str:
        """Return the rest of the buffer. Nothing may be fed after this."""
        return self._release(self._join_answer(self._splitter.finish()), final=True)

    def _join_answer(self, parts: Iterable[TextPart]) -> str:
        if self._splitter.retractions > self.retractions:
            self.retractions = self._splitter.retractions
            self._tail, self._has_text = "", False
        return "".join(part.text for part in parts if not part.is_reasoning)

    def _release(self, outside: str, *, final: bool) -> str:
        text = self._tail + outside
        if not self._has_text:
            text = text.lstrip()
            self._has_text = bool(text)
        end = len(text) if final else self._measure_safe_length(text)
        self._tail = text[end:]
        return self._redactor.text(clean(text[:end]))

    def _measure_safe_length(self, text: str) -> int:
        """Return the length of the text without a trailing part of the key or half a surrogate pair."""
        if self._key:
            start = text.find(self._key[0], max(0, len(text) - len(self._key) + 1))
            while start >= 0:
                if self._key.startswith(text[start:]):
                    return start
                start = text.find(self._key[0], start + 1)
        return len(text) - ("\ud800" <= text[-1:] <= "\udbff")
