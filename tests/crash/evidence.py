"""Collects evidence for a problem: the records near the request, the group's offsets, and the workers' actions there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.crash.checker import FAILED, RESULT_OF, STAGE_BY_TOPIC, Name, Record, asked_name, told_name
from tests.kafka.delivery_trace import trace_files

NEIGHBOURS = 3  # records before and after the request
LINES_AROUND = 30  # trace lines before and after the last line about the request
_REQUEST_POSITION = re.compile(rf"\b({'|'.join(STAGE_BY_TOPIC)})/(\d+)/(\d+)")


def evidence(
    problems: Iterable[str], records: Sequence[Record], committed: Mapping[tuple[str, int], int], folder: Path
) -> list[str]:
    """Return readable lines about each request that a problem names. `folder` contains the workers' delivery traces."""
    found = {match.groups() for problem in problems for match in _REQUEST_POSITION.finditer(problem)}
    lines: list[str] = []
    for topic, partition, offset in sorted((topic, int(partition), int(offset)) for topic, partition, offset in found):
        lines += _records_around(topic, partition, offset, records, committed.get((topic, partition)))
        lines += _worker_lines(topic, partition, offset, folder)
    return lines


def _records_around(
    topic: str, partition: int, offset: int, records: Sequence[Record], committed: int | None
) -> Iterator[str]:
    requests = sorted(
        (record for record in records if (record.topic, record.partition) == (topic, partition)),
        key=lambda record: record.offset,
    )
    ends = f"offsets {requests[0].offset} to {requests[-1].offset}" if requests else "no records"
    yield f"--- {topic}/{partition}: {ends} in the log, committed {committed}"
    outcomes: dict[Name, list[str]] = {}
    for record in records:
        if record.topic in (*RESULT_OF, FAILED):
            outcomes.setdefault(told_name(record), []).append(record.position)
    for request in requests:
        if abs(request.offset - offset) <= NEIGHBOURS:
            name = asked_name(request)
            written = ", ".join(outcomes.get(name, ())) or "NO OUTCOME"
            yield f"{request.position} {name.request_id!r} key {request.key!r}: {written}"


def _worker_lines(topic: str, partition: int, offset: int, folder: Path) -> Iterator[str]:
    """Yield all workers' lines about the partition, ordered by time, near the last line about the request."""
    of_partition = re.compile(rf"\b{topic}/{partition}\b")
    lines = sorted(
        (line, file.stem)
        for file in trace_files(folder)
        for line in file.read_text("utf-8", "replace").splitlines()
        if of_partition.search(line)
    )
    of_request = re.compile(rf"\b{topic}/{partition}/{offset}\b")
    last = max((number for number, (line, _) in enumerate(lines) if of_request.search(line)), default=0)
    for line, worker in lines[max(last - LINES_AROUND, 0) : last + LINES_AROUND]:
        yield f"{worker}: {line}"
