"""The command `serve`."""

from typing import Annotated

import typer

from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.setup import get_command_context, load_settings

MAX_PORT = 65_535
SERVER_PACKAGES = ("fastapi", "starlette", "throttled", "uvicorn")  # packages of the extra
NOT_INSTALLED = 'the server is not installed: pip install "llm-platform[server]"'


def serve(
    ctx: typer.Context,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen on; any other than loopback needs LLM_PLATFORM_API_KEYS.",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", min=0, max=MAX_PORT, help="Port to listen on.")
    ] = None,
    provider: options.Provider = None,
    documents: options.Documents = None,
    offline: options.Offline = False,
) -> None:
    """Serve the HTTP interface until stopped."""
    console, wiring = get_command_context(ctx)
    arguments = options.make_setting_arguments(
        provider=provider, documents=documents, offline=offline, LLM_PLATFORM_HOST=host, LLM_PLATFORM_PORT=port
    )
    settings = load_settings(console, arguments)
    try:
        wiring.serve(settings)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in SERVER_PACKAGES:
            raise
        raise CommandError(NOT_INSTALLED) from error
