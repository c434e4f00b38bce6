"""Pass the answer of a service on byte for byte, while it is read for its text, its tokens and its limits."""

from typing import Final

from modules.llm_platform.domain.dtos import llm_dtos as dtos
from modules.llm_platform.domain.privacy.redaction import MIN_SECRET_CHARS, Redactor
from modules.llm_platform.infrastructure.models.kinds import LLMConnection
from modules.llm_platform.infrastructure.models.openai import streaming

EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n")
MAX_EVENT_END: Final = 4  # bytes of the longest end
BLANK: Final = b"\xef\xbb\xbf \t\r\n"
KEY_PREFIX_CHARS: Final = 4  # A text that ends with so much of the key waits for its next part.
WEB_PAGE: Final = "a web page instead of JSON"
NO_STREAM: Final = "one JSON object instead of a stream"
NO_OBJECT: Final = "a stream instead of one JSON object"
KEY_IN_ANSWER: Final = "its own API key"


class RelayBuilder(streaming.AnswerBuilder):
    """Builder of an answer whose parts are the bytes of the service: whole events of a stream, or one JSON object.

    The answer is neither cleaned nor cut: reasoning, refusals and repetitions are the caller's. Only configured secrets are
    replaced, and a stream that spells the API key out ends with an error.
    """

    def __init__(self, connection: LLMConnection, request: dtos.LLMRequest, redactor: Redactor) -> None:
        super().__init__(connection, request, redactor)
        self._streams = request.relay is not None and request.relay.streams
        self._received = bytearray()
        self._whole_events = 0  # The received bytes up to here are whole events.
        self._has_begun = self._has_ended = False
        self._new_text: list[str] = []

    def receive(self, received: bytes) -> bool:
        """Raises InvalidAnswerError for a web page, and for a stream where one JSON object was asked for, or the reverse."""
        if not self._has_begun and (start := received.lstrip(BLANK)):
            self._has_begun = True
            if start.startswith(b"<"):
                raise streaming.InvalidAnswerError(WEB_PAGE)
            if self._streams == start.startswith((b"{", b"[")):
                raise streaming.InvalidAnswerError(NO_STREAM if self._streams else NO_OBJECT)
        searched = max(self._whole_events, len(self._received) - MAX_EVENT_END)
        self._received += received
        if not received:  # The body has ended: what is left is its last event, or its only object.
            self._whole_events = len(self._received)
        elif self._streams:
            found = ((self._received.rfind(end, searched), len(end)) for end in EVENT_ENDS)
            self._whole_events = max(self._whole_events, *(at + size for at, size in found if at >= 0), 0)
        return self._whole_events > 0

    def add(self, delta: streaming.Delta) -> None:
        super().add(delta)
        self.is_looping = False
        self._new_text.append(delta.text)

    def finish(self) -> None:
        super().finish()
        self._has_ended, self._whole_events = True, len(self._received)

    def new_parts(self) -> list[dtos.LLMStreamPart]:
        """Return the whole events since the last call as one token."""
        if not self._whole_events or self._may_spell_key():
            return []
        raw = self._redactor.data(bytes(self._received[: self._whole_events]))
        text = "".join(self._new_text)
        del self._received[: self._whole_events]
        self._whole_events = 0
        self._new_text.clear()
        return [dtos.LLMToken(text=text, raw=raw)]

    def _may_spell_key(self) -> bool:
        """Return whether the text ends with a beginning of the API key. Raises InvalidAnswerError if it has the whole key."""
        key = self._connection.api_key
        if len(key) < MIN_SECRET_CHARS or not self._streams:
            return False
        tail = "".join(self.meter.received[-streaming.KEY_TOKENS :])[-len(key) - sum(map(len, self._new_text)) :]
        if key in tail:
            raise streaming.InvalidAnswerError(KEY_IN_ANSWER)
        return not self._has_ended and any(tail.endswith(key[:size]) for size in range(KEY_PREFIX_CHARS, len(key)))

    def _problem(self, content: str, *, has_calls: bool) -> str | None:
        return None
