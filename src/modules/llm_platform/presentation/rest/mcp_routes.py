"""Serve MCP over streamable HTTP at /mcp (docs/reference/mcp.md), with the access, limits and admission of other routes.

A session serves only to cancel a call by a notification. A request with a session that this process does not have, such as one
of another replica or from before a restart, is answered without a session. If the client has ended the session, it is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import Context
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import ValidationError
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse
from modules.llm_platform.presentation.mcp.calls import Call
from modules.llm_platform.presentation.rest.http import problems
from modules.llm_platform.presentation.rest.http.access import HEADERS
from modules.llm_platform.presentation.rest.http.body import MAX_BODY_BYTES, parse_object, receive_body, require_json
from modules.llm_platform.presentation.rest.http.middleware import COUNT_REQUEST
from modules.llm_platform.presentation.rest.http.request_scope import ANSWER, CALLER, ERROR
from modules.llm_platform.presentation.rest.http.server_state import ServerState
from shared.exceptions import AppException
from shared.logging import bind_request_id

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from modules.llm_platform.application.platform import LLMPlatform

PATH: Final = "/mcp"
METHODS: Final = ("POST", "DELETE")  # no GET: the server sends nothing outside of responses
SESSION_IDLE_S: Final = 30 * 60.0
MAX_SESSIONS: Final = 1000
SESSIONS: Final = "mcp-session:"  # what the limiter calls the sessions of a caller
CLOSED: Final = "llm_platform.mcp_closed"  # key in the ASGI scope: an event, set when the response has ended
SDK_MODULES: Final = (
    "mcp.server.streamable_http_manager",
    "mcp.server.auth.provider",
    "modules.llm_platform.presentation.mcp.server",
)


class _Managers(NamedTuple):
    """The two transports of the SDK around one MCP server."""

    with_sessions: StreamableHTTPSessionManager
    without: StreamableHTTPSessionManager


class McpEndpoint:
    """The ASGI application of /mcp. The SDK is imported at the first request: it takes half a second and 25 MB.

    - `owns_all_reports` is True if the server has one caller, so that all stored reports are its own.
    - `is_mounted` is True if a host owns the process.
    """

    def __init__(self, server: ServerState, *, owns_all_reports: bool, is_mounted: bool = False) -> None:
        self._server = server
        self._is_mounted = is_mounted
        self._owns_all_reports = owns_all_reports
        self._is_installed = find_spec("mcp") is not None
        self._starting: asyncio.Future[_Managers] | None = None
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ended: deque[bytes] = deque(maxlen=MAX_SESSIONS)  # ids of sessions that their clients ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_installed:
            raise problems.NoMcpError
        body, message = b"", {}
        if scope["method"] == "POST":
            body = await receive_body(receive, scope[HEADERS])
            require_json(scope[HEADERS])
            message = parse_object(body)
        if self._starting is None:
            self._starting = starting = asyncio.get_running_loop().create_future()
            # In a context of its own: sessions outlive the request that starts this.
            self._task = asyncio.create_task(self._run(starting), context=Context())
            self._task.add_done_callback(lambda done: _fail(starting, done))
        managers = await asyncio.shield(self._starting)
        if message:
            # Raise InvalidRequestError for what is not a message of JSON-RPC. The SDK's error would repeat parts of it.
            from mcp.types import jsonrpc_message_adapter

            try:
                jsonrpc_message_adapter.validate_python(message, by_name=False)
            except ValidationError:
                errors = [{"loc": ["body"], "msg": "is not a JSON-RPC 2.0 message", "type": "jsonrpc"}]
                raise problems.InvalidRequestError(errors) from None
        scope[CLOSED] = closed = asyncio.Event()
        session = next((value for name, value in scope["headers"] if name == b"mcp-session-id"), None)
        attempt = _Attempt(send, 503 if session is None else 404)  # unknown session; too many sessions
        try:
            if session in self._ended:
                await managers.with_sessions.handle_request(_add_owner(scope), _replay(body, receive), send)  # 404
            elif message.get("method") == "initialize" and not await self._may_open_session(scope[CALLER].id):
                attempt.has_no_session = True
            else:
                await managers.with_sessions.handle_request(_add_owner(scope), _replay(body, receive), attempt)
            if scope["method"] == "DELETE" and session is not None and not attempt.has_no_session:
                self._ended.append(session)
            if attempt.has_no_session:
                await managers.without.handle_request(scope, _replay(body, receive), send)
        finally:
            closed.set()

    async def aclose(self) -> None:
        """End all sessions and their calls."""
        task, self._task, self._starting = self._task, None, None
        if task is not None:
            self._stopping.set()
            await task
            self._stopping.clear()

    async def _may_open_session(self, caller: str) -> bool:
        """Return whether the caller is within the limit of a client, which is counted for sessions alone.

        Otherwise one client could take all sessions: the messages of a handshake do not count as calls.
        """
        limiter = self._server.rate_limiter
        return limiter is None or (await limiter.take(SESSIONS + caller, counts_for_all=False)).exceeded is None

    async def _run(self, starting: asyncio.Future[_Managers]) -> None:
        """Run the transports until `aclose`, in one task as the SDK requires."""
        for name in SDK_MODULES:
            await asyncio.to_thread(import_module, name)
        if not self._is_mounted:
            from sse_starlette.sse import AppStatus

            # It would cut off all answers at once, and this server drains by itself.
            AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]
        managers = self._build()
        async with AsyncExitStack() as stack:
            for manager in managers:
                await stack.enter_async_context(manager.run())
            starting.set_result(managers)
            await self._stopping.wait()

    def _build(self) -> _Managers:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from modules.llm_platform.presentation.mcp.server import build_mcp_server

        server = build_mcp_server(self._platform, partial(_HttpCall, self._server, self._owns_all_reports))
        manager = partial(StreamableHTTPSessionManager, server, max_request_body_size=MAX_BODY_BYTES)
        # No `security_settings`: GuardMiddleware has checked Host and Origin.
        return _Managers(
            manager(session_idle_timeout=SESSION_IDLE_S, max_sessions=MAX_SESSIONS), manager(stateless=True)
        )

    def _platform(self) -> LLMPlatform:
        if self._server.platform is None:
            raise problems.NotServingError
        return self._server.platform


def make_mcp_route(endpoint: McpEndpoint) -> Route:
    """Return the route. It is not in the OpenAPI document, which cannot describe MCP."""
    return Route(PATH, endpoint, methods=METHODS, include_in_schema=False)


class _HttpCall(Call):
    """A call over HTTP, by the caller of its request."""

    def __init__(self, server: ServerState, owns_all_reports: bool, request: Request) -> None:
        self._server = server
        self._scope = request.scope
        self.owner = request.scope[CALLER].id
        self.request_id = request.scope[problems.REQUEST_ID]
        self.closed = request.scope[CLOSED]
        self.owns_all_reports = owns_all_reports

    async def start(self) -> None:
        # A session runs in the context of the request that opened it: a request of the same caller, with another id.
        bind_request_id(self._scope[problems.REQUEST_ID]).__enter__()
        await self._scope[COUNT_REQUEST]()

    async def start_reading(self) -> None:
        bind_request_id(self._scope[problems.REQUEST_ID]).__enter__()
        await self._scope[COUNT_REQUEST](only_reads=True)

    def research_slot(self) -> AbstractAsyncContextManager[None]:
        return self._server.researches.slot()

    def answered(self, answer: ResearchResponse | WebSearchResponse) -> None:
        self._scope[ANSWER] = answer

    def failed(self, error: AppException) -> None:
        self._scope[ERROR] = error.code


class _Attempt:
    """An ASGI `send` that drops a response with the status which says that there is no session."""

    def __init__(self, send: Send, no_session: int) -> None:
        self._send = send
        self._no_session = no_session
        self.has_no_session = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == self._no_session:
            self.has_no_session = True
        if not self.has_no_session:
            await self._send(message)


def _fail(starting: asyncio.Future[_Managers], done: asyncio.Task[None]) -> None:
    if not starting.done():
        starting.set_exception(
            problems.NotServingError() if done.cancelled() else done.exception() or problems.NotServingError()
        )


def _add_owner(scope: Scope) -> Scope:
    """Return the scope with the caller as the SDK's user: a session belongs to the caller who opened it."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    if owner := scope[CALLER].id:
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=owner, scopes=[]))
    return scope


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` that has this body, then what follows it."""
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
