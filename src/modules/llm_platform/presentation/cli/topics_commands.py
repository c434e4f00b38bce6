"""`llm-platform topics`: what was researched, and what is kept of it."""

from __future__ import annotations

from typing import Annotated

import typer

from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import exit_codes

Topic = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help="Its name as `topics list` shows it, the name's beginning, or the question."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]

topics_app = typer.Typer(
    help="See and remove what researches have left in the store.", no_args_is_help=True, rich_markup_mode=None
)


@topics_app.command("list", cls=options.Command)
def list_topics(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the topics, the one that was worked on last first."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.store_commands import list_topics

        list_topics(console, ctx.obj, as_json=as_json)


@topics_app.command(cls=options.Command)
def show(ctx: typer.Context, topic: Topic, as_json: AsJson = False) -> None:
    """Show what is kept of a topic."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.store_commands import show_topic

        show_topic(console, ctx.obj, topic, as_json=as_json)


@topics_app.command(cls=options.Command)
def clear(ctx: typer.Context, topic: Topic, as_json: AsJson = False, yes: options.Yes = False) -> None:
    """Remove a topic: its next research begins anew."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.store_commands import clear

        clear(console, ctx.obj, topic, ask=not yes, as_json=as_json)
