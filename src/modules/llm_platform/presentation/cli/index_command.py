"""The command `index` as typer sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from modules.llm_platform.domain.dtos.indexing_dtos import IndexProgress, IndexReport
from modules.llm_platform.domain.wheels import has_wordllama_wheel, no_wordllama
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import CommandError, exit_codes, run
from modules.llm_platform.presentation.cli.options import collection_named, setting_arguments
from modules.llm_platform.presentation.cli.render_json import dumped
from modules.llm_platform.presentation.cli.render_terminal import plural
from modules.llm_platform.presentation.cli.setup import Wiring, prepare
from shared.config import Settings


def _there(written: str) -> Path:
    """What is named has to be there; an empty name, as of a variable that is not set, is not the folder that one is in."""
    if not written:
        raise typer.BadParameter("one of them is empty: name a folder or a file")
    path = Path(written)
    try:
        path.stat()
    except (OSError, ValueError):  # ValueError: NUL
        raise typer.BadParameter(
            f"{written!r} is not there, or may not be looked at: name a folder or a file"
        ) from None
    return path


Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...", parser=_there,
        help="Folders and files: Markdown, text, reStructuredText, HTML, PDF, Word, EPUB, notebooks, and JSON lines.",
    ),
]  # fmt: skip
Collection = Annotated[
    str | None, typer.Option("--collection", metavar="NAME", help="To put them into; default QDRANT_COLLECTION.")
]
Prune = Annotated[bool, typer.Option("--prune", help="Remove from the collection what these paths do not hold.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what was done as JSON, and nothing else.")]


def index(
    ctx: typer.Context,
    paths: Paths,
    collection: Collection = None,
    prune: Prune = False,
    offline: options.Offline = False,
    as_json: AsJson = False,
) -> None:
    """Index documents, to be searched and answered from; what is unchanged costs nothing."""
    console = Console()
    with exit_codes(console):
        run_index(console, ctx.obj, IndexOptions(tuple(paths), collection, prune, offline), as_json=as_json)


# The command `index`.


PROBLEMS_SHOWN: Final = 20
NOTHING: Final = (
    "no document was found there: give folders or files that end in .md, .txt, .rst, .html, .pdf, .docx, .epub, .ipynb or "
    ".jsonl"
)
NOTHING_USABLE: Final = "nothing could be indexed: the lines above say why"
DISPLACED: Final = (
    "replaced documents of another folder with the same path below it: {}. To have both, index their common parent with "
    "--prune, or give each folder its own --collection"
)
REMOVED_ELSEWHERE: Final = (
    "removed documents of folders that were not named: {}. To have them, index again with all folders in one command, or give "
    "each folder its own --collection"
)
KEPT: Final = "stopped: what was indexed is kept, and the same command goes on from there"

Watch: TypeAlias = Callable[[IndexProgress], None]


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """What the options ask for."""

    paths: Sequence[Path]
    collection: str | None = None
    prune: bool = False
    offline: bool = False


def run_index(console: Console, wiring: Wiring, order: IndexOptions, *, as_json: bool) -> None:
    """Index and say what was done. A bad file is a line on standard error; only when nothing could be indexed it is a
    failure.
    """
    settings = prepare(
        console, setting_arguments(offline=order.offline, QDRANT_COLLECTION=collection_named(order.collection))
    )
    try:
        with _bar(console) as watch:
            report = run(_index(wiring, settings, order, watch))
    except KeyboardInterrupt:
        console.warn(KEPT)
        raise
    for line in (*_problems(report), *_other_folders(report)):
        console.warn(line)
    if report.embedder == "none" and settings.EMBEDDER == "wordllama" and not has_wordllama_wheel():
        console.warn(f"indexed for words alone: {no_wordllama()}")
    if as_json:
        console.verbatim(dumped(report.model_dump(mode="json")))
    else:
        console.lines(_told(report))
    if not report.documents:
        raise CommandError(NOTHING_USABLE if report.failed else NOTHING)


async def _index(wiring: Wiring, settings: Settings, order: IndexOptions, watch: Watch) -> IndexReport:
    async with wiring.build_platform(settings) as platform:
        report = IndexReport(collection=settings.QDRANT_COLLECTION, embedder=settings.EMBEDDER)
        async with aclosing(platform.indexing.index(order.paths, prune=order.prune)) as steps:
            async for step in steps:
                if isinstance(step, IndexReport):
                    report = step
                else:
                    watch(step)
        return report


@contextmanager
def _bar(console: Console) -> Iterator[Watch]:
    """A progress bar on standard error for a person who watches; else nobody is told."""
    if not console.watched:
        yield lambda step: None
        return
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[said]}"), TimeRemainingColumn())
    with Progress(*columns, console=RichConsole(file=console.err), transient=True) as progress:
        task = progress.add_task("", total=None, said="looking …")

        def watch(step: IndexProgress) -> None:
            said = f"{plural(step.documents, 'document')}, {plural(step.passages, 'passage')} written"
            progress.update(task, total=step.total_bytes, completed=step.done_bytes, said=said)

        yield watch


def _problems(report: IndexReport) -> Iterator[str]:
    for problem in report.problems[:PROBLEMS_SHOWN]:
        yield f"{problem.where}: {problem.reason}"
    if report.problem_count > PROBLEMS_SHOWN:
        yield f"and {report.problem_count - PROBLEMS_SHOWN} more"


def _other_folders(report: IndexReport) -> Iterator[str]:
    if report.displaced:
        yield DISPLACED.format(report.displaced)
    if report.removed_elsewhere:
        yield REMOVED_ELSEWHERE.format(report.removed_elsewhere)


def _told(report: IndexReport) -> Iterator[Line]:
    yield Line(f"{plural(report.documents, 'document')} in the collection {report.collection}", "bold")
    counts = {
        "new": report.added, "changed": report.changed, "unchanged": report.unchanged,
        "left out": report.failed, "removed": report.removed,
    }  # fmt: skip
    yield Line(", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing to do")
    yield Line(f"{plural(report.passages, 'passage')} written, by {report.embedder}", "dim")
