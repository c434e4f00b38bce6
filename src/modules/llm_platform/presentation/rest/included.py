"""The routes of research, verification and search for an application that includes them, on a platform that it has opened."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.presentation.rest import (
    document_routes,
    options_routes,
    research_job_routes,
    research_routes,
    search_routes,
    thread_routes,
    verify_routes,
    watch_routes,
)
from modules.llm_platform.presentation.rest.http import problems
from modules.llm_platform.presentation.rest.http.access import HostDecides
from modules.llm_platform.presentation.rest.http.body import make_field_errors
from modules.llm_platform.presentation.rest.http.middleware import GuardMiddleware
from modules.llm_platform.presentation.rest.http.rate_limits import ClientAddresses
from modules.llm_platform.presentation.rest.http.request_log import RequestLog
from modules.llm_platform.presentation.rest.http.server_state import ServerState
from shared.config import Settings

ROUTERS = (
    options_routes.router,
    document_routes.router,
    research_routes.router,
    research_job_routes.router,
    thread_routes.router,
    search_routes.router,
    verify_routes.router,
    watch_routes.router,
)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def research_router(platform: LLMPlatform) -> APIRouter:
    """Return the routes of research, verification and search for `app.include_router`. The host opens and closes the platform.

    Errors are `application/problem+json`. Who may call, how often, and from which sites is up to the host.
    """
    server = IncludedServer(platform, Settings.model_fields["MAX_CONCURRENT_RESEARCHES"].default)
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    request_log = RequestLog(server, routes, quiet=frozenset(), log_queries=False)

    class GuardedRoute(APIRoute):
        """A route whose requests pass the middleware of the application: a host has another one."""

        def get_route_handler(self) -> Handler:
            handle = super().get_route_handler()
            guarded = GuardMiddleware(
                _as_application(handle),
                HostDecides(),
                ClientAddresses(()),
                server,
                redactor=None,
                request_log=request_log,
            )

            async def respond(request: Request) -> Response:
                server.start_background_runs()
                return _ApplicationResponse(guarded)

            return respond

    included = APIRouter(route_class=GuardedRoute)
    for route in routes:
        included.add_api_route(
            route.path,
            route.endpoint,
            name=route.name,
            methods=list(route.methods or ()),
            summary=route.summary,
            description=route.description,
            tags=route.tags,
            status_code=route.status_code,
            response_model=route.response_model,
            response_class=route.response_class,
            responses=route.responses,
            openapi_extra=route.openapi_extra,
            include_in_schema=route.include_in_schema,
        )
        if "GET" in (route.methods or ()):
            # HEAD is answered by the middleware. Its own route keeps it out of the host's OpenAPI document.
            included.add_api_route(
                route.path, route.endpoint, methods=["HEAD"], response_model=None, include_in_schema=False
            )
    return included


class IncludedServer(ServerState):
    """State of the included routes. The limits on requests are the host's."""

    def __init__(self, platform: LLMPlatform, max_researches: int) -> None:
        super().__init__(platform, max_researches)
        self._runs_in_background = False

    @property
    def rate_limiter(self) -> None:
        return None

    def start_background_runs(self) -> None:
        """Run queued research runs from the first request on: a platform has no event loop before."""
        if not self._runs_in_background and self.platform is not None:
            self._runs_in_background = True
            self.platform.research_jobs.start()
            self.platform.watches.start()


class _ApplicationResponse(Response):
    """A response that an ASGI application sends."""

    def __init__(self, application: GuardMiddleware) -> None:
        super().__init__()
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)


def _as_application(handle: Handler) -> Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await handle(Request(scope, receive, send))
        except RequestValidationError as error:
            raise problems.InvalidRequestError(make_field_errors(error.errors())) from None
        await response(scope, receive, send)

    return application
