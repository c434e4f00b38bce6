"""HTTP/1.1 as uvicorn speaks it, with three words of our own.

What cannot be read as HTTP is refused as a problem, like every other error. A head that does not come to its end is not
waited for. And an offer to upgrade is passed over (RFC 9110, 7.8): there is nothing to upgrade to, and the parser would
take the body of such a request (Java's client sends one with every POST) for the other protocol's first bytes.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from modules.llm_platform.presentation.rest.errors import BadRequestError, HeadTimeoutError, RestError
from modules.llm_platform.presentation.rest.problems import REQUEST_ID, problem_response

HEAD_TIMEOUT_S = 8.0  # from the first byte of a request, or from the connection's beginning, to the end of its head
_UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


class Wire(HttpToolsProtocol):
    """One connection."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if b"pgrade" in data and not self._is_answering():
            head, end, body = data.partition(b"\r\n\r\n")
            data = _UPGRADE.sub(b"", head) + end + body
        super().data_received(data)

    def on_message_begin(self) -> None:
        if self._waiting is None:
            self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._wait_no_longer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadRequestError())

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEAD_TIMEOUT_S, self._give_up)

    def _wait_no_longer(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if self.headers is None:  # not a word so far: browsers open connections ahead of need
            self.transport.close()
        elif self._is_answering():
            self._wait()  # an answer is under way; what was begun behind it can wait as long
        else:
            self._refuse(HeadTimeoutError())

    def _refuse(self, error: RestError) -> None:
        """The last word on this connection; none where an answer is half-way out."""
        self._wait_no_longer()
        if self.transport.is_closing():
            return
        if not self._is_answering() or not self.cycle.response_started:
            self.transport.write(_as_bytes(error))
        self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def _as_bytes(error: RestError) -> bytes:
    name = uuid.uuid4().hex
    answer = problem_response(error, {"path": "/", REQUEST_ID: name})
    lines = [*answer.raw_headers, (b"connection", b"close"), (b"x-request-id", name.encode())]
    status = f"HTTP/1.1 {error.status_code} {HTTPStatus(error.status_code).phrase}\r\n".encode()
    return status + b"".join(b"%b: %b\r\n" % line for line in lines) + b"\r\n" + bytes(answer.body)
