"""The functions, files and classes of src that a plain search enters, counted with sys.setprofile.

python scripts/search_path.py      the list, by file; `make sizes` prints the counts with their trend
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
RESULTS = 10
ANSWER = json.dumps(
    {
        "query": "tides",
        "results": [
            {"url": f"https://example.org/{n}", "title": f"Result {n}", "content": "Tides rise.", "engine": "google"}
            for n in range(RESULTS)
        ],
        "unresponsive_engines": [],
    }
).encode()


class Entered(NamedTuple):
    """What a call entered: function names with their class, files below src, and classes of methods."""

    functions: frozenset[tuple[str, str]]  # file, name

    @property
    def files(self) -> frozenset[str]:
        return frozenset(file for file, _ in self.functions)

    @property
    def classes(self) -> frozenset[tuple[str, str]]:
        names = ((file, name.partition(".<locals>")[0].rpartition(".")[0]) for file, name in self.functions)
        return frozenset((file, name) for file, name in names if name)

    def counts(self) -> tuple[int, int, int]:
        """Functions, files, classes."""
        return len(self.functions), len(self.files), len(self.classes)


@contextmanager
def fake_searxng() -> Iterator[str]:
    """The address of a SearXNG that answers every search with the same results."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)

        def log_message(self, *arguments: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def recorded() -> Iterator[set[CodeType]]:
    """Collect the code of every Python function that this thread enters in the block."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    previous = sys.getprofile()
    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(previous)


def entered(codes: set[CodeType]) -> Entered:
    prefix = f"{SOURCE}/"
    ours = (
        (code.co_filename.removeprefix(prefix), code.co_qualname)
        for code in codes
        if code.co_filename.startswith(prefix)
    )
    return Entered(frozenset(ours))


async def plain_search(url: str) -> Entered:
    """Return what a warm search of `platform.web_search` enters: another query than before, so that no cache answers."""
    from modules.llm_platform import WebSearchRequest
    from modules.llm_platform.container import build_platform
    from shared.config import Settings

    settings = Settings(SEARXNG_URL=url, SEARCH_PROVIDERS="searxng")
    async with build_platform(settings) as platform:
        for number in range(3):
            await platform.web_search.search(WebSearchRequest(query=f"tides {number}"))
        request = WebSearchRequest(query="tides of another coast")
        with recorded() as codes:
            answer = await platform.web_search.search(request)
    assert len(answer.results) == RESULTS
    return entered(codes)


def main() -> None:
    with fake_searxng() as url:
        found = asyncio.run(plain_search(url))
    for file in sorted(found.files):
        print(file)
        for name in sorted(name for of, name in found.functions if of == file):
            print(f"    {name}")
    print("functions {}, files {}, classes {}".format(*found.counts()))


if __name__ == "__main__":
    main()
