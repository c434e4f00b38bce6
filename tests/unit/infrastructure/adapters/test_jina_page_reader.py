"""infrastructure/adapters/jina_page_reader.py: what is asked of Jina, and what its answers mean."""

from __future__ import annotations

from typing import Any

import pytest
from tests.loopback_upstream import Exchange, Handler, drip, head, json_reply, reply, serving

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.exceptions import (
    PageBlockedError,
    PageConfigError,
    PageConnectionError,
    PageError,
    PageTimeoutError,
)
from modules.llm_platform.domain.redaction import Redactor
from modules.llm_platform.infrastructure.adapters.jina_page_reader import JinaPageReader
from modules.llm_platform.infrastructure.http.client import MAX_PATHS, make_client
from shared.exceptions import AppException

KEY = "jina_0123456789abcdef"
URL = "https://docs.example.net/a?b=c"
GOOD = (
    "Title: Event loops\n\nURL Source: https://docs.example.net/final\n\nPublished Time: 2026-01-02\n\n"
    "Markdown Content:\n# Loops\n\nText."
)


async def asked(handler: Handler, url: str = URL, **options: Any) -> tuple[Page, Exchange]:
    async with serving(handler) as upstream, make_client(upstream.url) as client:
        reader = JinaPageReader(base_url=upstream.url, client=client, **options)
        return await reader.read(url), upstream.requests[0]


def text(body: str, status: int = 200, *headers: str) -> Handler:
    return reply(status, body.encode(), "Content-Type: text/plain; charset=utf-8", *headers)


async def error_of(handler: Handler, **options: Any) -> AppException:
    with pytest.raises(AppException) as caught:
        await asked(handler, **options)
    assert "docs.example.net" not in caught.value.message
    return caught.value


async def test_what_is_asked() -> None:
    """GET with the address behind the base, the key as bearer, no images, a deadline, our own name."""
    _, request = await asked(text(GOOD), api_key=KEY, timeout=7)
    assert (request.method, request.path) == ("GET", "/https://docs.example.net/a?b=c")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-retain-images"] == "none"
    assert request.headers["x-timeout"] == "7"
    assert request.headers["user-agent"].startswith("llm-platform")
    assert "cookie" not in request.headers


async def test_without_a_key() -> None:
    """No header claims one, and a long deadline asks for no more than may be asked."""
    _, request = await asked(text(GOOD), timeout=900)
    assert "authorization" not in request.headers
    assert request.headers["x-timeout"] == "180"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("HTTP://Docs.Example.NET#part", "/http://docs.example.net/"),
        ("https://münchen.example.net/ü", "/https://xn--mnchen-3ya.example.net/%C3%BC"),
    ],
)
async def test_the_address_goes_out_as_it_was_checked(url: str, path: str) -> None:
    """In the one form that our parser gave it."""
    _, request = await asked(text(GOOD), url)
    assert request.path == path


async def test_an_answer() -> None:
    """Head and text are told apart; what the text says in the words of a head is text."""
    page, _ = await asked(text(GOOD + "\nTitle: no\nMarkdown Content:\nmore"))
    assert (page.title, page.url, page.published) == ("Event loops", "https://docs.example.net/final", "2026-01-02")
    assert page.text == "# Loops\n\nText.\nTitle: no\nMarkdown Content:\nmore"
    assert (page.reader, page.media_type, page.warning) == ("jina", "text/markdown", None)


@pytest.mark.parametrize(
    "source", ["", "javascript:alert(1)", "http://10.0.0.1/x", "http://db/", "http://u@docs.example.net/"]
)
async def test_a_source_that_cannot_be_true_is_not_believed(source: str) -> None:
    """Then the address is the one that was asked for."""
    page, _ = await asked(text(f"Title: T\n\nURL Source: {source}\n\nMarkdown Content:\nText."))
    assert page.url == URL


async def test_odd_heads() -> None:
    """Other line ends, no title, unknown fields, invisible letters: the text is read all the same."""
    page, _ = await asked(text("\ufeffX: y\r\nTitle:\r\nMarkdown Content:\r\nTe\u200bxt.\r\n"))
    assert (page.title, page.text) == ("docs.example.net", "Text.")


