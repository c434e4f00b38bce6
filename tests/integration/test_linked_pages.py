"""Further rounds read pages that are only reachable by a link of a read page, over loopback, on the wired platform."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.support.loopback_upstream import Exchange, head, serving

from modules.llm_platform import (
    ResearchRequest,
    ResearchResponse,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from shared.config import Settings

RIVERS = ("Bubye", "Salna", "Torvik", "Merrin", "Ossa", "Kelda")
COUNTRIES = ("Zambria", "Ardonia", "Velmark", "Tesmoria", "Quillan", "Norvia")
FALLS = ("Victor", "Silver", "Thunder", "Marble", "Crescent", "Ember")
FILLER = "The text of this page goes on for a while, so that it has enough words to be taken for the content of a page."


def question(river: str) -> str:
    return f"Which waterfall is in the country where the {river} River is found?"


class Wiki:
    """A wiki in which a river links to its country, and the country names a waterfall.

    The search finds river pages only.
    """

    def __init__(self, extra: str = "") -> None:
        self.asked: Counter[str] = Counter()
        self._extra = extra

    def html(self, path: str) -> str | None:
        kind, _, name = path.strip("/").partition("/")
        if kind == "river" and name in RIVERS:
            country = COUNTRIES[RIVERS.index(name)]
            others = " ".join(f'<a href="/index/{number}">List {number} of rivers</a>' for number in range(20))
            text = f'The {name} River is found in <a href="/country/{country}">{country}</a>. {FILLER} {self._extra}'
            return f"<title>{name} River</title><nav>{others}</nav><main><p>{text}</p></main>"
        if kind == "country" and name in COUNTRIES:
            falls = FALLS[COUNTRIES.index(name)]
            text = f"{falls} Falls is a waterfall in the country {name}. {FILLER}"
            return f"<title>{name}</title><main><p>{text}</p></main>"
        return None

    async def answer(self, exchange: Exchange) -> None:
        self.asked[exchange.path] += 1
        html = self.html(exchange.path)
        body = f"<html><body>{html}</body></html>".encode() if html else b"no"
        status = 200 if html else 404
        await exchange.send(head(status, "Content-Type: text/html", length=len(body)) + body)


class RiverSearch(IWebSearchProvider):
    name = "found"

    def __init__(self, base: str) -> None:
        self._base = base

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        found = [
            WebSearchResultItem(
                title=f"{river} River", url=f"{self._base}/river/{river}", snippet=f"On the {river} River."
            )
            for river in RIVERS
            if river in request.query
        ]
        return WebSearchResponse(query=request.query, results=tuple(found), provider="found")


async def answers(wiki: Wiki, *rivers: str, **fields: Any) -> list[ResearchResponse]:
    fields = {"fresh": fields.get("depth") == "report"} | fields
    async with serving(wiki.answer) as host:
        settings = Settings(
            _env_file=None,
            READER_ALLOWED_HOSTS=host.url.removeprefix("http://"),
            READERS="direct",
            READ_PAGES=None,
            READ_S=60.0,
            RESEARCH_TIMEOUT_S=600.0,
        )
        async with build_platform(settings, {IWebSearchProvider: RiverSearch(host.url)}) as platform:
            requests = [ResearchRequest(query=question(river), language="en", **fields) for river in rivers]
            return [await platform.research.research(request) for request in requests]


def has_falls(answer: ResearchResponse, river: str) -> bool:
    said = [answer.synthesis[found.start : found.end] for found in answer.citations if found.verdict == "supported"]
    return any(f"{FALLS[RIVERS.index(river)]} Falls" in sentence for sentence in said)


@pytest.mark.parametrize("depth", ["deep", "report"])
async def test_a_page_that_only_a_link_leads_to_is_read_and_quoted(depth: str) -> None:
    """A further round finds all countries, and a run without rounds finds none. Unrelated links are not followed."""
    wiki = Wiki()
    followed = await answers(wiki, *RIVERS, depth=depth)
    assert [has_falls(answer, river) for answer, river in zip(followed, RIVERS, strict=True)] == [True] * len(RIVERS)
    assert all(answer.metadata.pages_read >= 2 for answer in followed)
    assert not any(path.startswith("/index/") for path in wiki.asked)
    once = await answers(Wiki(), *RIVERS, depth=depth, rounds=0)
    assert not any(has_falls(answer, river) for answer, river in zip(once, RIVERS, strict=True))


@pytest.mark.parametrize("depth", ["deep", "report"])
async def test_links_obey_the_filters_of_the_request(depth: str) -> None:
    """Linked pages on excluded sites are not read, nor pages without a date if the request limits the time."""
    wiki = Wiki()
    await answers(wiki, "Bubye", depth=depth, domains=("-127.0.0.1",))
    await answers(wiki, "Bubye", depth=depth, time_range="month")
    assert "/country/Zambria" not in wiki.asked


@pytest.mark.parametrize("depth", ["deep", "report"])
async def test_only_a_limited_number_of_public_links_is_followed(depth: str) -> None:
    """Links to other schemes or private hosts are not followed.

    No address is read twice, and the pages of a round are limited.
    """
    hostile = (
        '<a href="javascript:Zambria()">Zambria</a> <a href="file:///etc/Zambria">Zambria</a> '
        '<a href="http://127.0.0.1:1/Zambria">Zambria</a> <a href="http://169.254.169.254/Zambria">Zambria</a> '
        + " ".join(f'<a href="/country/Zambria?{number}#{number}">Zambria {number}</a>' for number in range(50))
    )
    wiki = Wiki(hostile)
    [answer] = await answers(wiki, "Bubye", depth=depth)
    pages = [path for path in wiki.asked if path.startswith("/country/")]
    assert len(pages) <= 4
    assert max(wiki.asked.values()) == 1
    assert answer.synthesis


async def test_a_shallow_answer_follows_no_link() -> None:
    """A shallow answer reads only the page that the search found."""
    wiki = Wiki()
    await answers(wiki, "Bubye", depth="shallow")
    assert set(wiki.asked) == {"/river/Bubye"}
