"""infrastructure/parsing/parser_pool.py: pages and files share few parsers, and callers take turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from modules.llm_platform.domain.callers.current_caller import current_caller, set_current_caller
from modules.llm_platform.domain.concurrency.caller_turns import CallerTurns
from modules.llm_platform.domain.dtos.uploaded_file_dtos import UploadedFile
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from modules.llm_platform.infrastructure.documents.uploaded_files import open_uploaded_files
from modules.llm_platform.infrastructure.index.sqlite_vector_store import SqliteMemoryVectorStore
from modules.llm_platform.infrastructure.pages.content import PageParsers
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument
from modules.llm_platform.infrastructure.parsing.parser_pool import ParserPool, PooledParser
from modules.llm_platform.infrastructure.parsing.parser_process import Parsed
from modules.llm_platform.testing.waiting import START_TIMEOUT_S, becomes_true


class FakeParser:
    """Counts how many work at once, and records whose documents were read in which order."""

    running = most = 0
    read: list[str]
    may_go: threading.Event
    lock = threading.Lock()

    def __init__(self) -> None:
        self.stopped = False

    def html(self, html: str) -> Parsed:
        kind = type(self)
        with self.lock:
            kind.running += 1
            kind.most = max(kind.most, kind.running)
        self.may_go.wait(START_TIMEOUT_S)
        with self.lock:
            kind.running -= 1
            self.read.append(html)
        if self.stopped:
            raise UnreadableDocument("stopped")
        return Parsed(html)

    page = html

    def stop(self) -> None:
        self.stopped = True
        self.may_go.set()

    def __exit__(self, *error: object) -> None:
        """Nothing to end."""


@pytest.fixture
def fake() -> Callable[[], FakeParser]:
    return type("Fake", (FakeParser,), {"read": [], "may_go": threading.Event()})


async def as_caller(name: str, parsers: PageParsers, html: str) -> Parsed:
    set_current_caller(name)
    return await parsers.html(html)


async def test_pages_and_files_share_the_parsers(fake: type[FakeParser]) -> None:
    """The memory of a server is limited by a fixed number of parsers."""
    pool = ParserPool(2, fake)  # type: ignore[arg-type]  a fake
    parsers = PageParsers(pool)
    with ThreadPoolExecutor(5) as threads:
        files = [threads.submit(PooledParser(pool).html, "file") for _ in range(5)]
        pages = [asyncio.create_task(parsers.html("page")) for _ in range(5)]
        assert await becomes_true(lambda: fake.running == 2, START_TIMEOUT_S)
        fake.may_go.set()
        await asyncio.gather(*pages, *map(asyncio.wrap_future, files))
    assert (len(fake.read), fake.most) == (10, 2)
    await parsers.aclose()


async def test_one_caller_does_not_keep_the_others_waiting(fake: type[FakeParser]) -> None:
    """After twenty pages of one caller, the first page of another is read next."""
    parsers = PageParsers(ParserPool(1, fake))  # type: ignore[arg-type]  a fake
    many = [asyncio.create_task(as_caller("many", parsers, "many")) for _ in range(20)]
    assert await becomes_true(lambda: fake.running == 1, START_TIMEOUT_S)
    one = asyncio.create_task(as_caller("one", parsers, "one"))
    await asyncio.sleep(0)
    fake.may_go.set()
    await asyncio.gather(*many, one)
    assert fake.read.index("one") <= 2
    assert current_caller() == ""
    await parsers.aclose()


async def test_a_file_that_waits_for_its_turn_can_be_stopped(fake: type[FakeParser]) -> None:
    """Its thread ends, and no place is lost."""
    pool = ParserPool(1, fake)  # type: ignore[arg-type]  a fake
    slot = pool.turns.ask("other")
    parser = PooledParser(pool)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(parser.html, "file")
        parser.stop()
        with pytest.raises(UnreadableDocument, match="stopped"):
            await asyncio.wrap_future(waiting)
    assert slot.done()
    pool.turns.give_back("other")
    fake.may_go.set()
    assert PooledParser(pool).html("next").text == "next"
    pool.close()


async def test_files_of_a_request_use_the_turns_of_its_caller(fake: type[FakeParser]) -> None:
    """Files are read in a thread, which by default has no caller, so all callers would share one queue."""
    fake.may_go.set()
    asked: list[str] = []

    class Turns(CallerTurns):
        def ask(self, caller: str) -> Future[None]:
            asked.append(caller)
            return super().ask(caller)

    pool = ParserPool(1, fake)  # type: ignore[arg-type]
    pool.turns = Turns(1)
    set_current_caller("reader")
    files = [UploadedFile(name="a.html", content=b"<p>The pump draws 4 kW.</p>")]
    async with open_uploaded_files(files, NoneEmbedder(), SqliteMemoryVectorStore, Redactor(), pool):
        assert asked == ["reader"]
