"""The page of HTML inside a sealed answer opens anywhere, and runs nothing of what strangers wrote."""

from __future__ import annotations

from html.parser import HTMLParser

from tests.support.sealed_answers import BRIDGE, SOURCES, TOWER, check_answer, make_seals

from modules.llm_platform.presentation.cli.render.document import CONTENT_SECURITY_POLICY

HOSTILE = TOWER.model_copy(
    update={"title": "<b>Tower</b>", "text": f"<script>alert(1)</script>\n{TOWER.text}", "media_type": 'a"><img src=x>'}
)


class Tags(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)


async def make_page(*sources: object) -> str:
    found = tuple(sources) or SOURCES
    answer = await check_answer(sources=found)  # type: ignore[arg-type]
    return make_seals().open(make_seals().seal(answer, found)).page  # type: ignore[arg-type]


async def test_it_shows_strip_receipts_and_sources() -> None:
    """The page shows the texts as they were read, with the data of each read and with marked quotes."""
    page = await make_page()
    assert '<div class="strip"' in page
    assert "Citations" in page
    for known in (TOWER.sha256, BRIDGE.sha256, "text/html", "read at 2026-11-26T12:00:00+00:00", "50% of the page"):
        assert known in page
    assert f"<mark>{BRIDGE.text}</mark>" in page


async def test_it_runs_nothing_and_asks_for_nothing() -> None:
    """Titles and texts are escaped, and the policy forbids every request."""
    page = await make_page(HOSTILE, *SOURCES[1:])
    assert not Tags(page).found & {"script", "img", "b", "iframe", "link", "form"}
    assert CONTENT_SECURITY_POLICY in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
