"""Answer parsing requests in a process of its own, one at a time, within limits of time and memory, without a network.

A page nested ten thousand deep or a broken PDF blocks the interpreter for minutes, and some PDFs and archives unpack to
gigabytes.

Requests and answers are messages (`messages.py`). A request has the field `kind`, `path` for a file on a disk, and
`cpu_seconds` if the document may take another time than usual. Its content is the HTML, or the file if it has no path. An
answer has the text as its content, and the fields `title` and `note`. That of a page has `extraction`, and that of a
`linked_page` or `whole_page` has `hyperlinks`, too. The kind `citations` has its own fields (`citations.py`). An answer may
have only `error`.
"""

import contextlib
import logging
import sys
from collections.abc import Callable
from typing import IO, Any

from modules.llm_platform.infrastructure.parsing.answer import Answer
from modules.llm_platform.infrastructure.parsing.citations import read_citations
from modules.llm_platform.infrastructure.parsing.epub import read_epub
from modules.llm_platform.infrastructure.parsing.excel import read_xlsx
from modules.llm_platform.infrastructure.parsing.html_page import (
    read_html,
    read_linked_page,
    read_page,
    read_whole_page,
)
from modules.llm_platform.infrastructure.parsing.limits import (
    CPU_SECONDS,
    MEMORY_BYTES,
    WALL_SECONDS,
    confine,
    document_limits,
)
from modules.llm_platform.infrastructure.parsing.messages import decode_text, encode_text, read_message, write_message
from modules.llm_platform.infrastructure.parsing.notebook import read_notebook
from modules.llm_platform.infrastructure.parsing.pdf import read_pdf
from modules.llm_platform.infrastructure.parsing.powerpoint import read_pptx
from modules.llm_platform.infrastructure.parsing.word import read_docx

_HTML_READERS = {"html": read_html, "page": read_page, "linked_page": read_linked_page, "whole_page": read_whole_page}
_FILE_READERS: dict[str, Callable[[str | bytes], Answer]] = {
    "pdf": read_pdf,
    "docx": read_docx,
    "xlsx": read_xlsx,
    "pptx": read_pptx,
    "epub": read_epub,
    "ipynb": read_notebook,
}


def serve(
    requests: IO[bytes], answers: IO[bytes], cpu_seconds: float = CPU_SECONDS, wall_seconds: float = WALL_SECONDS
) -> None:
    while (request := read_message(requests)) is not None:
        fields, content = request
        try:
            if fields["kind"] in ("page", "linked_page", "whole_page"):
                _load_libraries()
            with document_limits(fields.get("cpu_seconds", cpu_seconds), wall_seconds):
                answer = _read(fields, content)
        except MemoryError:
            answer = {"error": f"reading it takes more than {MEMORY_BYTES // 1_000_000} MB of memory"}
        write_message(answers, answer, encode_text(answer.pop("text", "")))


def _read(request: dict[str, Any], content: bytes) -> Answer:
    if request["kind"] == "citations":
        return read_citations(content)
    if read := _HTML_READERS.get(request["kind"]):
        return read(decode_text(content))
    return _FILE_READERS[request["kind"]](request.get("path") or content)


def _load_libraries() -> None:
    """Import the libraries that all pages need. If they are not compiled yet, that takes longer than any page."""
    with contextlib.suppress(ImportError):  # the page's own error says what to install
        import resiliparse.extract.html2text  # noqa: F401


def main() -> None:
    """Serve the standard streams. The arguments are the limits of CPU time and of time for one document, in seconds."""
    logging.disable()
    confine()
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        serve(sys.stdin.buffer, sys.stdout.buffer, *map(float, sys.argv[1:]))
