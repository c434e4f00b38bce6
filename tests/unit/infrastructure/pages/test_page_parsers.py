"""infrastructure/pages/content.py: parser processes that are reused, killed when their caller leaves, and stopped on
close.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unit.infrastructure.parsing.pdf_samples import pdf

from modules.llm_platform.infrastructure.pages.content import PageParsers
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument
from modules.llm_platform.infrastructure.parsing.parser_pool import ParserPool
from modules.llm_platform.infrastructure.parsing.parser_process import Parsed
from modules.llm_platform.testing import probe_reader
from modules.llm_platform.testing.waiting import CANCEL_TIMEOUT_S, START_TIMEOUT_S, becomes_true


class FakeParser:
    """A parser that works until it may end or is stopped."""

    made: list[FakeParser]

    def __init__(self) -> None:
        self.made.append(self)
        self.let_go = threading.Event()
        self.stopped = self.ended = False
        self.path: Path | None = None

    def page(self, html: str) -> Parsed:
        if html == "hang":
            self.let_go.wait(60)
        if self.stopped or html == "bad":
            raise UnreadableDocument("no")
        return Parsed(html.upper())

    def pdf_page(self, path: Path) -> Parsed:
        self.path = path
        return Parsed(path.read_bytes().decode())

    def stop(self) -> None:
        self.stopped = True
        self.let_go.set()

    def __exit__(self, *error: object) -> None:
        self.ended = True


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeParser]:
    monkeypatch.setattr(FakeParser, "made", [], raising=False)
    return FakeParser


async def test_a_child_is_used_again(fake: Any) -> None:
    """One page after the other needs one child, a bad page in between changes nothing."""
    parsers = PageParsers(ParserPool(parser=fake))
    assert (await parsers.html("a")).text == "A"
    with pytest.raises(UnreadableDocument):
        await parsers.html("bad")
    assert (await parsers.html("b")).text == "B"
    assert len(fake.made) == 1
    await parsers.aclose()
    assert await becomes_true(lambda: fake.made[0].ended, START_TIMEOUT_S)
    assert fake.made[0].stopped


async def test_two_at_once_and_no_more(fake: Any) -> None:
    """The third page waits."""
    parsers = PageParsers(ParserPool(2, fake))
    assert [found.text for found in await asyncio.gather(*(parsers.html(letter) for letter in "abcde"))] == list(
        "ABCDE"
    )
    assert len(fake.made) <= 2
    await parsers.aclose()


async def test_a_child_whose_caller_left_is_killed_after_a_while(fake: Any) -> None:
    """Cancelling returns at once, and a page that never ends holds its place for the grace time only."""
    parsers = PageParsers(ParserPool(1, fake), grace_s=0.05)
    task = asyncio.create_task(parsers.html("hang"))
    assert await becomes_true(lambda: bool(fake.made), START_TIMEOUT_S)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=CANCEL_TIMEOUT_S)
    assert done
    assert (await parsers.html("a")).text == "A"
    assert fake.made[0].stopped
    assert len(fake.made) == 2
    await parsers.aclose()


async def test_a_child_that_finishes_after_its_caller_left_is_used_again(fake: Any) -> None:
    """A page that was late costs the next one no start."""
    parsers = PageParsers(ParserPool(1, fake))
    task = asyncio.create_task(parsers.html("hang"))
    assert await becomes_true(lambda: bool(fake.made), START_TIMEOUT_S)
    task.cancel()
    await asyncio.wait([task], timeout=CANCEL_TIMEOUT_S)
    fake.made[0].let_go.set()
    assert (await parsers.html("a")).text == "A"
    assert len(fake.made) == 1
    await parsers.aclose()


async def test_preparing_starts_one_child(fake: Any) -> None:
    """The first page finds a child; preparing again starts no other."""
    parsers = PageParsers(ParserPool(parser=fake))
    await parsers.prepare()
    await parsers.prepare()
    assert (await parsers.html("a")).text == "A"
    assert len(fake.made) == 1
    await parsers.aclose()


async def test_closing_ends_the_work(fake: Any) -> None:
    """A page that is being parsed fails."""
    parsers = PageParsers(ParserPool(1, fake))
    task = asyncio.create_task(parsers.html("hang"))
    assert await becomes_true(lambda: bool(fake.made), START_TIMEOUT_S)
    await parsers.aclose()
    with pytest.raises(UnreadableDocument):
        await task


@pytest.mark.parametrize("closed", [False, True])
async def test_a_child_that_is_stopped_after_its_answer_is_ended(fake: Any, closed: bool) -> None:
    """It cannot be reused, and without a wait it would stay a zombie process."""
    parsers = PageParsers(ParserPool(1, fake))
    task = asyncio.create_task(parsers.html("hang"))
    assert await becomes_true(lambda: bool(fake.made), START_TIMEOUT_S)
    if closed:
        await parsers.aclose()
    else:
        fake.made[0].stop()
    with pytest.raises(UnreadableDocument):
        await task
    assert await becomes_true(lambda: fake.made[0].ended, START_TIMEOUT_S)
    await parsers.aclose()


async def test_a_pdf_leaves_no_file_behind(fake: Any) -> None:
    """The child reads it from a file that lives as long as the call."""
    parsers = PageParsers(ParserPool(parser=fake))
    assert (await parsers.pdf(b"%PDF")).text == "%PDF"
    assert fake.made[0].path is not None
    assert not fake.made[0].path.exists()
    await parsers.aclose()


async def test_a_probe_reads_pdf() -> None:
    """The probe parses like the product does."""
    body = pdf("Page one")
    answer = (200, {"Content-Type": "application/pdf"}, body)
    probe = await probe_reader("http://a.example.net/a.pdf", lambda host: ["9.9.9.9"], lambda *asked: answer)
    assert probe.outcome == "read"


async def test_real_children() -> None:
    """HTML and PDF through the program that parses documents."""
    parsers = PageParsers()
    try:
        found = await parsers.html("<title>T</title><p>Text.</p><p hidden>no</p>")
        assert (found.title, found.text) == ("T", "Text.")
        assert "Page one" in (await parsers.pdf(pdf("Page one"))).text
        with pytest.raises(UnreadableDocument):
            await parsers.pdf(b"%PDF-1.4 nonsense")
    finally:
        await parsers.aclose()
