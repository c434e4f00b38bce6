"""Pass the answer of a service on byte for byte, while it is read for its text, its tokens and its limits."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from modules.llm_platform.domain.dtos import llm_dtos as dtos
from modules.llm_platform.domain.privacy.redaction import MIN_SECRET_CHARS, Redactor
from modules.llm_platform.infrastructure.models.kinds import LLMConnection
from modules.llm_platform.infrastructure.models.openai.answer_builder import AnswerBuilder
from modules.llm_platform.infrastructure.models.openai.deltas import (
    BLANK,
    WEB_PAGE,
    Delta,
    InvalidAnswerError,
    decode_chunks,
)
from modules.llm_platform.infrastructure.models.openai.event_stream import EventDecoder

EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n")
MAX_EVENT_END: Final = 4  # bytes of the longest end
MAX_DEPTH: Final = 20  # levels of the JSON of a chunk in which the API key is looked for
KEY_PREFIX_CHARS: Final = 4  # A text that ends with so much of the key waits for its next part.
NO_OBJECT: Final = "a stream instead of one JSON object"
KEY_IN_ANSWER: Final = "its own API key"


class RelayBuilder(AnswerBuilder):
    """Builder of an answer whose parts are the bytes of the service: whole events of a stream, or one JSON object.

    The answer is neither cleaned nor cut: reasoning, refusals and repetitions are the caller's. Only configured secrets are
    replaced, and a stream that spells the API key out ends with an error. The events before the first content are held back
    until the content arrives, so that an early error is still an error of the call.
    """

    def __init__(self, connection: LLMConnection, request: dtos.LLMRequest, redactor: Redactor) -> None:
        super().__init__(connection, request, redactor)
        self._streams = request.relay is not None and request.relay.streams
        self._received = bytearray()
        self._whole_events = 0  # The received bytes up to here are whole events.
        self._has_begun = self._has_ended = False
        self._has_content = False
        self._new_text: list[str] = []
        self._events = EventDecoder()
        self._tails: dict[tuple[Any, ...], str] = {}  # the last characters of each field of each choice
        self._open_fields: set[tuple[Any, ...]] = set()  # those whose text ends with a beginning of the API key

    def receive_bytes(self, received: bytes) -> bool:
        """Receive bytes of the body. Return True if whole events, or the whole JSON object, are available.

        Raises InvalidAnswerError for a web page, for a stream where one JSON object was requested, and for a stream with the
        API key. One JSON object instead of a stream is accepted: the service does not support streams.
        """
        if not self._has_begun and (start := received.lstrip(BLANK)):
            self._has_begun = True
            if start.startswith(b"<"):
                raise InvalidAnswerError(WEB_PAGE)
            if start.startswith((b"{", b"[")):
                self._streams = False
            elif not self._streams:
                raise InvalidAnswerError(NO_OBJECT)
        self._search_key(received)
        searched = max(self._whole_events, len(self._received) - MAX_EVENT_END)
        self._received += received
        if not received:  # The body has ended: what is left is its last event, or its only object.
            self._whole_events = len(self._received)
        elif self._streams:
            found = ((self._received.rfind(end, searched), len(end)) for end in EVENT_ENDS)
            self._whole_events = max(self._whole_events, *(at + size for at, size in found if at >= 0), 0)
        return self._whole_events > 0

    def add(self, delta: Delta) -> None:
        super().add(delta)
        self.is_looping = False
        ours = (delta, *delta.others)
        self._has_content = self._has_content or any(
            one.text or one.reasoning or one.tool_calls or one.refused or one.finish_reason for one in ours
        )
        self._new_text.append(delta.text)

    def finish(self) -> None:
        super().finish()
        self._has_ended, self._whole_events = True, len(self._received)

    def take_new_parts(self) -> list[dtos.LLMStreamPart]:
        """Return the whole events since the last call as one token."""
        is_open = not self._has_content or self._open_fields
        if not self._whole_events or (is_open and not self._has_ended):
            return []
        raw = self._redactor.data(bytes(self._received[: self._whole_events]))
        text = "".join(self._new_text)
        del self._received[: self._whole_events]
        self._whole_events = 0
        self._new_text.clear()
        return [dtos.LLMToken(text=text, raw=raw)]

    def _search_key(self, received: bytes) -> None:
        """Note which fields end with a beginning of the API key. Raises InvalidAnswerError if one has the whole key."""
        key = self._connection.api_key
        if len(key) < MIN_SECRET_CHARS or not self._streams:
            return
        for payload in self._events.feed(received) if received else self._events.finish():
            chunks: list[Any] = []
            with suppress(InvalidAnswerError):  # The reader of the stream reports it.
                chunks = decode_chunks(payload)
            for chunk in chunks:
                for place, text in _list_texts(chunk.get("choices") if isinstance(chunk, dict) else None):
                    self._add_to_field(place, text, key)

    def _add_to_field(self, place: tuple[Any, ...], text: str, key: str) -> None:
        tail = self._tails.get(place, "") + text
        if key in tail:
            raise InvalidAnswerError(KEY_IN_ANSWER)
        self._tails[place] = tail = tail[-len(key) :]
        if any(tail.endswith(key[:size]) for size in range(KEY_PREFIX_CHARS, len(key))):
            self._open_fields.add(place)
        else:
            self._open_fields.discard(place)

    def _find_problem(self, content: str, *, has_calls: bool) -> str | None:
        return None


def _list_texts(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the texts of JSON to MAX_DEPTH, each with its place. The `index` tells apart choices, and calls."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict | list) and len(place) < MAX_DEPTH:
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(value, list):
                name = inner.get("index") if isinstance(inner, dict) else None
            yield from _list_texts(inner, (*place, name if isinstance(name, str | int) else 0))
