"""Read the body of a streamed answer: its bytes become server-sent events, and the events become deltas.

Nothing here does I/O: the caller reads the network and enforces the timeouts.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from modules.llm_platform.infrastructure.models.openai.deltas import (
    BLANK,
    EMPTY,
    Delta,
    InvalidAnswerError,
    decode_chunks,
    read_answer,
    read_chunk,
)

MAX_BODY_BYTES: Final = 8 * 1024 * 1024  # a million characters, each written as an escape of six
MAX_STREAM_BYTES: Final = 48 * 1024 * 1024  # 131,072 chunks of one token with the protocol's fields around each


class EventDecoder:
    """Decoder of server-sent events (WHATWG HTML), which returns the data of each event as soon as it is complete.

    Lines may end in LF, CR or CRLF, and chunks may end anywhere.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._after_cr = False

    def feed(self, received: bytes) -> list[bytes]:
        """Return the data of the events that these bytes complete, in order."""
        if b"\n" not in received and b"\r" not in received:
            # A line that comes in many small chunks costs time in proportion to its length, because it is not copied.
            self._line += received
            return []
        lines = (bytes(self._line) + received).splitlines(keepends=True)
        self._line.clear()
        if not lines[-1].endswith((b"\n", b"\r")):
            self._line += lines.pop()
        return self._split_events(lines)

    def finish(self) -> list[bytes]:
        """Return the data of a last event that no blank line has ended."""
        lines = [bytes(self._line), b"\n"] if self._line else [b"\n"]
        return self._split_events(lines)

    def _split_events(self, lines: list[bytes]) -> list[bytes]:
        events = []
        for raw in lines:
            if raw == b"\n" and self._after_cr:
                # This is the second half of a CRLF that two chunks have parted, and not an empty line.
                self._after_cr = False
                continue
            self._after_cr = raw.endswith(b"\r")
            line = raw.rstrip(b"\r\n")
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data.clear()
        return events


class StreamReader:
    """Parser of a streamed body, chunk by chunk.

    A service that does not support streams sends a plain JSON body, which is accepted. `done` is True when the service has
    declared the end of the stream. All methods raise the errors of `read_answer`.
    """

    def __init__(self) -> None:
        self.done = False
        self._body: EventDecoder | bytearray | None = None  # Events, a plain body, or unknown before the first byte.
        self._bytes = 0
        self._has_events = False

    def feed(self, received: bytes) -> Iterator[Delta]:
        """Yield the deltas of the events that these bytes complete. Events before an error are yielded, too."""
        self._bytes += len(received)
        if self._bytes > (MAX_BODY_BYTES if isinstance(self._body, bytearray) else MAX_STREAM_BYTES):
            raise InvalidAnswerError("more bytes than the limit for an answer")
        if self._body is None:
            received = received.lstrip(BLANK)
            if not received:
                return
            self._body = bytearray() if received.startswith((b"{", b"<", b"[")) else EventDecoder()
        if isinstance(self._body, bytearray):
            self._body += received
        else:
            yield from self._read_deltas(self._body.feed(received))

    def end(self) -> Iterator[Delta]:
        """Yield the remaining deltas at the end of the body. An incomplete event is dropped."""
        if isinstance(self._body, bytearray):
            self.done = True
            yield read_answer(bytes(self._body))
            return
        if self._body is not None:
            with suppress(InvalidAnswerError):
                yield from self._read_deltas(self._body.finish())
        if not self._has_events:
            raise InvalidAnswerError("an empty stream")

    def _read_deltas(self, payloads: list[bytes]) -> Iterator[Delta]:
        for payload in payloads:
            if payload.startswith(b"[DONE]"):
                self.done = self._has_events = True
            if self.done:
                break
            if not payload or payload.isspace():
                continue
            self._has_events = True
            yield from (delta for delta in map(read_chunk, decode_chunks(payload)) if delta is not EMPTY)
