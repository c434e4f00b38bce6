"""One HTTP/1.1 connection of uvicorn, with limits of size and time for the head of a request.

uvicorn has neither: its parser in C collects headers without an end, and a head may take for ever.
"""

import asyncio
import re
from http import HTTPStatus
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from modules.llm_platform.domain.request_id import new_request_id
from modules.llm_platform.presentation import request_head
from modules.llm_platform.presentation.rest.http import problems

HEAD_TIMEOUT_S = 8.0  # for the head of a request, from its first byte or from the start of the connection
LINGER_S: Final = 1.0  # for a refused client to read the error: closing while it still sends would discard the error
_UPGRADE_HEADER = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


class HttpConnection(HttpToolsProtocol):
    """A connection with the parser of httptools. A malformed, endless or slow head of a request gets a problem object, and its
    connection is closed.

    An Upgrade header is removed (RFC 9110, 7.8): there is no other protocol, and the parser would read the body of such a
    request, which Java's client sends with every POST, as that protocol.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _is_refused = False
    _refusal: problems.RestError | None = None
    _headers_bytes = 0  # of the current request, trailers included
    _unparsed_bytes = 0  # received since the parser reported something: a header that does not end

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if b"pgrade" in data and not self._is_responding():
            head, end, body = data.partition(b"\r\n\r\n")
            data = _UPGRADE_HEADER.sub(b"", head) + end + body
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._unparsed_bytes > request_head.MAX_HEADERS_BYTES:
            self._refuse(problems.HeadersTooLargeError())

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or problems.BadRequestError())

    def on_message_begin(self) -> None:
        self._headers_bytes = 0
        self._start_head_timer()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._unparsed_bytes = 0
        if len(self.url) + len(url) > request_head.MAX_ADDRESS_BYTES:
            self._stop_parser(problems.AddressTooLongError())
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._unparsed_bytes = 0
        self._headers_bytes += len(name) + len(value) + request_head.HEADER_SEPARATORS_BYTES
        if self._headers_bytes > request_head.MAX_HEADERS_BYTES or len(self.headers) >= request_head.MAX_HEADERS:
            self._stop_parser(problems.HeadersTooLargeError())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unparsed_bytes = 0
        self._stop_head_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        super().on_body(body)

    def _stop_parser(self, error: problems.RestError) -> None:
        """Make the parser fail, so that uvicorn calls `send_400_response`."""
        self._refusal = error
        raise ValueError  # not `error`, whose traceback would keep what was received

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._on_head_timeout)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        self._head_timer = None
        if self.headers is None:  # no byte of a request has arrived: browsers open connections in advance
            self.transport.close()
        elif self._is_responding():
            self._start_head_timer()  # the next request waits for the current response
        else:
            self._refuse(problems.HeadTimeoutError())

    def _refuse(self, error: problems.RestError) -> None:
        """Send the error unless a response has started, read no further, and close the connection."""
        self._stop_head_timer()
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        if not self._is_responding() or not self.cycle.response_started:
            self.transport.write(_serialized_response(error))
        if self._is_responding() or not self.transport.can_write_eof():
            self.transport.close()
        else:
            self.transport.write_eof()
            self._head_timer = self.loop.call_later(LINGER_S, self.transport.close)

    def _is_responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def _serialized_response(error: problems.RestError) -> bytes:
    request_id = new_request_id()
    response = problems.problem_response(error, {"path": "/", problems.REQUEST_ID: request_id})
    headers = [*response.raw_headers, (b"connection", b"close"), (b"x-request-id", request_id.encode())]
    status_line = f"HTTP/1.1 {error.status_code} {HTTPStatus(error.status_code).phrase}\r\n".encode()
    return status_line + b"".join(b"%b: %b\r\n" % header for header in headers) + b"\r\n" + bytes(response.body)
