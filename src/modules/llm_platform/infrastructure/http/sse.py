"""Server-sent events from bytes in whatever pieces (WHATWG HTML, "Server-sent events"; only `data` matters here)."""

from __future__ import annotations


class EventDecoder:
    """Feed it bytes; it gives the data of each event that is complete. Lines may end in LF, CR or CRLF."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._after_cr = False

    def feed(self, received: bytes) -> list[bytes]:
        """The data of the events that these bytes complete, in order."""
        if b"\n" not in received and b"\r" not in received:
            self._line += received  # amortised, however small the pieces are
            return []
        lines = (bytes(self._line) + received).splitlines(keepends=True)
        self._line.clear()
        if not lines[-1].endswith((b"\n", b"\r")):
            self._line += lines.pop()
        return self._events(lines)

    def finish(self) -> list[bytes]:
        """The data of a last event that no blank line closed."""
        lines = [bytes(self._line), b"\n"] if self._line else [b"\n"]
        return self._events(lines)

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events = []
        for raw in lines:
            if raw == b"\n" and self._after_cr:  # the second half of a CRLF that came in two pieces
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
