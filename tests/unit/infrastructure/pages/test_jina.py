"""Requests to Jina and its answers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.loopback_upstream import Exchange, Handler, drip, head, json_reply, reply, serving

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import (
    PageBlockedError,
    PageConfigError,
    PageConnectionError,
    PageError,
    PageNotFoundError,
    PageTimeoutError,
)
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.infrastructure.http.client import MAX_PATHS, make_client
from modules.llm_platform.infrastructure.pages.jina import JinaPageReader
from shared.exceptions import AppException

KEY = "jina_0123456789abcdef"
URL = "https://docs.example.net/a?b=c"
GOOD = (
    "Title: Event loops\n\nURL Source: https://docs.example.net/final\n\nPublished Time: 2026-01-02\n\n"
    "Markdown Content:\n# Loops\n\nText."
)


async def read(handler: Handler, url: str = URL, **options: Any) -> tuple[Page, Exchange]:
    async with serving(handler) as upstream, make_client(upstream.url) as client:
        reader = JinaPageReader(base_url=upstream.url, client=client, **options)
        return await reader.read(url), upstream.requests[0]


def text(body: str, status: int = 200, *headers: str) -> Handler:
    return reply(status, body.encode(), "Content-Type: text/plain; charset=utf-8", *headers)


async def error_of(handler: Handler, **options: Any) -> AppException:
    with pytest.raises(AppException) as caught:
        await read(handler, **options)
    assert "docs.example.net" not in caught.value.message
    return caught.value


async def test_the_request_has_address_key_and_options() -> None:
    """The request is a GET of the base plus the address, with no images, a deadline, and our User-Agent."""
    _, request = await read(text(GOOD), api_key=KEY, timeout=7)
    assert (request.method, request.path) == ("GET", "/https://docs.example.net/a?b=c")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-retain-images"] == "none"
    assert request.headers["x-timeout"] == "7"
    assert request.headers["user-agent"].startswith("llm-platform")
    assert "cookie" not in request.headers


async def test_without_a_key_there_is_no_authorization() -> None:
    """A long deadline is cut to what Jina accepts."""
    _, request = await read(text(GOOD), timeout=900)
    assert "authorization" not in request.headers
    assert request.headers["x-timeout"] == "180"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("HTTP://Docs.Example.NET#part", "/http://docs.example.net/"),
        ("https://münchen.example.net/ü", "/https://xn--mnchen-3ya.example.net/%C3%BC"),
    ],
)
async def test_the_checked_form_of_the_address_is_sent(url: str, path: str) -> None:
    """That of our parser."""
    _, request = await read(text(GOOD), url)
    assert request.path == path


async def test_fields_and_text_are_separated() -> None:
    """Lines of the text that look like fields stay in the text."""
    page, _ = await read(text(GOOD + "\nTitle: no\nMarkdown Content:\nmore"))
    assert (page.title, page.url, page.published) == ("Event loops", "https://docs.example.net/final", "2026-01-02")
    assert page.text == "# Loops\n\nText.\nTitle: no\nMarkdown Content:\nmore"
    assert (page.reader, page.media_type, page.warning) == ("jina", "text/markdown", None)


@for_each("source", ["", "javascript:alert(1)", "http://10.0.0.1/x", "http://db/", "http://u@docs.example.net/"])
async def test_an_invalid_source_is_ignored(source: str) -> None:
    """The address is the requested one."""
    page, _ = await read(text(f"Title: T\n\nURL Source: {source}\n\nMarkdown Content:\nText."))
    assert page.url == URL


async def test_unusual_fields_are_accepted() -> None:
    """Other line ends, no title, unknown fields, invisible characters."""
    page, _ = await read(text("\ufeffX: y\r\nTitle:\r\nMarkdown Content:\r\nTe\u200bxt.\r\n"))
    assert (page.title, page.text) == ("docs.example.net", "Text.")


async def test_a_warning_is_returned() -> None:
    """Shortened."""
    page, _ = await read(text("Warning: This is a cached snapshot" + "!" * 999 + "\nMarkdown Content:\nText."))
    assert str(page.warning).startswith("This is a cached snapshot")
    assert len(str(page.warning)) == 300


@for_each(
    ("warning", "kind"),
    [
        ("Target URL returned error 404: Not Found", PageNotFoundError),
        ("Target URL returned error 403: Forbidden", PageBlockedError),
        ("Target URL returned error 500", PageError),
        ("This page maybe requiring CAPTCHA, please make sure you are authorized", PageBlockedError),
    ],
)
async def test_an_error_of_the_page_is_an_error(warning: str, kind: type[AppException]) -> None:
    """Jina answers 200 with a warning."""
    assert type(await error_of(text(f"Title: x\nWarning: {warning}\n\nMarkdown Content:\nSome words."))) is kind


@for_each(
    "body",
    ["", "Title: x", "<html>proxy</html>", '{"code": 422, "message": "x"}', "Title: x\n\nMarkdown Content:\n \n"],
)
async def test_an_unexpected_format_is_an_error(body: str) -> None:
    """So is an empty text."""
    assert isinstance(await error_of(text(body)), PageError)


@for_each(
    ("status", "kind", "says"),
    [
        (400, PageError, "400"),
        (401, PageConfigError, "JINA_API_KEY"),
        (402, PageBlockedError, "payment"),
        (403, PageConfigError, "JINA_API_KEY"),
        (404, PageError, "404"),
        (409, PageBlockedError, "409"),
        (413, PageError, "large"),
        (422, PageError, "422"),
        (429, PageBlockedError, "refuses more requests"),
        (451, PageBlockedError, "legal"),
        (500, PageError, "500"),
        (503, PageConnectionError, "503"),
        (302, PageConfigError, "JINA_BASE_URL"),
        (408, PageTimeoutError, "408"),
    ],
)
async def test_every_status_has_its_error(status: int, kind: type[AppException], says: str) -> None:
    """Nothing of the body is repeated."""
    for handler in (text("secret words", status), json_reply({"message": "secret words"}, status=status)):
        error = await error_of(handler)
        assert type(error) is kind
        assert says in error.message
        assert "secret" not in error.message


async def test_retry_after_reaches_the_caller() -> None:
    """The rate limiter uses it."""
    assert (await error_of(text("", 429, "Retry-After: 12"))).retry_after_s == 12


async def test_size_and_time_are_limited() -> None:
    """Both are errors within the deadline."""

    async def endless(exchange: Exchange) -> None:
        await exchange.send(head(200, "Content-Type: text/plain"))
        while True:
            await exchange.send(b"x" * 100_000)

    assert (await error_of(endless)).message == "Jina answered with more than 5 MB"
    assert isinstance(await error_of(drip, timeout=0.2), PageTimeoutError)


async def test_a_refused_connection_is_an_error() -> None:
    """It names the setting."""
    with pytest.raises(PageConnectionError, match="JINA_BASE_URL"):
        async with make_client("http://127.0.0.1:9") as client:
            await JinaPageReader(base_url="http://127.0.0.1:9", client=client).read(URL)


async def test_secrets_are_redacted() -> None:
    """An answer may contain the key."""
    page, _ = await read(text(GOOD + KEY), api_key=KEY, redactor=Redactor([KEY]))
    assert page.text.endswith("[redacted]")


async def test_the_cache_of_paths_is_bounded() -> None:
    """Paths of pages do not repeat."""
    async with serving(text(GOOD)) as upstream, make_client(upstream.url) as client:
        reader = JinaPageReader(base_url=upstream.url, client=client)
        for number in range(MAX_PATHS + 20):
            await reader.read(f"https://docs.example.net/{number}")
        assert len(reader._upstream._urls) <= MAX_PATHS
