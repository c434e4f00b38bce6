"""The commands `topics`, `cache` and `store`: what research runs have left in the store, and the tables in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from modules.llm_platform.domain.dtos.store_dtos import StoredTopic, StoreStats
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import CommandError, run_async
from modules.llm_platform.presentation.cli.output import print_result
from modules.llm_platform.presentation.cli.render.terminal import format_bytes, format_local_minute
from modules.llm_platform.presentation.cli.setup import configure, get_command_context, run_with_platform

Topic = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help="Its name as `topics list` shows it, the name's beginning, or the question."),
]


topics_app = options.make_command_group("Show and remove the topics of the research store.")
cache_app = options.make_command_group("Manage the whole research store: statistics, removal, export, import.")
store_app = options.make_command_group("Prepare a PostgreSQL database.")


@topics_app.command("list", cls=options.Command)
def list_topics(ctx: typer.Context, as_json: options.PlainJson = False) -> None:
    """List the topics, the most recent first."""
    context = get_command_context(ctx)
    topics = context.run(lambda platform: platform.store.topics())
    result = {"topics": [topic.model_dump(mode="json") for topic in topics]}
    lines = [line for topic in topics for line in _describe_topic(topic)]
    print_result(context.console, result, lines or [Line("The store is empty.")], as_json=as_json)


@topics_app.command(cls=options.Command)
def show(ctx: typer.Context, topic: Topic, as_json: options.PlainJson = False) -> None:
    """Show the entries of a topic."""
    context = get_command_context(ctx)
    found, entries = context.run(lambda platform: platform.store.show(topic))
    result = {"topic": found.model_dump(mode="json"), "entries": [entry.model_dump(mode="json") for entry in entries]}
    lines = [*_describe_topic(found), Line()]
    for entry in entries:
        size = format_bytes(entry.bytes)
        lines.append(Line(f"  {entry.stage:<16}  {format_local_minute(entry.made_at)}  {size:>8}  {entry.key}"))
    print_result(context.console, result, lines, as_json=as_json)


@topics_app.command("clear", cls=options.Command)
def clear_topic(ctx: typer.Context, topic: Topic, as_json: options.PlainJson = False, yes: options.Yes = False) -> None:
    """Remove a topic: its next research starts from the beginning."""
    context = get_command_context(ctx)
    _confirm(context.console, "Remove the entries of that topic?", prompts_enabled=not yes)
    removed = context.run(lambda platform: platform.store.clear(topic))
    _print_removed(context.console, removed, as_json=as_json)


@cache_app.command(cls=options.Command)
def stats(ctx: typer.Context, as_json: options.PlainJson = False) -> None:
    """Show entries, bytes, age and hits of each stage."""
    context = get_command_context(ctx)
    found = context.run(lambda platform: platform.store.stats())
    print_result(context.console, found, _describe_stats(found), as_json=as_json)


@cache_app.command(cls=options.Command)
def clean(ctx: typer.Context, as_json: options.PlainJson = False, yes: options.Yes = False) -> None:
    """Remove what is older than STORE_TTL_DAYS."""
    console, wiring = get_command_context(ctx)
    settings = configure(console, {})
    days = f"{settings.STORE_TTL_DAYS:g} {'day' if settings.STORE_TTL_DAYS == 1 else 'days'}"
    _confirm(console, f"Remove what is older than {days}?", prompts_enabled=not yes)
    removed = run_with_platform(wiring, settings, lambda platform: platform.store.clean())
    _print_removed(console, removed, as_json=as_json)


@cache_app.command("clear", cls=options.Command)
def clear_all(ctx: typer.Context, as_json: options.PlainJson = False, yes: options.Yes = False) -> None:
    """Remove all topics, and the stored folders of --documents and DOCUMENTS_DIR."""
    context = get_command_context(ctx)
    _confirm(
        context.console,
        "Remove all topics of the research store, and the stored folders of --documents and DOCUMENTS_DIR?",
        prompts_enabled=not yes,
    )
    removed = context.run(lambda platform: platform.store.clear(None))
    _print_removed(context.console, removed, as_json=as_json)


@cache_app.command(cls=options.Command)
def export(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="The archive to write.", dir_okay=False)],
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", metavar="TOPIC", help="Only this topic: its name, the name's beginning, or the question."
        ),
    ] = None,
    as_json: options.PlainJson = False,
    yes: options.Yes = False,
) -> None:
    """Write everything, or one topic, into a zip file."""
    context = get_command_context(ctx)
    if file.exists():
        _confirm(context.console, f"{file} exists: replace it?", prompts_enabled=not yes)
    count = context.run(lambda platform: platform.store.export(file, topic))
    result = {"exported": count, "file": str(file)}
    print_result(context.console, result, [Line(f"{_count_entries(count)} written to {file}")], as_json=as_json)


@cache_app.command("import", cls=options.Command)
def import_archive(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="An archive of `cache export`.")],
    as_json: options.PlainJson = False,
) -> None:
    """Import an exported file; an entry is replaced only by a newer one."""
    context = get_command_context(ctx)
    imported = context.run(lambda platform: platform.store.import_(file))
    text = f"{_count_entries(imported.added)} imported"
    if imported.skipped:
        text += f", {imported.skipped} skipped that are not newer than the stored ones"
    if imported.expired:
        text += f", {imported.expired} skipped that are older than STORE_TTL_DAYS"
    print_result(context.console, imported, [Line(text)], as_json=as_json)


@store_app.callback()
def _store_commands() -> None:
    """Keep `migrate` a command of its own: typer runs a single command without its name."""


@store_app.command(cls=options.Command)
def migrate(ctx: typer.Context, as_json: options.PlainJson = False) -> None:
    """Create or upgrade the tables in the PostgreSQL database of DATABASE_URL."""
    console, wiring = get_command_context(ctx)
    before, after = run_async(wiring.migrate_database(configure(console, {})))
    text = f"the tables have version {after}" + ("" if before == after else f" (before: {before or 'none'})")
    print_result(console, {"before": before, "after": after}, [Line(text)], as_json=as_json)


def _confirm(console: Console, question: str, *, prompts_enabled: bool) -> None:
    if prompts_enabled and not console.confirm(question):
        raise CommandError("nothing was changed")


def _print_removed(console: Console, count: int, *, as_json: bool) -> None:
    print_result(console, {"removed": count}, [Line(f"{_count_entries(count)} removed")], as_json=as_json)


def _describe_topic(topic: StoredTopic) -> Iterator[Line]:
    yield Line(" ".join(topic.query.split()), "bold")
    state = "finished" if topic.finished else "unfinished"
    size = f"{_count_entries(topic.entries)}, {format_bytes(topic.bytes)}"
    yield Line(f"  {topic.name}  {state}, {format_local_minute(topic.newest)}, {size}", "dim")


def _describe_stats(found: StoreStats) -> Iterator[Line]:
    yield Line(f"{'stage':<16}  {'entries':>7}  {'size':>8}  {'hits':>7}  {'misses':>7}  oldest to newest", "bold")
    for stage in found.stages:
        age = (
            f"{format_local_minute(stage.oldest)} to {format_local_minute(stage.newest)}"
            if stage.oldest and stage.newest
            else "-"
        )
        counts = f"{stage.entries:>7}  {format_bytes(stage.bytes):>8}  {stage.hits:>7}  {stage.misses:>7}"
        yield Line(f"{stage.stage:<16}  {counts}  {age}")
    entries, size = sum(stage.entries for stage in found.stages), sum(stage.bytes for stage in found.stages)
    damaged = f", {found.damaged} damaged and set aside" if found.damaged else ""
    yield Line(f"{format_count(found.topics, 'topic')}, {_count_entries(entries)}, {format_bytes(size)}{damaged}")


def _count_entries(count: int) -> str:
    return format_count(count, "entry", "entries")
