"""The command `mcp`."""

import sys
from typing import Final

import typer

from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.setup import KEYLESS, get_command_context, load_settings, run_with_platform

MCP_PACKAGES: Final = ("mcp",)  # packages of the extra
NOT_INSTALLED: Final = 'MCP is not installed: pip install "llm-platform[mcp]"'


def mcp(
    ctx: typer.Context,
    provider: options.Provider = None,
    documents: options.Documents = None,
    offline: options.Offline = False,
) -> None:
    """Serve an MCP host, such as Claude Desktop, on standard input and output."""
    console, wiring = get_command_context(ctx)
    settings = load_settings(
        console, options.make_setting_arguments(provider=provider, documents=documents, offline=offline)
    )
    try:
        from modules.llm_platform.presentation.mcp.server import serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in MCP_PACKAGES:
            raise
        raise CommandError(NOT_INSTALLED) from error
    from shared.logging import configure_logging

    configure_logging(settings.LOG_LEVEL, settings.LOG_FORMAT, settings.secrets())  # logs go to standard error
    wiring.search_order(settings)  # raises SettingsError for an unknown provider
    if wiring.uses_fallback(settings) and wiring.has_fallback():
        console.warn(KEYLESS)
    if sys.stdin.isatty():
        console.warn(
            "waiting for an MCP host on standard input; configure the host as docs/howto/use-from-mcp-hosts.md shows"
        )
    secrets = settings.secrets()
    redactor = Redactor(secrets) if secrets else None
    run_with_platform(wiring, settings, lambda platform: serve_stdio(platform, redactor))
