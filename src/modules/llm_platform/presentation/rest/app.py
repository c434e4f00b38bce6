"""The HTTP application: routes, middleware and errors around one platform."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, NoReturn

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.domain.concurrency.page_allowance import Charge
from modules.llm_platform.domain.ports.watch_store import WatchSelection
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.presentation.rest import chat_routes, docs_routes, health_routes, included
from modules.llm_platform.presentation.rest.compat.table import DIALECT_OF_PREFIX, DIALECTS
from modules.llm_platform.presentation.rest.examples import add_examples
from modules.llm_platform.presentation.rest.http import problems
from modules.llm_platform.presentation.rest.http.access import PROBE_PATHS, AccessPolicy
from modules.llm_platform.presentation.rest.http.body import make_field_errors
from modules.llm_platform.presentation.rest.http.middleware import GuardMiddleware
from modules.llm_platform.presentation.rest.http.openapi import make_openapi_document
from modules.llm_platform.presentation.rest.http.opening import OpenAtFirstRequest
from modules.llm_platform.presentation.rest.http.rate_limits import (
    ClientAddresses,
    LocalPrograms,
    charge_background_pages,
)
from modules.llm_platform.presentation.rest.http.request_log import RequestLog
from modules.llm_platform.presentation.rest.http.server_state import ServerState
from modules.llm_platform.presentation.rest.http.shutdown import drain_on_signals, find_uvicorn_server
from modules.llm_platform.presentation.rest.mcp_routes import McpEndpoint, make_mcp_route
from shared.config import Settings

log = logging.getLogger(__name__)

TITLE = "llm-platform"
VERSION = "1"  # Version of the interface, not of the package.
DESCRIPTION = "Answers questions from the web or your documents, and checks each citation against its source."
# FastAPI's own would repeat our spans, with the texts of errors in them, and it looks for providers at every request.
NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False}
ROUTERS = (
    *included.ROUTERS,
    chat_routes.router,
    health_routes.router,
    *(router for dialect in DIALECTS for router in dialect.routers),
)


def create_app(
    platform: LLMPlatform | Callable[[], LLMPlatform], settings: Settings, *, is_mounted: bool = False
) -> FastAPI:
    """Return the application. On startup it opens the platform or calls the factory. On shutdown it closes the platform.

    `is_mounted` is True if a host owns the process. The application then leaves signals and uvicorn's connections alone, and
    opens at its first request if nothing runs its lifespan.
    """
    secrets = settings.secrets()
    redactor = Redactor(secrets) if secrets else None
    for warning in settings.api_key_warnings():
        log.warning(warning)
    server = ServerState(max_researches=settings.MAX_CONCURRENT_RESEARCHES)
    access = AccessPolicy(settings)
    mcp = McpEndpoint(server, owns_all_reports=access.has_one_caller, is_mounted=is_mounted)
    local_programs = LocalPrograms(settings)
    make_page_charge = None if local_programs.are_exempt else partial(charge_background_pages, server)
    open_platform = partial(
        _open_platform,
        platform=platform,
        server=server,
        mcp=mcp,
        make_page_charge=make_page_charge,
        watches=WatchSelection(access.owners),
    )
    own_process = partial(
        _own_process, open_platform=open_platform, server=server, drain_timeout_s=settings.DRAIN_TIMEOUT_S
    )
    app = FastAPI(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        lifespan=open_platform if is_mounted else own_process,
        docs_url=None,  # FastAPI's page loads scripts from a CDN; docs_routes serves local files
        redoc_url=None,
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
    )
    app.state.server = server
    # GuardMiddleware sends all errors. These handlers translate the errors of the framework.
    app.add_exception_handler(RequestValidationError, _raise_validation_error)
    app.add_exception_handler(HTTPException, _raise_http_error)
    for router in ROUTERS:
        app.router.routes.extend(router.routes)  # include_router would match every request against each router first.
    app.router.routes.extend(docs_routes.ROUTES)
    app.router.routes.append(make_mcp_route(mcp))
    app.add_middleware(
        GuardMiddleware,
        access=access,
        addresses=ClientAddresses(settings.TRUSTED_PROXIES),
        server=server,
        redactor=redactor,
        request_log=RequestLog(server, app.router.routes, quiet=PROBE_PATHS, log_queries=settings.LOG_QUERIES),
        compatible_apis=DIALECT_OF_PREFIX,
        local_programs=local_programs,
    )
    if is_mounted:
        app.add_middleware(OpenAtFirstRequest, lifespan=partial(open_platform, app), server=server)
    app.openapi = partial(make_openapi_document, app, add_examples)  # type: ignore[method-assign]
    return app


async def _raise_validation_error(request: Request, error: Any) -> NoReturn:
    raise problems.InvalidRequestError(make_field_errors(error.errors()))


async def _raise_http_error(request: Request, error: Any) -> NoReturn:
    if error.status_code == 404:
        raise problems.NotFoundError.of(request.scope)
    if error.status_code == 405:
        # All methods of the path: the framework names only the methods of the first matching route.
        routes: Sequence[Route] = request.app.router.routes
        matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
        methods = sorted({method for route in matching for method in route.methods or ()})
        methods = sorted({*methods, *(["HEAD"] if "GET" in methods else ())})
        raise problems.MethodNotAllowedError(headers={"Allow": ", ".join(methods)})
    raise problems.BadRequestError


@asynccontextmanager
async def _open_platform(
    app: FastAPI,
    platform: LLMPlatform | Callable[[], LLMPlatform],
    server: ServerState,
    mcp: McpEndpoint,
    make_page_charge: Callable[[str], Charge] | None,
    watches: WatchSelection,
) -> AsyncIterator[None]:
    """Open the platform for the requests of the block, with its background work.

    `watches` selects the watched questions that run: a question whose API key was removed does not run.
    """
    async with platform if isinstance(platform, LLMPlatform) else platform() as opened:
        server.platform, server.requests.is_draining = opened, False
        opened.research_jobs.start(make_page_charge)
        opened.watches.start(watches, make_page_charge)
        cleaning = asyncio.create_task(opened.store.clean_quietly())
        try:
            yield
        finally:
            server.requests.is_draining = True
            await mcp.aclose()
            cleaning.cancel()
            server.platform = None


@asynccontextmanager
async def _own_process(
    app: FastAPI,
    open_platform: Callable[[FastAPI], AbstractAsyncContextManager[None]],
    server: ServerState,
    drain_timeout_s: float,
) -> AsyncIterator[None]:
    """Open the platform in a process of its own: limit connections, and drain on signals before uvicorn stops."""
    # The command `uvicorn` is about to listen. Whatever `--http` says, it uses our connections instead of its own.
    uvicorn = find_uvicorn_server()
    if uvicorn is not None and uvicorn.config.http_protocol_class.__module__.startswith("uvicorn."):
        from modules.llm_platform.presentation.rest.http.connection import HttpConnection

        uvicorn.config.http_protocol_class = HttpConnection
    async with open_platform(app):
        # After a second signal uvicorn cancels the lifespan instead of ending it, and would log a traceback.
        with drain_on_signals(server.requests, drain_timeout_s), suppress(asyncio.CancelledError):
            yield
