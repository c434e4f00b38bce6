"""The command `read`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import run
from modules.llm_platform.presentation.cli.output import Delivery, FileKind
from modules.llm_platform.presentation.cli.setup import Wiring, goes_to_jina_unasked, prepare
from shared.config import Settings

SEEN_BY_JINA = (
    "Public addresses are given to r.jina.ai, which fetches the page for us. With --reader direct, or READERS=direct, not."
)


def run_read(console: Console, wiring: Wiring, arguments: Mapping[str, Any], url: str, delivery: Delivery) -> None:
    """Read the page and deliver it."""
    delivery.check(console)
    settings = prepare(console, arguments)
    if goes_to_jina_unasked(settings):
        console.warn(SEEN_BY_JINA)
    console.step("reading …")
    page = run(_read(wiring, settings, url))
    _deliver(console, page, delivery)


async def _read(wiring: Wiring, settings: Settings, url: str) -> Page:
    async with wiring.build_platform(settings) as platform:
        return await platform.pages.read(url)


def _deliver(console: Console, page: Page, delivery: Delivery) -> None:
    delivery.write(console, lambda kind: _file(page, kind))
    if delivery.as_json:
        from modules.llm_platform.presentation.cli.render_json import page_json

        console.verbatim(page_json(page))
    if delivery.on_screen:
        from modules.llm_platform.presentation.cli.render_terminal import render_footer, render_heading

        console.lines(render_heading(page))
        console.markdown(page.text)
        console.lines(render_footer(page))


def _file(page: Page, kind: FileKind) -> str:
    if kind == "json":
        from modules.llm_platform.presentation.cli.render_json import page_json

        return page_json(page) + "\n"
    from modules.llm_platform.presentation.cli.render_document import page_html, page_markdown

    return page_html(page) if kind == "html" else page_markdown(page)
