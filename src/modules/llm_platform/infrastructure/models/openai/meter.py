"""Measure what an answer takes: characters, tokens, time and money."""

import time
from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from typing import Final

from modules.llm_platform.domain.dtos import llm_dtos as dtos
from modules.llm_platform.domain.llm.model_progress import ModelProgress
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.infrastructure.models.kinds import LLMConnection
from modules.llm_platform.infrastructure.models.openai.deltas import Delta, InvalidAnswerError

MAX_ANSWER_CHARS: Final = 1_000_000  # more characters than the longest answer that a request may ask for


class Meter:
    """Meter of one answer. Tokens that the service does not count are counted here. Reasoning is paid for as well."""

    def __init__(self, connection: LLMConnection, request: dtos.LLMRequest) -> None:
        self.chars = 0
        self.received: list[str] = []  # the text, the reasoning and the calls of tools
        self._connection, self._request = connection, request
        self._reported: dict[str, int] = {}  # the counts that the service sent last
        self._began = time.monotonic()
        self._first_at: float | None = None

    def store_reported(self, delta: Delta) -> None:
        counts = {name: getattr(delta, name) for name in dtos.Usage.model_fields}
        self._reported |= {name: count for name, count in counts.items() if count}

    def count_text(self, text: str) -> None:
        self._first_at = self._first_at or time.monotonic()
        self.count_chars(len(text))
        self.received.append(text)

    def count_chars(self, chars: int) -> None:
        """Raises InvalidAnswerError when the answer is longer than MAX_ANSWER_CHARS."""
        self.chars += chars
        if self.chars > MAX_ANSWER_CHARS:
            raise InvalidAnswerError("more text than the limit for an answer")

    def measure_progress(self) -> ModelProgress:
        """Return the progress of the answer. Tokens are counted here, since services report theirs only at the end."""
        now, tokens = time.monotonic(), count_tokens("".join(self.received))
        writing_s = now - self._first_at if self._first_at else 0.0
        return ModelProgress(
            model=self._connection.model,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=tokens,
            elapsed_s=now - self._began,
            tokens_per_s=tokens / writing_s if writing_s > 0 else None,
        )

    def get_usage(self, others: Iterable["Meter"] = ()) -> dtos.Usage:
        """Return the tokens of this answer and of the `others` of the same call."""
        received = "".join(chain(self.received, *(other.received for other in others)))
        own = {"prompt_tokens": 0, "completion_tokens": 0, **self._reported}
        return dtos.Usage(
            **own
            | {
                "prompt_tokens": own["prompt_tokens"] or self._prompt_tokens,
                "completion_tokens": own["completion_tokens"] or count_tokens(received),
            }
        )

    @property
    def has_received(self) -> bool:
        return bool(self.received or self._reported.get("completion_tokens"))

    def price(self, usage: dtos.Usage) -> dtos.Spending:
        cost = self._connection.cost_usd(usage.prompt_tokens, usage.completion_tokens)
        counted = usage.model_dump(include={"prompt_tokens", "completion_tokens"})
        return dtos.Spending(calls=1, cost_usd=cost, **counted)

    @cached_property
    def _prompt_tokens(self) -> int:
        return sum(count_tokens(message.content) for message in self._request.messages)
