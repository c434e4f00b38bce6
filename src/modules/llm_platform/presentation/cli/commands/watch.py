"""The commands `watch`: questions that are asked again, and what changed.

They read and write the store that the servers use, and run due watches in this process without a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from modules.llm_platform.domain.callers.api_key_label import owner_of_label, set_api_key_label
from modules.llm_platform.domain.dtos import watch_dtos as dtos
from modules.llm_platform.domain.dtos.report_dtos import ReportAmounts
from modules.llm_platform.domain.dtos.research_job_dtos import MAX_LISTED
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Line
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.options import reject
from modules.llm_platform.presentation.cli.output import print_result
from modules.llm_platform.presentation.cli.render.terminal import format_local_minute
from modules.llm_platform.presentation.cli.setup import (
    configure,
    get_command_context,
    run_with_platform,
    warn_about_keyless_search,
)

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform

LISTED: Final = 20  # watches or changes of a list, unless --limit says otherwise
SHOWN_CHANGES: Final = 10
SECONDS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_EVERY: Final = re.compile(r"(\d{1,6})([mhdw])")
MARKS: Final = {"changed": "≠ changed", "new": "+ new", "gone": "− gone", "disputed": "⚡ disputed"}
NOT_DUE: Final = "No watch is due."
NO_RUNS: Final = "watches run as background research: set MAX_BACKGROUND_RESEARCHES to 1 or more"

WatchId = Annotated[str, typer.Argument(metavar="ID", help="Its id, as `watch list` shows it.")]
KeyOfNew = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="LABEL", help="Label of the API key that the watch belongs to; default: it has no key."
    ),
]
KeyLabel = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="LABEL", help="Watches of the API keys with this label; default: those without a key."
    ),
]
Changes = list[tuple[dtos.WatchDetail, dtos.ChangePage]]

watch_app = options.make_command_group("Watch questions: ask them again, and report only what has changed.")


@watch_app.command(cls=options.Command)
def add(
    ctx: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question to watch.")],
    every: Annotated[
        str,
        typer.Option("--every", metavar="TIME", help="Time between two runs: 30m, 6h, 1d or 2w; at least 15m."),
    ] = "1d",
    depth: Annotated[options.DepthName, typer.Option("--depth", help="How each run researches.")] = "deep",
    url: Annotated[
        list[str] | None,
        typer.Option("--url", metavar="URL", help="A page to read first; only these are read without --sources."),
    ] = None,
    sources: options.Sources = None,
    language: options.Language = None,
    webhook: Annotated[str | None, typer.Option("--webhook", metavar="URL", help="URL to notify of changes.")] = None,
    max_cost_usd: Annotated[
        float | None,
        typer.Option("--max-cost-usd", metavar="USD", help="The most that the runs of 30 days may cost."),
    ] = None,
    key: KeyOfNew = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Watch only documents, and send nothing to other machines.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Watch a question. Its first run is due at once: `watch run` makes it, or a server that shares this store."""
    request = options.build_request(
        dtos.WatchRequest,
        {
            "query": question,
            "every_s": parse_every(every),
            "depth": depth,
            "urls": tuple(url or ()),
            "sources": options.split_list(sources) or ((DOCUMENTS,) if offline else ()),
            "language": language,
            "webhook": webhook,
            "max_cost_usd": max_cost_usd,
        },
        argument="QUESTION",
    )
    if offline and request.sources != (DOCUMENTS,):  # a server that runs it may be online
        reject("--sources", "only documents are on this machine: leave out --offline, or name documents alone")
    if offline and request.urls:
        reject("--url", "a page is read over the network: leave out --offline or --url")
    console, wiring = get_command_context(ctx)

    async def store(platform: LLMPlatform) -> dtos.WatchDetail:
        set_api_key_label(key or "")  # the daily budget of this label pays for the runs
        return await platform.watches.add(request, owner=owner_of_label(key))

    watch = run_with_platform(wiring, configure(console, options.make_setting_arguments(offline=offline)), store)
    print_result(console, watch, [*_watch_lines(watch), *_describe_amounts(watch)], as_json=as_json)


@watch_app.command("list", cls=options.Command)
def list_watches(
    ctx: typer.Context,
    limit: options.ListLimit = LISTED,
    before: options.Before = None,
    key: KeyLabel = None,
    as_json: options.AsJson = False,
) -> None:
    """List the watched questions, newest first."""
    if before is not None and not re.fullmatch(dtos.WATCH_CURSOR_PATTERN, before):
        reject("--before", "must be the id of a watch, as `watch list` shows it")
    context = get_command_context(ctx)
    page = context.run(lambda platform: platform.watches.list(owner=owner_of_label(key), limit=limit, before=before))
    lines = [line for watch in page.watches for line in _watch_lines(watch)]
    print_result(
        context.console, page, lines or [Line(f"No {'older ' if before else ''}question is watched.")], as_json=as_json
    )


