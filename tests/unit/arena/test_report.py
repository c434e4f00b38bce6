"""The arithmetic of the table, and a player that fails."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from arena.labels import Cited, agree, cited_sentences, leave_out, read_labels, sample, write_sheet
from arena.play import ModelUnreachableError, Settings, is_done, play
from arena.questions import Question
from arena.report import BEGIN, END, Tally, interval, leads, read_agreement, read_tallies, where_we_lose, write_page
from arena.roster import ROSTER, Player
from arena.server import ArenaServer, Ports
from arena.web import FrozenPage, FrozenWeb

WEB = FrozenWeb((FrozenPage("a.test/1.html", "A", "<p>Seven days.</p>"),))
ASKED = Question("single-01", "single", "How long?", (("7 days", "seven days"),), (), (), ("a.test/1.html",))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def outcome(player: str, answer: str, **given: Any) -> dict[str, Any]:
    return {
        "player": player, "version": ROSTER[player].version, "id": ASKED.id, "question": ASKED.text, "web": WEB.digest,
        "answer": answer, "sources": [], "error": "", "seconds": 2.0, "wall_s": 3.0, "calls": 1, "prompt_tokens": 90,
        "completion_tokens": 10, "cached_tokens": 0, "strangers": [], "load": 1.0,
    } | given  # fmt: skip


def keep(runs: Path, kept: dict[str, Any], sentences: list[dict[str, Any]] | None = None) -> None:
    folder = runs / kept["player"]
    folder.mkdir(parents=True)
    (folder / f"{ASKED.id}.json").write_text(json.dumps(kept), encoding="utf-8")
    if sentences is not None:
        (folder / f"{ASKED.id}.check.json").write_text(json.dumps({"sentences": sentences}), encoding="utf-8")


def test_a_tally_counts_citations_that_hold_and_addresses_that_do_not_exist(tmp_path: Path) -> None:
    """A cited address is invented if the frozen web has no such page."""
    cited = {"is_cited": True, "verdict": "supported", "cites": ["http://a.test:1/1.html"]}
    invented = {"is_cited": True, "verdict": "unchecked", "cites": ["http://a.test:1/2.html"]}
    uncited = {"is_cited": False, "verdict": "supported", "cites": []}
    keep(tmp_path, outcome("plain-loop", "Seven days."), [cited, invented, uncited])
    keep(tmp_path, outcome("ours-deep", "", error="no answer within 900 s"))
    deep, loop = read_tallies(tmp_path, [ASKED], WEB)
    assert (loop.sentences, loop.cited, loop.hold, loop.cites, loop.invented) == (3, 2, 1, 2, 1)
    assert loop.results == {"single-01": "right"}
    assert deep.results == {"single-01": "crashed"}
    assert where_we_lose([deep, loop], [ASKED]).startswith("We lose first at questions of this kind: single")


def test_outcomes_of_another_web_do_not_count(tmp_path: Path) -> None:
    """Figures over different pages do not compare."""
    keep(tmp_path, outcome("plain-loop", "Seven days.", web="other"))
    assert read_tallies(tmp_path, [ASKED], WEB) == []


def test_an_interval_is_the_same_in_every_run() -> None:
    """The middle 95 % of resampled means, with a fixed seed."""
    values = [1.0] * 30 + [0.0] * 30
    low, high = interval(values)
    assert (low, high) == interval(values)
    assert 0.3 < low < 0.45 < 0.55 < high < 0.7
    assert interval([]) == (0.0, 0.0)


def test_a_lead_is_taken_over_the_questions_that_both_were_asked() -> None:
    """An easy question that only one of them had does not count."""
    ours = Tally("ours-shallow", {"a": "right", "b": "wrong", "c": "right"})
    other = Tally("langchain", {"a": "wrong", "b": "wrong"})
    assert leads([ours, other])[0].startswith("ours, shallow against LangChain's retrieval chain: +0.50 right")


def test_a_page_keeps_what_stands_around_its_table(tmp_path: Path) -> None:
    """The table is replaced, and nothing else."""
    keep(tmp_path / "runs", outcome("plain-loop", "Seven days."), [])
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nStale.\n{END}\nafter\n", encoding="utf-8")
    for _ in range(2):
        write_page(page, tmp_path / "runs", [ASKED], WEB, {"x 1": "does not install"}, model="small")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "Stale." not in text
    assert "x 1 does not play: does not install" in text


def test_a_sample_of_labels_has_all_players_and_agreement_is_counted() -> None:
    """Players take turns in the sample, and a partial verdict counts as one that does not hold."""
    rows = [Cited("a", "q", f"s{n}", (), "", "supported") for n in range(9)] + [Cited("b", "q", "t", (), "", "partial")]
    assert {row.player for row in sample(rows, 3)} == {"a", "b"}
    table = agree(rows, {rows[0].key: "holds", rows[1].key: "fails", rows[9].key: "fails"})
    assert (table["a"].labelled, table["a"].holds, table["a"].alike) == (2, 1, 1)
    assert (table["b"].labelled, table["b"].holds, table["b"].alike) == (1, 0, 1)


def test_a_further_sheet_has_other_sentences_and_counts_with_the_first(tmp_path: Path) -> None:
    """What an earlier sheet has is left out, labelled or not, and no sentence is in a sheet twice."""
    texts = ("s0", "s1", "s2", "s3", "s3")
    verdict = {"is_cited": True, "verdict": "supported", "cites": [], "quote": ""}
    keep(tmp_path, outcome("plain-loop", " ".join(texts)), [{"text": text, **verdict} for text in texts])
    rows = cited_sentences(tmp_path)
    first, second = tmp_path / "labels.jsonl", tmp_path / "labels-more.jsonl"
    write_sheet(rows[:2], first)
    further = sample(leave_out(rows, [first]))
    assert sorted(row.text for row in further) == ["s2", "s3"]
    assert leave_out(rows, [first], ["ours-deep"]) == []
    write_sheet(further, second)
    for sheet in (first, second):
        lines = sheet.read_text(encoding="utf-8").replace('"label": ""', '"label": "holds"', 1)
        sheet.write_text(lines, encoding="utf-8")
    assert len(read_labels(first, second)) == read_agreement(tmp_path)["plain-loop"].holds == 2


async def no_embedding(texts: list[str]) -> list[list[float]]:
    raise AssertionError("no player embeds here")


async def test_a_model_that_does_not_answer_is_no_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The player would be blamed for a server that was stopped; it is asked again."""
    monkeypatch.setattr("arena.play.PLAYERS", tmp_path)
    script = """
import json, sys, urllib.request
given = json.load(sys.stdin)
urllib.request.urlopen(given["model_url"] + "/chat/completions", b"{}")
"""
    (tmp_path / "bad.py").write_text(script, encoding="utf-8")
    player = Player("bad", "bad", "bad.py", timeout_s=30)
    ports = Ports(free_port(), free_port(), free_port())
    settings = Settings(tmp_path, tmp_path / "runs", ports, "http://127.0.0.1:1", "small", WEB.digest)
    model_url = f"http://127.0.0.1:{free_port()}/v1"
    server = ArenaServer(WEB, ports, model_url=model_url, model="small", key="none", embed=no_embedding)
    async with server.running():
        with pytest.raises(ModelUnreachableError):
            await play(settings, server, player, ASKED)
    assert not is_done(settings, player, ASKED)


@pytest.mark.parametrize(
    ("script", "error"), [("raise SystemExit('no luck')", "no luck"), ("while True: pass", "no answer")]
)
async def test_a_player_that_fails_is_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, error: str
) -> None:
    """A crash and a player that never ends are kept with their reason, and are not asked again."""
    monkeypatch.setattr("arena.play.PLAYERS", tmp_path)
    (tmp_path / "bad.py").write_text(script, encoding="utf-8")
    player = Player("bad", "bad", "bad.py", timeout_s=2)
    ports = Ports(1, 2, 3)
    settings = Settings(tmp_path, tmp_path / "runs", ports, "http://127.0.0.1:1", "small", WEB.digest)
    server = ArenaServer(WEB, ports, model_url="http://127.0.0.1:9", model="small", key="none", embed=no_embedding)
    assert not is_done(settings, player, ASKED)
    kept = await play(settings, server, player, ASKED)
    assert kept["error"].startswith(error)
    assert is_done(settings, player, ASKED)
    assert not is_done(settings, player, Question("single-01", "single", "How far?", (), (), (), ()))
