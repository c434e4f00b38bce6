"""A report with several rounds that is killed repeatedly. `make crash-reports` kills many more."""

from __future__ import annotations

from pathlib import Path

from tests.support.killed_report import KilledReport, content_of
from tests.support.loopback_upstream import serving
from tests.support.report_chain import LINKED, ChainUpstream

LAST_ANSWERS = ("plan", "search", "rank", "round", "round", f"read {LINKED}", "write")  # last before a kill


async def test_a_killed_report_with_rounds_repeats_nothing_and_ends_like_an_uninterrupted_run(tmp_path: Path) -> None:
    """A killed report repeats no answered search, page or call, and equals the report of an uninterrupted run.

    The same is true of its replay, online and offline.
    """
    async with serving(ChainUpstream().handle) as loopback:
        whole, killed = KilledReport(loopback, tmp_path / "whole"), KilledReport(loopback, tmp_path / "killed")
        expected = content_of(await whole.finish())
        assert expected["metadata"]["rounds"] == 2
        assert f"read {LINKED}" in whole.attempts[0].answered
        assert all([await killed.kill_after(kind=kind) for kind in LAST_ANSWERS])
        finished = await killed.finish()
        replays = [await killed.finish(), await killed.finish("--offline")]
    assert killed.repeated() == []
    assert content_of(finished) == expected
    assert list(map(content_of, replays)) == [expected, expected]
    last = killed.attempts[len(LAST_ANSWERS)].kinds
    calls = last.total() - last["search"] - last["read"]
    assert (finished["metadata"]["searches"], finished["metadata"]["llm_calls"]) == (last["search"], calls)
