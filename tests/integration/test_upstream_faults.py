"""Every upstream fault ends a search within its deadline with the right error and closes its connections."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from functools import cache
from typing import Protocol

import httpx2
import pytest
from pydantic import SecretStr
from tests.support.cases import for_each
from tests.support.loopback_upstream import (
    Exchange,
    Handler,
    Loopback,
    cut_off,
    drip,
    hang_up,
    head,
    json_reply,
    reply,
    serving,
    silence,
    silence_in_body,
)

from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, WebSearchRequest
from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchConnectionError,
    WebSearchError,
    WebSearchTimeoutError,
    WebSearchUnavailableError,
)
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.infrastructure.http.client import MAX_ANSWER_BYTES, make_client
from modules.llm_platform.infrastructure.http.errors import MAX_RETRY_AFTER_S
from modules.llm_platform.infrastructure.search.bocha import BochaWebSearchAdapter
from modules.llm_platform.infrastructure.search.from_settings.providers import (
    SEARCH_PROVIDERS,
    SearchParts,
    SearchProviderSpec,
    find_spec,
)
from modules.llm_platform.infrastructure.search.searxng.web_search import SearXNGWebSearchAdapter
from modules.llm_platform.testing.waiting import CANCEL_TIMEOUT_S, CLOSE_TIMEOUT_S, becomes_true
from shared.config import Settings
from shared.exceptions import AppException

KEY = "sk-very-secret-0123456789"
REQUEST = WebSearchRequest(query="anything")
TIMEOUT_S = 60.0  # timeout of the adapters under test; a responding upstream is faster, on any machine
SHORT_TIMEOUT_S = 0.3  # timeout in cases where the upstream never answers
HTML = b"<!doctype html><title>It works!</title>"
SECRET_ANSWER = b'{"message": "bad things about ' + KEY.encode() + b'"}'


class Build(Protocol):
    def __call__(self, url: str, client: httpx2.AsyncClient, timeout_s: float = TIMEOUT_S) -> IWebSearchProvider:
        """Return an adapter for this address."""


# Every provider with an address in the provider table, so that a new provider is tested automatically.
PROVIDERS = [
    spec for spec in SEARCH_PROVIDERS if spec.name != DOCUMENTS and any(name.endswith("_URL") for name in spec.settings)
]


class GivenClient:
    """Adapter resources with one client for any address, and the key as a secret."""

    redactor = Redactor([KEY])

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    def client(self, url: str, timeout: float) -> httpx2.AsyncClient:
        return self._client


def builder(spec: SearchProviderSpec) -> Build:
    """Build the adapter of a table row with unvalidated settings, because an address may be invalid."""

    def build(url: str, client: httpx2.AsyncClient, timeout_s: float = TIMEOUT_S) -> IWebSearchProvider:
        kinds = {"_URL": url, "_API_KEY": SecretStr(KEY), "_PASSWORD": SecretStr(KEY), "_USERNAME": "me"}
        kinds["_TIMEOUT_S"] = timeout_s
        values = {name: value for name in spec.settings for end, value in kinds.items() if name.endswith(end)}
        if "SEARXNG_URL" in values:
            values["SEARXNG_URL"] = (url,)
        settings = Settings(_env_file=None).model_copy(update=values)
        (adapter,) = spec.build(SearchParts(settings, GivenClient(client), None))  # type: ignore[arg-type]
        return adapter

    return build


BUILDERS = {spec.name: builder(spec) for spec in PROVIDERS}
searxng, bocha = BUILDERS["searxng"], BUILDERS["bocha"]


@pytest.fixture(params=BUILDERS.values(), ids=BUILDERS)
def build(request: pytest.FixtureRequest) -> Build:
    builder: Build = request.param
    return builder


@asynccontextmanager
async def against(
    build: Build, handler: Handler, timeout_s: float = TIMEOUT_S
) -> AsyncIterator[tuple[IWebSearchProvider, Loopback]]:
    async with serving(handler) as upstream, make_client(upstream.url) as client:
        yield build(upstream.url, client, timeout_s), upstream


async def error_of(provider: IWebSearchProvider) -> AppException:
    """Return the error that the search must raise."""
    with pytest.raises(AppException) as caught:
        async with asyncio.timeout(2 * TIMEOUT_S):
            await provider.search(REQUEST)
    return caught.value


def packed(plain: bytes, *headers: str) -> Handler:
    return reply(200, gzip.compress(plain), "Content-Type: application/json", "Content-Encoding: gzip", *headers)


@cache
def gzip_bomb() -> Handler:
    """Return a small response that unpacks to 50 MB. It is built on use, because every worker collects this file."""
    return packed(bytes(50 * MAX_ANSWER_BYTES // 8))


FAULTS: dict[str, tuple[Handler, type[AppException]]] = {
    "silence": (silence, WebSearchTimeoutError),
    "silence in the body": (silence_in_body, WebSearchTimeoutError),
    "a byte now and then": (drip, WebSearchTimeoutError),
    "hangs up": (hang_up, WebSearchConnectionError),
    "cut off in the body": (cut_off, WebSearchConnectionError),
    "no HTTP": (lambda exchange: exchange.send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), WebSearchConnectionError),
    "204": (reply(204), WebSearchError),
    "redirect": (reply(302, b"", "Location: https://example.org/login"), WebSearchConfigError),
    "permanent redirect": (reply(308, b"", "Location: /elsewhere"), WebSearchConfigError),
    "web page": (reply(200, HTML, "Content-Type: text/html"), WebSearchError),
    "web page without a type": (reply(200, b"\n" + HTML), WebSearchError),
    "empty body": (reply(200, b"", "Content-Type: application/json"), WebSearchError),
    "truncated JSON": (reply(200, b'{"results": [{"url": "https', "Content-Type: application/json"), WebSearchError),
    "a list": (json_reply([1, 2]), WebSearchError),
    "null": (json_reply(None), WebSearchError),
    "deep nesting": (reply(200, b"[" * 100_000, "Content-Type: application/json"), WebSearchError),
    "broken gzip": (reply(200, b"\x1f\x8bno", "Content-Encoding: gzip"), WebSearchError),
    "401": (reply(401, HTML), WebSearchConfigError),
    "402": (reply(402), WebSearchBlockedError),
    "404": (reply(404, HTML), WebSearchConfigError),
    "408": (reply(408), WebSearchTimeoutError),
    "418": (reply(418), WebSearchError),
    "429": (reply(429, b"Too Many Requests"), WebSearchBlockedError),
    "500": (reply(500, SECRET_ANSWER), WebSearchUnavailableError),
    "502": (reply(502, HTML), WebSearchUnavailableError),
    "503": (reply(503), WebSearchUnavailableError),
    "gzip bomb": (lambda exchange: gzip_bomb()(exchange), WebSearchError),
}


def enough_s(handler: Handler) -> float:
    return SHORT_TIMEOUT_S if handler in (silence, silence_in_body, drip) else TIMEOUT_S


@pytest.mark.parametrize("fault", list(FAULTS))
async def test_a_fault_is_the_right_error_in_time(build: Build, fault: str) -> None:
    """Each fault raises its error class. The message names the upstream and quotes nothing that it sent."""
    handler, expected = FAULTS[fault]
    async with against(build, handler, enough_s(handler)) as (provider, _):
        error = await error_of(provider)
    assert type(error) is expected
    assert provider.name in error.message.lower()
    assert len(error.message) < 200
    assert not any(word in error.message for word in ("It works", "bad things", "example.org", "SSH"))


@pytest.mark.parametrize("fault", ["redirect", "404", "web page"])
async def test_a_wrong_address_names_its_setting(build: Build, fault: str) -> None:
    """A wrong address is reported with its variable."""
    async with against(build, FAULTS[fault][0]) as (provider, _):
        error = await error_of(provider)
    spec = find_spec(provider.name)
    assert spec is not None
    assert next(name for name in spec.settings if name.endswith("_URL")) in error.message


async def test_an_endless_body_is_left_early(build: Build) -> None:
    """A body beyond the limit is not read to the end. The connection is closed after a few megabytes."""
    sent = 0

    async def endless(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.send(head(200, "Content-Type: application/json", length=500_000_000))
        while True:
            await exchange.send(b" " * 65536)
            sent += 65536

    async with serving(endless) as upstream, make_client(upstream.url) as client:
        adapter = SearXNGWebSearchAdapter(upstream.url, timeout=TIMEOUT_S, client=client)
        with pytest.raises(WebSearchError, match="more than 8 MB"):
            await adapter.search(REQUEST)
        assert await ends(lambda: upstream.busy == 0)
    assert sent < 4 * MAX_ANSWER_BYTES


async def ends(condition: Callable[[], bool]) -> bool:
    return await becomes_true(condition, CLOSE_TIMEOUT_S)


async def test_connection_is_refused(build: Build) -> None:
    """A refused connection is a connection error that names the variable of the address."""
    with socket.socket() as placeholder:
        placeholder.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{placeholder.getsockname()[1]}"
        async with make_client(url) as client:
            error = await error_of(build(url, client))
    assert type(error) is WebSearchConnectionError
    assert "_URL" in error.message


async def test_an_unknown_name(build: Build) -> None:
    """An unresolvable name is a connection error that says so."""

    def unresolved(_: httpx2.Request) -> httpx2.Response:
        try:
            raise socket.gaierror(-2, "Name or service not known")
        except socket.gaierror as error:
            raise httpx2.ConnectError("no") from error

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(unresolved)) as client:
        error = await error_of(build("http://search.invalid", client))
    assert type(error) is WebSearchConnectionError
    assert "name cannot be resolved" in error.message


async def test_no_tls_on_the_other_side(build: Build) -> None:
    """https to a plain HTTP server is a connection error that mentions TLS."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(5)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, make_client(url) as client:
        error = await error_of(build(url, client))
    assert type(error) is WebSearchConnectionError
    assert "TLS" in error.message


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://127.0.0.1:99999", "ftp://example.org", "http://", "not an address"]
)
async def test_an_invalid_address(build: Build, url: str) -> None:
    """An invalid address fails at the call, not at the start, and the error names its variable."""
    async with make_client(url) as client:
        error = await error_of(build(url, client))
    assert isinstance(error, WebSearchConfigError)
    assert "_URL" in error.message


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("Retry-After: 17", 17, 17),
        (f"Retry-After: {formatdate(time.time() + 36_000, usegmt=True)}", 30_000, 36_000),
        (f"Retry-After: {formatdate(time.time() - 600, usegmt=True)}", 0, 0),
        ("Retry-After: 99999999", MAX_RETRY_AFTER_S, MAX_RETRY_AFTER_S),
    ],
    ids=["seconds", "date", "past date", "far future"],
)
async def test_retry_after_is_returned(build: Build, status: int, header: str, least: float, most: float) -> None:
    """Retry-After in seconds or as a date is returned, up to a day."""
    async with against(build, reply(status, b"", header)) as (provider, _):
        error = await error_of(provider)
    assert error.retry_after_s is not None
    assert least <= error.retry_after_s <= most


