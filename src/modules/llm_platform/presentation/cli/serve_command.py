"""The command `serve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.setup import Wiring
from shared.config import Settings, unknown_variables

OF_THE_EXTRA = ("fastapi", "starlette", "uvicorn")
NOT_INSTALLED = 'the server is not installed: pip install "llm-platform[server]"'


def run_serve(console: Console, wiring: Wiring, arguments: Mapping[str, Any]) -> None:
    """Serve until stopped. CommandError when the extra is missing or the settings forbid it."""
    settings = Settings.load(**arguments)
    for warning in unknown_variables():
        console.warn(warning)
    try:
        wiring.serve(settings)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in OF_THE_EXTRA:
            raise
        raise CommandError(NOT_INSTALLED) from error
