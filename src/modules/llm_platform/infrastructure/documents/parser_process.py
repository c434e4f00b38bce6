"""The parent's side of `parse_child`: ask, wait no longer than a deadline, kill what does not answer, start again."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from modules.llm_platform.infrastructure.documents import parse_child
from modules.llm_platform.infrastructure.documents.decoding import UnreadableDocument

FILE_KINDS = ("pdf", "docx", "epub", "ipynb")  # suffixes of what the child opens itself
STARTING_SECONDS = 10.0  # a cold disk may need that long for the interpreter and the parser


@dataclass(frozen=True, slots=True)
class Parsed:
    """The text of a document, its title where it names one, and a word about what is missing."""

    text: str
    title: str | None = None
    note: str | None = None


class DocumentParser(Protocol):
    """Whoever turns formats into text; raises UnreadableDocument."""

    def html(self, html: str) -> Parsed: ...

    def file(self, kind: str, path: Path) -> Parsed:
        """`kind` is one of FILE_KINDS."""


class ParserProcess:
    """A child process that is started when it is first needed. One thread asks, any thread may `stop` it."""

    def __init__(self, seconds: float = parse_child.PARSE_SECONDS, script: Path | None = None) -> None:
        self._seconds = seconds
        self._script = script or Path(parse_child.__file__)
        self._child: subprocess.Popen[str] | None = None
        self._fresh = True
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def stop(self) -> None:
        """Let the document that is being read fail, and every later one."""
        self._stopped = True
        if child := self._child:
            child.kill()

    def html(self, html: str) -> Parsed:
        return self._ask({"html": html})

    def file(self, kind: str, path: Path) -> Parsed:
        return self._ask({kind: str(path)})

    def pdf(self, path: Path) -> Parsed:
        return self.file("pdf", path)

    def _ask(self, request: dict[str, str]) -> Parsed:
        if self._stopped:
            raise UnreadableDocument("reading was stopped")
        child = self._running()
        late = threading.Event()
        timer = threading.Timer(self._seconds + (STARTING_SECONDS if self._fresh else 0.0), _kill, (child, late))
        timer.daemon = True
        timer.start()
        try:
            answer = _exchange(child, json.dumps(request))
        finally:
            timer.cancel()
        self._fresh = False
        if answer is None:
            self._end()
            raise UnreadableDocument(
                f"reading it took more than {self._seconds:g} s" if late.is_set() else "it broke its parser"
            )
        return parsed(answer)

    def _running(self) -> subprocess.Popen[str]:
        if self._child is None:
            self._fresh = True
            self._child = subprocess.Popen(  # noqa: S603  our own script under our own interpreter
                [sys.executable, "-P", str(self._script)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                encoding="utf-8", errors="replace",
            )  # fmt: skip
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            for pipe in (child.stdin, child.stdout):
                _close(pipe)
            child.wait()


def _kill(child: subprocess.Popen[str], late: threading.Event) -> None:
    late.set()
    child.kill()


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except OSError:  # what was not written yet cannot be any more
        return


def _exchange(child: subprocess.Popen[str], line: str) -> dict[str, Any] | None:
    """The child's answer; None when it has died or answers nonsense."""
    if child.stdin is None or child.stdout is None:
        return None
    try:
        child.stdin.write(line + "\n")
        child.stdin.flush()
        answer = json.loads(child.stdout.readline())
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def parsed(answer: dict[str, Any]) -> Parsed:
    if error := answer.get("error"):
        raise UnreadableDocument(str(error))
    return Parsed(answer.get("text") or "", answer.get("title") or None, answer.get("note"))
