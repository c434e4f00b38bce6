"""The commands `topics` and `cache`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.domain.dtos.store_dtos import StageStats, StoredEntry, StoredTopic, StoreStats
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import CommandError, run
from modules.llm_platform.presentation.cli.setup import Wiring, prepare
from shared.config import Settings

Result = TypeVar("Result")

NOTHING: Final = "Nothing is kept."
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_KILO: Final = 1000


def list_topics(console: Console, wiring: Wiring, *, as_json: bool) -> None:
    """Print a block of two lines for each topic."""
    topics = _done(console, wiring, lambda store: store.topics())
    if as_json:
        _json(console, {"topics": [topic.model_dump(mode="json") for topic in topics]})
    else:
        console.lines([line for topic in topics for line in _topic(topic)] or [Line(NOTHING)])


def show_topic(console: Console, wiring: Wiring, asked: str, *, as_json: bool) -> None:
    """Print a topic and its entries."""
    topic, entries = _done(console, wiring, lambda store: store.show(asked))
    if as_json:
        listed = [entry.model_dump(mode="json") for entry in entries]
        _json(console, {"topic": topic.model_dump(mode="json"), "entries": listed})
    else:
        console.lines([*_topic(topic), Line(), *map(_entry, entries)])


def clear(console: Console, wiring: Wiring, asked: str | None, *, ask: bool, as_json: bool) -> None:
    """Remove a topic or all, when the person agrees."""
    what = "everything that researches have left" if asked is None else "what is kept of that topic"
    _agree(console, f"Remove {what}?", ask=ask)
    removed = _done(console, wiring, lambda store: store.clear(asked))
    _say(console, {"removed": removed}, f"{_entries(removed)} removed", as_json=as_json)


def clean(console: Console, wiring: Wiring, *, ask: bool, as_json: bool) -> None:
    """Remove what is too old, when the person agrees."""
    settings = prepare(console, {})
    _agree(console, f"Remove what is older than {settings.STORE_TTL_DAYS:g} days?", ask=ask)
    removed = run(_with_store(wiring, settings, lambda store: store.clean()))
    _say(console, {"removed": removed}, f"{_entries(removed)} removed", as_json=as_json)


def stats(console: Console, wiring: Wiring, *, as_json: bool) -> None:
    """Print a table of the stages."""
    told = _done(console, wiring, lambda store: store.stats())
    if as_json:
        _json(console, told.model_dump(mode="json"))
    else:
        console.lines(_table(told))


def export(console: Console, wiring: Wiring, file: Path, asked: str | None, *, ask: bool, as_json: bool) -> None:
    """Write an archive; an existing file is replaced when the person agrees."""
    if file.exists():
        _agree(console, f"{file} exists: replace it?", ask=ask)
    number = _done(console, wiring, lambda store: store.export(file, asked))
    _say(console, {"exported": number, "file": str(file)}, f"{_entries(number)} written to {file}", as_json=as_json)


def import_(console: Console, wiring: Wiring, file: Path, *, as_json: bool) -> None:
    """Take an archive, and say what became of its entries."""
    imported = _done(console, wiring, lambda store: store.import_(file))
    said = f"{_entries(imported.taken)} taken"
    if imported.kept:
        said += f", {imported.kept} left out that are not newer than what is here"
    if imported.expired:
        said += f", {imported.expired} left out that are older than STORE_TTL_DAYS"
    _say(console, imported.model_dump(), said, as_json=as_json)


def _done(console: Console, wiring: Wiring, work: Callable[[StoreService], Awaitable[Result]]) -> Result:
    return run(_with_store(wiring, prepare(console, {}), work))


async def _with_store(wiring: Wiring, settings: Settings, work: Callable[[StoreService], Awaitable[Result]]) -> Result:
    async with wiring.build_platform(settings) as platform:
        return await work(platform.store)


def _agree(console: Console, question: str, *, ask: bool) -> None:
    if ask and not console.agrees(question):
        raise CommandError("nothing was changed")


def _say(console: Console, told: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        _json(console, told)
    else:
        console.lines([Line(text)])


def _json(console: Console, told: dict[str, Any]) -> None:
    from modules.llm_platform.presentation.cli.render_json import dumped

    console.verbatim(dumped(told))


def _topic(topic: StoredTopic) -> Iterator[Line]:
    yield Line(" ".join(topic.query.split()), "bold")
    state = "finished" if topic.finished else "unfinished"
    size = f"{_entries(topic.entries)}, {_bytes(topic.bytes)}"
    yield Line(f"  {topic.name}  {state}, {_minute(topic.newest)}, {size}", "dim")


def _entry(entry: StoredEntry) -> Line:
    return Line(f"  {entry.stage:<16}  {_minute(entry.made_at)}  {_bytes(entry.bytes):>8}  {entry.key}")


def _table(told: StoreStats) -> Iterator[Line]:
    yield Line(f"{'stage':<16}  {'entries':>7}  {'size':>8}  {'hits':>7}  {'misses':>7}  oldest to newest", "bold")
    yield from map(_stage, told.stages)
    entries, size = sum(each.entries for each in told.stages), sum(each.bytes for each in told.stages)
    aside = f", {told.damaged} damaged and set aside" if told.damaged else ""
    topics = f"{told.topics} {'topic' if told.topics == 1 else 'topics'}"
    yield Line(f"{topics}, {_entries(entries)}, {_bytes(size)}{aside}")


def _stage(each: StageStats) -> Line:
    age = f"{_minute(each.oldest)} to {_minute(each.newest)}" if each.oldest and each.newest else "-"
    counts = f"{each.entries:>7}  {_bytes(each.bytes):>8}  {each.hits:>7}  {each.misses:>7}"
    return Line(f"{each.stage:<16}  {counts}  {age}")


def _entries(number: int) -> str:
    return f"{number} {'entry' if number == 1 else 'entries'}"


def _minute(when: datetime) -> str:
    """In the time zone of this machine."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M")


def _bytes(number: float) -> str:
    for unit in _UNITS:
        if number < _KILO or unit == _UNITS[-1]:
            break
        number /= _KILO
    return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"
