"""The command `index` as typer sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import exit_codes


def _there(written: str) -> Path:
    """What is named has to be there; an empty name, as of a variable that is not set, is not the folder that one is in."""
    if not written:
        raise typer.BadParameter("one of them is empty: name a folder or a file")
    path = Path(written)
    try:
        path.stat()
    except (OSError, ValueError):  # ValueError: NUL
        raise typer.BadParameter(f"{written!r} is not there, or may not be looked at: name a folder or a file") from None
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
        from modules.llm_platform.presentation.cli.indexing import IndexOrder, carry_out

        carry_out(console, ctx.obj, IndexOrder(tuple(paths), collection, prune, offline), as_json=as_json)
