"""`llm-platform cache`: the store of researches as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import exit_codes
from modules.llm_platform.presentation.cli.topics_commands import AsJson

cache_app = typer.Typer(
    help="Look after the store of researches, and carry it elsewhere.", no_args_is_help=True, rich_markup_mode=None
)


@cache_app.command(cls=options.Command)
def stats(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show entries, bytes, age and hits of each stage."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.store_commands import stats

        stats(console, ctx.obj, as_json=as_json)


@cache_app.command(cls=options.Command)
def clean(ctx: typer.Context, as_json: AsJson = False, yes: options.Yes = False) -> None:
    """Remove what is older than STORE_TTL_DAYS."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.store_commands import clean

        clean(console, ctx.obj, ask=not yes, as_json=as_json)


@cache_app.command(cls=options.Command)
def clear(ctx: typer.Context, as_json: AsJson = False, yes: options.Yes = False) -> None:
    """Remove everything."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.store_commands import clear

        clear(console, ctx.obj, None, ask=not yes, as_json=as_json)


@cache_app.command(cls=options.Command)
def export(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="The archive to write.", dir_okay=False)],
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="TOPIC", help="Only this one: name, its beginning, or the question."),
    ] = None,
    as_json: AsJson = False,
    yes: options.Yes = False,
) -> None:
    """Write everything, or one topic, into a zip file."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.store_commands import export

        export(console, ctx.obj, file, topic, ask=not yes, as_json=as_json)


@cache_app.command("import", cls=options.Command)
def import_(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="An archive of `cache export`.")],
    as_json: AsJson = False,
) -> None:
    """Take what an exported file holds; entries of our own that are as new stay."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.store_commands import import_

        import_(console, ctx.obj, file, as_json=as_json)
