"""Guard all routes: request id, access checks, error responses, redaction, and one log line for each request.

The middleware is pure ASGI with one pass over the headers, because it runs for every request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Protocol, Self

from fastapi import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from modules.llm_platform.domain.callers.api_key_label import set_api_key_label
from modules.llm_platform.domain.callers.current_caller import set_current_caller
from modules.llm_platform.domain.callers.request_id import is_request_id, new_request_id
from modules.llm_platform.domain.concurrency.page_allowance import set_page_charge
from modules.llm_platform.domain.ports.metrics import NO_METRICS
from modules.llm_platform.domain.ports.rate_limiter import RateLimitDecision
from modules.llm_platform.domain.telemetry.metrics import RATE_LIMIT_DECISIONS
from modules.llm_platform.presentation.rest.http import access as http_access
from modules.llm_platform.presentation.rest.http import problems, rate_limits
from modules.llm_platform.presentation.rest.http.request_log import CLIENT_CLOSED, RequestLog
from modules.llm_platform.presentation.rest.http.request_scope import ADD_HEADERS, ANSWER, CALLER, ERROR, KNOW, SERVER
from modules.llm_platform.presentation.rest.http.server_state import ServerState
from shared.exceptions import AppException
from shared.logging import bind_request_id

# The value of this key in the ASGI scope sends an error after the response began.
STREAM_ERROR_HANDLER = "llm_platform.stream_error_handler"
# The value of this key in the ASGI scope counts the request for the limits. Routes of COUNTED_BY_ROUTE call it, and routes of
# `read_paths` call it before they do more than search and read.
COUNT_REQUEST = "llm_platform.count_request"
# These values of the scope refer back to the request. They are removed at its end: the server keeps the scope until the next
# request of the connection, and the reference cycle would keep the answer in memory until a later garbage collection.
LEADS_BACK: Final = (ADD_HEADERS, ANSWER, COUNT_REQUEST, KNOW, STREAM_ERROR_HANDLER)
COUNTED_AS = "llm_platform.counted_as"  # The value of this key in the ASGI scope is RUN or READ.
RUN, READ = "run", "read"
READ_HEADERS = frozenset(
    b"accept access-control-request-method authorization content-encoding content-length content-type expect host "
    b"idempotency-key last-event-id origin sec-fetch-mode sec-fetch-site x-api-key x-request-id x-respond-with "
    b"x-return-format x-verify".split()
)
FORWARDED_HEADERS = frozenset((b"x-forwarded-for",))  # These are read only if there are trusted proxies.
JOINED_HEADERS = (b"accept", b"x-forwarded-for")  # All values of a repeated header count.
LIST_HEADERS = frozenset((*JOINED_HEADERS, b"x-request-id"))  # Any other repeated header is refused.
SECURITY_HEADERS = (  # All responses have these, unless the route sets its own.
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
WRONG_KEY = "wrong-key:"  # The limiter counts wrong API keys under this prefix and the address.
EXPOSED_HEADERS = (
    b"X-Request-ID, X-Evidence, X-Ignored-Fields, Location, Retry-After, RateLimit, RateLimit-Policy, Mcp-Session-Id"
)
ALLOWED_HEADERS = (
    b"Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, Mcp-Session-Id, X-API-Key, "
    b"X-Request-ID, X-Verify"
)
MAX_SENT_SECRET_BYTES = 4096  # Longer secrets are not found if two parts of a body divide them.
NO_APIS: Mapping[str, http_access.CompatibleApi] = {}


class Redacts(Protocol):
    """Redacts configured secrets."""

    def data(self, data: bytes, /) -> bytes: ...

    def exclude_known(self, *sent: bytes) -> Self: ...


class GuardMiddleware:
    """ASGI middleware. Raises into the server only if a response without an error handler fails after it began."""

    def __init__(
        self,
        app: ASGIApp,
        access: http_access.Access,
        addresses: rate_limits.ClientAddresses,
        server: ServerState,
        redactor: Redacts | None,
        request_log: RequestLog,
        compatible_apis: Mapping[str, http_access.CompatibleApi] = NO_APIS,
        local_programs: rate_limits.LocalPrograms | None = None,
    ) -> None:
        self._app = app
        self._access = access
        self._addresses = addresses
        self._local_programs = local_programs
        self._server = server
        self._redactor = redactor
        self._request_log = request_log
        self._compatible_apis = compatible_apis
        self._read_paths = http_access.READ_PATHS.union(*(api.read_paths for api in compatible_apis.values()))
        self._policy: rate_limits.Header | None = None
        self._wrong_keys = rate_limits.WrongKeyLimit()
        self._retries = rate_limits.RetrySchedule()
        key_headers = sorted({api.key_header for api in compatible_apis.values() if api.key_header})
        forwarded = FORWARDED_HEADERS if addresses.reads_forwarded else frozenset()
        self._read_headers = READ_HEADERS.union(key_headers, forwarded)
        self._allowed_headers = b", ".join([ALLOWED_HEADERS, *key_headers])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received = [header for header in scope["headers"] if header[0] in self._read_headers]
        scope[http_access.HEADERS] = headers = dict(received)
        scope[problems.REQUEST_ID] = request_id = _request_id(headers.get(b"x-request-id"))
        origin = headers.get(b"origin")
        origin = origin if self._access.allows_origin(origin) else None
        sender = _Sender(
            _omit_body(send) if scope["method"] == "HEAD" else send,
            request_id,
            origin,
            self._allowed_headers,
            self._redactor,
        )
        if self._redactor is not None:
            sender.know(
                scope["path"].encode(errors="replace"), scope["query_string"].replace(b"+", b" "), request_id.encode()
            )
            receive = sender.wrap_receive(receive)
        scope[KNOW], scope[ADD_HEADERS] = sender.know, sender.add_headers
        scope[SERVER] = self._server
        began = self._request_log.started(scope)
        running = self._server.requests.add()
        with bind_request_id(request_id):
            try:
                if len(received) != len(headers):
                    _join_repeated(headers, received)
                await self._handle(scope, headers, receive, sender)
            except problems.ClientDisconnectedError:
                return
            except HTTPException:
                # A dependency of the host raised it. The application translates its own.
                raise
            except asyncio.CancelledError:
                if not running.accept_interruption() or not await _send_error(
                    problems.StoppingError(), scope, receive, sender
                ):
                    raise
            except Exception as error:
                # This is the outermost handler of a request.
                if not await _send_error(error, scope, receive, sender):
                    raise
            finally:
                self._server.requests.remove(running)
                self._request_log.finished(scope, sender.status, began)
                for name in LEADS_BACK:
                    scope.pop(name, None)

    async def _handle(self, scope: Scope, headers: http_access.Headers, receive: Receive, sender: _Sender) -> None:
        path = http_access.get_route_path(scope)
        api = self._compatible_apis.get(http_access.get_first_segment(path))
        if api is not None:
            scope[problems.ERROR_FORMAT] = api.format_error
            sender.request_id_header = api.request_id_header
        if sender.origin is not None and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            self._access.check_origin(path, headers)
            await Response(status_code=204)(scope, receive, sender)
            return
        key = headers.get(api.key_header, b"") if api is not None else b""
        try:
            if not key and api is not None and api.find_key and self._access.needs_key:
                self._access.check_origin(path, headers)
                # The address is the caller until the key in the body is known.
                set_current_caller(self._address(scope, headers))
                key, receive = await api.find_key(scope, headers, receive)
            scope[CALLER] = caller = self._access.check(path, headers, key)
        except (problems.UnauthorizedError, problems.BodyTooLargeError, problems.BodyTimeoutError):
            if not http_access.asks_for_challenge(path, headers):
                await self._count_wrong_key(self._address(scope, headers))
            raise
        if caller.id:
            self._wrong_keys.check(self._address(scope, headers), caller.id)
        set_api_key_label(caller.label)
        set_current_caller(caller.id or self._address(scope, headers))
        set_page_charge(partial(self._charge, scope, headers, caller))
        if not self._server.is_ready and path not in http_access.PROBE_PATHS:
            raise problems.NotServingError
        scope[COUNT_REQUEST] = partial(self._count, scope, headers, caller, sender)
        if http_access.is_limited(path):
            # Such a request searches, extracts, or reads what is stored. A route that does more counts that itself.
            only_reads = scope["method"] in ("GET", "HEAD") or path in self._read_paths
            await self._count(scope, headers, caller, sender, only_reads=only_reads)
        if scope["method"] == "HEAD":
            await _answer_as_get(self._app, scope, receive, sender)
        else:
            await self._app(scope, receive, sender)

    async def _count(
        self,
        scope: Scope,
        headers: http_access.Headers,
        caller: http_access.Caller,
        sender: _Sender,
        *,
        only_reads: bool = False,
    ) -> None:
        """Count the request for its API key, or for its address if no keys are set. Raises RateLimitedError.

        `only_reads` is True if the request searches or reads. With an API key, such requests have a limit of their own.
        """
        limiter = self._server.rate_limiter
        if limiter is None or (
            sender.origin is None and self._local_programs and self._local_programs.have_sent(scope)
        ):
            return
        scope[http_access.IS_LIMITED] = True
        if scope.get(COUNTED_AS) == RUN and not only_reads:
            return
        client = caller.id or self._address(scope, headers)
        decision = await limiter.take(client, only_reads=only_reads and bool(caller.id))
        self._policy = self._policy or rate_limits.make_policy_header(limiter.limits)
        sender.add_headers(self._policy, rate_limits.rate_limit_header(decision))
        self._count_decision(decision)
        is_read = decision.client is not None and decision.client.limit == limiter.limits.reads
        scope[COUNTED_AS] = READ if is_read else RUN
        if (exceeded := decision.exceeded) is not None:
            raise problems.RateLimitedError(exceeded, self._retries.wait_s(client, exceeded))

    async def _charge(self, scope: Scope, headers: http_access.Headers, caller: http_access.Caller) -> float:
        """Count one more request for the pages that a counted request reads, as a `Charge` of the page allowance."""
        limiter = self._server.rate_limiter
        if limiter is None or not scope.get(http_access.IS_LIMITED):
            return 0.0
        client = caller.id or self._address(scope, headers)
        decision = await limiter.take(client, only_reads=scope.get(COUNTED_AS) == READ)
        self._count_decision(decision)
        return decision.exceeded.next_s if decision.exceeded is not None else 0.0

    async def _count_wrong_key(self, address: str) -> None:
        """Count a request for its address alone. It has no valid key, or its body was refused in the search for one.

        Raises RateLimitedError.
        """
        limiter = self._server.rate_limiter
        if limiter is None:
            return
        decision = await limiter.take(f"{WRONG_KEY}{address}", counts_for_all=False)
        if decision.exceeded is not None:
            self._count_decision(decision)
            raise self._wrong_keys.refuse(address, decision.exceeded)

    def _address(self, scope: Scope, headers: http_access.Headers) -> str:
        peer = scope.get("client") or ("",)
        return self._addresses.identify(peer[0], headers.get(b"x-forwarded-for", b""))

    def _count_decision(self, decision: RateLimitDecision) -> None:
        platform = self._server.platform
        metrics = platform.metrics if platform else NO_METRICS
        for state in (decision.client, decision.server):
            if state is not None:
                metrics.count(RATE_LIMIT_DECISIONS, state.limit.name, "refused" if state.is_exceeded else "allowed")


def _join_repeated(headers: dict[bytes, bytes], received: Sequence[rate_limits.Header]) -> None:
    """Join the headers that are lists. Raises BadRequestError for others that were sent more than once.

    A repeated Host or Origin is refused because two readers of the request could choose different values.
    """
    names = [name for name, _ in received]
    if any(names.count(name) > 1 for name in headers.keys() - LIST_HEADERS):
        raise problems.BadRequestError("A header that must not be repeated was sent more than once.")
    for repeated in JOINED_HEADERS:
        if repeated in headers:
            headers[repeated] = b", ".join(value for name, value in received if name == repeated)


async def _answer_as_get(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer HEAD as the GET routes of FastAPI do not: health checks and link checkers send it.

    The application gets a copy of the scope, because the server reads the method of its own one when it sends.
    """
    routed = {**scope, "method": "GET"}
    try:
        await app(routed, receive, send)
    finally:
        scope.update((name, value) for name, value in routed.items() if name not in scope)


