"""Tests the lines that a failed crash run prints about a request."""

from __future__ import annotations

from pathlib import Path

from tests.crash.checker import Record, judge
from tests.crash.evidence import evidence

REQUEST, RESULT = "rag_search_request", "rag_search_result"


def search(offset: int) -> Record:
    return Record(REQUEST, 4, offset, b"k", b'{"request_id": "r%d", "query": "q"}' % offset)


def test_evidence_has_neighbours_commits_and_lines_of_workers(tmp_path: Path) -> None:
    """The lines concern the request's partition, come from all workers and are ordered by time."""
    (tmp_path / "worker-1.delivery").write_text(
        f"10:00:02 report for {REQUEST}/4/7: {RESULT}/2/None\n10:00:03 commit {REQUEST}/4/9\n10:00:01 read {REQUEST}/4/7 \n"
        f"10:00:01 read {REQUEST}/40/7 \n",
        "utf-8",
    )
    (tmp_path / "worker-2.delivery").write_text(f"10:00:04 assigned {REQUEST}/4\n", "utf-8")
    answered = Record(RESULT, 2, 30, b"k", b'{"request_id":"r8"}')
    records = [*map(search, range(9)), answered]
    problem = next(problem for problem in judge(records).problems if "'r7'" in problem)
    lines = evidence([problem], records, {(REQUEST, 4): 9}, tmp_path)
    assert lines == [
        f"--- {REQUEST}/4: offsets 0 to 8 in the log, committed 9",
        f"{REQUEST}/4/4 'r4' key b'k': NO OUTCOME",
        f"{REQUEST}/4/5 'r5' key b'k': NO OUTCOME",
        f"{REQUEST}/4/6 'r6' key b'k': NO OUTCOME",
        f"{REQUEST}/4/7 'r7' key b'k': NO OUTCOME",
        f"{REQUEST}/4/8 'r8' key b'k': {RESULT}/2/30",
        f"worker-1: 10:00:01 read {REQUEST}/4/7 ",
        f"worker-1: 10:00:02 report for {REQUEST}/4/7: {RESULT}/2/None",
        f"worker-1: 10:00:03 commit {REQUEST}/4/9",
        f"worker-2: 10:00:04 assigned {REQUEST}/4",
    ]


def test_kept_promise_needs_no_evidence(tmp_path: Path) -> None:
    """Without a problem there are no lines."""
    assert evidence((), [search(0)], {}, tmp_path) == []
