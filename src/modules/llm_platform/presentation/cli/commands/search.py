"""The command `search`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import WebSearchRequestError
from modules.llm_platform.domain.search.freshness import freshness_window
from modules.llm_platform.presentation.cli import options, setup
from modules.llm_platform.presentation.cli.options import build_request, reject, split_list
from modules.llm_platform.presentation.cli.output import OutputOptions, Renderers
from modules.llm_platform.presentation.cli.render.document import search_html, search_markdown
from modules.llm_platform.presentation.cli.render.json import search_json
from modules.llm_platform.presentation.cli.render.progress import report_folder_progress
from modules.llm_platform.presentation.cli.render.terminal import render_results

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform


def search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to search for.")],
    count: Annotated[int, typer.Option("--count", metavar="N", help="Results, 1 to 50.")] = 10,
    page: Annotated[int, typer.Option("--page", metavar="N", help="Which page of results, 1 to 50.")] = 1,
    freshness: options.Freshness = None,
    time_range: options.TimeRange = None,
    sources: options.Sources = None,
    engines: Annotated[
        str | None,
        typer.Option("--engines", metavar="LIST", help="Comma-separated list, for a provider with several engines."),
    ] = None,
    domains: options.Domains = None,
    language: options.Language = None,
    provider: options.Provider = None,
    documents: options.Documents = None,
    offline: options.Offline = False,
    as_json: options.AsJson = False,
    output: options.Output = None,
    yes: options.Yes = False,
) -> None:
    """Search, and list the results."""
    console, wiring = setup.get_command_context(ctx)
    arguments = options.make_setting_arguments(provider=provider, documents=documents, offline=offline)
    values = {
        "query": query,
        "count": count,
        "page": page,
        "freshness": freshness,
        "time_range": time_range,
        "language": language,
        "sources": options.select_source_kinds(sources, documents),
        "engines": split_list(engines),
        "domains": split_list(domains),
    }
    request = build_request(WebSearchRequest, values, argument="QUERY")
    # Check before anything is sent what the adapters would refuse with the same message.
    try:
        freshness_window(request)
    except WebSearchRequestError as error:
        reject("--freshness", error.message)
    output_options = OutputOptions(as_json, output, prompts_enabled=not yes)
    output_options.check(console)
    settings = setup.configure(console, arguments)
    is_keyless = setup.warn_about_keyless_search(console, wiring, settings)
    console.print_progress("searching …")

    async def search_platform(platform: LLMPlatform) -> WebSearchResponse:
        async with report_folder_progress(console, platform):
            return await platform.web_search.search(request)

    with setup.network_remedy(is_keyless=is_keyless):
        response = setup.run_with_platform(wiring, settings, search_platform)
    renderers: Renderers = {
        "json": partial(search_json, response),
        "md": partial(search_markdown, response),
        "html": partial(search_html, response),
    }
    output_options.deliver(console, renderers, lambda: console.print_lines(render_results(response)))
