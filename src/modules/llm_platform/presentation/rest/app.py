"""The HTTP application: routes, guard and errors around one platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI

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
from modules.llm_platform.presentation.rest.door import Door
from modules.llm_platform.presentation.rest.error_handlers import add_error_handlers
from modules.llm_platform.presentation.rest.examples import with_examples
from modules.llm_platform.presentation.rest.guard import Guard
from modules.llm_platform.presentation.rest.openapi import describe
from modules.llm_platform.presentation.rest.sites import Sites
from shared.config import Settings

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
    door = Door()
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
    app.add_middleware(Guard, sites=Sites(settings), door=door, redactor=Redactor(secrets) if secrets else None)
    app.openapi = partial(describe, app, BODIES, with_examples)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _lifespan(
    app: FastAPI, platform: LLMPlatform | Callable[[], LLMPlatform], door: Door
) -> AsyncIterator[None]:
    async with platform if isinstance(platform, LLMPlatform) else platform() as opened:
        door.platform, door.draining = opened, False
        cleaning = asyncio.create_task(opened.store.clean_quietly())  # what is too old goes at start
        yield
        door.draining = True
        cleaning.cancel()
    door.platform = None