def _omit_body(send: Send) -> Send:
    """Return a `send` that ends the response after its head, so that a stream ends there too."""

    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return send_head


async def _send_error(error: Exception, scope: Scope, receive: Receive, sender: _Sender) -> bool:
    """Send the error as the response or as the last event of a stream. Return False if that is no longer possible."""
    scope[ERROR] = error.code if isinstance(error, AppException) else problems.InternalError.code
    if not sender.has_started:
        await problems.make_problem_response(problems.to_app_exception(error), scope)(scope, receive, sender)
        return True
    if STREAM_ERROR_HANDLER in scope and not sender.is_complete:
        await scope[STREAM_ERROR_HANDLER](problems.to_app_exception(error))
        return True
    return sender.is_complete


def _request_id(sent: bytes | None) -> str:
    """Return the id that the client sent if it is valid, or a random one."""
    text = (sent or b"").decode("latin-1")
    return text if is_request_id(text) else new_request_id()


class _Sender:
    """An ASGI `send` that adds headers and redacts secrets, except those that the client sent in this request.

    With a redactor, the head is sent together with the first part of the body, whose length may change.
    """

    def __init__(
        self, send: Send, request_id: str, origin: bytes | None, allowed_headers: bytes, redactor: Redacts | None
    ) -> None:
        self._send = send
        self._allowed_headers = allowed_headers
        self._redactor = redactor
        self._request_id = request_id.encode("ascii")
        self._delayed_head: Message | None = None
        self._added: list[rate_limits.Header] = []
        self.request_id_header = b""  # This header has the request id, too.
        self.origin = origin
        self.has_started = False
        self.status = CLIENT_CLOSED  # The status changes when a response begins.
        self.is_complete = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._add_headers(message)
            if self._redactor is not None:
                self._delayed_head = message
                return
            self.has_started = True
        else:
            if self._redactor is not None:
                await self._redact(self._redactor, message)
            self.is_complete = not message.get("more_body", False)
        await self._send(message)

    def know(self, *sent: bytes) -> None:
        """Exempt secrets that the client sent itself from redaction, which would otherwise confirm a guess."""
        if self._redactor is not None:
            self._redactor = self._redactor.exclude_known(*sent)

    def wrap_receive(self, receive: Receive) -> Receive:
        """Return a `receive` that passes the body to `know`."""
        end = b""

        async def known() -> Message:
            nonlocal end
            message = await receive()
            if body := message.get("body", b""):
                self.know(end + body)
                end = (end + body)[-MAX_SENT_SECRET_BYTES:]
            return message

        return known

    def add_headers(self, *headers: rate_limits.Header | None) -> None:
        """Add headers to the response. They replace headers with the same names."""
        added = dict(self._added) | dict(header for header in headers if header is not None)
        self._added = list(added.items())

    async def _redact(self, redactor: Redacts, message: Message) -> None:
        body = message.get("body", b"")
        redacted = redactor.data(body)
        head, self._delayed_head = self._delayed_head, None
        if head is not None:
            if len(redacted) != len(body):
                length = str(len(redacted)).encode()
                head["headers"] = [
                    (name, length if name.lower() == b"content-length" else value) for name, value in head["headers"]
                ]
            self.has_started = True
            await self._send(head)
        message["body"] = redacted

    def _add_headers(self, message: Message) -> None:
        headers = [*message.get("headers", ()), (b"x-request-id", self._request_id), *self._added]
        if self.request_id_header:
            headers.append((self.request_id_header, self._request_id))
        present = {name for name, _ in headers}
        headers += [header for header in SECURITY_HEADERS if header[0] not in present]
        if self.origin is not None:
            headers += [
                (b"access-control-allow-origin", self.origin),
                (b"access-control-expose-headers", EXPOSED_HEADERS),
                (b"access-control-allow-methods", b"GET, POST, PATCH, DELETE"),
                (b"access-control-allow-headers", self._allowed_headers),
                (b"access-control-max-age", b"600"),
                (b"vary", b"Origin"),
            ]
        message["headers"] = headers
