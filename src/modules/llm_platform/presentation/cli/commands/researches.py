"""The commands `researches`: background runs of the servers that share this data folder or database.

They read and write the store that the servers use, so no server has to be reachable (docs/howto/run-long-researches.md).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from modules.llm_platform.application.research.events import parse_event
from modules.llm_platform.domain.callers.api_key_label import owner_of_label
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchJob
from modules.llm_platform.domain.exceptions import SealError
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.commands.research import (
    Csl,
    Evidence,
    ShowSent,
    deliver_research,
    show_research,
)
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.output import OutputOptions, print_result
from modules.llm_platform.presentation.cli.render.terminal import format_local_minute
from modules.llm_platform.presentation.cli.setup import get_command_context

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform

LISTED_RUNS: Final = 20  # Research runs of a list, unless --limit says otherwise.

ResearchId = Annotated[str, typer.Argument(metavar="ID", help="Its id, as `researches list` shows it.")]
KeyLabel = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="LABEL", help="Research runs of the API keys with this label; default: those without a key."
    ),
]

researches_app = options.make_command_group(
    "List, follow, finish and cancel background runs of the servers that share this store."
)


@researches_app.command("list", cls=options.Command)
def list_researches(
    ctx: typer.Context,
    limit: options.ListLimit = LISTED_RUNS,
    before: options.Before = None,
    key: KeyLabel = None,
    as_json: options.AsJson = False,
) -> None:
    """List the background runs, newest first."""
    context = get_command_context(ctx)
    page = context.run(
        lambda platform: platform.research_jobs.list(owner=owner_of_label(key), limit=limit, before=before)
    )
    lines = [line for job in page.researches for line in _describe_job(job)]
    print_result(
        context.console,
        page,
        lines or [Line(f"No {'older ' if before else ''}background run is stored.")],
        as_json=as_json,
    )


@researches_app.command(cls=options.Command)
def show(ctx: typer.Context, research_id: ResearchId, key: KeyLabel = None, as_json: options.AsJson = False) -> None:
    """Show the state of a background run."""
    context = get_command_context(ctx)
    job = context.run(lambda platform: platform.research_jobs.get(research_id, owner=owner_of_label(key)))
    problem = [Line(f"  {job.problem['detail']}", "red")] if job.problem else []
    print_result(context.console, job, [*_describe_job(job), *problem], as_json=as_json)


@researches_app.command(cls=options.Command)
def follow(
    ctx: typer.Context,
    research_id: ResearchId,
    key: KeyLabel = None,
    as_json: options.AsJson = False,
    output: options.SealedOutput = None,
    csl: Csl = None,
    evidence: Evidence = None,
    show_sent: ShowSent = False,
    yes: options.Yes = False,
) -> None:
    """Show the steps of a background run, from the first one on, and its answer when it is done."""
    context = get_command_context(ctx)
    console = context.console
    output_options = OutputOptions(
        as_json, output, prompts_enabled=not yes, csl=csl, evidence=evidence, show_sent=show_sent, can_seal=True
    )
    output_options.check(console)
    is_live = console.stdout_is_terminal and output_options.is_printed

    async def answer(platform: LLMPlatform) -> tuple[ResearchResponse, bytes | SealError]:
        jobs = platform.research_jobs
        job = await jobs.get(research_id, owner=owner_of_label(key))
        if job.status == "queued":
            console.print_progress("queued: a server that shares this store starts it when it has a free slot …")
        async with aclosing(jobs.events(research_id, owner=owner_of_label(key))) as events:
            # An event of a type that only a newer server knows is left out.
            known = (parsed async for event in events if (parsed := parse_event(event.data)) is not None)
            response = await show_research(console, known, is_live=is_live)
        if not output_options.is_sealed:
            return response, b""
        try:
            return response, await platform.seals.seal_stored(research_id, owner=owner_of_label(key))
        except SealError as error:
            return response, error

    with _follow_hint(console, research_id, key):
        response, sealed = context.run(answer)

    def seal(_: ResearchResponse) -> bytes:
        if isinstance(sealed, SealError):
            raise sealed
        return sealed

    deliver_research(console, output_options, response, is_live=is_live, seal=seal)


@researches_app.command(cls=options.Command)
def cancel(ctx: typer.Context, research_id: ResearchId, key: KeyLabel = None, as_json: options.AsJson = False) -> None:
    """Cancel a background run unless it has ended; a server that runs it stops within seconds."""
    context = get_command_context(ctx)
    job = context.run(lambda platform: platform.research_jobs.cancel(research_id, owner=owner_of_label(key)))
    print_result(context.console, job, _describe_job(job), as_json=as_json)


@researches_app.command(cls=options.Command)
def finish(ctx: typer.Context, research_id: ResearchId, key: KeyLabel = None, as_json: options.AsJson = False) -> None:
    """Stop searching and write the answer from what was found; a server that runs it does so within seconds."""
    context = get_command_context(ctx)
    job = context.run(lambda platform: platform.research_jobs.finish_early(research_id, owner=owner_of_label(key)))
    print_result(context.console, job, _describe_job(job), as_json=as_json)


@contextmanager
def _follow_hint(console: Console, research_id: str, key: str | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        console.print_notes([Line("Interrupted. The run continues. To follow it again, run:")])
        words = ["llm-platform", "researches", "follow", research_id, *(["--key", key] if key else [])]
        console.print_command(shlex.join(words))
        raise


def _describe_job(job: ResearchJob) -> Iterator[Line]:
    yield Line(" ".join(job.query.split()), "bold")
    steps = (
        [
            format_count(job.progress.searched, "search", "searches"),
            f"{format_count(job.progress.read, 'page')} read",
        ]
        if job.status == "running"
        else []
    )
    yield Line(f"  {job.id}  {', '.join([job.depth, job.status, *steps, format_local_minute(job.created_at)])}", "dim")