async def test_a_warning_is_kept() -> None:
    """What Jina warns of is passed on, shortened."""
    page, _ = await asked(text("Warning: This is a cached snapshot" + "!" * 999 + "\nMarkdown Content:\nText."))
    assert str(page.warning).startswith("This is a cached snapshot")
    assert len(str(page.warning)) == 300


@pytest.mark.parametrize(
    ("warning", "kind"),
    [
        ("Target URL returned error 404: Not Found", PageError),
        ("Target URL returned error 403: Forbidden", PageBlockedError),
        ("Target URL returned error 500", PageError),
        ("This page maybe requiring CAPTCHA, please make sure you are authorized", PageBlockedError),
    ],
)
async def test_a_page_that_answered_with_an_error(warning: str, kind: type[AppException]) -> None:
    """Jina says 200 and warns; that is no source."""
    assert type(await error_of(text(f"Title: x\nWarning: {warning}\n\nMarkdown Content:\nSome words."))) is kind


@pytest.mark.parametrize(
    "body",
    ["", "Title: x", "<html>proxy</html>", '{"code": 422, "message": "x"}', "Title: x\n\nMarkdown Content:\n \n"],
)
async def test_what_is_no_answer(body: str) -> None:
    """Another form, or no text, is an error and never an empty page."""
    assert isinstance(await error_of(text(body)), PageError)


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (400, PageError, "400"), (401, PageConfigError, "JINA_API_KEY"), (402, PageBlockedError, "paid"),
        (403, PageConfigError, "JINA_API_KEY"), (404, PageError, "404"), (409, PageBlockedError, "409"),
        (413, PageError, "large"), (422, PageError, "422"), (429, PageBlockedError, "too often"),
        (451, PageBlockedError, "legal"), (500, PageError, "500"), (503, PageConnectionError, "503"),
        (302, PageConfigError, "JINA_BASE_URL"), (408, PageTimeoutError, "408"),
    ],
)  # fmt: skip
async def test_every_status_has_its_error(status: int, kind: type[AppException], says: str) -> None:
    """JSON or text beside it changes nothing, and nothing of it is repeated."""
    for handler in (text("secret words", status), json_reply({"message": "secret words"}, status=status)):
        error = await error_of(handler)
        assert type(error) is kind
        assert says in error.message
        assert "secret" not in error.message


async def test_retry_after_is_told() -> None:
    """How long to wait reaches the throttle."""
    assert (await error_of(text("", 429, "Retry-After: 12"))).retry_after_s == 12


async def test_limits() -> None:
    """Too large and too slow are errors within the deadline."""

    async def endless(exchange: Exchange) -> None:
        await exchange.send(head(200, "Content-Type: text/plain"))
        while True:
            await exchange.send(b"x" * 100_000)

    assert (await error_of(endless)).message == "Jina answered with more than 5 MB"
    assert isinstance(await error_of(drip, timeout=0.2), PageTimeoutError)


async def test_nobody_listens() -> None:
    """That is a connection error which names the setting."""
    with pytest.raises(PageConnectionError, match="JINA_BASE_URL"):
        async with make_client("http://127.0.0.1:9") as client:
            await JinaPageReader(base_url="http://127.0.0.1:9", client=client).read(URL)


async def test_secrets_are_taken_out() -> None:
    """An answer that echoes the key does not bring it further."""
    page, _ = await asked(text(GOOD + KEY), api_key=KEY, redactor=Redactor([KEY]))
    assert page.text.endswith("[redacted]")


async def test_addresses_are_not_kept_for_ever() -> None:
    """Paths that never repeat do not fill the memory."""
    async with serving(text(GOOD)) as upstream, make_client(upstream.url) as client:
        reader = JinaPageReader(base_url=upstream.url, client=client)
        for number in range(MAX_PATHS + 20):
            await reader.read(f"https://docs.example.net/{number}")
        assert len(reader._upstream._urls) <= MAX_PATHS
