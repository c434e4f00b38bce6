"""One answer as it grows: its readable text, what it cost so far, and at the end the response or why there is none."""

from __future__ import annotations

from typing import Final

from modules.llm_platform.domain.dtos.llm_dtos import (
    LLMRequest,
    LLMReset,
    LLMResponse,
    LLMStreamPart,
    LLMToken,
    Spending,
    Usage,
)
from modules.llm_platform.domain.exceptions import LLMProviderException
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.domain.text import count_tokens
from modules.llm_platform.infrastructure.llm_answer import FAILED, FILTERED, LENGTH, Piece, UnreadableAnswer
from modules.llm_platform.infrastructure.llm_kinds import LLMConnection
from modules.llm_platform.infrastructure.llm_reasoning import ReadableText

MAX_ANSWER_CHARS: Final = 1_000_000  # above what the longest answer that may be asked for takes


class GrowingAnswer:
    """Add the pieces as they come, then `finish`, then take the `response`. A stream asks for its `news` in between."""

    def __init__(self, connection: LLMConnection, request: LLMRequest, redactor: Redactor) -> None:
        self.finish_reason: str | None = None
        self._connection = connection
        self._request = request
        self._readable = ReadableText(redactor, connection.api_key)
        self._words: list[str] = []
        self._told = 0  # how many of them a reader of the stream has got
        self._voided = 0
        self._take_back = False
        self._received: list[str] = []  # with the reasoning: it is paid for
        self._chars = 0
        self._prompt_tokens: int | None = None
        self._completion_tokens: int | None = None
        self._refused = False

    def add(self, piece: Piece) -> None:
        """Raises UnreadableAnswer when the answer grows beyond measure."""
        self.finish_reason = piece.finish_reason or self.finish_reason
        self._prompt_tokens = piece.prompt_tokens or self._prompt_tokens
        self._completion_tokens = piece.completion_tokens or self._completion_tokens
        self._refused = self._refused or piece.refused
        if piece.reasoning:
            self._receive(piece.reasoning)
        if piece.text:
            self._receive(piece.text)
            self._keep(self._readable.feed(piece.text))

    def finish(self) -> None:
        """No piece follows: what was held back is words."""
        self._keep(self._readable.finish())

    def news(self) -> list[LLMStreamPart]:
        """What a reader of the stream has to be told since the last call."""
        told: list[LLMStreamPart] = []
        if self._take_back:
            told.append(LLMReset(error=LLMProviderException(f"{self._connection.name} showed its reasoning unmarked")))
            self._take_back = False
        words = "".join(self._words[self._told :])
        self._told = len(self._words)
        if words:
            told.append(LLMToken(text=words))
        return told

    def _receive(self, text: str) -> None:
        self._chars += len(text)
        if self._chars > MAX_ANSWER_CHARS:
            raise UnreadableAnswer("more text than any request asks for")
        self._received.append(text)

    def _keep(self, words: str) -> None:
        if self._readable.voided > self._voided:
            self._voided = self._readable.voided
            self._take_back = self._take_back or self._told > 0
            self._words.clear()
            self._told = 0
        if words:
            self._words.append(words)

    def usage(self) -> Usage:
        """The service's own count; ours where it says nothing."""
        asked = self._prompt_tokens or sum(count_tokens(message.content) for message in self._request.messages)
        written = self._completion_tokens or count_tokens("".join(self._received))
        return Usage(prompt_tokens=asked, completion_tokens=written)

    def spent(self) -> Spending:
        """What the call cost so far: one without a word costs nothing but the call."""
        if not self._received and not self._completion_tokens:
            return Spending(calls=1)
        return self._spending(self.usage())

    def _spending(self, usage: Usage) -> Spending:
        cost = self._connection.cost_usd(usage.prompt_tokens, usage.completion_tokens)
        return Spending(
            calls=1, prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens, cost_usd=cost
        )

    def response(self) -> LLMResponse:
        """The whole answer. Raises LLMProviderException when it is none: empty, all reasoning, filtered, refused."""
        content = "".join(self._words)
        reason = self._failure(content)
        if reason:
            raise LLMProviderException(f"{self._connection.name} {reason}")
        usage = self.usage()
        return LLMResponse(
            content=content,
            provider=self._connection.name,
            model=self._connection.model,
            finish_reason=self.finish_reason or "stop",
            usage=usage,
            spent=self._spending(usage),
        )

    def _failure(self, content: str) -> str | None:
        if self.finish_reason == FILTERED:
            return "withheld the answer (content_filter): ask differently, or another model"
        if self.finish_reason == FAILED:
            return "broke off with an error of its own"
        if content.strip():
            return None
        if self._refused:
            return "refused to answer: ask differently, or another model"
        if self.finish_reason == LENGTH:
            return "spent all its tokens before the first word of the answer: raise LLM_MAX_TOKENS"
        return "gave reasoning but no answer: ask another model" if self._received else "gave an empty answer"
