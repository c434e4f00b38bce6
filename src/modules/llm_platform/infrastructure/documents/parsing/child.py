"""Answers one request after the other, within limits of time and memory, in a process of its own.

A page nested ten thousand deep or a broken PDF blocks the interpreter for minutes, and some PDFs and archives unpack to
gigabytes.

Each input line is a JSON object, `{"html": text}` or a format and a file such as `{"pdf": path}`, or `{"pdf": {"base64": …}}`
for a file that is on no disk. Each output line is
`{"title", "text", "note"}`, for `linked_page` with "hyperlinks", or `{"error": message}`.
"""

import contextlib
import json
import logging
import signal
import sys
from collections.abc import Iterator
from typing import IO

from modules.llm_platform.infrastructure.documents.parsing.archives import docx_text, epub_text
from modules.llm_platform.infrastructure.documents.parsing.html_page import html_text, linked_page_text, page_text
from modules.llm_platform.infrastructure.documents.parsing.notebook import notebook_text
from modules.llm_platform.infrastructure.documents.parsing.pdf import pdf_text

CPU_SECONDS = 10.0  # for one document; on a busy machine it takes a multiple of that by the clock
WALL_SECONDS = 60.0  # for one document; only one that waits, and computes nothing, takes that long
MEMORY_BYTES = 1 << 30

_READERS = {
    "html": html_text, "page": page_text, "linked_page": linked_page_text,
    "pdf": pdf_text, "docx": docx_text, "epub": epub_text, "ipynb": notebook_text,
}


def serve(
    requests: IO[str], answers: IO[str], cpu_seconds: float = CPU_SECONDS, wall_seconds: float = WALL_SECONDS
) -> None:
    """Answer each request line until the input ends."""
    for line in requests:
        ((kind, document),) = json.loads(line).items()
        with _time_limits(cpu_seconds, wall_seconds):
            answer = _READERS[kind](document)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


@contextlib.contextmanager
def _time_limits(cpu_seconds: float, wall_seconds: float) -> Iterator[None]:
    """End this process when a document takes too long, even if the parent has ended.

    SIGPROF comes after CPU time of this process, and unlike the SIGXCPU of RLIMIT_CPU it writes no core dump and starts anew
    with each document. The parent's own limit comes before SIGALRM. Windows has neither.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, wall_seconds + 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on Windows, not everywhere on macOS
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def main() -> None:
    """Serve the standard streams. The arguments are the limits of CPU time and of time for one document, in seconds."""
    logging.disable()
    _limit_memory()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        serve(sys.stdin, sys.stdout, *map(float, sys.argv[1:]))
