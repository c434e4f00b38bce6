"""Runs the parsers as a child process with limits of time, and restarts it after a crash."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from modules.llm_platform.domain.text.page_starts import PageStarts, number_pages
from modules.llm_platform.infrastructure.parsing import limits
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument
from modules.llm_platform.infrastructure.parsing.messages import decode_text, encode_text, read_message, write_message

SCRIPT = Path(limits.__file__).with_name("__main__.py")
STOPPED = "reading was stopped"
PAGE_CPU_SECONDS = 3.0  # limit for a page of the web: anybody may have many read
# Variables of the environment that the child gets: what Python needs to start, and no secret.
INHERITED = ("PYTHONHOME", "PYTHONPATH", "PYTHONUSERBASE", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
FILE_KINDS = ("pdf", "docx", "xlsx", "pptx", "epub", "ipynb")  # files that the child opens
LOOKS = 4  # How often a document that hangs is looked for within its time.
STOPPED_LOOK_S = 5.0  # Longest pause between two checks of a child. One that both find stopped (SIGSTOP) is replaced.


@dataclass(frozen=True, slots=True)
class Hyperlinks:
    """Addresses as a page has them: of its base, of its links with their texts, of its images and its icon."""

    base: str = ""
    links: tuple[tuple[str, str], ...] = ()
    images: tuple[str, ...] = ()
    icon: str = ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The text of a document, with its title if it has one.

    - `note` says what is missing.
    - `hyperlinks` are the links of a `linked_page`.
    - `extraction` is the fraction of a page's visible text that was extracted, 0 to 1, or None for other documents.
    - `pages` says where the pages of a PDF begin.
    """

    text: str
    title: str | None = None
    note: str | None = None
    hyperlinks: Hyperlinks | None = None
    extraction: float | None = None
    pages: PageStarts = ()


class ParserEndedError(UnreadableDocument):
    """The document ended its parser: by its time, its memory or a crash."""


class _ChildStoppedError(ParserEndedError):
    """A signal had stopped the parser's process, which was ended."""


class DocumentParser(Protocol):
    """Turns formats into text. Raises UnreadableDocument."""

    def html(self, html: str) -> Parsed: ...

    def file(self, kind: str, file: Path | bytes) -> Parsed:
        """`kind` is one of FILE_KINDS. The bytes of a file are not written to a disk."""


