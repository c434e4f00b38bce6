"""`llm-platform ask`: an answer from the indexed documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import exit_codes
from modules.llm_platform.presentation.cli.output_file import Delivery

MAX_TOP_K = 100


def ask(
    ctx: typer.Context,
    question: Annotated[
        str | None,
        typer.Argument(metavar="QUESTION", help="What to answer; left out, it is asked for, or read from standard input."),
    ] = None,
    collection: Annotated[
        str | None, typer.Option("--collection", metavar="NAME", help="The collection to ask; default QDRANT_COLLECTION.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="KEY=VALUE", help="Only documents with this value; repeatable, one key with any."),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", metavar="N", min=1, max=MAX_TOP_K, help="Documents to answer from; default RAG_TOP_K."),
    ] = None,
    context: Annotated[
        Path | None,
        typer.Option(
            "--context", metavar="FILE.json", exists=True, dir_okay=False,
            help="Answer from this first: a list of {doc_id, snippet, url}.",
        ),
    ] = None,
    language: options.Language = None,
    offline: options.Offline = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON, and nothing else.")] = False,
    output: options.Output = None,
    yes: options.Yes = False,
) -> None:  # fmt: skip
    """Answer a question from the indexed documents."""
    console = Console()
    with exit_codes(console):
        from modules.llm_platform.presentation.cli.asking import AskOrder, carry_out

        carry_out(
            console,
            ctx.obj,
            options.setting_arguments(offline=offline, QDRANT_COLLECTION=options.collection_named(collection)),
            AskOrder(
                question=question, top_k=top_k, filters=tuple(filters or ()), context_file=context, language=language
            ),
            Delivery(as_json, output, ask=not yes),
        )  # fmt: skip
