"""For ASGI servers: `uvicorn modules.llm_platform.asgi:app`. The environment is read when `app` is first asked for."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI


@cache
def make_app() -> FastAPI:
    """The application that the environment describes; a setting that cannot be read ends the process with one line."""
    from shared.config import Settings, SettingsError
    from shared.logging import configure_logging

    try:
        settings = Settings.load()
        from modules.llm_platform.wiring.search import check_providers

        check_providers(settings)
        from modules.llm_platform.presentation.rest.app import create_app
    except SettingsError as error:
        raise SystemExit(str(error)) from None
    except ModuleNotFoundError as error:
        raise SystemExit(f'The server needs {error.name}: pip install "llm-platform[server]"') from None
    from modules.llm_platform.container import build_platform
    from modules.llm_platform.presentation.rest.server import tune_gc

    configure_logging(settings.LOG_LEVEL, settings.LOG_FORMAT, settings.secrets())
    app = create_app(partial(build_platform, settings), settings)
    tune_gc()
    return app


def __getattr__(name: str) -> Any:
    if name == "app":
        return make_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
