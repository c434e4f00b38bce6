"""`llm-platform` and its commands (docs/reference/cli.md)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import typer

from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.ask_command import ask
from modules.llm_platform.presentation.cli.cache_commands import cache_app
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import exit_codes
from modules.llm_platform.presentation.cli.index_command import index
from modules.llm_platform.presentation.cli.kafka_commands import kafka_app, worker
from modules.llm_platform.presentation.cli.output import Delivery
from modules.llm_platform.presentation.cli.setup import Wiring
from modules.llm_platform.presentation.cli.topics_commands import topics_app

PROGRAM = "llm-platform"
MAX_PORT = 65_535

app = typer.Typer(
    name=PROGRAM,
    help="A question in, an answer out in which every sentence can be traced to its source.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted. Settings are environment variables.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},  # commands take them over from here
    rich_markup_mode=None,  # plain help: the same on a terminal, in a pipe and in the documentation
    pretty_exceptions_enable=False,
)
app.add_typer(topics_app, name="topics")
app.add_typer(cache_app, name="cache")
app.add_typer(kafka_app, name="kafka")


def run(arguments: Sequence[str] | None, wiring: Wiring) -> int:
    """Carry out one command line (None: that of the process); the exit code."""
    code: object = 0
    try:
        app(args=arguments, prog_name=PROGRAM, obj=wiring)
    except SystemExit as leaving:
        code = leaving.code
    return code if isinstance(code, int) else 0


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        version = metadata.version(PROGRAM)
    except metadata.PackageNotFoundError:  # run from a folder of sources
        version = "of an unknown version: it is not installed"
    Console().verbatim(f"{PROGRAM} {version}")
    raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """What stands before a command."""


@app.command(cls=options.Command)
def search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    count: Annotated[int, typer.Option("--count", metavar="N", help="Results, 1 to 50.")] = 10,
    page: Annotated[int, typer.Option("--page", metavar="N", help="Which page of results, 1 to 50.")] = 1,
    freshness: Annotated[
        str | None,
        typer.Option("--freshness", metavar="WHEN", help="oneDay, oneWeek, oneMonth, oneYear, a date, or DATE..DATE."),
    ] = None,
    time_range: options.TimeRange = None,
    sources: options.Sources = None,
    engines: Annotated[
        str | None, typer.Option("--engines", metavar="LIST", help="Comma list, where the provider has several.")
    ] = None,
    domains: options.Domains = None,
    language: options.Language = None,
    provider: options.Provider = None,
    documents: options.Documents = None,
    offline: options.Offline = False,
    as_json: options.AsJson = False,
    output: options.Output = None,
    yes: options.Yes = False,
) -> None:
    """Search, and list what was found."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.search_command import SearchOptions, run_search

        run_search(
            console,
            ctx.obj,
            options.setting_arguments(provider=provider, documents=documents, offline=offline),
            SearchOptions(
                query=query, count=count, page=page, freshness=freshness, time_range=time_range, language=language,
                sources=options.source_kinds(sources, documents), engines=options.listed(engines),
                domains=options.listed(domains),
            ),
            Delivery(as_json, output, ask=not yes),
        )  # fmt: skip


@app.command(cls=options.Command)
def research(
    ctx: typer.Context,
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="QUESTION", help="What to find out; left out, it is asked for, or read from standard input."
        ),
    ] = None,
    depth: options.Depth = None,
    sources: options.Sources = None,
    time_range: options.TimeRange = None,
    domains: options.Domains = None,
    language: options.Language = None,
    plan: options.PlanFile = None,
    plan_only: options.PlanOnly = False,
    url: options.Urls = None,
    instructions: options.Instructions = None,
    max_llm_calls: options.MaxCalls = None,
    max_cost_usd: options.MaxCost = None,
    max_seconds: options.MaxSeconds = None,
    fresh: options.Fresh = False,
    omit_raw: options.OmitRaw = False,
    provider: options.Provider = None,
    documents: options.Documents = None,
    offline: options.Offline = False,
    as_json: options.AsJson = False,
    output: options.Output = None,
    csl: options.Csl = None,
    show_sent: options.ShowSent = False,
    yes: options.Yes = False,
) -> None:
    """Answer a question, with citations that were checked."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.research_command import ResearchOptions, run_research

        run_research(
            console,
            ctx.obj,
            options.setting_arguments(provider=provider, documents=documents, offline=offline),
            ResearchOptions(
                question=question, depth=depth, time_range=time_range, language=language, omit_raw=omit_raw,
                sources=options.source_kinds(sources, documents), domains=options.listed(domains),
                plan_file=plan, plan_only=plan_only, urls=tuple(url or ()), instructions=instructions, fresh=fresh,
                max_llm_calls=max_llm_calls, max_cost_usd=max_cost_usd, max_seconds=max_seconds,
                words=ctx.meta[options.WORDS],
            ),
            Delivery(as_json, output, ask=not yes, csl=csl, show_sent=show_sent),
        )  # fmt: skip


@app.command(cls=options.Command)
def read(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of a web page, a PDF or a text.")],
    reader: Annotated[
        options.ReaderName | None,
        typer.Option("--reader", help="Read with this one alone: jina (which sees the address) or direct."),
    ] = None,
    offline: options.Offline = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the page as JSON, and nothing else.")] = False,
    output: options.Output = None,
    yes: options.Yes = False,
) -> None:
    """Read a page safely, and show the text that it gives."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.read_command import run_read

        arguments = options.setting_arguments(offline=offline, READERS=(reader,) if reader else None)
        run_read(console, ctx.obj, arguments, url.strip(), Delivery(as_json, output, ask=not yes))


@app.command(cls=options.Command)
def serve(
    ctx: typer.Context,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="ADDRESS", help="To listen on; beyond loopback set LLM_PLATFORM_API_KEYS."),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", min=0, max=MAX_PORT, help="Port to listen on.")
    ] = None,
    provider: options.Provider = None,
    documents: options.Documents = None,
    offline: options.Offline = False,
) -> None:
    """Serve the HTTP interface until stopped."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.serve_command import run_serve

        arguments = options.setting_arguments(
            provider=provider, documents=documents, offline=offline, LLM_PLATFORM_HOST=host, LLM_PLATFORM_PORT=port
        )
        run_serve(console, ctx.obj, arguments)


@app.command(cls=options.Command)
def config(
    ctx: typer.Context,
    provider: options.Provider = None,
    documents: options.Documents = None,
    offline: options.Offline = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every setting and where it comes from."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.config_command import show

        arguments = options.setting_arguments(provider=provider, documents=documents, offline=offline)
        show(console, ctx.obj, arguments, as_json=as_json)


@app.command(cls=options.Command)
def doctor(
    ctx: typer.Context,
    provider: options.Provider = None,
    documents: options.Documents = None,
    offline: options.Offline = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Also try what costs a little money: one search, one short answer.")
    ] = False,
) -> None:
    """Say what is wrong, and what to do about it."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.doctor_command import run_doctor

        arguments = options.setting_arguments(provider=provider, documents=documents, offline=offline)
        run_doctor(console, ctx.obj, arguments, spend=yes, as_json=as_json)


for command in (index, ask, worker):
    app.command(cls=options.Command)(command)
