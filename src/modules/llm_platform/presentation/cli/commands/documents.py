"""The command `documents`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from modules.llm_platform.domain.dtos.document_dtos import MAX_LISTED_DOCUMENTS, DocumentList
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.presentation.cli import options, setup
from modules.llm_platform.presentation.cli.console import Line
from modules.llm_platform.presentation.cli.render.json import write_model_json
from modules.llm_platform.presentation.cli.render.progress import report_folder_progress
from modules.llm_platform.presentation.cli.render.terminal import display_url, shorten

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform

LISTED = 50
POLL_S = 0.2  # between two looks at a folder that is being read
MAX_ADDRESS_CHARS = 40  # a longer address moves its title to the right


def documents(
    ctx: typer.Context,
    documents: options.Documents = None,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=1, max=MAX_LISTED_DOCUMENTS, help="Documents and problems listed."),
    ] = LISTED,
    as_json: options.PlainJson = False,
) -> None:
    """List the documents that are searched, and the files that cannot be read."""
    console, wiring = setup.get_command_context(ctx)
    settings = setup.configure(console, options.make_setting_arguments(documents=documents))

    async def list_them(platform: LLMPlatform) -> DocumentList:
        async with report_folder_progress(console, platform):
            while (found := await platform.list_documents(limit)).reading is not None:  # noqa: ASYNC110  nothing announces it
                await asyncio.sleep(POLL_S)
        return found

    found = setup.run_with_platform(wiring, settings, list_them)
    if as_json:
        console.print_verbatim(write_model_json(found))
    else:
        console.print_lines(_render(found))


def _render(found: DocumentList) -> Iterator[Line]:
    shown = len(found.documents)
    yield Line(
        f"More than {shown:,} documents" if found.total is None else format_count(found.total, "document"), "bold"
    )
    addresses = [display_url(document.url) for document in found.documents]
    width = min(MAX_ADDRESS_CHARS, max(map(len, addresses), default=0))
    for address, document in zip(addresses, found.documents, strict=True):
        yield Line(f"  {address:<{width}}  {shorten(document.title)}")
    yield from _count_others((found.total or shown) - shown)
    for heading, count, is_partly_read in (
        ("Not read", found.not_read, False),
        ("Read in part", found.partly_read, True),
    ):
        problems = [problem for problem in found.problems if problem.is_partly_read is is_partly_read]
        if count:
            yield Line()
            yield Line(f"{heading}: {count:,}", "bold")
            yield from (Line(f"  {problem.path}: {problem.reason}") for problem in problems)
            yield from _count_others(count - len(problems))
    if found.unread:
        yield Line()
        yield Line(f"{found.unread[0].upper()}{found.unread[1:]}.")
    if not (found.documents or found.problems or found.unread):
        yield Line("Name a folder that has documents: llm-platform documents --documents DIR, or set DOCUMENTS_DIR.")


def _count_others(count: int) -> Iterator[Line]:
    if count > 0:
        yield Line(f"  … and {count:,} more: --limit lists up to {MAX_LISTED_DOCUMENTS:,}", "dim")
