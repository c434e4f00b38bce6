"""The ledger of a research as lines that a person reads (`--show-sent`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.presentation.cli.console import Line

HEADING: Final = "Sent"
NOTHING_SENT: Final = "Nothing was sent to any host."
KILO: Final = 1000  # bytes in a kB
LONGEST_HOST: Final = 60  # characters; a longer one moves its own line only


def sent_lines(sent: Sequence[Sent]) -> Iterator[Line]:
    """A heading, then a line for each host and kind of data, most bytes first."""
    yield Line()
    yield Line(HEADING, "bold")
    if not sent:
        yield Line(NOTHING_SENT)
        return
    width = min(LONGEST_HOST, max(len(_host(entry)) for entry in sent))
    kinds = max(len(entry.kind) for entry in sent)
    for entry in sorted(sent, key=lambda entry: (-entry.bytes, entry.host, entry.kind, entry.via or "")):
        requests = f"{entry.requests} {'request' if entry.requests == 1 else 'requests'}"
        yield Line(f"{_host(entry):{width}}  {entry.kind:{kinds}}  {requests}, {_size(entry.bytes)}")


def _host(entry: Sent) -> str:
    """With the proxy, which hears of it too."""
    return f"{entry.host} via {entry.via}" if entry.via else entry.host


def _size(count: int) -> str:
    if count < KILO:
        return f"{count} B"
    kilobytes = count / KILO
    return f"{kilobytes:.1f} kB" if kilobytes < KILO else f"{kilobytes / KILO:.1f} MB"
