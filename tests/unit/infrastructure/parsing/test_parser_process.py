"""infrastructure/parsing/parser_process.py, with real child processes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.unit.infrastructure.parsing.pdf_samples import pdf

from modules.llm_platform.infrastructure.parsing import parser_process
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument
from modules.llm_platform.infrastructure.parsing.messages import decode_text, encode_text, read_message, write_message
from modules.llm_platform.infrastructure.parsing.parser_process import SCRIPT, ParserProcess

PATIENCE_S = 30.0  # limit on a busy machine; a call that is not stopped takes minutes

SLOW_PAGE = "<ul>" + "<li><b>word</b> more</li>" * 70_000

# A parser that does what its request says.
ODD = """
import json, os, struct, sys, time
lengths = struct.Struct("<II")
def answer(fields, text):
    sys.stdout.buffer.write(lengths.pack(len(fields), len(text)) + fields + text)
    sys.stdout.buffer.flush()
while head := sys.stdin.buffer.read(lengths.size):
    fields, content = map(sys.stdin.buffer.read, lengths.unpack(head))
    wish = content.decode()
    if wish == "hang":
        time.sleep(60)
    if wish == "pause":
        time.sleep(0.5)
    if wish == "die":
        os._exit(3)
    if wish == "endless":
        sys.stdout.buffer.write(lengths.pack(2**32 - 1, 2**32 - 1))
    answer({"nonsense": b"{", "list": b"[]"}.get(wish, b"{}"), b"\\xff" if wish == "bytes" else str(os.getpid()).encode())
"""


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    script = tmp_path / "odd.py"
    script.write_text(ODD)
    return script


def test_one_child_reads_many_documents(tmp_path: Path) -> None:
    """HTML and PDF are returned as text, and an unreadable document as an error, after which the next one is read."""
    (tmp_path / "a.pdf").write_bytes(pdf("Page.", title="Manual"))
    (tmp_path / "b.pdf").write_bytes(b"broken")
    with ParserProcess() as parser:
        assert parser.html("<title>T</title><p>Grüße</p>").text == "Grüße"
        with pytest.raises(UnreadableDocument, match="not a PDF"):
            parser.file("pdf", tmp_path / "b.pdf")
        parsed = parser.file("pdf", tmp_path / "a.pdf")
    assert (parsed.text, parsed.title, parsed.note) == ("Page.", "Manual", None)


def test_document_that_takes_too_much_cpu_time_is_given_up() -> None:
    """Pages can keep the HTML parser busy for minutes: the child ends itself, a new one reads the next page."""
    with ParserProcess(cpu_seconds=0.1) as parser:
        assert parser.html("<p>warm").text == "warm"
        began = time.monotonic()
        with pytest.raises(UnreadableDocument, match=r"longer than 0\.1 s of CPU time"):
            parser.html(SLOW_PAGE)
        assert time.monotonic() - began < PATIENCE_S
        assert parser.html("<p>next").text == "next"


def test_waiting_is_no_cpu_time(tmp_path: Path) -> None:
    """A child that waits may take longer than its CPU time, and each document has the whole of it."""
    pipe = tmp_path / "a.ipynb"
    os.mkfifo(pipe)
    with ParserProcess(cpu_seconds=0.3) as parser:
        for _ in range(3):
            writer = threading.Timer(0.4, pipe.write_text, ('{"cells": [{"source": "text"}]}',))
            writer.start()
            assert parser.file("ipynb", pipe).text == "text"
            writer.join()


def test_hanging_child_is_given_up(odd: Path) -> None:
    """The parent ends a child that computes nothing and never answers."""
    with ParserProcess(wall_seconds=1.0, script=odd) as parser, pytest.raises(UnreadableDocument, match=r"than 1 s$"):
        parser.html("hang")


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="this system does not tell which children are stopped")
def test_a_stopped_child_is_replaced(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that a signal has stopped, also between two documents, ends at its second look, and its document is read."""
    assert 2 * parser_process.STOPPED_LOOK_S <= 10
    monkeypatch.setattr(parser_process, "STOPPED_LOOK_S", 0.1)
    with ParserProcess(script=odd) as parser:
        first = parser.html("who are you").text
        os.kill(int(first), signal.SIGSTOP)
        began = time.monotonic()
        assert parser.html("who are you").text != first
        assert time.monotonic() - began < PATIENCE_S


