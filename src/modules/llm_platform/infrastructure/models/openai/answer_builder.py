"""Build a whole answer from its deltas, and the parts that a reader of the stream gets meanwhile."""

from typing import Any, Final

from modules.llm_platform.domain.dtos import llm_dtos as dtos
from modules.llm_platform.domain.exceptions import LLMProviderException
from modules.llm_platform.domain.privacy.redaction import MIN_SECRET_CHARS, Redactor
from modules.llm_platform.domain.text.repetition import RepetitionDetector
from modules.llm_platform.infrastructure.models.kinds import LLMConnection
from modules.llm_platform.infrastructure.models.openai.answer_text import FilteredText, StreamedParts
from modules.llm_platform.infrastructure.models.openai.deltas import FAILED, FILTERED, LENGTH, REPETITION, Delta
from modules.llm_platform.infrastructure.models.openai.meter import Meter

KEY_TOKENS: Final = 200  # more tokens than an API key has


class AnswerBuilder:
    """Builder of one answer from its deltas: call `add` for each, then `finish`, and call `build_response`.

    A caller who passes the answer on as a stream takes `take_new_parts` after each `add`.

    - `finish_reason` is the last reason that the service has sent.
    - `meter` counts the characters and tokens received, with the reasoning.
    - `is_looping` is True if the model repeats itself without end. The rest of the stream is then of no use.
    """

    def __init__(self, connection: LLMConnection, request: dtos.LLMRequest, redactor: Redactor) -> None:
        self.finish_reason: str | None = None
        self.is_looping = False
        self.meter = Meter(connection, request)
        self._connection, self._request, self._redactor = connection, request, redactor
        self._text = FilteredText(redactor, connection.api_key)
        self._reasoning = FilteredText(redactor, connection.api_key, is_reasoning=True) if request.as_it_comes else None
        self._calls: StreamedParts[dict[str, Any]] = StreamedParts()
        self._logprobs: StreamedParts[dict[str, Any]] = StreamedParts()
        self._others: dict[int, AnswerBuilder] = {}  # the further answers, by their numbers
        self._repetition = RepetitionDetector()
        self._refused = False

    def receive_bytes(self, received: bytes) -> bool:
        """Receive bytes of the body before their deltas are added; empty bytes mark its end.

        Return True if `take_new_parts` may have a new part, even if no delta follows.
        """
        return False

    def add(self, delta: Delta) -> None:
        """Add a delta. Raises InvalidAnswerError when the answer is longer than MAX_ANSWER_CHARS."""
        self.finish_reason = delta.finish_reason or self.finish_reason
        self.meter.store_reported(delta)
        self._refused = self._refused or delta.refused
        for other in delta.others:
            if other.choice < self._request.choices:
                self._get_other(other.choice).add(other)
                self.meter.count_chars(len(other.text) + len(other.reasoning))
        if delta.logprobs and self._request.extra.get("logprobs"):
            self._add_logprobs(delta.logprobs)
        if delta.tool_calls and "tools" in self._request.extra:  # without tools, nobody could answer a call
            self._calls.all += delta.tool_calls
            for call in delta.tool_calls:
                self.meter.count_text("".join(call["function"].values()) + call.get("id", " "))
        if delta.reasoning:
            self._count_text(delta.reasoning)
            if self._reasoning:
                self._reasoning.feed(delta.reasoning)
        if delta.text:
            self._count_text(delta.text)
            self._text.feed(delta.text)

    def finish(self) -> None:
        """Add the buffered rest of the text to the answer. No delta may follow."""
        self._text.finish()
        if self._reasoning:
            self._reasoning.finish()
        for other in self._others.values():
            other.finish()

    @property
    def has_ended(self) -> bool:
        """True if all answers that began have ended, so that only the usage may follow."""
        ends = [self.finish_reason, *(other.finish_reason for other in self._others.values())]
        return None not in ends and len(ends) >= self._request.choices

    def take_new_parts(self) -> list[dtos.LLMStreamPart]:
        """Return the parts of the stream since the last call."""
        parts: list[dtos.LLMStreamPart] = []
        if self._text.is_taken_back:
            error = LLMProviderException(f"{self._connection.name} sent its reasoning as part of the answer")
            parts.append(dtos.LLMReset(error=error))
            self._text.is_taken_back = False
        token = dtos.LLMToken(
            text=self._text.take_new(),
            tool_calls=tuple(self._calls.take_new()),
            reasoning=self._reasoning.take_new() if self._reasoning else "",
            logprobs=tuple(self._logprobs.take_new()),
        )
        if token.text or token.tool_calls or token.reasoning or token.logprobs:
            parts.append(token)
        for number, other in self._others.items():
            tokens = (part for part in other.take_new_parts() if isinstance(part, dtos.LLMToken))
            parts.extend(token.model_copy(update={"choice": number}) for token in tokens)
        return parts

    def price_spending(self) -> dtos.Spending:
        """Return the spending so far. A call that returned nothing counts as a call without tokens."""
        return self.meter.price(self._get_usage()) if self.meter.has_received else dtos.Spending(calls=1)

    def build_response(self) -> dtos.LLMResponse:
        """Return the complete answer.

        Raises LLMProviderException if the answer is empty, filtered, refused, or consists of reasoning alone.
        """
        content, calls = self._text.join(), _join_calls(self._calls.all)
        if problem := self._find_problem(content, has_calls=bool(calls)):
            raise LLMProviderException(f"{self._connection.name} {problem}")
        reason = self.finish_reason or "stop"
        if self.is_looping:
            reason = REPETITION
        elif calls and reason == "stop":
            reason = "tool_calls"
        usage = self._get_usage()
        return dtos.LLMResponse(
            content=content,
            provider=self._connection.name,
            model=self._connection.model,
            tool_calls=calls,
            reasoning=self._reasoning.join() if self._reasoning else "",
            logprobs=tuple(self._logprobs.all),
            others=tuple(self._others[number].build_response() for number in sorted(self._others)),
            finish_reason=reason,
            usage=usage,
            spent=self.meter.price(usage),
        )

    def _get_other(self, number: int) -> "AnswerBuilder":
        """Return the builder of a further answer, which is made at its first delta."""
        if number not in self._others:
            self._others[number] = AnswerBuilder(self._connection, self._request, self._redactor)
        return self._others[number]

    def _count_text(self, text: str) -> None:
        self.is_looping = self.is_looping or self._repetition.feed(text)
        self.meter.count_text(text)

    def _add_logprobs(self, logprobs: tuple[dict[str, Any], ...]) -> None:
        """Collect the probabilities of the tokens of a delta, unless these complete the API key.

        A redactor finds a key in a whole text but not in its tokens, so the tokens are joined and searched here.
        """
        tail = "".join(entry["token"] for entry in self._logprobs.all[-KEY_TOKENS:])
        key = self._connection.api_key
        if not (len(key) >= MIN_SECRET_CHARS and key in tail + "".join(entry["token"] for entry in logprobs)):
            self._logprobs.all += logprobs

    def _get_usage(self) -> dtos.Usage:
        return self.meter.get_usage(other.meter for other in self._others.values())

    def _find_problem(self, content: str, *, has_calls: bool) -> str | None:
        if self._request.as_it_comes and self.finish_reason != FAILED and not self._refused:
            return None  # such a caller gets the answer of the service unchanged, even an empty one
        if self.finish_reason == FILTERED:
            return "withheld the answer (content_filter): rephrase the question, or use another model"
        if self.finish_reason == FAILED:
            return "stopped with an error: try again, or use another model"
        if content.strip() or has_calls:
            return None
        if self._refused:
            return "refused to answer: rephrase the question, or use another model"
        if self.finish_reason == LENGTH:
            return "used all its tokens before the answer began: raise max_tokens of the request, or LLM_MAX_TOKENS"
        return (
            "returned reasoning but no answer: use another model"
            if self.meter.received
            else "returned an empty answer: try again, or use another model"
        )


def _join_calls(parts: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return the calls of tools that the parts make up, in the order of their indexes."""
    calls: dict[int, dict[str, Any]] = {}
    for part in parts:
        call = calls.setdefault(
            part["index"], {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        )
        call |= {name: part[name] for name in ("id", "type") if name in part}
        for name, text in part["function"].items():
            call["function"][name] += text
    return tuple(calls[index] for index in sorted(calls))
