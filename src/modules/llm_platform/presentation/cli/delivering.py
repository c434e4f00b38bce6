"""Where the answer of a research goes: the screen, JSON, files; behind it what was sent out, where that is wanted."""

from __future__ import annotations

from modules.llm_platform.domain.dtos.research_dtos import ResearchResponse
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.output_file import Delivery, FileKind


def deliver(
    console: Console, response: ResearchResponse, delivery: Delivery, *, live: bool, without_model: str | None
) -> None:
    """Deliver it. `live`: its text stands on the terminal already. `without_model` is said where no model is configured."""
    delivery.write(console, lambda kind: _file(response, kind))
    delivery.write_csl(console, lambda: _csl(response))
    if delivery.as_json:
        from modules.llm_platform.presentation.cli.as_json import research_json

        console.verbatim(research_json(response))
    if delivery.on_screen:
        from modules.llm_platform.presentation.cli.for_people import beneath, with_unsupported_marked

        marked = with_unsupported_marked(response)
        if live:
            _show_marked_blocks(console, marked)
        else:
            console.markdown(marked)
        console.lines(beneath(response, without_model))
    if delivery.show_sent:
        _show_sent(console, response, delivery)


def _show_marked_blocks(console: Console, marked: str) -> None:
    """The answer stands on the screen, printed while it was written; only then could it be checked."""
    from modules.llm_platform.presentation.cli.for_people import AGAIN, blocks_with_marks

    if blocks := blocks_with_marks(marked):
        console.lines([Line(), Line(AGAIN, "yellow"), Line()])
        console.markdown(blocks)


def _show_sent(console: Console, response: ResearchResponse, delivery: Delivery) -> None:
    """Beneath the answer; beside it where standard output is for JSON alone, or for nothing."""
    from modules.llm_platform.presentation.cli.ledger_view import sent_lines

    lines = sent_lines(response.metadata.sent_to)
    (console.lines if delivery.on_screen else console.aside)(lines)


def _csl(response: ResearchResponse) -> str:
    from modules.llm_platform.presentation.cli.csl import csl_json

    return csl_json(response) + "\n"


def _file(response: ResearchResponse, kind: FileKind) -> str:
    if kind == "json":
        from modules.llm_platform.presentation.cli.as_json import research_json

        return research_json(response) + "\n"
    from modules.llm_platform.presentation.cli.for_files import research_html, research_markdown

    return research_html(response) if kind == "html" else research_markdown(response)
