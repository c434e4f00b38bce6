"""Reads bombs and prints the outcome and the memory of each: `python -m tests.security.reading_bombs`. Linux only.

It is a separate process so that nothing else counts, and resets its peak memory before each bomb.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
from tests.support.reading_pages import fetcher

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.infrastructure.pages.content import PageParsers
from modules.llm_platform.infrastructure.pages.direct import DirectPageReader
from modules.llm_platform.infrastructure.search.searxng.web_search import SearXNGWebSearchAdapter
from shared.exceptions import AppException

MEGABYTES = 1000  # unpacked size of each bomb
MB = 1 << 20
TIMEOUT_S = 120.0  # limit on a busy machine; no bomb takes that long
WARM = "warm"
ZLIB, GZIP = 15, 31  # wbits
HTML = {"Content-Type": "text/html; charset=utf-8"}
TEXT = {"Content-Type": "text/plain"}

Body = bytes | Iterator[bytes]


def packed(unit: bytes, wbits: int = GZIP) -> Iterator[bytes]:
    """Yield the unit repeatedly, compressed during sending."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, wbits)
    block = (unit * (MB // len(unit) + 1))[:MB]
    for _ in range(MEGABYTES):
        yield compressor.compress(block)
    yield compressor.flush()


def members() -> Iterator[bytes]:
    """Return concatenated gzip members, each with a small ratio. A reader might check only the first member."""
    member = zlib.compressobj(9, zlib.DEFLATED, GZIP)
    one = member.compress(bytes(MB)) + member.flush()
    return itertools.repeat(one, MEGABYTES)


def pdf() -> bytes:
    """Return a PDF whose page unpacks to hundreds of megabytes of blanks."""
    compressor = zlib.compressobj(9)
    stream = b"".join(compressor.compress(b" " * MB) for _ in range(300)) + compressor.flush()
    return (
        b"%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<<>>>>endobj\n"
        b"4 0 obj<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream endobj\n"
        b"trailer<</Root 1 0 R/Size 5>>\n%%%%EOF\n" % (len(stream), stream)
    )


PAGES: dict[str, Callable[[], tuple[int, Any, Body]]] = {
    "zeros in gzip": lambda: (200, {**TEXT, "Content-Encoding": "gzip"}, packed(b"\0")),
    "zeros in deflate": lambda: (200, {**TEXT, "Content-Encoding": "deflate"}, packed(b"\0", ZLIB)),
    "tags in gzip": lambda: (200, {**HTML, "Content-Encoding": "gzip"}, packed(b"<div>")),
    "noise in gzip": lambda: (200, {**TEXT, "Content-Encoding": "gzip"}, packed(bytes(range(256)) * 40 + b"\1\7" * 77)),
    "many gzip files": lambda: (200, {**TEXT, "Content-Encoding": "gzip"}, members()),
    "an endless page": lambda: (200, HTML, itertools.repeat(b"x" * 65_536)),
    "an endless chunked page": lambda: (
        200,
        {**HTML, "Transfer-Encoding": "chunked"},
        itertools.repeat(b"10000\r\n" + b"x" * 65_536 + b"\r\n"),
    ),
    "an endless redirect": lambda: (302, {"Location": "/again"}, itertools.repeat(b"x" * 65_536)),
    "an endless error page": lambda: (500, HTML, itertools.repeat(b"x" * 65_536)),
    "a long head": lambda: (200, [(f"X-{number}", "y" * 9000) for number in range(200)], b"text"),
    "PDF": lambda: (200, {"Content-Type": "application/pdf"}, pdf()),
}


async def read_pages() -> None:
    """Read pages with the wired reader, whose parsers run in processes."""
    parsers = PageParsers()
    try:
        for name, bomb in {WARM: lambda: (200, HTML, b"<p>Some text.</p>"), **PAGES}.items():
            answer = bomb()
            reader = DirectPageReader(fetcher(lambda *_, answer=answer: answer), parsers, timeout=TIMEOUT_S)
            await report(name, reader.read("http://a.example.net/"))
    finally:
        await parsers.aclose()


async def read_searches() -> None:
    """Search a compromised search engine."""
    for name, headers, body in (
        (WARM, {}, iter([b'{"results": []}'])),
        ("a search in gzip", {"Content-Encoding": "gzip"}, packed(b'{"a": [')),
    ):

        async def stream(body: Iterator[bytes] = body) -> AsyncIterator[bytes]:
            for part in body:
                yield part

        answer = httpx2.Response(200, headers=headers, content=stream())
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _, answer=answer: answer)) as client:
            adapter = SearXNGWebSearchAdapter("http://127.0.0.1:9", client=client, timeout=TIMEOUT_S)
            await report(name, adapter.search(WebSearchRequest(query="tcp")))


async def report(name: str, reading: Awaitable[object]) -> None:
    """Print the outcome and the rise of the peak memory in MB. The first call loads modules."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is in use
    before = _peak_mb()
    try:
        await reading
        outcome = "read"
    except AppException as error:
        outcome = error.code
    if name != WARM:
        sys.stdout.write(json.dumps({"name": name, "outcome": outcome, "mb": _peak_mb() - before}) + "\n")


def _peak_mb() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def main() -> None:
    await read_pages()
    await read_searches()


if __name__ == "__main__":
    asyncio.run(main())
