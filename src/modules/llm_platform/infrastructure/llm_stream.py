"""From the bytes of a streamed answer to its pieces. Pure: the caller reads the network and keeps the time."""

from __future__ import annotations

from typing import Final

from modules.llm_platform.infrastructure.llm_answer import NOTHING, Piece, UnreadableAnswer, read_answer, read_chunk
from modules.llm_platform.infrastructure.sse import EventDecoder

MAX_BODY_BYTES: Final = 8 * 1024 * 1024  # a million characters, each written as an escape of six
MAX_STREAM_BYTES: Final = 48 * 1024 * 1024  # 131,072 chunks of one token with the protocol's words around each
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"
_DONE: Final = b"[DONE]"


class StreamReader:
    """Feed it what comes, tell it of the `end`. A service that answers with one plain JSON body is understood too.

    `done`: the service said that nothing follows. All methods raise what `read_answer` raises.
    """

    def __init__(self) -> None:
        self.done = False
        self._events = EventDecoder()
        self._bytes = 0
        self._told = False
        self._begun = False
        self._plain: bytearray | None = None

    def feed(self, received: bytes) -> list[Piece]:
        """The pieces that these bytes complete."""
        self._bytes += len(received)
        if self._bytes > (MAX_STREAM_BYTES if self._plain is None else MAX_BODY_BYTES):
            raise UnreadableAnswer("more bytes than any answer takes")
        if not self._begun:
            received = self._begin(received)
        if self._plain is not None:
            self._plain += received
            return []
        return self._pieces(self._events.feed(received)) if received else []

    def end(self) -> list[Piece]:
        """The pieces that only the end of the body completes; half an event is left out."""
        if self._plain is not None:
            self.done = True
            return [read_answer(bytes(self._plain))]
        try:
            pieces = self._pieces(self._events.finish())
        except UnreadableAnswer:
            pieces = []
        if not self._told:
            raise UnreadableAnswer("an empty stream")
        return pieces

    def _begin(self, received: bytes) -> bytes:
        """The bytes without leading blanks; the first that is none tells whether this is a stream or a plain body."""
        received = received.lstrip(_BLANK)
        self._begun = bool(received)
        if received.startswith((b"{", b"<", b"[")):
            self._plain = bytearray()
        return received

    def _pieces(self, payloads: list[bytes]) -> list[Piece]:
        pieces: list[Piece] = []
        for payload in payloads:
            if payload.startswith(_DONE):
                self.done = self._told = True
            if self.done:
                break
            if not payload or payload.isspace():
                continue
            self._told = True
            pieces += (piece for piece in _read(payload) if piece is not NOTHING)
        return pieces


def _read(payload: bytes) -> list[Piece]:
    """One chunk; several where a service forgets the blank line between its events."""
    try:
        return [read_chunk(payload)]
    except UnreadableAnswer:
        if b"\n" not in payload:
            raise
        return [read_chunk(line) for line in payload.split(b"\n")]
