"""A report with further rounds that is killed over and over; `make crash-reports` kills many more."""

from __future__ import annotations

from pathlib import Path

from tests.support.killed_report import KilledReport, content_of
from tests.support.loopback_upstream import serving
from tests.support.report_chain import LINKED, ChainUpstream

LAST_ANSWERS = ("plan", "search", "rank", "round", "round", f"read {LINKED}", "write")  # before a kill


async def test_a_killed_report_with_rounds_repeats_nothing_and_ends_as_it_would_have(tmp_path: Path) -> None:
    """No search, page or call that was answered is asked for again, and the report is that of a run that nobody killed. So is
    its replay, with and without a network.
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
