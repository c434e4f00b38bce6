"""The HTTP application: routes, guard and errors around one platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.presentation.rest import (
    chat_routes,
    docs_routes,
    health_routes,
    research_routes,
    search_routes,
    searxng_shape,
)
from modules.llm_platform.presentation.rest.body import field_errors
from modules.llm_platform.presentation.rest.examples import with_examples
from modules.llm_platform.presentation.rest.middleware import CrossSiteGuard, GuardMiddleware
from modules.llm_platform.presentation.rest.openapi import describe
from modules.llm_platform.presentation.rest.problems import (
    BadRequestError,
    InvalidRequestError,
    MethodNotAllowedError,
    NotFoundError,
    RestError,
    problem_response,
)
from modules.llm_platform.presentation.rest.responses import ServerState
from shared.config import Settings
from shared.exceptions import AppException

# One handler for each kind of error that the application knows; what nobody expected ends in the guard.


OF_STATUS: dict[int, type[RestError]] = {404: NotFoundError, 405: MethodNotAllowedError}


def add_error_handlers(app: FastAPI) -> None:
    """Every error leaves as a problem, also those of the framework."""
    app.add_exception_handler(AppException, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _of_the_framework)


async def _ours(request: Request, error: Any) -> Response:
    return problem_response(error, request.scope)


async def _invalid(request: Request, error: Any) -> Response:
    return problem_response(InvalidRequestError(field_errors(error.errors())), request.scope)


async def _of_the_framework(request: Request, error: Any) -> Response:
    kind = OF_STATUS.get(error.status_code, BadRequestError)
    headers = {"Allow": _allowed(request)} if kind is MethodNotAllowedError else None
    return problem_response(kind(headers=headers), request.scope)


def _allowed(request: Request) -> str:
    """All methods of the address: the framework names only those of the first route that has it."""
    routes: Sequence[Route] = request.app.router.routes
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in matching for method in route.methods or ()}))


TITLE = "llm-platform"
VERSION = "1"  # of the interface, not of the package
DESCRIPTION = "A question in, an answer out in which every sentence can be traced to its source."
BODIES = (
    research_routes.ResearchApiRequest,
    PlanRequest,
    searxng_shape.SearchApiRequest,
    search_routes.WebSearchApiRequest,
    chat_routes.ChatApiRequest,
)
ROUTERS = (research_routes.router, search_routes.router, chat_routes.router, health_routes.router)


def create_app(platform: LLMPlatform | Callable[[], LLMPlatform], settings: Settings) -> FastAPI:
    """The application. It opens the platform when it starts (a factory is called then) and closes it when it stops."""
    door = ServerState()
    secrets = settings.secrets()
    app = FastAPI(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        lifespan=partial(_lifespan, platform=platform, door=door),
        docs_url=None,  # FastAPI's page loads scripts from a CDN; ours (docs_routes) is made of our own files
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.door = door
    add_error_handlers(app)
    for router in ROUTERS:
        app.router.routes.extend(router.routes)  # include_router would match every request against each router first
    app.router.routes.extend(docs_routes.ROUTES)
    app.add_middleware(
        GuardMiddleware, sites=CrossSiteGuard(settings), door=door, redactor=Redactor(secrets) if secrets else None
    )
    app.openapi = partial(describe, app, BODIES, with_examples)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _lifespan(
    app: FastAPI, platform: LLMPlatform | Callable[[], LLMPlatform], door: ServerState
) -> AsyncIterator[None]:
    async with platform if isinstance(platform, LLMPlatform) else platform() as opened:
        door.platform, door.draining = opened, False
        cleaning = asyncio.create_task(opened.store.clean_quietly())  # what is too old goes at start
        yield
        door.draining = True
        cleaning.cancel()
    door.platform = None
