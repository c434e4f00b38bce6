"""The words of passages, weighed in a process of its own once there are many: it takes as long as to store them.

The interpreter's lock lets one thread work at a time, so that a second core would stand idle. Where the process cannot be
started, or is gone, the words are weighed here: the same ones, only later.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from modules.llm_platform.domain.bm25 import SparseVector, passage_words
from modules.llm_platform.infrastructure.vectors import frames

ANSWER_S: Final = 30.0  # for some hundred passages, which take milliseconds
HERE: Final = 1000  # passages that are weighed in about the time that the process needs to start
CHILD: Final = "modules.llm_platform.infrastructure.vectors.words_child"
logger = logging.getLogger(__name__)

Weighed = Callable[[], Sequence[SparseVector]]  # what was begun, when it is needed


def weighed_here(texts: Sequence[str]) -> Weighed:
    return lambda: list(map(passage_words, texts))


class WordWeights:
    """One thread asks. Closed or not, the process ends with ours."""

    def __init__(self, program: Sequence[str] = (sys.executable, "-P", "-m", CHILD), here: int = HERE) -> None:
        self._program = program
        self._left_here = here
        self._child: subprocess.Popen[bytes] | None = None

    def of(self, texts: Sequence[str]) -> Weighed:
        """Begin with these; whoever needs the result calls what comes back."""
        self._left_here -= len(texts)
        if self._left_here > 0:
            return weighed_here(texts)
        if self._child is None:  # these are done before it has started
            self._start()
            return weighed_here(texts)
        return (lambda: self._answer(texts)) if self._asked(texts) else weighed_here(texts)

    def close(self) -> None:
        """End the process; another one is started when it is needed."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what was not written yet cannot be any more
                        pipe.close()
            child.wait()

    def _asked(self, texts: Sequence[str]) -> bool:
        if self._child is None or self._child.stdin is None:
            return False
        try:
            with _in_time(self._child):
                frames.send(self._child.stdin, list(texts))
        except OSError as error:
            self._give_up(error)
            return False
        return True

    def _answer(self, texts: Sequence[str]) -> Sequence[SparseVector]:
        found = self._received()
        if found is None or len(found) != len(texts):
            self._give_up(None)
            return weighed_here(texts)()
        return [SparseVector(indices, values) for indices, values in found]

    def _received(self) -> Any:
        child = self._child
        if child is None or child.stdout is None:
            return None
        try:
            with _in_time(child):
                return frames.received(child.stdout)
        except OSError:
            return None

    def _start(self) -> None:
        try:
            self._child = subprocess.Popen(  # noqa: S603  our own module under our own interpreter
                self._program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError | None) -> None:
        """Once is enough: what ended it may end the next one too."""
        logger.warning("words_weighed_here", extra={"cause": type(error).__name__ if error else "ended"})
        self._left_here = sys.maxsize
        self.close()


@contextmanager
def _in_time(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """A process that stands still is ended, and so is the wait for it: reading comes to an end, writing fails."""
    alarm = threading.Timer(ANSWER_S, child.kill)
    alarm.daemon = True
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()
