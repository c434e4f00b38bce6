"""Decodes server-sent events from chunks of bytes (WHATWG HTML, "Server-sent events"); only `data` is read."""

from __future__ import annotations


class EventDecoder:
    """Returns the data of each complete event. Lines may end in LF, CR or CRLF."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._after_cr = False

    def feed(self, received: bytes) -> list[bytes]:
        """The data of the events that these bytes complete, in order."""
        if b"\n" not in received and b"\r" not in received:
            self._line += received  # amortised, however small the chunks are
            return []
        lines = (bytes(self._line) + received).splitlines(keepends=True)
        self._line.clear()
        if not lines[-1].endswith((b"\n", b"\r")):
            self._line += lines.pop()
        return self._events(lines)

    def finish(self) -> list[bytes]:
        """The data of a last event without a blank line behind it."""
        lines = [bytes(self._line), b"\n"] if self._line else [b"\n"]
        return self._events(lines)

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events = []
        for raw in lines:
            if raw == b"\n" and self._after_cr:  # the second half of a CRLF that was split between two chunks
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
