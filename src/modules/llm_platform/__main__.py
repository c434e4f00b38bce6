"""The command line's entry: hands the wiring to the commands, and leaves."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.presentation.cli.setup import Wiring, not_there

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform
    from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts
    from shared.config import Settings

# dependency-injector looks for these when it is imported, to know their request classes: a quarter of a second where
# they are installed, and a command that answers one question meets no web framework.
WEB_FRAMEWORKS = (
    "fastapi", "fastapi.params", "starlette", "starlette.requests", "werkzeug", "werkzeug.local", "fast_depends",
)  # fmt: skip


def _import_container() -> None:
    with not_there(*WEB_FRAMEWORKS):
        import dependency_injector.containers  # noqa: F401


def _build_platform(settings: Settings) -> LLMPlatform:
    _import_container()
    from modules.llm_platform.container import build_platform

    return build_platform(settings)


def _search_order(settings: Settings) -> tuple[str, ...]:
    from modules.llm_platform.wiring.search import search_order

    return search_order(settings)


def _search_providers() -> tuple[str, ...]:
    from modules.llm_platform.wiring.search import provider_names

    return provider_names()


def _uses_fallback(settings: Settings) -> bool:
    from modules.llm_platform.wiring.search import uses_fallback

    return uses_fallback(settings)


def _has_model(settings: Settings) -> bool:
    _import_container()
    from modules.llm_platform.wiring.llms import llm_connections

    return bool(llm_connections(settings))


def _serve(settings: Settings) -> None:
    _search_order(settings)  # a provider that does not exist stops the start
    from modules.llm_platform.presentation.rest.server import serve
    from shared.logging import configure_logging

    configure_logging(settings.LOG_LEVEL, settings.LOG_FORMAT, settings.secrets())
    serve(partial(_build_platform, settings), settings)


def _worker_parts(settings: Settings) -> AbstractAsyncContextManager[WorkerParts]:
    _import_container()
    from modules.llm_platform.container import build_worker_parts

    return build_worker_parts(settings)


def wiring() -> Wiring:
    """What the commands get from the container, each part imported when it is called."""
    return Wiring(_build_platform, _search_order, _has_model, _serve, _worker_parts, _search_providers, _uses_fallback)


def main() -> None:
    """Carry out the command line of this process."""
    code = run(None, wiring())
    if threading.active_count() > 1:  # a thread that cannot be cancelled must not keep a person waiting
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
