"""Collect the text of an answer while it streams, and know which part of it a reader of the stream has not seen."""

from typing import Generic, TypeVar

from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.infrastructure.models.openai.reasoning import ReasoningFilter

T = TypeVar("T")


class StreamedParts(Generic[T]):
    """All parts so far in their order. `take_new` returns the parts that were added since its last call."""

    def __init__(self) -> None:
        self.all: list[T] = []
        self._taken = 0

    def take_new(self) -> list[T]:
        new = self.all[self._taken :]
        self._taken = len(self.all)
        return new

    def clear(self) -> bool:
        """Remove all parts, and return whether `take_new` has returned some of them."""
        was_taken, self._taken = self._taken > 0, 0
        self.all.clear()
        return was_taken


class FilteredText:
    """The text of an answer without control characters, secrets and tags of reasoning, also where two pieces divide them.

    Text that turns out to be reasoning is removed, unless this is the reasoning itself. `is_taken_back` is True if
    `take_new` had already returned some of it.
    """

    def __init__(self, redactor: Redactor, api_key: str, *, is_reasoning: bool = False) -> None:
        self._parts: StreamedParts[str] = StreamedParts()
        self.is_taken_back = False
        self._filter = ReasoningFilter(redactor, api_key)
        self._is_reasoning = is_reasoning
        self._retractions = 0

    def feed(self, text: str) -> None:
        self._add(self._filter.feed(text))

    def finish(self) -> None:
        self._add(self._filter.finish())

    def join(self) -> str:
        """Return the whole text."""
        return "".join(self._parts.all)

    def take_new(self) -> str:
        """Return the text that came since the last call."""
        return "".join(self._parts.take_new())

    def _add(self, text: str) -> None:
        if self._filter.retractions > self._retractions and not self._is_reasoning:
            self._retractions = self._filter.retractions
            self.is_taken_back = self._parts.clear() or self.is_taken_back
        if text:
            self._parts.all.append(text)
