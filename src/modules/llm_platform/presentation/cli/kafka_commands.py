"""`llm-platform worker`, and `llm-platform kafka` for people who want to try the contract by hand."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import exit_codes

StageName = Literal["search", "answer"]
DEFAULT_WAIT_S = 60.0  # the partitions of a killed worker stand still for 45

kafka_app = typer.Typer(
    help="Try the contract by hand: send a request, watch the outcomes.", no_args_is_help=True, rich_markup_mode=None
)


def worker(
    ctx: typer.Context,
    stages: Annotated[
        str | None, typer.Option("--stages", metavar="LIST", help="Comma list of search, answer; default both.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Say whether brokers, topics, rights, index and model fit; asks the model once."),
    ] = False,
    offline: options.Offline = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --check: print JSON.")] = False,
) -> None:
    """Answer requests from Kafka until stopped."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli import worker_command

        arguments = options.setting_arguments(offline=offline)
        if check:
            worker_command.check(console, ctx.obj.worker_parts, arguments, stages, as_json=as_json)
        elif as_json:
            options.wrong("--json", "goes with --check: a worker prints nothing")
        else:
            worker_command.run_worker_command(console, ctx.obj.worker_parts, arguments, stages)


@kafka_app.command(cls=options.Command)
def send(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The query or question; if it begins with {, the whole message.")
    ],
    stage: Annotated[StageName, typer.Option("--stage", help="Which stage is asked.")] = "search",
    request_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The request's id and key; default: a new one.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", metavar="N", min=1, help="Documents to find; search alone.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="KEY=VALUE", help="Only such documents; repeatable; search alone."),
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for the outcome; 0: not at all.")
    ] = DEFAULT_WAIT_S,
) -> None:
    """Send one request, and print its outcome."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.kafka_dev_client import Sending, run_send

        run_send(console, Sending(text, stage, request_id, top_k, tuple(filters or ())), wait)


@kafka_app.command(cls=options.Command)
def tail(
    from_start: Annotated[bool, typer.Option("--from-start", help="Also those that are there already.")] = False,
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="Stop after so many; default: until Ctrl-C.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="S", min=0, help="Stop after so long; default: until Ctrl-C.")
    ] = None,
    request_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Only of this request.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the messages alone, one on each line.")] = False,
) -> None:
    """Print outcomes as they come."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.kafka_dev_client import run_tail

        run_tail(console, from_start=from_start, count=count, seconds=seconds, request_id=request_id, as_json=as_json)