@pytest.mark.parametrize("header", ["X-Nothing: here", "Retry-After: soon", "Retry-After: -5", "Retry-After: 1e9"])
async def test_no_wait_is_made_up(build: Build, header: str) -> None:
    """Without a readable Retry-After the wait is unknown."""
    async with against(build, reply(429, b"", header)) as (provider, _):
        assert (await error_of(provider)).retry_after_s is None


@pytest.mark.parametrize("fault", [silence, silence_in_body, drip], ids=["silence", "in the body", "dripping"])
async def test_cancelling_closes_the_connection_at_once(build: Build, fault: Handler) -> None:
    """The server sees the closed connection at once."""
    async with against(build, fault) as (provider, upstream):
        search = asyncio.create_task(provider.search(REQUEST))
        assert await ends(lambda: upstream.busy == 1)
        await asyncio.sleep(0.05)
        search.cancel()
        await asyncio.wait([search], timeout=CANCEL_TIMEOUT_S)
        assert search.cancelled()
        assert await ends(lambda: upstream.busy == 0)


async def test_a_compressed_answer_is_read(build: Build) -> None:
    """gzip is requested and decoded."""
    body = b'{"results": [], "web": {}, "webPages": {"value": []}}'
    async with against(build, packed(body)) as (provider, upstream):
        assert (await provider.search(REQUEST)).results == ()
    assert "gzip" in upstream.requests[0].headers["accept-encoding"]