def test_a_child_that_goes_on_stays(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is stopped at a look and not at the next one, as after Ctrl-Z, reads its document."""
    looks: list[bool] = []

    def is_stopped(child: subprocess.Popen[bytes]) -> bool:
        looks.append(len(looks) % 2 == 0)
        return looks[-1]

    monkeypatch.setattr(parser_process, "STOPPED_LOOK_S", 0.01)
    monkeypatch.setattr(parser_process, "_is_stopped", is_stopped)
    with ParserProcess(script=odd) as parser:
        first = parser.html("who are you").text
        assert parser.html("pause").text == first
    assert any(looks)


def test_orphan_ends_by_itself(tmp_path: Path) -> None:
    """A hanging child whose parent was killed ends too. Here it opens a pipe without a writer."""
    pipe = tmp_path / "a.ipynb"
    os.mkfifo(pipe)
    orphan = subprocess.Popen(
        [sys.executable, "-P", str(SCRIPT), "10", "0.1"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    request = io.BytesIO()
    write_message(request, {"kind": "ipynb", "path": str(pipe)})
    orphan.communicate(request.getvalue(), timeout=PATIENCE_S)
    assert orphan.returncode == -signal.SIGALRM


@pytest.mark.parametrize("wish", ["die", "nonsense", "list", "endless", "bytes"])
def test_a_child_that_dies_or_talks_nonsense_is_replaced(odd: Path, wish: str) -> None:
    """A parser that crashes costs one document."""
    with ParserProcess(script=odd) as parser:
        first = parser.html("who are you").text
        with pytest.raises(UnreadableDocument, match="its parser crashed"):
            parser.html(wish)
        assert parser.html("who are you").text != first


def test_stopping_does_not_wait(odd: Path) -> None:
    """Called from another thread, it fails the current read at once, and nothing is read afterwards."""
    with ParserProcess(script=odd) as parser:
        parser.html("who are you")
        threading.Timer(0.1, parser.stop).start()
        began = time.monotonic()
        with pytest.raises(UnreadableDocument):
            parser.html("hang")
        assert time.monotonic() - began < PATIENCE_S
        with pytest.raises(UnreadableDocument, match="stopped"):
            parser.html("who are you")


def test_stopped_while_the_child_starts(odd: Path) -> None:
    """Nothing is read, and the child is ended."""
    started: list[subprocess.Popen[bytes]] = []

    class Stopped(ParserProcess):
        def _ensure_child(self) -> subprocess.Popen[bytes]:
            self.stop()
            started.append(super()._ensure_child())
            return started[0]

    with pytest.raises(UnreadableDocument, match="stopped"):
        Stopped(script=odd).html("who are you")
    assert started[0].returncode == -signal.SIGKILL


def test_nothing_is_started_that_is_not_needed(tmp_path: Path) -> None:
    """A folder of plain text costs no process; a parser that cannot start is a word."""
    with ParserProcess(script=tmp_path / "missing.py") as parser:
        parser.stop()
    with (
        ParserProcess(script=tmp_path / "missing.py") as parser,
        pytest.raises(UnreadableDocument, match="its parser crashed"),
    ):
        parser.html("x")


def test_documents_share_the_thread_that_limits_their_time(odd: Path) -> None:
    """Reading starts one thread for a child, however many documents it reads, and none remains without the child."""
    before = set(threading.enumerate())  # a thread of an earlier test may be about to end

    def started() -> set[threading.Thread]:
        return set(threading.enumerate()) - before

    with ParserProcess(script=odd) as parser:
        parser.html("who are you")
        [watchdog] = started()
        for _ in range(3):
            parser.html("who are you")
            assert started() == {watchdog}
    watchdog.join(PATIENCE_S)
    assert not watchdog.is_alive()


@pytest.mark.parametrize("text", ["Grüße 世界 🌍", "a\nb\r\n\x00c", "\ud800"])
def test_a_text_comes_back_as_it_was_sent(text: str) -> None:
    """Lengths, not signs within a text, say where it ends."""
    stream = io.BytesIO()
    write_message(stream, {"title": text}, encode_text(text))
    write_message(stream, {}, b"")
    stream.seek(0)
    message = read_message(stream)
    assert message is not None
    assert (message[0]["title"], decode_text(message[1])) == (text, text)
    assert read_message(stream) == ({}, b"")
    assert read_message(stream) is None