class ParserProcess:
    """A child process, started on first use. One thread calls it, any thread may `stop` it."""

    def __init__(
        self,
        cpu_seconds: float = limits.CPU_SECONDS,
        wall_seconds: float = limits.WALL_SECONDS,
        script: Path | None = None,
    ) -> None:
        """Set the limits for one document: CPU time, and elapsed time, after which a child that hangs is killed."""
        self._cpu_seconds, self._wall_seconds = cpu_seconds, wall_seconds
        self._page_cpu_seconds = min(PAGE_CPU_SECONDS, cpu_seconds)
        self._script = script or SCRIPT
        self._child: subprocess.Popen[bytes] | None = None
        self._watchdog: _Watchdog | None = None
        self.stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def stop(self) -> None:
        """Fail the document that is being read, and every later one."""
        self.stopped = True
        if child := self._child:
            child.kill()

    def html(self, html: str) -> Parsed:
        return self._request({"kind": "html"}, encode_text(html))

    def page(self, html: str) -> Parsed:
        """Return the article of a web page. For a file, `html` returns all that its author did not mark as surroundings."""
        return self._request({"kind": "page", "cpu_seconds": self._page_cpu_seconds}, encode_text(html))

    def linked_page(self, html: str, *, is_whole: bool = False) -> Parsed:
        """Return the page with its links. With `is_whole`, it has all visible text, with what surrounds the article."""
        kind = "whole_page" if is_whole else "linked_page"
        return self._request({"kind": kind, "cpu_seconds": self._page_cpu_seconds}, encode_text(html))

    def pdf_page(self, path: Path) -> Parsed:
        """Return a PDF of the web, as far as it can be read in the time of a page."""
        return self._request({"kind": "pdf", "path": str(path), "cpu_seconds": self._page_cpu_seconds})

    def file(self, kind: str, file: Path | bytes) -> Parsed:
        if isinstance(file, bytes):
            return self._request({"kind": kind}, file)
        return self._request({"kind": kind, "path": str(file)})

    def citations(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the citations of a text as `citations.py` sends them."""
        return self._call({"kind": "citations", "cpu_seconds": self._page_cpu_seconds}, json.dumps(request).encode())

    def _request(self, fields: dict[str, Any], content: bytes = b"") -> Parsed:
        return read_answer(self._call(fields, content))

    def _call(self, fields: dict[str, Any], content: bytes) -> dict[str, Any]:
        """Return the answer of the child. Raises UnreadableDocument if there is none, or if it is an error."""
        fields = {"cpu_seconds": self._cpu_seconds, **fields}
        try:
            return self._read(fields, content)
        except _ChildStoppedError:  # not by its document, which a new child reads
            return self._read(fields, content)

    def _read(self, fields: dict[str, Any], content: bytes) -> dict[str, Any]:
        child = None if self.stopped else self._ensure_child()
        if child is None or self.stopped:  # another thread stopped it while the child was started
            self._end()
            raise UnreadableDocument(STOPPED)
        watchdog = self._watchdog = self._watchdog or _Watchdog(child, self._wall_seconds)
        watchdog.deadline = time.monotonic() + self._wall_seconds
        answer = _exchange(child, fields, content)
        watchdog.deadline = math.inf
        if answer is None:
            self._end()
            error = (
                UnreadableDocument
                if self.stopped
                else _ChildStoppedError
                if watchdog.found_stopped
                else ParserEndedError
            )
            raise error(self._explain_end(child.returncode, fields["cpu_seconds"], timed_out=watchdog.timed_out))
        if reason := answer.get("error"):
            raise UnreadableDocument(str(reason))
        return answer

    def _explain_end(self, returncode: int, cpu_seconds: float, *, timed_out: bool) -> str:
        if returncode == -getattr(signal, "SIGPROF", 0):
            return f"reading it took longer than {cpu_seconds:g} s of CPU time"
        if timed_out or returncode == -getattr(signal, "SIGALRM", 0):
            return f"reading it took longer than {self._wall_seconds:g} s"
        return "its parser crashed"

    def _ensure_child(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = subprocess.Popen(  # noqa: S603  a fixed script and interpreter
                [
                    sys.executable,
                    "-P",
                    "-X",
                    "utf8",
                    str(self._script),
                    f"{self._cpu_seconds}",
                    f"{self._wall_seconds}",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if name in INHERITED},  # noqa: TID251  passed on, not read
            )
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.end()
        if child is not None:
            child.kill()
            for pipe in (child.stdin, child.stdout):
                # Closing a pipe writes its buffered data, and the child that would read it is dead.
                with suppress(OSError):
                    if pipe is not None:
                        pipe.close()
            child.wait()


class _Watchdog(threading.Thread):
    """Kills a child whose document takes longer than `seconds`, or that a signal stops while it reads one.

    Its one thread is cheaper than a timer for each document.
    """

    def __init__(self, child: subprocess.Popen[bytes], seconds: float) -> None:
        super().__init__(name="parser-watchdog", daemon=True)
        self.deadline = math.inf  # deadline of the document that is being read, by time.monotonic()
        self.timed_out = self.found_stopped = False
        self._child, self._interval_s = child, min(seconds / LOOKS, STOPPED_LOOK_S)
        self._ended = threading.Event()
        self.start()

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        was_stopped = False
        while not self._ended.wait(self._interval_s):
            # Ctrl-Z stops this process, too: when both continue, the child may do so a moment later.
            is_stopped = self.deadline < math.inf and _is_stopped(self._child)
            self.found_stopped = was_stopped and is_stopped
            self.timed_out = time.monotonic() > self.deadline
            if self.timed_out or self.found_stopped:
                self._child.kill()
                return
            was_stopped = is_stopped


def _is_stopped(child: subprocess.Popen[bytes]) -> bool:
    """Return whether a signal has stopped the child, where the system tells it. Its end is not read."""
    if not hasattr(os, "waitid"):
        return False
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def _exchange(child: subprocess.Popen[bytes], fields: dict[str, Any], content: bytes) -> dict[str, Any] | None:
    """Return the child's answer with its text, or None if it died or its answer is invalid."""
    if child.stdin is None or child.stdout is None:
        return None
    try:
        write_message(child.stdin, fields, content)
        answer = read_message(child.stdout)
        return None if answer is None else {**answer[0], "text": decode_text(answer[1])}
    except (OSError, ValueError):
        return None


def read_answer(answer: dict[str, Any]) -> Parsed:
    return Parsed(
        answer.get("text") or "",
        answer.get("title") or None,
        answer.get("note"),
        _parse_hyperlinks(answer.get("hyperlinks")),
        answer.get("extraction"),
        number_pages(answer.get("pages") or ()),
    )


def _parse_hyperlinks(sent: dict[str, Any] | None) -> Hyperlinks | None:
    if sent is None:
        return None
    links = tuple((href, text) for href, text in sent["links"])
    return Hyperlinks(sent["base"], links, tuple(sent["images"]), sent["icon"])
