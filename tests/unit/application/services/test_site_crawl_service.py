"""application/services/site_crawl_service.py: which pages a crawl opens, and where it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import ValidationError
from tests.fakes.site_reader import FakeSiteReader, SiteOutcome
from tests.support.cases import for_each
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.application.services import site_crawl_service
from modules.llm_platform.application.services.site_crawl_service import (
    LINK_BATCH_SIZE,
    MAX_CONCURRENT_READS,
    MAX_CRAWL_BYTES,
    SiteCrawlService,
    SiteScope,
)
from modules.llm_platform.domain.dtos.site_crawl_dtos import SiteCrawl, SiteCrawlRequest
from modules.llm_platform.domain.exceptions import PageBlockedError, PageError, PageTimeoutError

ROOT = "https://example.org/"
SITE: dict[str, SiteOutcome] = {
    ROOT: ["/a", "/b", "/a#part", "https://elsewhere.example/x", "mailto:"],
    "https://example.org/a": ["/a/1", "/", "/a/2"],
    "https://example.org/b": PageError("There is no such page (404)"),
    "https://example.org/a/1": ["/a/1/deep"],
    "https://example.org/a/2": [],
    "https://example.org/a/1/deep": [],
    "https://elsewhere.example/x": ["/y"],
}


async def crawled(pages: dict[str, SiteOutcome] | None = None, **fields: Any) -> tuple[SiteCrawl, FakeSiteReader]:
    reader = FakeSiteReader(SITE if pages is None else pages)
    return await SiteCrawlService(reader).crawl(SiteCrawlRequest(**{"url": ROOT, **fields})), reader


def paths(found: SiteCrawl) -> list[str]:
    return [page.page.url.removeprefix("https://example.org") for page in found.pages]


async def test_depth_counts_links_and_a_page_is_read_once() -> None:
    """With depth 1, the first page and its links on the site are read once each, in order."""
    found, reader = await crawled()
    assert paths(found) == ["/", "/a"]
    assert [page.model_dump() for page in found.failed] == [
        {"url": "https://example.org/b", "error": "There is no such page (404)", "code": "page_error"}
    ]
    assert sorted(reader.urls) == [ROOT, "https://example.org/a", "https://example.org/b"]
    assert found.stopped is None
    assert [page.links for page in found.pages] == [(), ()]


async def test_deeper_pages_follow_by_level() -> None:
    assert paths((await crawled(max_depth=2))[0]) == ["/", "/a", "/a/1", "/a/2"]
    assert paths((await crawled(max_depth=5))[0]) == ["/", "/a", "/a/1", "/a/2", "/a/1/deep"]


async def test_a_map_lists_the_last_level_without_reading_it() -> None:
    reader = FakeSiteReader(SITE)
    found = await SiteCrawlService(reader).map(SiteCrawlRequest(url=ROOT))
    assert (found.urls, reader.urls) == ((ROOT, "https://example.org/a", "https://example.org/b"), [ROOT])
    assert found.failed == ()


async def test_limit_and_breadth_bound_the_pages() -> None:
    """Endless links, such as a calendar's, end at the limit, and the answer says so."""
    endless: dict[str, SiteOutcome] = {ROOT: ["/0"]}
    endless |= {f"https://example.org/{day}": [f"/{day + 1}", f"/x{day}"] for day in range(100)}
    found, reader = await crawled(endless, limit=4, max_depth=5)
    assert (len(reader.urls), found.stopped) == (4, "limit")
    found, _ = await crawled({ROOT: [f"/{number}" for number in range(9)]}, max_breadth=3)
    assert len(found.urls) == 4
    assert found.stopped is None


@for_each(
    ("fields", "expected"),
    [
        ({"select_paths": ["/a.*"]}, ["/", "/a"]),
        ({"exclude_paths": ["^/a$"]}, ["/"]),
        ({"select_domains": [r"^docs\."]}, ["/"]),
        ({"exclude_domains": ["example"]}, ["/"]),
        ({"allow_external": True, "max_depth": 2}, ["/", "/a", "https://elsewhere.example/x", "/a/1", "/a/2"]),
        ({"allow_external": True, "exclude_domains": ["elsewhere"]}, ["/", "/a"]),
    ],
)
async def test_filters_select_pages_and_other_hosts_are_leaves(fields: dict[str, Any], expected: list[str]) -> None:
    """The first page is read whatever the patterns. The links of a page of another host are not followed."""
    found, reader = await crawled(**fields)
    assert paths(found) == expected
    assert "https://elsewhere.example/y" not in reader.urls


async def test_links_of_a_page_on_another_host_are_not_followed() -> None:
    """The final address of a page counts, not the address of the link."""
    pages: dict[str, SiteOutcome] = {
        ROOT: ["/out", "/in"],
        "https://example.org/out": "https://elsewhere.example/x",
        "https://example.org/in": ["/in/1"],
        "https://elsewhere.example/x": ["https://elsewhere.example/y", "https://example.org/out/1"],
    }
    _, reader = await crawled(pages, allow_external=True, max_depth=3)
    assert sorted(reader.urls) == [
        ROOT,
        "https://example.org/in",
        "https://example.org/in/1",
        "https://example.org/out",
    ]


@for_each(
    ("url", "is_on_site"),
    [
        ("https://example.org/x", True),
        ("http://www.example.org/x", True),
        ("https://docs.example.org/", True),
        ("https://example.org.evil.net/", False),
        ("https://notexample.org/", False),
        ("https://example.org:8443/", False),
        ("https://org/", False),
    ],
)
def test_site_is_the_host_and_what_is_below_it(url: str, is_on_site: bool) -> None:
    """Another port is another server: an administration page, perhaps."""
    scope = SiteScope(SiteCrawlRequest(url="https://www.example.org/"), "https://www.example.org/")
    assert (scope.is_on_site(url), scope.admits(url)) == (is_on_site, is_on_site)


