"""Opening for a host that mounts the application: Starlette runs the lifespan of the host alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import Context

from starlette.types import ASGIApp, Receive, Scope, Send

from modules.llm_platform.presentation.rest.http.server_state import ServerState

log = logging.getLogger(__name__)


class OpenAtFirstRequest:
    """ASGI middleware that enters `lifespan` before the first request, unless the application is open already.

    The lifespan ends with the host's shutdown if the host is a FastAPI application without a lifespan function of its own,
    and otherwise when the event loop ends. A host that passes `app.router.lifespan_context` on decides both itself.
    """

    def __init__(
        self, app: ASGIApp, lifespan: Callable[[], AbstractAsyncContextManager[None]], server: ServerState
    ) -> None:
        self._app = app
        self._lifespan = lifespan
        self._server = server
        self._opening: asyncio.Future[None] | None = None  # done when the application is open, or could not open
        self._open_task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._server.platform is None:
            await self._open(scope)
        await self._app(scope, receive, send)

    async def close(self) -> None:
        """Leave the lifespan if it was entered in this event loop."""
        if self._open_task is not None and self._open_task.get_loop() is asyncio.get_running_loop():
            self._closing.set()
            await asyncio.wait([self._open_task])

    async def _open(self, scope: Scope) -> None:
        """Wait until the application is open. An error is logged, and the request is then answered with 503."""
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening.done() or self._opening.get_loop() is not loop:
            self._opening = loop.create_future()
            self._closing = asyncio.Event()
            # The task outlives the request, so it inherits neither its cancellation nor its context variables.
            self._open_task = loop.create_task(self._stay_open(self._opening, self._closing), context=Context())
            # FastAPI calls these handlers when a host without a lifespan function of its own shuts down.
            shutdown_handlers = getattr(scope.get("router"), "on_shutdown", [])
            if self.close not in shutdown_handlers:
                shutdown_handlers.append(self.close)
        await asyncio.shield(self._opening)

    async def _stay_open(self, opening: asyncio.Future[None], closing: asyncio.Event) -> None:
        try:
            async with self._lifespan():
                opening.set_result(None)
                await closing.wait()
        except Exception:  # the outermost handler of the task
            log.exception("llm-platform could not open or close in the application that mounts it")
        finally:
            if not opening.done():
                opening.set_result(None)
