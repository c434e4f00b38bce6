"""Ask a model for a list, and take each line of its answer as soon as it is complete."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from modules.llm_platform.application.research.model_output.lists import read_line
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMReset, LLMResponse, LLMToken
from modules.llm_platform.domain.exceptions import LLMProviderException
from modules.llm_platform.domain.ports.llm import ILLMProvider

OPENING, CLOSING = "<think>", "</think>"
MAX_LINES = 200  # looked at while they come; a model that repeats itself for ever is read at its end


async def stream_list(llm: ILLMProvider, request: LLMRequest, take: Callable[[str], None]) -> LLMResponse:
    """The whole answer; `take` had the item of every line with a prefix before it ended, in order.

    What was taken stays taken when a model dies half-way and another begins. Raises what the port of models raises.
    """
    lines = _Lines(take)
    answer: LLMResponse | None = None
    async with aclosing(llm.stream(request)) as parts:  # type: ignore[type-var]  # an async generator
        async for part in parts:
            if isinstance(part, LLMToken):
                lines.feed(part.text)
            elif isinstance(part, LLMReset):
                lines = _Lines(take)
            else:
                answer = part
    if answer is None:
        raise LLMProviderException("The language model's stream ended without an answer: ask another model")
    lines.feed("\n")
    return answer


class _Lines:
    """Puts tokens together to lines and hands over what those with a prefix hold, outside of reasoning."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._open: list[str] = []
        self._seen = 0
        self._thinking = False

    def feed(self, text: str) -> None:
        *ends, rest = text.split("\n")
        for end in ends:
            if self._seen < MAX_LINES:
                self._line("".join([*self._open, end]))
            self._seen += 1
            self._open.clear()
        if rest:
            self._open.append(rest)

    def _line(self, line: str) -> None:
        item = read_line(self._beside_reasoning(line))
        if item:
            self._take(item)

    def _beside_reasoning(self, line: str) -> str:
        """What of the line is answer; providers take reasoning off, those of a user's own may not."""
        opened, closed = line.rfind(OPENING), line.rfind(CLOSING)
        if opened < 0 and closed < 0:
            return "" if self._thinking else line
        self._thinking = opened > closed
        return "" if self._thinking else line[closed + len(CLOSING) :]