async def test_instructions_bring_fitting_links_first() -> None:
    links: SiteOutcome = ["/imprint", ("/p7", "Pricing plans"), "/sdk/python"]
    found, _ = await crawled({ROOT: links}, instructions="Find the Python SDK", max_breadth=1)
    assert found.urls[1:] == ("https://example.org/sdk/python",)
    found, _ = await crawled({ROOT: links}, instructions="prices of the plans", max_breadth=1)
    assert found.urls[1:] == ("https://example.org/p7",)


async def test_redirects_stay_on_the_site_and_two_to_one_page_are_one() -> None:
    pages: dict[str, SiteOutcome] = {
        ROOT: ["/old", "/older", "/out"],
        "https://example.org/old": "https://example.org/new",
        "https://example.org/older": "https://example.org/new",
        "https://example.org/out": "https://elsewhere.example/x",
        "https://example.org/new": [],
        "https://elsewhere.example/x": [],
    }
    found, _ = await crawled(pages)
    assert paths(found) == ["/", "/new"]
    [failed] = found.failed
    assert failed.url == "https://example.org/out"
    assert "redirects" in failed.error


@for_each("error", [PageBlockedError("robots"), PageError("404")])
async def test_first_page_that_cannot_be_read_is_an_error(error: Exception) -> None:
    with pytest.raises(type(error)):
        await crawled({ROOT: error})  # type: ignore[dict-item]


@in_virtual_time
async def test_deadline_returns_what_was_read() -> None:
    """A silent page only loses its own result."""
    pages: dict[str, SiteOutcome] = {ROOT: ["/slow", "/a"], "https://example.org/a": [], "https://example.org/slow": []}
    reader = FakeSiteReader(pages, {"https://example.org/slow": asyncio.Event()})
    found = await SiteCrawlService(reader).crawl(SiteCrawlRequest(url=ROOT, timeout_s=0.5))
    assert (paths(found), found.stopped, reader.running) == (["/", "/a"], "deadline", 0)
    assert [(page.url, "deadline" in page.error) for page in found.failed] == [("https://example.org/slow", True)]
    with pytest.raises(PageTimeoutError):
        await SiteCrawlService(FakeSiteReader({}, {ROOT: asyncio.Event()})).crawl(
            SiteCrawlRequest(url=ROOT, timeout_s=0.05)
        )


async def test_size_and_concurrency_are_bounded() -> None:
    pages: dict[str, SiteOutcome] = {ROOT: [f"/{number}" for number in range(20)]}
    pages |= {f"https://example.org/{number}": [] for number in range(20)}
    reader = FakeSiteReader(pages, size_bytes=MAX_CRAWL_BYTES // 4)
    found = await SiteCrawlService(reader).crawl(SiteCrawlRequest(url=ROOT))
    assert found.stopped == "size"
    assert len(reader.urls) <= 5 + MAX_CONCURRENT_READS
    assert len(found.pages) + len(found.failed) == 21
    assert reader.most_running <= MAX_CONCURRENT_READS


async def test_oversized_pages_are_reported_even_if_the_page_limit_is_reached() -> None:
    """The page limit is reached later, while links are followed, and must not hide the oversized pages."""
    pages: dict[str, SiteOutcome] = {ROOT: [f"/{number}" for number in range(20)]}
    pages |= {f"https://example.org/{number}": [f"/{number}/deeper"] for number in range(20)}
    reader = FakeSiteReader(pages, size_bytes=MAX_CRAWL_BYTES // 4)
    found = await SiteCrawlService(reader).crawl(SiteCrawlRequest(url=ROOT, max_depth=2, limit=21))
    assert found.stopped == "size"
    assert len(found.pages) + len(found.failed) == len(found.urls) == 21


async def test_cancelled_crawl_ends_its_reads() -> None:
    reader = FakeSiteReader({}, {ROOT: asyncio.Event()})
    task = asyncio.create_task(SiteCrawlService(reader).crawl(SiteCrawlRequest(url=ROOT)))
    async with asyncio.timeout(10):
        while not reader.running:
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), reader.running) == (True, 0)


@for_each(
    "fields",
    [
        {"max_depth": 6},
        {"max_depth": 0},
        {"max_breadth": 501},
        {"limit": 501},
        {"select_paths": ["("]},
        {"timeout_s": 151},
        {"url": ""},
    ],
)
def test_what_is_out_of_bounds_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SiteCrawlRequest(**{"url": ROOT, **fields})


def test_address_without_a_scheme_is_https() -> None:
    assert SiteCrawlRequest(url="docs.example.org").url == "https://docs.example.org"


async def test_links_are_looked_at_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a million links of one level leave other requests their turn."""
    looked_at = 0
    most_at_once = 0

    def count(url: str) -> str:
        nonlocal looked_at
        looked_at += 1
        return url

    async def watch() -> None:
        nonlocal looked_at, most_at_once
        while True:
            most_at_once, looked_at = max(most_at_once, looked_at), 0
            await asyncio.sleep(0)

    monkeypatch.setattr(site_crawl_service, "canonical_url", count)
    pages: dict[str, SiteOutcome] = {ROOT: [f"/p{n}" for n in range(10)]}
    pages |= {f"{ROOT}p{n}": [f"/p{n % 10}?{n}"] * (3 * LINK_BATCH_SIZE) for n in range(10)}
    watching = asyncio.create_task(watch())
    await crawled(pages, max_depth=2)
    watching.cancel()
    assert 0 < most_at_once <= LINK_BATCH_SIZE + 10  # the reader asks for some
