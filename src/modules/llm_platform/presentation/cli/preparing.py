"""What comes before every command that works: settings, warnings, logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import WRONG_USE, CommandError
from modules.llm_platform.presentation.cli.wiring import Wiring
from shared.config import Settings, unknown_variables
from shared.exceptions import AppException

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


def mind_the_network(console: Console, wiring: Wiring, settings: Settings) -> bool:
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