@watch_app.command(cls=options.Command)
def show(
    ctx: typer.Context,
    watch_id: WatchId,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=MAX_LISTED, help="At most this many changes.")
    ] = SHOWN_CHANGES,
    key: KeyLabel = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a watched question with its last changes, both quotes with their dates."""
    context = get_command_context(ctx)

    async def read(platform: LLMPlatform) -> tuple[dtos.WatchDetail, dtos.ChangePage]:
        watches = platform.watches
        watch = await watches.get(watch_id, owner=owner_of_label(key))
        return watch, await watches.list_changes(watch_id, owner=owner_of_label(key), limit=limit)

    watch, page = context.run(read)
    result = {"watch": watch.model_dump(mode="json"), **page.model_dump(mode="json")}
    lines = [
        *_watch_lines(watch),
        *_describe_amounts(watch),
        *(line for c in page.changes for line in describe_change(c)),
    ]
    print_result(context.console, result, lines, as_json=as_json)


@watch_app.command(cls=options.Command)
def run(
    ctx: typer.Context,
    watch_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Run this watch now; default: all watches that are due.")
    ] = None,
    key: KeyLabel = None,
    as_json: options.AsJson = False,
    offline: options.Offline = False,
) -> None:
    """Run the watches that are due, or one watch now, in this process; print what changed, and nothing otherwise."""
    console, wiring = get_command_context(ctx)
    settings = configure(console, options.make_setting_arguments(offline=offline))
    if settings.MAX_BACKGROUND_RESEARCHES == 0:
        raise CommandError(NO_RUNS)

    async def work(platform: LLMPlatform) -> Changes:
        watches, owner = platform.watches, owner_of_label(key)
        due = (await watches.get(watch_id, owner=owner),) if watch_id else await watches.list_due(owner=owner)
        if watch_id is not None:
            await watches.run_now(watch_id, owner=owner)
        if any(watch.sources and "documents" not in watch.sources for watch in due):
            warn_about_keyless_search(console, wiring, settings)
        for watch in due:
            console.print_progress(f"asking: {watch.query}")
        finished: Changes = []
        if due:
            watches.start_next_runs(due, owner=owner)
            finished += await watches.finish_runs(due, owner=owner)
        if watch_id is None:  # without a server, nobody else tries again what could not be delivered
            await watches.deliver_notices(owner=owner)
        return finished

    finished = run_with_platform(wiring, settings, work)
    result = {
        "runs": [
            {"watch": watch.model_dump(mode="json"), **page.model_dump(mode="json", include={"changes"})}
            for watch, page in finished
        ]
    }
    if as_json:
        print_result(console, result, [], as_json=True)
    elif lines := [line for watch, page in finished for line in _run_lines(watch, page)]:
        console.print_lines(lines)
    else:
        console.print_progress(NOT_DUE if not finished else "Nothing has changed.")
    if failed := [watch for watch, _ in finished if watch.problem is not None]:
        raise CommandError(f"{format_count(len(failed), 'run')} of {len(finished)} failed: {failed[0].problem}")


@watch_app.command(cls=options.Command)
def remove(ctx: typer.Context, watch_id: WatchId, key: KeyLabel = None, as_json: options.AsJson = False) -> None:
    """Remove a watched question with its runs and changes."""
    context = get_command_context(ctx)
    context.run(lambda platform: platform.watches.remove(watch_id, owner=owner_of_label(key)))
    print_result(context.console, {"removed": watch_id}, [Line(f"Watch {watch_id} was removed.")], as_json=as_json)


def parse_every(text: str) -> int:
    """Return the seconds of a time such as `6h`. Raises WrongUseError."""
    found = _EVERY.fullmatch(text.strip().lower())
    seconds = int(found[1]) * SECONDS[found[2]] if found else 0
    if not dtos.MIN_EVERY_S <= seconds <= dtos.MAX_EVERY_S:
        reject("--every", "must be a time such as 30m, 6h, 1d or 2w, from 15m to 366d")
    return seconds


def _write_every(seconds: int) -> str:
    unit = next((unit for unit in "wdhm" if seconds % SECONDS[unit] == 0), None)
    return f"{seconds // SECONDS[unit]}{unit}" if unit else f"{seconds}s"


def _watch_lines(watch: dtos.Watch) -> Iterator[Line]:
    yield Line(" ".join(watch.query.split()), "bold")
    following = f"next {format_local_minute(watch.next_at)}" if watch.next_at else "paused"
    state = [
        f"every {_write_every(watch.every_s)}",
        "running" if watch.is_running else following,
        format_count(watch.runs, "run"),
        format_count(watch.changes, "change"),
    ]
    if watch.cost_usd:
        state.append(f"${watch.cost_usd:.4f} in 30 days")
    if watch.undelivered:
        state.append(f"{format_count(watch.undelivered, 'notice')} not delivered")
    yield Line(f"  {watch.id}  {', '.join(state)}", "dim")
    if watch.problem:
        yield Line(f"  {watch.problem}", "red")
    if watch.remedy:
        yield Line(f"  Paused: {watch.remedy}", "yellow")


def _describe_amounts(watch: dtos.WatchDetail) -> Iterator[Line]:
    yield Line(f"  At most for each run: {_write_amounts(watch.at_most.run)}", "dim")
    yield Line(f"  At most in 30 days: {_write_amounts(watch.at_most.days_30)}", "dim")


def _write_amounts(amounts: ReportAmounts) -> str:
    parts = [format_count(amounts.searches, "search", "searches"), format_count(amounts.pages, "page")]
    if amounts.llm_calls:
        cost = "cost unknown" if amounts.cost_usd is None else f"${amounts.cost_usd:.2f}"
        parts += [format_count(amounts.llm_calls, "model call"), cost]
    return ", ".join(parts)


def describe_change(change: dtos.WatchChange) -> Iterator[Line]:
    """Yield a change: its kind and fact, and below it both quotes with their dates and addresses."""
    yield Line()
    yield Line(f"{MARKS[change.kind]}: {change.fact}", "yellow")
    for name, side in (("before", change.was), ("now", change.now)):
        if side is not None:
            yield Line(f"  {name} ({side.at.astimezone():%Y-%m-%d}): “{' '.join(side.quote.split())}”")
            yield Line(f"    {side.source}", "dim", side.source if side.source.startswith("http") else None)


def _run_lines(watch: dtos.WatchDetail, page: dtos.ChangePage) -> Iterator[Line]:
    if page.changes or watch.remedy:
        yield from _watch_lines(watch)
        for change in reversed(page.changes):
            yield from describe_change(change)
        yield Line()