async def test_a_wrong_charset_is_read_all_the_same() -> None:
    """An answer that declares Latin-1 is decoded as such. Invalid UTF-8 is decoded with replacements."""
    body = '{"results": [{"url": "https://example.org/", "title": "Zürich"}]}'.encode("latin-1")
    for declared, title in (("iso-8859-1", "Zürich"), ("utf-8", "Z\ufffdrich"), ("no-such-thing", "Z\ufffdrich")):
        async with against(searxng, reply(200, body, f"Content-Type: application/json; charset={declared}")) as (
            one,
            _,
        ):
            assert (await one.search(REQUEST)).results[0].title == title


async def test_connections_are_reused(build: Build) -> None:
    """Consecutive searches share a connection."""
    async with against(build, json_reply({"results": [], "web": {}, "webPages": None, "_type": "SearchResponse"})) as (
        provider,
        up,
    ):
        for _ in range(3):
            await provider.search(REQUEST)
        assert up.connections == 1


async def test_the_key_is_never_shown(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    """No error, chained error, log line or repr contains the key, even if the upstream echoes it."""
    seen: list[str] = []
    echo = {
        "code": "500",
        "message": KEY,
        "web": {},
        "results": [{"url": "https://example.org/", "title": f"Your key is {KEY}"}],
    }
    for logger in (None, "httpx2", "httpcore2"):  # an earlier test may have silenced the last two
        caplog.set_level(logging.DEBUG, logger=logger)
    for handler in (*(handler for handler, _ in FAULTS.values()), json_reply(echo), reply(500, SECRET_ANSWER)):
        async with against(build, handler, enough_s(handler)) as (provider, _):
            seen += [repr(provider), repr(vars(provider))]
            try:
                seen.append(repr(await provider.search(REQUEST)))
            except AppException as error:
                seen += [repr(error), str(error), "".join(traceback.format_exception(error))]
    assert len(seen) > 2 * len(FAULTS)
    assert caplog.text
    assert KEY not in "".join(seen) + caplog.text
    assert any("[redacted]" in text for text in seen) or build is bocha


@for_each("key", ["sk-line\nbreak-0123", "sk-ключ-0123456789", "sk-nul\x00-0123456"])
async def test_a_key_that_is_invalid_in_a_header(key: str) -> None:
    """A key with characters that are invalid in a header is a config error with its variable and without the key."""
    async with serving(silence) as upstream, make_client(upstream.url) as client:
        error = await error_of(BochaWebSearchAdapter(key, upstream.url, timeout=TIMEOUT_S, client=client))
    assert isinstance(error, WebSearchConfigError)
    assert "BOCHA_API_KEY" in error.message
    assert key not in "".join(traceback.format_exception(error))
