"""The application for ASGI servers: `uvicorn modules.llm_platform.asgi:app`. The first access to `app` reads the
environment.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI


@cache
def make_app() -> FastAPI:
    """Return the application for the environment. Exits with one line if a setting is invalid or an extra is missing."""
    from modules.llm_platform.presentation.garbage_collection import collect_rarely, tune_gc

    collect_rarely()
    from shared.config import Settings, SettingsError
    from shared.logging import configure_logging

    try:
        settings = Settings.load()
        from modules.llm_platform.wiring.checks import check_server_settings

        check_server_settings(settings)
        from modules.llm_platform.presentation.rest.app import create_app
    except SettingsError as error:
        raise SystemExit(str(error)) from None
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise SystemExit(f'The server needs {package}: pip install "llm-platform[server]"') from None
    from modules.llm_platform.container import build_server_platform
    from modules.llm_platform.presentation.rest.http.request_log import mute_steps

    configure_logging(settings.LOG_LEVEL, settings.LOG_FORMAT, settings.secrets())
    mute_steps()
    app = create_app(partial(build_server_platform, settings), settings)
    tune_gc()
    return app


def __getattr__(name: str) -> Any:
    if name == "app":
        return make_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
