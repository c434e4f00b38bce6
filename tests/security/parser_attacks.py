"""Attacks the parsers and prints the cost: `python -m tests.security.parser_attacks [words of names]`. Linux only.

The program first parses each hostile document alone, and prints the parser's peak memory, its CPU time and the outcome.
Then one caller reads twenty pages of 100,000 nested elements and twenty slow pages while another caller reads a short
page, and the program prints how long the short page waited.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.security.hostile_documents import DOCX_BYTES, FILES, PAGES

from modules.llm_platform.infrastructure.pages.content import PageParsers
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument
from modules.llm_platform.infrastructure.parsing.parser_process import Parsed, ParserProcess

WATCH_S = 0.02
TICKS_A_SECOND = 100
SLOW_PAGE = "<ul>" + "<li><b>word</b> more</li>" * 60_000
ATTACK = ("<div>" * 100_000, SLOW_PAGE) * 20


class Usage:
    """The memory and CPU time of a parser while it runs."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self.peak_mb = 0
        self.cpu_s = 0.0

    def look(self) -> None:
        with contextlib.suppress(OSError, AttributeError, IndexError):  # the parser has ended or was replaced
            peak = re.search(r"VmHWM:\s+(\d+)", (self._folder / "status").read_text())
            self.peak_mb = max(self.peak_mb, int(peak[1]) // 1000 if peak else 0)
            times = (self._folder / "stat").read_text().rpartition(")")[2].split()[11:13]
            self.cpu_s = sum(map(int, times)) / TICKS_A_SECOND

    def watch(self, ended: threading.Event) -> None:
        while not ended.wait(WATCH_S):
            self.look()


@contextlib.contextmanager
def watched(pid: int) -> Iterator[Usage]:
    """Measure the process until the end of the block, even if the process ends earlier."""
    usage, ended = Usage(pid), threading.Event()
    watcher = threading.Thread(target=usage.watch, args=(ended,))
    watcher.start()
    try:
        yield usage
    finally:
        ended.set()
        watcher.join()
        usage.look()


def attack(name: str, read: Callable[[ParserProcess], Parsed]) -> None:
    with ParserProcess() as parser:
        parser.html("<p>warm")
        child = parser._child
        assert child is not None
        with watched(child.pid) as usage:
            try:
                parsed = read(parser)
                outcome = f"{len(parsed.text):,} characters; {parsed.note}"
            except UnreadableDocument as error:
                outcome = str(error)
    sys.stdout.write(f"{name:28} {usage.peak_mb:5} MB {usage.cpu_s:5.1f} s of CPU   {outcome}\n")


async def wait_behind_an_attack() -> None:
    try:
        from modules.llm_platform.domain.callers.current_caller import set_current_caller
    except ImportError:  # older versions have no turns

        def set_current_caller(name: str) -> None:
            """Do nothing, because older versions do not distinguish callers."""

    parsers = PageParsers()
    await parsers.prepare()
    set_current_caller("attacker")
    attacking = [asyncio.create_task(parsers.html(page)) for page in ATTACK]
    await asyncio.sleep(0.5)
    set_current_caller("another")
    began = time.monotonic()
    await parsers.html("<p>A short page.")
    waited_s = time.monotonic() - began
    behind = sum(not task.done() for task in attacking)
    for task in attacking:
        task.cancel()
    await asyncio.wait(attacking)
    await parsers.aclose()
    sys.stdout.write(
        f"another caller's page waited {waited_s:.1f} s; {behind} of {len(attacking)} pages were read later\n"
    )


def main(words: list[str]) -> None:
    for name, make_file in FILES.items():
        if not words or any(word in name for word in words):
            data = make_file(DOCX_BYTES)
            kind = name.split()[0]
            attack(
                f"{name}, {len(data) // 1000} kB",
                lambda parser, kind=kind, data=data: parser.file(kind, data),  # type: ignore[misc]
            )
    for name, make_page in PAGES.items():
        if not words or any(word in name for word in words):
            page = make_page()
            attack(name, lambda parser, page=page: parser.page(page))  # type: ignore[misc]
    asyncio.run(wait_behind_an_attack())


if __name__ == "__main__":
    main(sys.argv[1:])
