"""The platform inside of a FastAPI application: mounted as an application, or included as routes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

    from modules.llm_platform.application.platform import LLMPlatform
    from shared.config import Settings

MISSING_SERVER = 'Mounting needs {package}: pip install "llm-platform[server]"'


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the HTTP application for `settings` (None: the environment), for `host.mount("/llm", create_app())`.

    It opens its platform at its first request and closes it with the host. A host that passes
    `app.router.lifespan_context` on opens it at its start. Signals, log handlers and the server's connections stay the
    host's. Raises SettingsError for an invalid setting, ModuleNotFoundError without the extra `server`.
    """
    from modules.llm_platform.container import build_server_platform
    from modules.llm_platform.wiring.checks import check_server_settings
    from shared.config import Settings

    settings = settings or Settings.load()
    try:
        check_server_settings(settings)
        from modules.llm_platform.presentation.rest import app
    except ModuleNotFoundError as error:
        raise _missing_server(error) from None
    return app.create_app(partial(build_server_platform, settings), settings, is_mounted=True)


def research_router(platform: LLMPlatform) -> APIRouter:
    """Return the routes of research and search for `host.include_router`, on a platform that the host opens and closes.

    Errors are `application/problem+json`. Who may call, how often, and from which sites is up to the host. Raises
    ModuleNotFoundError without the extra `server`.
    """
    try:
        from modules.llm_platform.presentation.rest import included
    except ModuleNotFoundError as error:
        raise _missing_server(error) from None
    return included.research_router(platform)


def _missing_server(error: ModuleNotFoundError) -> ModuleNotFoundError:
    package = (error.name or "").partition(".")[0]
    return ModuleNotFoundError(MISSING_SERVER.format(package=package), name=error.name)
