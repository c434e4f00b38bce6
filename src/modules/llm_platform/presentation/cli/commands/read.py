"""The command `read`."""

from functools import partial
from typing import Annotated, Literal

import typer

from modules.llm_platform.domain.urls.canonical_url import is_openable
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.output import OutputOptions, Renderers
from modules.llm_platform.presentation.cli.render.document import render_page_html, render_page_markdown
from modules.llm_platform.presentation.cli.render.json import write_model_json
from modules.llm_platform.presentation.cli.render.terminal import render_footer, render_heading
from modules.llm_platform.presentation.cli.setup import (
    configure,
    get_command_context,
    run_with_platform,
    warn_about_jina,
)

ReaderName = Literal["jina", "direct"]


def read(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of a web page, a PDF or a text.")],
    reader: Annotated[
        ReaderName | None,
        typer.Option("--reader", help="Use only this reader: jina (a service that receives the address) or direct."),
    ] = None,
    offline: options.Offline = False,
    as_json: options.PlainJson = False,
    output: options.Output = None,
    yes: options.Yes = False,
) -> None:
    """Read a page safely, and show its text."""
    console, wiring = get_command_context(ctx)
    output_options = OutputOptions(as_json, output, prompts_enabled=not yes)
    output_options.check(console)
    address = url.strip()
    if not is_openable(address):
        options.reject("URL", "must begin with http:// or https:// and name a host, such as https://example.org/page")
    arguments = options.make_setting_arguments(offline=offline, READERS=(reader,) if reader else None)
    settings = configure(console, arguments)
    warn_about_jina(console, settings, or_option="--reader direct")
    console.print_progress("reading …")
    page = run_with_platform(wiring, settings, lambda platform: platform.pages.read(address))

    def print_page() -> None:
        console.print_lines(render_heading(page))
        console.print_markdown(page.text)
        console.print_lines(render_footer(page))

    renderers: Renderers = {
        "json": partial(write_model_json, page),
        "md": partial(render_page_markdown, page),
        "html": partial(render_page_html, page),
    }
    output_options.deliver(console, renderers, print_page)
