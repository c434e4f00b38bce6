"""One HTTP/1.1 connection of uvicorn, with limits for what a client sends: size and time of a head, requests that wait.

uvicorn has none: its parser in C collects headers without an end, a head may take for ever, and pipelined requests pile up
while nobody reads the answers before them. docs/adr/0048-limits-around-uvicorns-parser.md has the figures.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final

import httptools
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from modules.llm_platform.domain.callers.request_id import new_request_id
from modules.llm_platform.presentation import request_head
from modules.llm_platform.presentation.rest.http import problems
from shared.exceptions import status_phrase

HEAD_TIMEOUT_S = 8.0  # limit for the head of a request, from its first byte or from the start of the connection
HTTP_LINGER_S: Final = (
    2.0  # time for a client to read the answer: closing while it still sends would discard the answer
)
LINGER_MAX_BYTES: Final = 16 << 20  # discarded meanwhile
WRITE_TIMEOUT_S = 30.0  # longest time in which the client takes no byte
MAX_WAITING: Final = 8  # pipelined requests after the one that is answered


class HttpConnection(HttpToolsProtocol):
    """A connection with the parser of httptools.

    - A malformed, endless or slow head of a request gets a problem object, and its connection is closed.
    - An answer that begins before the body has arrived says `Connection: close`, and nothing is read as a request after it:
      otherwise a proxy and this server could disagree where the next request begins.
    - Reading pauses while a pipelined request waits. If more requests arrive than may wait, they are not read, and the
      connection is closed after the last answer. Clients repeat requests without an answer (RFC 9112, 9.3.2).
    - An offer to upgrade is declined (RFC 9110, 7.8): there is no other protocol. The parser would take the body of such a
      request, which Java's client sends with every POST, for that protocol. A new parser therefore gets the parsed head
      without the offer. The received bytes are never edited.
    - A client that takes no byte of an answer for WRITE_TIMEOUT_S is disconnected by the kernel, also after `close`.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _ignores_input = False  # set until the connection is closed
    _ignored_bytes = 0
    _last_cycle: RequestResponseCycle | None = None  # its response ends the connection
    _refusal: problems.RestError | None = None
    _headers_bytes = 0  # headers of the current request, trailers included
    _unparsed_bytes = 0  # received since the parser reported something: a header that does not end

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._asgi_app = self.app
        self.app = self._respond

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _PipelineFlow(self, transport)
        connection = transport.get_extra_info("socket")
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            with suppress(OSError):  # no TCP, for example a Unix socket
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(WRITE_TIMEOUT_S * 1000))
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self.pipeline.clear()
        self.app = self._asgi_app  # no request begins any more; the method would keep this connection alive
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            self._ignored_bytes += len(data)
            if self._ignored_bytes > LINGER_MAX_BYTES:
                self.transport.close()
            return
        self._unset_keepalive_if_required()
        self._unparsed_bytes += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._refuse(self._refusal or problems.BadRequestError())
            return
        if self._unparsed_bytes > request_head.MAX_HEADERS_BYTES:
            self._refuse(problems.HeadersTooLargeError())

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                head = self._remove_offer()
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # uvicorn does the same
                data = head + data[offer.args[0] :]
            else:
                return

    def _remove_offer(self) -> bytes:
        """Return the head that was parsed, without its Upgrade header. Raises HttpParserError for CONNECT."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            raise httptools.HttpParserError
        lines = [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        request_line = b"%b %b HTTP/%b" % (method, self.url, self.parser.get_http_version().encode())
        return b"\r\n".join([request_line, *lines, b"", b""])

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
        if self.parser.should_upgrade():
            return  # `_parse` begins anew without the offer
        if self._last_cycle is not None or len(self.pipeline) >= MAX_WAITING:
            self._stop_parser(problems.BadRequestError())
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        is_last = self._last_cycle is not None and self._last_cycle.response_complete
        if is_last:
            self.pipeline.clear()
        super().on_response_complete()
        if is_last:
            self._unset_keepalive_if_required()
            self._linger()

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application. A response that begins before the body has arrived, or is the last one, says that it is."""
        cycle: RequestResponseCycle = send.__self__  # type: ignore[attr-defined]

        async def send_closing(message: Message) -> None:
            if message["type"] != "http.response.start":
                await send(message)
                return
            if cycle.more_body:
                self._last_cycle = cycle
            if cycle is not self._last_cycle:
                await send(message)
                return
            await send({**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]})
            cycle.keep_alive = True  # lets `on_response_complete` close the connection, not uvicorn without lingering

        await self._asgi_app(scope, receive, send_closing)

    def _stop_parser(self, error: problems.RestError) -> None:
        """Make the parser fail, so that `data_received` refuses the request with this error."""
        self._refusal = error
        raise ValueError  # a bare error: the traceback of `error` would keep what was received

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
        """Send the error unless a response has started, read no further, and close the connection.

        Complete requests without a response are answered first. Then the error is not sent.
        """
        self._stop_head_timer()
        if self._ignores_input or self.transport.is_closing():
            return
        self._ignores_input = True
        if not self._is_responding():
            self.transport.write(_serialize_response(error))
            self._linger()
        elif self._last_cycle is None and (self.pipeline or not (self.cycle.more_body or self.cycle.response_started)):
            self._last_cycle = self.cycle
        elif self._last_cycle is None:
            if not self.cycle.response_started:
                self.transport.write(_serialize_response(error))
            self.transport.close()

    def _linger(self) -> None:
        """Close the connection. Until the client does so, too, discard its data for a while."""
        self._ignores_input = True
        self._stop_head_timer()
        if self.transport.is_closing():
            return
        if not self.transport.can_write_eof():  # TLS
            self.transport.close()
            return
        self.flow.resume_reading()
        self.transport.write_eof()
        self._head_timer = self.loop.call_later(HTTP_LINGER_S, self.transport.close)

    def _is_responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


class _PipelineFlow(FlowControl):
    """Does not resume reading while a pipelined request waits, although uvicorn resumes it after every response."""

    def __init__(self, connection: HttpConnection, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._pipeline = connection.pipeline

    def resume_reading(self) -> None:
        if not self._pipeline:
            super().resume_reading()


def _serialize_response(error: problems.RestError) -> bytes:
    request_id = new_request_id()
    response = problems.make_problem_response(error, {"path": "/", problems.REQUEST_ID: request_id})
    headers = [*response.raw_headers, (b"connection", b"close"), (b"x-request-id", request_id.encode())]
    status_line = f"HTTP/1.1 {error.status_code} {status_phrase(error.status_code)}\r\n".encode()
    return status_line + b"".join(b"%b: %b\r\n" % header for header in headers) + b"\r\n" + bytes(response.body)
