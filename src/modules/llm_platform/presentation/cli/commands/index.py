"""The command `index`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from modules.llm_platform.domain.dtos.indexing_dtos import IndexProgress, IndexReport
from modules.llm_platform.domain.package import has_wordllama_wheel, no_wordllama
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.output import print_result
from modules.llm_platform.presentation.cli.setup import configure, get_command_context, run_with_platform
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform

ShowProgress: TypeAlias = Callable[[IndexProgress], None]

MAX_PROBLEMS_SHOWN: Final = 20
NOTHING_FOUND: Final = (
    "no document was found there: name folders or files that end in .md, .txt, .rst, .html, .pdf, .docx, .xlsx, .pptx, .epub, "
    ".ipynb, .csv, .tsv, .log or .jsonl"
)
DISPLACED: Final = (
    "replaced documents of another folder with the same doc_id: {}. To keep both, give them different doc_ids, or index "
    "each folder into its own --collection"
)
REMOVED_ELSEWHERE: Final = (
    "removed documents of folders that were not named: {}. To keep them, index again with all folders in one command, or give "
    "each folder its own --collection"
)
INTERRUPTED: Final = "interrupted: what was indexed is stored, and the same command continues from there"


def _check_path(value: str) -> Path:
    """Return the path. An empty value, as of a variable that is not set, must not mean the current folder."""
    if not value:
        raise typer.BadParameter("one of them is empty: name a folder or a file")
    path = Path(value)
    try:
        path.stat()
    except (OSError, ValueError):  # ValueError: NUL
        raise typer.BadParameter(f"{value!r} does not exist or cannot be read: name a folder or a file") from None
    return path


def index(
    ctx: typer.Context,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            parser=_check_path,
            help="Folders and files: Markdown, text, logs, CSV, reStructuredText, HTML, PDF, Word, Excel, PowerPoint, EPUB,"
            " notebooks, and JSON lines.",
        ),
    ],
    collection: options.Collection = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove documents that no longer exist in these folders.")
    ] = False,
    replaces_collection: Annotated[
        bool, typer.Option("--only", help="Remove every document that is not below these paths.")
    ] = False,
    offline: options.Offline = False,
    as_json: options.PlainJson = False,
) -> None:
    """Index documents for search and answers; unchanged documents are skipped."""
    console, wiring = get_command_context(ctx)
    settings = configure(console, options.make_setting_arguments(offline=offline, QDRANT_COLLECTION=collection))
    try:
        with _show_progress_bar(console) as show_progress:
            report = run_with_platform(
                wiring, settings, partial(_index, settings, paths, prune, replaces_collection, show_progress)
            )
    except KeyboardInterrupt:
        console.warn(INTERRUPTED)
        raise
    for warning in _list_warnings(report, settings, replaces_collection=replaces_collection):
        console.warn(warning)
    print_result(console, report, _report_lines(report), as_json=as_json)
    if not report.documents:
        raise CommandError("nothing could be indexed: the lines above say why" if report.failed else NOTHING_FOUND)


async def _index(
    settings: Settings,
    paths: Sequence[Path],
    prune: bool,
    replaces_collection: bool,
    show_progress: ShowProgress,
    platform: LLMPlatform,
) -> IndexReport:
    report = IndexReport(collection=settings.QDRANT_COLLECTION, embedder=settings.EMBEDDER)
    async with aclosing(platform.indexing.index(paths, prune=prune, replaces_collection=replaces_collection)) as steps:
        async for step in steps:
            if isinstance(step, IndexReport):
                report = step
            else:
                show_progress(step)
    return report


@contextmanager
def _show_progress_bar(console: Console) -> Iterator[ShowProgress]:
    """Draw a progress bar on standard error if that is a terminal."""
    if not console.stderr_is_terminal:
        yield lambda step: None
        return
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[status]}"), TimeRemainingColumn())
    with Progress(*columns, console=RichConsole(file=console.err), transient=True) as bar:
        task = bar.add_task("", total=None, status="reading …")

        def show_progress(step: IndexProgress) -> None:
            status = f"{format_count(step.documents, 'document')}, {format_count(step.passages, 'passage')} written"
            bar.update(task, total=step.total_bytes, completed=step.done_bytes, status=status)

        yield show_progress


def _list_warnings(report: IndexReport, settings: Settings, *, replaces_collection: bool) -> Iterator[str]:
    for problem in report.problems[:MAX_PROBLEMS_SHOWN]:
        yield f"{problem.where}: {problem.reason}"
    if report.problem_count > MAX_PROBLEMS_SHOWN:
        yield f"and {report.problem_count - MAX_PROBLEMS_SHOWN} more"
    if report.displaced and not replaces_collection:
        yield DISPLACED.format(report.displaced)
    if report.removed_elsewhere:
        yield REMOVED_ELSEWHERE.format(report.removed_elsewhere)
    if report.embedder == "none" and settings.EMBEDDER == "wordllama" and not has_wordllama_wheel():
        yield f"indexed for keyword search only: {no_wordllama()}"


def _report_lines(report: IndexReport) -> Iterator[Line]:
    yield Line(
        f"{format_count(report.documents, 'document')} under these paths in the collection {report.collection}", "bold"
    )
    counts = {
        "new": report.added,
        "changed": report.changed,
        "unchanged": report.unchanged,
        "left out": report.failed,
        "removed": report.removed,
    }
    yield Line(", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing to do")
    yield Line(f"{format_count(report.passages, 'passage')} written, by {report.embedder}", "dim")
