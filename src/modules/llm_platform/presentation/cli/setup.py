"""What comes before every command that works: settings, warnings, logs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import WRONG_USE, CommandError
from shared.config import Settings, unknown_variables
from shared.exceptions import AppException

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform
    from modules.llm_platform.presentation.kafka.worker.worker import WorkerParts
    from shared.config import Settings


# What the commands need from above: they know the services, not who wires them.


@dataclass(frozen=True, slots=True)
class Wiring:
    """Handed to the commands by the entry point; each part is imported when it is called, not before."""

    build_platform: Callable[[Settings], LLMPlatform]
    search_order: Callable[[Settings], tuple[str, ...]]  # names of the search providers that will be asked, in order
    has_model: Callable[[Settings], bool]
    serve: Callable[[Settings], None]  # until it is stopped
    worker_parts: Callable[[Settings], AbstractAsyncContextManager[WorkerParts]]
    search_providers: Callable[[], tuple[str, ...]] = tuple  # the names that `--provider` may have
    uses_fallback: Callable[[Settings], bool] = lambda settings: False  # whether queries go to the keyless web unasked

    def has_model_online(self, settings: Settings) -> bool:
        """Whether there would be a language model if the network could be used."""
        return self.has_model(settings.model_copy(update={"LLM_PLATFORM_OFFLINE": False}))


@contextmanager
def not_there(*names: str) -> Iterator[None]:
    """Inside, importing one of these modules fails as if it were not installed; those already imported stay.

    For libraries that look for others when they are imported, merely to know their classes. Only where no other thread
    imports: at the start of a process.
    """
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is the import system's "not there"
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


KEYLESS = (
    "Nothing is configured, so the query leaves this machine for public search engines (ddgs). "
    "Set SEARXNG_URL for an engine of your own, or use --documents DIR."
)
NOTHING_OFFLINE = (
    "offline there are only documents to search: name a folder with --documents DIR or DOCUMENTS_DIR, or index some with "
    "`llm-platform index PATH`"
)
NO_NETWORK = "Set SEARXNG_URL to a search engine that can be reached, or search a folder with --documents DIR"


def prepare(console: Console, arguments: Mapping[str, Any]) -> Settings:
    """The settings, with a word on variables that are none of ours. Logs are kept quiet where nobody asked for them."""
    settings = Settings.load(**arguments)
    for warning in unknown_variables():
        console.warn(warning)
    if "LOG_LEVEL" in settings.model_fields_set:
        from shared.logging import configure_logging

        configure_logging(settings.LOG_LEVEL, settings.LOG_FORMAT, settings.secrets())
    else:
        logging.getLogger().addHandler(logging.NullHandler())  # else the warnings of others come out bare
    return settings


def goes_to_jina_unasked(settings: Settings) -> bool:
    """Whether addresses of pages go to r.jina.ai though nobody chose a reader."""
    unasked = not {"READERS", "JINA_API_KEY", "JINA_BASE_URL"} & settings.model_fields_set
    return unasked and not settings.LLM_PLATFORM_OFFLINE


def warn_about_network(console: Console, wiring: Wiring, settings: Settings) -> bool:
    """Whether the query goes to the keyless web because nothing is configured; says so first. CommandError when
    nothing may be asked at all.
    """
    if not wiring.search_order(settings):
        raise CommandError(NOTHING_OFFLINE)
    keyless = wiring.uses_fallback(settings)
    if keyless:
        console.warn(KEYLESS)
    return keyless


@contextmanager
def remedy_named(*, keyless: bool) -> Iterator[None]:
    """Where nothing is configured and the keyless web fails, the error also says what to configure."""
    try:
        yield
    except AppException as error:
        raise _with_remedy(CommandError.of(error.status_code, error.message), keyless=keyless) from error
    except CommandError as error:
        raise _with_remedy(error, keyless=keyless) from error


def _with_remedy(error: CommandError, *, keyless: bool) -> CommandError:
    if not keyless or error.code == WRONG_USE:
        return error
    said = str(error)
    return CommandError(f"{said}{'' if said.endswith(('.', '?', '!')) else '.'} {NO_NETWORK}", error.code)
