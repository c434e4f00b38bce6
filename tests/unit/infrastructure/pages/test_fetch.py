"""infrastructure/pages/fetch.py: which part of a page is read, and where reading stops."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.reading_pages import Names, fetcher, html, never, page, reader
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.domain.exceptions import (
    PageBlockedError,
    PageConnectionError,
    PageError,
    PageNotFoundError,
    PageRequestError,
    PageTimeoutError,
)
from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections
from modules.llm_platform.infrastructure.http.guarded.guard import Guard
from modules.llm_platform.infrastructure.http.guarded.url import parse_address
from modules.llm_platform.infrastructure.pages.fetch import PAGE_BYTES, PageRequest, SafeFetcher
from modules.llm_platform.testing.reader_probe import FakeNetwork
from modules.llm_platform.testing.waiting import CANCEL_TIMEOUT_S
from shared.exceptions import AppException

URL = "http://a.example.net/"
ANY = PageRequest({"text/*"})
GZIP = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}


async def read(body: Any, headers: Any = None, status: int = 200, **options: Any) -> str:
    return (await reader(page(body, headers, status), **options).read(URL)).text


async def error_of(body: Any, headers: Any = None, status: int = 200, **options: Any) -> AppException:
    with pytest.raises(AppException) as caught:
        await read(body, headers, status, **options)
    return caught.value


class TestSize:
    async def test_a_page_of_the_largest_size_is_read(self) -> None:
        """The limit itself is allowed."""
        assert len(await read(b"a" * PAGE_BYTES, {"Content-Type": "text/plain"})) == PAGE_BYTES

    @pytest.mark.parametrize("body", [b"a" * (PAGE_BYTES + 1), itertools.repeat(b"a" * 65_536)])
    async def test_a_larger_one_is_not(self, body: Any) -> None:
        """Announced or endless, it stops at the limit."""
        error = await error_of(body, {"Content-Type": "text/plain"})
        assert (error.code, error.message) == ("page_error", "The page is larger than 5 MB")

    async def test_an_announced_size_is_believed_before_it_comes(self) -> None:
        """Nothing is read of a body that says it is too large."""
        sent = 0

        def body() -> Any:
            nonlocal sent
            while True:
                sent += 1
                yield b"a"

        await error_of(body(), {"Content-Type": "text/plain", "Content-Length": "9" * 30})
        assert sent == 0

    async def test_compressed_pages_are_read(self) -> None:
        """gzip and deflate, which were asked for."""
        assert await read(gzip.compress(b"some text"), GZIP) == "some text"
        assert await read(zlib.compress(b"some text"), {**GZIP, "Content-Encoding": "deflate"}) == "some text"
        assert await read(b"some text", {**GZIP, "Content-Encoding": "identity"}) == "some text"

    @for_each("size", [400_000, 4_000_000, 60_000_000])
    async def test_bomb_is_detected_by_its_ratio(self, size: int) -> None:
        """A page that unpacks a thousandfold is refused, even below the size limit."""
        error = await error_of(gzip.compress(b"\0" * size), GZIP)
        assert error.message in (
            "The page is compressed too strongly to be a page",
            "The page is larger than 5 MB",
        )

    async def test_a_short_page_of_one_line_is_no_bomb(self) -> None:
        """The ratio counts from a size on."""
        assert len(await read(gzip.compress(b"line\n" * 40_000), GZIP)) == 40_000 * 5 - 1

    @for_each("encoding", ["gzip, gzip", "br", "zstd", "x-unknown", "deflate, gzip", "gzip;q=1"])
    async def test_other_compressions_are_refused(self, encoding: str) -> None:
        """Nobody asked for them, and one inside the other is how bombs are built."""
        error = await error_of(b"whatever", {**GZIP, "Content-Encoding": encoding})
        assert error.message == "The page has an encoding that was not requested"

    @pytest.mark.parametrize("body", [b"no gzip at all", gzip.compress(b"text" * 100)[:-30] + b"x" * 40])
    async def test_broken_compression_is_an_error(self, body: bytes) -> None:
        """Half of a page is no page."""
        assert isinstance(await error_of(body, GZIP), PageError)


class TestTime:
    @in_virtual_time
    async def test_a_silent_server(self) -> None:
        """The deadline covers everything."""
        with pytest.raises(PageTimeoutError, match="try again"):
            await reader(never, timeout=0.05).read(URL)

    @in_virtual_time
    async def test_a_slow_body(self) -> None:
        """Slow bytes that satisfy each read timeout do not extend the total time."""

        async def drip() -> AsyncIterator[bytes]:
            while True:
                yield b"a"
                await asyncio.sleep(0.01)

        assert isinstance(await error_of(drip(), timeout=0.1), PageTimeoutError)

    @in_virtual_time
    async def test_slow_redirects(self) -> None:
        """Hops that are each in time do not prolong it either."""

        async def respond(ip: str, port: int, host: str, target: str) -> Any:
            await asyncio.sleep(0.1)
            return 302, {"Location": "/next"}, b""

        with pytest.raises(PageTimeoutError):
            await reader(respond, timeout=0.25).read(URL)

    @in_virtual_time
    async def test_a_slow_name_server(self) -> None:
        """Waiting for DNS counts too."""

        class Slow(Names):
            async def resolve(self, host: str, port: int) -> list[str]:
                await asyncio.sleep(60)
                return []

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await fetcher(page(b""), Slow()).get(parse_address(URL), ANY)


class TestHead:
    @for_each(
        "headers",
        [{"X": "y" * 200_000}, [(f"X-{n}", "y" * 90) for n in range(2000)], {"X": "a\x00b"}, {"Bad Name": "x"}],
    )
    async def test_a_head_that_is_none_is_an_error(self, headers: Any) -> None:
        """A head without end or against the rules ends the exchange."""
        assert isinstance(await error_of(b"text", headers), PageError)

    @for_each(
        ("status", "kind"),
        [
            (204, PageError),
            (206, PageError),
            (304, PageError),
            (300, PageError),
            (400, PageError),
            (401, PageBlockedError),
            (402, PageBlockedError),
            (403, PageBlockedError),
            (404, PageNotFoundError),
            (407, PageBlockedError),
            (408, PageTimeoutError),
            (410, PageNotFoundError),
            (418, PageError),
            (429, PageBlockedError),
            (451, PageBlockedError),
            (500, PageError),
            (502, PageError),
            (503, PageBlockedError),
            (504, PageTimeoutError),
            (599, PageError),
            (999, PageBlockedError),
        ],
    )
    async def test_a_status_without_a_page(self, status: int, kind: type[AppException]) -> None:
        """Each status has its error, and the body is not read as a page."""
        error = await error_of(html("<p>Sorry about that.</p>"), status=status)
        assert type(error) is kind
        assert str(status) in error.message

    async def test_retry_after_is_passed_on(self) -> None:
        """Retry-After reaches the caller."""
        error = await error_of(b"", {"Retry-After": "17"}, status=429)
        assert error.retry_after_s == 17

    @pytest.mark.parametrize("location", [{}, {"Location": ""}])
    async def test_a_redirect_to_nowhere(self, location: dict[str, str]) -> None:
        """It is an error, not a page."""
        assert (await error_of(b"", location, status=302)).message == "The page redirects without a target"

    async def test_a_redirect_in_another_charset(self) -> None:
        """A Location in UTF-8 or Latin-1 is decoded and followed."""
        for raw, target in [("/ü", "/%C3%BC"), ("/日", "/%E6%97%A5")]:
            seen: list[str] = []

            def respond(ip: str, port: int, host: str, path: str, raw: str = raw, seen: list[str] = seen) -> Any:
                seen.append(path)
                return (302, {"Location": raw}, b"") if len(seen) == 1 else (200, {}, b"text")

            await reader(respond).read(URL)
            assert seen == ["/", target]

    async def test_headers_reveal_nothing_about_the_user(self) -> None:
        """An honest name, no cookie, no referrer, no credentials; the same on every hop."""
        written: list[bytes] = []

        class Listening(FakeNetwork):
            async def connect_tcp(self, *args: Any, **kwargs: Any) -> Any:
                stream = await super().connect_tcp(*args, **kwargs)
                write = stream.write

                async def listen(buffer: bytes, timeout: float | None = None) -> None:
                    written.append(buffer)
                    await write(buffer, timeout)

                stream.write = listen  # type: ignore[method-assign]
                return stream

        answers = iter([(302, {"Location": "/b", "Set-Cookie": "a=b"}, b""), (200, {}, b"text")])
        connections = PinnedConnections(Listening(lambda *asked: next(answers)))
        await SafeFetcher(Guard(Names()), connections).get(parse_address(URL), PageRequest({""}))
        for head, path in zip(filter(None, written), ("/", "/b"), strict=True):
            first, *lines = head.decode().strip().split("\r\n")
            assert first == f"GET {path} HTTP/1.1"
            names = sorted(line.partition(":")[0] for line in lines)
            assert names == ["Accept", "Accept-Encoding", "Accept-Language", "Connection", "Host", "User-Agent"]
            assert any(line.startswith("User-Agent: llm-platform") for line in lines)


class TestTypes:
    @for_each(
        "declared",
        [
            "text/html",
            "TEXT/HTML; charset=UTF-8",
            "text/plain",
            "text/markdown",
            "text/csv",
            "application/xhtml+xml",
            None,
        ],
    )
    async def test_text_is_read(self, declared: str | None) -> None:
        """Everything of text, and what says nothing and is text."""
        headers = {"Content-Type": declared} if declared else {}
        assert "Some text." in await read(html("<p>Some text.</p>"), headers)

    @for_each(
        "declared",
        [
            "application/octet-stream",
            "application/json",
            "image/png",
            "image/svg+xml",
            "video/mp4",
            "application/zip",
            "nonsense",
            "application/javascript",
            "multipart/form-data",
            "textual/html",
            "xtext/html",
            ";",
            "text/html,text/plain",
        ],
    )
    async def test_other_things_are_not(self, declared: str) -> None:
        """They are refused by their type, before their body is read."""

        def body() -> Any:
            raise AssertionError("nobody may read this")
            yield b""

        error = await error_of(body(), {"Content-Type": declared})
        assert error.message == "The address is not a page: only text and PDF are read"

    async def test_a_pdf_is_read(self) -> None:
        """By its type, or by its first bytes where none is declared."""
        assert await read(b"%PDF-1.7 ...", {"Content-Type": "application/pdf"}) == "12 bytes of PDF"
        assert await read(b"%PDF-1.7 ...", {}) == "12 bytes of PDF"


class TestConnections:
    async def test_two_connections_a_host(self) -> None:
        """The third waits; another host does not."""
        running: dict[str, int] = {}
        most: dict[str, int] = {}

        async def respond(ip: str, port: int, host: str, target: str) -> Any:
            running[host] = running.get(host, 0) + 1
            most[host] = max(most.get(host, 0), running[host])
            await asyncio.sleep(0.01)
            running[host] -= 1
            return 200, {}, b"text"

        fetching = fetcher(respond)
        urls = [f"http://{name}.example.net/{n}" for name in "ab" for n in range(6)]
        await asyncio.gather(*(fetching.get(parse_address(url), PageRequest({""})) for url in urls))
        assert most == {"a.example.net": 2, "b.example.net": 2}
        assert fetching._limiter._hosts == {}

    async def test_a_redirect_to_the_same_host_does_not_wait_for_itself(self) -> None:
        """A hop gives its turn back before the next one."""
        answers = {"/": (302, {"Location": "/b"}, b""), "/b": (200, {}, b"text")}
        fetching = fetcher(lambda ip, port, host, target: answers[target])
        async with asyncio.timeout(CANCEL_TIMEOUT_S):
            await asyncio.gather(*(fetching.get(parse_address(URL), PageRequest({""})) for _ in range(5)))

    async def test_cancelling_is_quick_and_closes(self) -> None:
        """It does not wait for the server, which never answers."""
        served = FakeNetwork(never)
        fetching = SafeFetcher(Guard(Names()), PinnedConnections(served))
        task = asyncio.create_task(fetching.get(parse_address(URL), ANY))
        while not served.open:
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=CANCEL_TIMEOUT_S)
        assert done
        assert (task.cancelled(), served.open) == (True, 0)

    @pytest.mark.parametrize("body", [b"text", itertools.repeat(b"a" * 100_000)])
    async def test_every_connection_is_closed(self, body: Any) -> None:
        """Good or bad, nothing stays open."""
        served = FakeNetwork(page(body, {}))
        fetching = SafeFetcher(Guard(Names()), PinnedConnections(served))
        await asyncio.gather(fetching.get(parse_address(URL), PageRequest({""})), return_exceptions=True)
        assert (len(served.connections), served.open) == (1, 0)

    async def test_a_server_that_hangs_up(self) -> None:
        """It is a connection error, or an error of HTTP, and never a crash."""

        async def cut() -> AsyncIterator[bytes]:
            yield b"half of"
            raise ConnectionResetError

        assert isinstance(await error_of(cut(), {"Content-Length": "100"}), (PageConnectionError, PageError))
        assert isinstance(await error_of(b"half", {"Content-Length": "100"}), (PageConnectionError, PageError))

    async def test_a_visit_can_be_forbidden(self) -> None:
        """What is called before each hop may raise, and then the hop is not made."""
        served = FakeNetwork(page(b"", {"Location": "/next"}, 302))
        fetching = SafeFetcher(Guard(Names()), PinnedConnections(served))

        async def only_the_first(address: Any) -> None:
            if address.target != "/":
                raise PageRequestError("no")

        with pytest.raises(PageRequestError):
            await fetching.get(parse_address(URL), ANY, only_the_first)
        assert len(served.connections) == 1
