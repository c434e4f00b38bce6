"""The article-extraction benchmark: what the page reader keeps of a page, against the article that a person marked.

A row has `id`, `source` (HTML) and `label` (the article). As in the benchmark, texts are compared by their runs of four
words; precision and recall are means over the pages, and F1 is that of the means.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

from scripts.public_sets.figures import Failures, Row, mean, read_rows, with_interval, with_progress
from scripts.public_sets.platform import quiet_settings

from modules.llm_platform.container import build_platform

SETS: Final = ("articles",)
SHINGLE_WORDS: Final = 4

Overlap = tuple[int, int, int]  # runs of words in both texts, in ours only, in the article only


async def measure(name: str, folder: Path, part: str) -> list[str]:
    """F1, precision and recall, and how long a page takes."""
    failures, overlaps, took = Failures(), list[Overlap](), list[float]()
    rows = read_rows(folder, part, name)
    with served(rows) as address, quiet_settings(READERS=("direct",), READER_ALLOWED_HOSTS=(address,)) as settings:
        async with build_platform(settings) as platform:
            for row in with_progress(name, rows):
                text, began = "", time.perf_counter()
                try:
                    text = (await platform.pages.read(f"http://{address}/{row['id']}")).text
                except Exception as error:  # noqa: BLE001  # each is told, none may happen
                    failures.add(row["id"][:12], error)
                took.append((time.perf_counter() - began) * 1000)
                overlaps.append(overlap(row["label"], text))
    return [
        f"n {len(overlaps)}",
        with_interval("F1", f1, overlaps),
        with_interval("precision", precision, overlaps),
        with_interval("recall", recall, overlaps),
        f"ms a page {sorted(took)[len(took) // 2]:.0f} median, {max(took):.0f} at most",
        str(failures),
    ]


@contextmanager
def served(rows: Sequence[Row]) -> Iterator[str]:
    """The address of a server on loopback that has each row's page under its id."""
    bodies = {f"/{row['id']}": row["source"].encode("utf-8", "replace") for row in rows}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = bodies.get(self.path, b"")
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: a line for each page would hide the figures."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def overlap(article: str, text: str) -> Overlap:
    true, said = _shingles(article), _shingles(text)
    return (true & said).total(), (said - true).total(), (true - said).total()


def precision(overlaps: Sequence[Overlap]) -> float:
    return mean(both / (both + ours) for both, ours, _ in overlaps if both + ours)


def recall(overlaps: Sequence[Overlap]) -> float:
    return mean(both / (both + theirs) for both, _, theirs in overlaps if both + theirs)


def f1(overlaps: Sequence[Overlap]) -> float:
    right, found = precision(overlaps), recall(overlaps)
    return 2 * right * found / (right + found) if right + found else 0.0


def _shingles(text: str) -> Counter[tuple[str, ...]]:
    found = re.findall(r"\w+", text)
    runs = range(max(1, len(found) - SHINGLE_WORDS + 1)) if found else range(0)
    return Counter(tuple(found[start : start + SHINGLE_WORDS]) for start in runs)
