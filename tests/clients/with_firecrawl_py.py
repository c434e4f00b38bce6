"""Firecrawl's Python SDK, versions 2 and 1."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import requests
from checks import ANSWER, KEY, LIMITED_URL, OPEN_URL, PAGE_URL, QUESTION, URL, check, main, raised
from firecrawl import AsyncFirecrawl, Firecrawl, V1FirecrawlApp
from firecrawl.v2.types import PaginationConfig, ScrapeOptions
from firecrawl.v2.utils.error_handler import (
    BadRequestError,
    RateLimitError,
    UnauthorizedError,
    WebsiteNotSupportedError,
)

# Version 2 drops the path of the URL, version 1 keeps it.
client = Firecrawl(api_key=KEY, api_url=URL)
older = V1FirecrawlApp(api_key=KEY, api_url=f"{URL}/firecrawl")


@check("scrape")
def scrape():
    page = client.scrape(PAGE_URL, formats=["markdown", "links", "html"], only_main_content=True, timeout=30_000)
    assert ANSWER in page.markdown
    assert f"{PAGE_URL}/tasks" in page.links
    assert (page.metadata.source_url, page.metadata.status_code, page.metadata.title) == (PAGE_URL, 200, "asyncio")
    assert "html is not served" in page.warning


@check("search", "search")
def search():
    found = client.search(QUESTION, limit=3, sources=["web", "news"], tbs="qdr:w")
    assert ANSWER in found.web[0].description
    assert found.news[0].url
    assert not client.search(QUESTION, include_domains=["nothing.example"]).images


@check("search, with the pages", "search")
def search_pages():
    found = Firecrawl(api_key="unused", api_url=OPEN_URL).search(
        QUESTION, scrape_options=ScrapeOptions(formats=["markdown"])
    )
    assert found.web


@check("map")
def map_site():
    assert [link.url for link in client.map(PAGE_URL, search="tasks").links][:2] == [PAGE_URL, f"{PAGE_URL}/tasks"]


@check("crawl")
def crawl():
    found = client.crawl(
        PAGE_URL, limit=10, poll_interval=1, timeout=100, scrape_options=ScrapeOptions(formats=["markdown"])
    )
    assert found.status == "completed"
    assert [page.metadata.source_url for page in found.data] == [PAGE_URL, f"{PAGE_URL}/tasks"]
    assert all(ANSWER in page.markdown for page in found.data)


@check("crawl: status, pages, errors, cancel")
def crawl_job():
    job = client.start_crawl(PAGE_URL, limit=10)
    while client.get_crawl_status(job.id).status == "scraping":
        pass
    one = PaginationConfig(auto_paginate=False)
    assert len(client.get_crawl_status(job.id, pagination_config=one).data) == 2
    first = client.get_crawl_status_page(f"{URL}/v2/crawl/{job.id}?limit=1")
    second = client.get_crawl_status_page(first.next)
    assert [page.metadata.source_url for page in first.data + second.data] == [PAGE_URL, f"{PAGE_URL}/tasks"]
    assert client.get_crawl_errors(job.id).robots_blocked == [f"{PAGE_URL}/private"]
    assert client.cancel_crawl(job.id) is False


@check("async")
def async_client():
    async def ask():
        asking = AsyncFirecrawl(api_key=KEY, api_url=URL)
        assert ANSWER in (await asking.scrape(PAGE_URL)).markdown
        assert ANSWER in (await asking.search(QUESTION)).web[0].description
        assert len((await asking.map(PAGE_URL)).links) == 3

    asyncio.run(ask())


@check("version 1: scrape, search, map, crawl")
def version_1():
    page = older.scrape_url(PAGE_URL, formats=["markdown", "links"])
    assert ANSWER in page.markdown
    assert f"{PAGE_URL}/tasks" in page.links
    assert ANSWER in older.search(QUESTION, limit=3).data[0]["description"]
    assert older.map_url(PAGE_URL).links[:2] == [PAGE_URL, f"{PAGE_URL}/tasks"]
    found = older.crawl_url(PAGE_URL, limit=10, poll_interval=2)
    assert [page.metadata["sourceURL"] for page in found.data] == [PAGE_URL, f"{PAGE_URL}/tasks"]
    job = older.async_crawl_url(PAGE_URL)
    with suppress(requests.HTTPError):  # a conflict if the crawl ended first
        older.cancel_crawl(job.id)


@check("without an API key")
def no_key():
    assert ANSWER in Firecrawl(api_key="unused", api_url=OPEN_URL).scrape(PAGE_URL).markdown


@check("errors")
def errors():
    wrong = Firecrawl(api_key="not-the-right-key", api_url=URL)
    raised(UnauthorizedError, lambda: wrong.scrape(PAGE_URL))
    assert "not served" in str(raised(BadRequestError, lambda: client.scrape(PAGE_URL, formats=["rawHtml"])))
    assert "url: " in str(raised(BadRequestError, lambda: client.scrape("http://169.254.169.254/latest/meta-data")))
    assert "robots.txt" in str(raised(WebsiteNotSupportedError, lambda: client.map(f"{PAGE_URL}/private")))
    limited = Firecrawl(api_key=KEY, api_url=LIMITED_URL, max_retries=1)
    raised(RateLimitError, lambda: limited.scrape(PAGE_URL), tries=2)


main()
