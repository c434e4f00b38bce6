"""Prepare a command: the application's functions, the settings, and notices about data that leaves the machine."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from modules.llm_platform.domain.ports.tracing import NO_TRACER, ITracer, running
from modules.llm_platform.domain.telemetry.spans import COMMAND, COMMAND_SPAN
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import WRONG_USE, CommandError, describe_result, run_async
from shared.config import Settings, unknown_variables
from shared.exceptions import AppException

if TYPE_CHECKING:
    import typer

    from modules.llm_platform.application.platform import LLMPlatform
    from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore, IOutcomeStore
    from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts

    OpenOutcomeStores = Callable[[Settings], AbstractAsyncContextManager[tuple[IOutcomeStore, IFailedRequestStore]]]

Result = TypeVar("Result")

KEYLESS = (
    "No search provider is configured, so the query leaves this machine for public search engines (ddgs). "
    "To avoid that, set SEARXNG_URL or use --documents DIR."
)
NO_NETWORK = "Set SEARXNG_URL to a search engine that can be reached, or search a folder with --documents DIR"
JINA_NOTICE = (
    "Public page addresses are sent to r.jina.ai, which fetches the pages. "
    "To fetch them from this machine, set READERS=direct"
)
NO_MODEL = (
    "No language model is configured, so answers are quotes from your sources. "
    "For a written answer set LLM_API_KEY and LLM_MODEL, or KIMI_API_KEY, "
    "or LLM_KIND=ollama with LLM_MODEL."
)
NO_MODEL_OFFLINE = (
    "The configured language models cannot be used offline, so answers are quotes from your sources. "
    "For a written answer set LLM_KIND=ollama with LLM_MODEL."
)


async def _migrate_nothing(settings: Settings) -> tuple[int, int]:
    return 0, 0


class CommandTracer(Protocol):
    """Builds the tracer of a command, NO_TRACER if there is nothing to export to."""

    def __call__(self, console: Console, *, offline: bool) -> ITracer:
        """`console` gets the warning why there are no traces."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """Functions of the container that the commands call. They import what they need when they are called."""

    build_platform: Callable[[Settings], LLMPlatform]
    search_order: Callable[[Settings], tuple[str, ...]]  # names of the search providers, in the order of failover
    has_model: Callable[[Settings], bool]
    serve: Callable[[Settings], None]  # returns when the server is stopped
    # Called with Settings; `keep_failed`: store failed requests.
    worker_parts: Callable[..., AbstractAsyncContextManager[WorkerParts]]
    search_providers: Callable[[], tuple[str, ...]] = tuple  # the choices of `--provider`
    uses_fallback: Callable[[Settings], bool] = lambda settings: False  # no provider is configured: ddgs is used
    has_fallback: Callable[[], bool] = lambda: True  # the package of ddgs is installed; without it no query is sent
    migrate_database: Callable[[Settings], Coroutine[Any, Any, tuple[int, int]]] = _migrate_nothing
    outcome_stores: OpenOutcomeStores | None = None
    command_tracer: CommandTracer = lambda console, *, offline: NO_TRACER

    def has_model_online(self, settings: Settings) -> bool:
        return self.has_model(settings.model_copy(update={"LLM_PLATFORM_OFFLINE": False}))

    def explain_missing_model(self, settings: Settings) -> str | None:
        """Return why answers are quotes, and how to change that, or None if a model is configured."""
        if self.has_model(settings):
            return None
        return NO_MODEL_OFFLINE if self.has_model_online(settings) else NO_MODEL


class CommandContext(NamedTuple):
    """The object that every command finds in its typer context."""

    console: Console
    wiring: Wiring

    def run(self, work: Callable[[LLMPlatform], Awaitable[Result]]) -> Result:
        """Run `work` with the platform of the settings that the environment gives."""
        return run_with_platform(self.wiring, configure(self.console, {}), work)


def get_command_context(ctx: typer.Context) -> CommandContext:
    context: CommandContext = ctx.obj
    return context


def load_settings(console: Console, arguments: Mapping[str, Any]) -> Settings:
    """Return the settings. Print a warning for each variable that looks like a setting and is not one."""
    settings = Settings.load(**arguments)
    for warning in unknown_variables():
        console.warn(warning)
    return settings


def configure(console: Console, arguments: Mapping[str, Any]) -> Settings:
    """Return the settings, with logging configured: quiet unless LOG_LEVEL is set."""
    settings = load_settings(console, arguments)
    if "LOG_LEVEL" in settings.model_fields_set:
        from shared.logging import configure_logging

        configure_logging(settings.LOG_LEVEL, settings.LOG_FORMAT, settings.secrets())
    else:
        # Otherwise Python prints warnings of libraries unformatted.
        logging.getLogger().addHandler(logging.NullHandler())
    return settings


def run_with_platform(wiring: Wiring, settings: Settings, work: Callable[[LLMPlatform], Awaitable[Result]]) -> Result:
    async def build_and_work() -> Result:
        async with wiring.build_platform(settings) as platform:
            return await work(platform)

    return run_async(build_and_work())


@contextmanager
def command_trace(tracer: ITracer, command: str) -> Iterator[None]:
    """Trace the block. The trace is exported when the block ends, also by an error or Ctrl-C."""
    if not tracer.is_enabled:
        yield
        return
    span = tracer.start(COMMAND_SPAN, f"command {command}", {})
    span.set(COMMAND, command)
    try:
        with running(span):
            yield
    finally:
        span.end(describe_result(sys.exception()))
        run_async(tracer.aclose())


def warn_about_jina(console: Console, settings: Settings, *, or_option: str = "") -> None:
    """Print that page addresses are sent to r.jina.ai, unless a reader was chosen. `or_option` avoids it too."""
    is_chosen = {"READERS", "JINA_API_KEY", "JINA_BASE_URL"} & settings.model_fields_set
    if not is_chosen and not settings.LLM_PLATFORM_OFFLINE:
        console.warn(f"{JINA_NOTICE}{f' or use {or_option}' if or_option else ''}.")


def warn_about_keyless_search(console: Console, wiring: Wiring, settings: Settings) -> bool:
    """Return whether ddgs is used because no provider is configured. Print that, if ddgs can be used.

    Raises CommandError if there is no provider at all.
    """
    if not wiring.search_order(settings):
        raise CommandError(
            "offline only documents can be searched, and none are configured: name a folder with --documents DIR or "
            "DOCUMENTS_DIR, or index documents with `llm-platform index PATH`"
        )
    is_keyless = wiring.uses_fallback(settings)
    if is_keyless and wiring.has_fallback():
        console.warn(KEYLESS)
    return is_keyless


@contextmanager
def network_remedy(*, is_keyless: bool) -> Iterator[None]:
    """Append what to configure to the errors of the block when the keyless search fails."""
    try:
        yield
    except AppException as error:
        raise _with_remedy(CommandError.from_status(error.status_code, error.explain()), is_keyless) from error
    except CommandError as error:
        raise _with_remedy(error, is_keyless) from error


def _with_remedy(error: CommandError, is_keyless: bool) -> CommandError:
    if not is_keyless or error.code == WRONG_USE:
        return error
    message = str(error)
    return CommandError(f"{message}{'' if message.endswith(('.', '?', '!')) else '.'} {NO_NETWORK}", error.code)
