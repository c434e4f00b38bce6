"""The program `llm-platform`: its commands (docs/reference/cli.md) and their exit codes."""

from collections.abc import Sequence
from typing import Annotated

import typer

from modules.llm_platform.domain.package import PACKAGE, version_line
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.commands.ask import ask
from modules.llm_platform.presentation.cli.commands.config import config
from modules.llm_platform.presentation.cli.commands.doctor import doctor
from modules.llm_platform.presentation.cli.commands.documents import documents
from modules.llm_platform.presentation.cli.commands.index import index
from modules.llm_platform.presentation.cli.commands.kafka import kafka_app
from modules.llm_platform.presentation.cli.commands.mcp import mcp
from modules.llm_platform.presentation.cli.commands.outcomes import outcomes_app
from modules.llm_platform.presentation.cli.commands.read import read
from modules.llm_platform.presentation.cli.commands.research import research
from modules.llm_platform.presentation.cli.commands.researches import researches_app
from modules.llm_platform.presentation.cli.commands.search import search
from modules.llm_platform.presentation.cli.commands.serve import serve
from modules.llm_platform.presentation.cli.commands.store import cache_app, store_app, topics_app
from modules.llm_platform.presentation.cli.commands.verify import verify
from modules.llm_platform.presentation.cli.commands.watch import watch_app
from modules.llm_platform.presentation.cli.commands.worker import worker
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import report_unwritable
from modules.llm_platform.presentation.cli.setup import CommandContext, Wiring

PROGRAM = PACKAGE

app = typer.Typer(
    name=PROGRAM,
    help="Answers questions from the web or your own documents, and checks each citation against its source.",
    epilog="Exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted. Settings are environment variables.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},  # inherited by every command
    rich_markup_mode=None,  # plain help: the same on a terminal, in a pipe and in the documentation
    pretty_exceptions_enable=False,
)
for command in (search, research, verify, read, serve, config, doctor, documents, index, ask, mcp, worker):
    app.command(cls=options.Command)(command)
app.add_typer(researches_app, name="researches")
app.add_typer(watch_app, name="watch")
app.add_typer(topics_app, name="topics")
app.add_typer(cache_app, name="cache")
app.add_typer(store_app, name="store")
app.add_typer(kafka_app, name="kafka")
app.add_typer(outcomes_app, name="outcomes")


def run(arguments: Sequence[str] | None, wiring: Wiring, console: Console | None = None) -> int:
    """Run one command line (None: the command line of the process) and return its exit code."""
    code: object = 0
    console = console or Console()
    try:
        app(args=arguments, prog_name=PROGRAM, obj=CommandContext(console, wiring))
    except SystemExit as exit_:
        code = exit_.code
    except OSError as error:  # of the help or the version: a command reports its own
        code = report_unwritable(console, error)
    return code if isinstance(code, int) else 0


def _print_version(is_requested: bool) -> None:
    if not is_requested:
        return
    Console().print_verbatim(version_line())
    raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of the program itself."""
