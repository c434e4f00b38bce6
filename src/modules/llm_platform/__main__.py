"""Entry point of the command line: passes the wiring to the commands."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

from modules.llm_platform.domain.package import version_line
from modules.llm_platform.presentation.garbage_collection import collect_rarely

INTERRUPTED = 130  # the exit code; importing it would import the command line

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform
    from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore, IOutcomeStore
    from modules.llm_platform.domain.ports.tracing import ITracer
    from modules.llm_platform.presentation.cli.console import Console
    from modules.llm_platform.presentation.cli.setup import Wiring
    from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts
    from shared.config import Settings


def _build_platform(settings: Settings) -> LLMPlatform:
    from modules.llm_platform.container import build_platform

    return build_platform(settings)


def _build_server_platform(settings: Settings) -> LLMPlatform:
    from modules.llm_platform.container import build_server_platform

    return build_server_platform(settings)


def _search_order(settings: Settings) -> tuple[str, ...]:
    from modules.llm_platform.infrastructure.search.from_settings.providers import search_order

    return search_order(settings)


def _search_providers() -> tuple[str, ...]:
    from modules.llm_platform.infrastructure.search.from_settings.providers import list_provider_names

    return list_provider_names()


def _uses_fallback(settings: Settings) -> bool:
    from modules.llm_platform.infrastructure.search.from_settings.providers import uses_fallback

    return uses_fallback(settings)


def _has_fallback() -> bool:
    from modules.llm_platform.infrastructure.resources import is_installed

    return is_installed(("ddgs",))


def _has_model(settings: Settings) -> bool:
    from modules.llm_platform.infrastructure.models.from_settings.chat_models import list_connections

    return bool(list_connections(settings))


def _serve(settings: Settings) -> None:
    from modules.llm_platform.wiring.checks import check_server_settings

    check_server_settings(settings)
    from modules.llm_platform.presentation.rest.http.request_log import mute_steps
    from modules.llm_platform.presentation.rest.server import serve
    from shared.logging import configure_logging

    configure_logging(settings.LOG_LEVEL, settings.LOG_FORMAT, settings.secrets())
    mute_steps()
    serve(partial(_build_server_platform, settings), settings)


def _worker_parts(settings: Settings, *, keep_failed: bool = False) -> AbstractAsyncContextManager[WorkerParts]:
    from modules.llm_platform.container import build_worker_parts

    return build_worker_parts(settings, keep_failed=keep_failed)


async def _migrate_database(settings: Settings) -> tuple[int, int]:
    from modules.llm_platform.infrastructure.stores.from_settings import migrate_database

    return await migrate_database(settings)


def _outcome_stores(
    settings: Settings,
) -> AbstractAsyncContextManager[tuple[IOutcomeStore, IFailedRequestStore]]:
    from modules.llm_platform.container import open_outcome_stores

    return open_outcome_stores(settings)


def _command_tracer(console: Console, *, offline: bool) -> ITracer:
    from modules.llm_platform.domain.ports.tracing import NO_TRACER
    from shared.config import Settings, SettingsError, opentelemetry_variables

    if not opentelemetry_variables():
        return NO_TRACER
    from modules.llm_platform.infrastructure.telemetry.from_settings import build_tracer

    try:
        settings = Settings.load(**({"LLM_PLATFORM_OFFLINE": True} if offline else {}))
    except SettingsError:  # the command reports it
        return NO_TRACER
    return build_tracer(settings, "llm-platform-command", console.warn, console.err)


def wiring() -> Wiring:
    """Return the functions of the container, which import what they need when they are called."""
    from modules.llm_platform.presentation.cli.setup import Wiring

    return Wiring(
        _build_platform,
        _search_order,
        _has_model,
        _serve,
        _worker_parts,
        _search_providers,
        _uses_fallback,
        _has_fallback,
        _migrate_database,
        _outcome_stores,
        _command_tracer,
    )


def open_closed_streams() -> None:
    """Open the null device for each standard stream that the caller closed, as `<&-` does.

    Python makes such a stream None, and the next socket would get its number, which the event loop refuses to close.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # the lowest number is given out first
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123,SIM115


def _print_version() -> bool:
    """Print the version without importing the commands. Return False if standard output cannot be written to."""
    try:
        sys.stdout.write(f"{version_line()}\n")
        sys.stdout.flush()
    except OSError:  # the command line reports it
        return False
    return True


def main() -> None:
    """Run the command line of this process and exit."""
    open_closed_streams()
    if sys.argv[1:] == ["--version"] and _print_version():
        return
    collect_rarely()
    try:
        from modules.llm_platform.presentation.cli.main import run
    except KeyboardInterrupt:  # the imports take longer than some users wait
        sys.exit(INTERRUPTED)
    code = run(None, wiring())
    if threading.active_count() > 1:  # a thread cannot be cancelled: do not wait for it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
