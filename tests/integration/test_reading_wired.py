"""Page reading on the wired platform, over loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.loopback_upstream import Exchange, Handler, head, reply, serving

from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.exceptions import PageConfigError, PageRequestError
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.testing import FakePageReader
from shared.config import Settings

PAGE = b"<html><head><title>Wiki page</title></head><body><p>Some text.</p><p hidden>no</p></body></html>"
FROM_JINA = b"Title: From Jina\n\nMarkdown Content:\nText by Jina."


def page(body: bytes = PAGE) -> Handler:
    return reply(200, body, "Content-Type: text/html")


def jina() -> Handler:
    return reply(200, FROM_JINA, "Content-Type: text/plain")


def settings(**values: Any) -> Settings:
    return Settings(_env_file=None, **values)


async def test_an_allowed_page_is_read_directly() -> None:
    """A host in READER_ALLOWED_HOSTS is read directly, without a third-party reader."""
    async with serving(page()) as site:
        given = settings(READER_ALLOWED_HOSTS=site.url.removeprefix("http://"))
        async with build_platform(given) as platform:
            found = await platform.pages.read(f"{site.url}/a")
    assert (found.title, found.text, found.reader) == ("Wiki page", "Some text.", "direct")


async def test_a_jina_of_ones_own_reads_allowed_pages() -> None:
    """A self-hosted Jina on loopback reads allowed pages, and is used first."""
    async with serving(jina()) as upstream, serving(page()) as site:
        given = settings(
            READER_ALLOWED_HOSTS=site.url.removeprefix("http://"),
            JINA_BASE_URL=upstream.url,
            JINA_API_KEY="jina_012345",
        )
        async with build_platform(given) as platform:
            found = await platform.pages.read(f"{site.url}/a")
    assert (found.title, found.reader) == ("From Jina", "jina")
    assert upstream.requests[0].path == f"/{site.url}/a"
    assert site.requests == []


async def test_the_next_reader_when_jina_fails() -> None:
    """READERS are tried in order."""
    async with serving(reply(503)) as upstream, serving(page()) as site:
        given = settings(READER_ALLOWED_HOSTS=site.url.removeprefix("http://"), JINA_BASE_URL=upstream.url)
        async with build_platform(given) as platform:
            found = await platform.pages.read(f"{site.url}/a")
    assert found.reader == "direct"


async def test_non_public_addresses_are_not_sent_to_readers() -> None:
    """Jina does not receive addresses that the guard refuses."""
    async with serving(jina()) as upstream, build_platform(settings(JINA_BASE_URL=upstream.url)) as platform:
        for url in ("http://10.0.0.1/", "http://localhost:1/", "http://u:p@a.example.net/"):
            with pytest.raises(PageRequestError):
                await platform.pages.read(url)
    assert upstream.requests == []


async def test_robots_are_heeded_where_the_setting_says_so() -> None:
    """READERS=direct-robots makes the reader obey robots.txt."""

    async def site(exchange: Exchange) -> None:
        body = b"User-agent: *\nDisallow: /" if exchange.path == "/robots.txt" else PAGE
        await exchange.send(head(200, "Content-Type: text/plain", length=len(body)) + body)

    async with serving(site) as server:
        given = settings(READER_ALLOWED_HOSTS=server.url.removeprefix("http://"), READERS="direct-robots")
        async with build_platform(given) as platform:
            with pytest.raises(Exception, match=r"robots\.txt"):
                await platform.pages.read(f"{server.url}/a")
    assert [request.path for request in server.requests] == ["/robots.txt"]


async def test_offline_no_page_is_read() -> None:
    """Offline even an allowed page is an error, without a connection."""
    given = settings(LLM_PLATFORM_OFFLINE=True, READER_ALLOWED_HOSTS="127.0.0.1")
    async with build_platform(given) as platform:
        with pytest.raises(PageConfigError, match="Offline"):
            await platform.pages.read("http://127.0.0.1:9/")


async def test_a_reader_can_be_replaced() -> None:
    """The reader can be overridden like every port."""
    async with build_platform(settings(), overrides={IPageReader: FakePageReader({"x": "text"})}) as platform:
        assert (await platform.pages.read("x")).text == "text"


async def test_a_replaced_reader_reads_what_is_verified() -> None:
    url, sentence = "https://example.org/harbour", "The harbour is nine metres deep."
    async with build_platform(settings(), overrides={IPageReader: FakePageReader({url: sentence})}) as platform:
        verified = await platform.verification.verify(f"{sentence} [1]\n\n[1] {url}")
    assert [(source.url, source.state) for source in verified.sources] == [(url, "read")]


async def test_a_result_is_read_whether_page_or_document(tmp_path: Path) -> None:
    """A document is read as indexed, and a web address by the guarded readers."""
    (tmp_path / "a.md").write_text("# Harbour\n\nThe harbour is nine metres deep.\n")
    async with serving(page()) as site:
        given = settings(
            DOCUMENTS_DIR=tmp_path,
            LLM_PLATFORM_DATA_DIR=tmp_path / "data",
            READER_ALLOWED_HOSTS=site.url.removeprefix("http://"),
        )
        async with build_platform(given) as platform:
            document = await platform.result_pages.read("doc:a.md")
            found = await platform.result_pages.read(f"{site.url}/a")
            for url in ("http://10.0.0.1/", "doc:../a.md", "doc:/etc/passwd"):
                with pytest.raises(PageRequestError):
                    await platform.result_pages.read(url)
    assert "nine metres" in document.text
    assert (document.reader, found.reader) == ("documents", "direct")
