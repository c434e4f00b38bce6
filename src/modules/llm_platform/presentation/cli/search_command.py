"""The command `search`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import WebSearchRequestError
from modules.llm_platform.domain.freshness import freshness_window
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import run
from modules.llm_platform.presentation.cli.options import to_request, wrong
from modules.llm_platform.presentation.cli.output import Delivery, FileKind
from modules.llm_platform.presentation.cli.research_command import report_folder_progress
from modules.llm_platform.presentation.cli.setup import Wiring, prepare, remedy_named, warn_about_network
from shared.config import Settings


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What the options ask for; named as the fields of a WebSearchRequest."""

    query: str
    count: int = 10
    page: int = 1
    freshness: str | None = None
    time_range: str | None = None
    language: str | None = None
    sources: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()


def run_search(
    console: Console, wiring: Wiring, arguments: Mapping[str, Any], order: SearchOptions, delivery: Delivery
) -> None:
    """Search and deliver what was found."""
    request = to_request(WebSearchRequest, asdict(order), argument="QUERY")
    _check_freshness(request)
    delivery.check(console)
    settings = prepare(console, arguments)
    keyless = warn_about_network(console, wiring, settings)
    console.step("searching …")
    with remedy_named(keyless=keyless):
        response = run(_search(console, wiring, settings, request))
    _deliver(console, response, delivery)


def _check_freshness(request: WebSearchRequest) -> None:
    """Before anything is said or spent: adapters would refuse it in the same words."""
    try:
        freshness_window(request)
    except WebSearchRequestError as error:
        wrong("--freshness", error.message)


async def _search(console: Console, wiring: Wiring, settings: Settings, request: WebSearchRequest) -> WebSearchResponse:
    async with wiring.build_platform(settings) as platform, report_folder_progress(console, platform):
        return await platform.web_search.search(request)


def _deliver(console: Console, response: WebSearchResponse, delivery: Delivery) -> None:
    delivery.write(console, lambda kind: _file(response, kind))
    if delivery.as_json:
        from modules.llm_platform.presentation.cli.render_json import search_json

        console.verbatim(search_json(response))
    if delivery.on_screen:
        from modules.llm_platform.presentation.cli.render_terminal import render_results

        console.lines(render_results(response))


def _file(response: WebSearchResponse, kind: FileKind) -> str:
    if kind == "json":
        from modules.llm_platform.presentation.cli.render_json import search_json

        return search_json(response) + "\n"
    from modules.llm_platform.presentation.cli.render_document import search_html, search_markdown

    return search_html(response) if kind == "html" else search_markdown(response)
