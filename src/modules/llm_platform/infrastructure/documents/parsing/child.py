"""Answers one request after the other, in a process of its own, within limits of time and memory and without a network.

A page nested ten thousand deep or a broken PDF blocks the interpreter for minutes, and some PDFs and archives unpack to
gigabytes.

Each input line is a JSON object, `{"html": text}` or a format and a file such as `{"pdf": path}`, or `{"pdf": {"base64": …}}`
for a file that is on no disk; with `"cpu_seconds"` if the document may take another time than usual. Each output line is
`{"title", "text", "note"}`, for `linked_page` with "hyperlinks", or `{"error": message}`.
"""

import contextlib
import json
import logging
import sys
from typing import IO

from modules.llm_platform.infrastructure.documents.parsing.archives import docx_text, epub_text
from modules.llm_platform.infrastructure.documents.parsing.html_page import html_text, linked_page_text, page_text
from modules.llm_platform.infrastructure.documents.parsing.limits import (
    CPU_SECONDS,
    MEMORY_BYTES,
    WALL_SECONDS,
    confine,
    document_limits,
)
from modules.llm_platform.infrastructure.documents.parsing.notebook import notebook_text
from modules.llm_platform.infrastructure.documents.parsing.pdf import pdf_text

TOO_MUCH_MEMORY = f"reading it takes more than {MEMORY_BYTES // 1_000_000} MB of memory"

_READERS = {
    "html": html_text, "page": page_text, "linked_page": linked_page_text,
    "pdf": pdf_text, "docx": docx_text, "epub": epub_text, "ipynb": notebook_text,
}


def serve(
    requests: IO[str], answers: IO[str], cpu_seconds: float = CPU_SECONDS, wall_seconds: float = WALL_SECONDS
) -> None:
    """Answer each request line until the input ends."""
    for line in requests:
        try:
            request = json.loads(line)
            cpu_seconds_now = request.pop("cpu_seconds", cpu_seconds)
            ((kind, document),) = request.items()
            if kind in ("page", "linked_page"):
                _load_libraries()
            with document_limits(cpu_seconds_now, wall_seconds):
                answer = _READERS[kind](document)
        except MemoryError:
            answer = {"error": TOO_MUCH_MEMORY}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _load_libraries() -> None:
    """Import what every page needs. Compiling the libraries, where nobody did so before, takes longer than any page."""
    with contextlib.suppress(ImportError):  # the page's own error says what to install
        import trafilatura  # noqa: F401


def main() -> None:
    """Serve the standard streams. The arguments are the limits of CPU time and of time for one document, in seconds."""
    logging.disable()
    confine()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        serve(sys.stdin, sys.stdout, *map(float, sys.argv[1:]))
