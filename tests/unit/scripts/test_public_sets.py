"""`make strangers` reads each kind of public set, and its figures are those of their definitions."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest
from scripts import strangers
from scripts.public_sets import answers, claims, figures, follow_ups, pages, texts

FILLER = " ".join(f"The river of the valley carries word{number} past the old mill." for number in range(30))
PAGE = f"<html><body><nav><a href='/'>Home</a></nav><article><h1>River</h1><p>{FILLER}</p></article></body></html>"
TOWER = "The tower is 300 metres tall."
ROWS = {
    "lfqa": [
        {"id": "1", "claim": "The tower is 300 metres tall.", "source": TOWER, "label": "supported"},
        {"id": "2", "claim": "The tower is 412 metres tall.", "source": TOWER, "label": "unsupported"},
    ],
    "articles": [{"id": "a1", "claim": "", "source": PAGE, "label": f"River {FILLER}"}],
    "clapnq": [
        {
            "id": "1",
            "claim": "How tall is the Eiffel tower?",
            "source": "The Eiffel tower is 300 metres tall.",
            "title": "",
            "label": "answerable",
            "answers": ["The Eiffel tower is 300 metres tall."],
        },
        {
            "id": "2",
            "claim": "Who wrote the Divine Comedy?",
            "source": "The Eiffel tower is 300 metres tall.",
            "title": "",
            "label": "unanswerable",
            "answers": [],
        },
    ],
    "cast": [
        {
            "id": "1",
            "claim": "How does it work?",
            "label": "How does photosynthesis work?",
            "kind": "2019",
            "group": "g",
            "source": [{"question": "What is photosynthesis?", "answer": ""}],
        },
        {
            "id": "2",
            "claim": "What is a black hole?",
            "label": "What is a black hole?",
            "kind": "2019",
            "group": "g",
            "source": [{"question": "What is photosynthesis?", "answer": ""}],
        },
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "open").mkdir()
    for name, rows in ROWS.items():
        with gzip.open(tmp_path / "open" / f"{name}.jsonl.gz", "wt", encoding="utf-8") as lines:
            lines.writelines(f"{json.dumps(row)}\n" for row in rows)
    return tmp_path


async def test_each_kind_of_set_gets_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each set that is there, in the order of the table; a set that is not there is named on stderr."""
    await strangers.main(folder, "open", [])
    told = capsys.readouterr()
    lines = dict(line.split(": ", 1) for line in told.out.splitlines())
    assert list(lines) == [name for name in strangers.MEASURES if name in ROWS or name in texts.SETS]
    assert all("0 exceptions" in line for line in lines.values())
    assert "balanced accuracy 1.000" in lines["lfqa"]
    assert "F1 1.000" in lines["articles"]
    assert "answered 1.000" in lines["clapnq"]
    assert "unanswerable answered 0.000" in lines["clapnq"]
    assert "ROUGE-L 1.000" in lines["clapnq"]
    assert "missing words restored 1.000" in lines["cast"]
    assert "changed without need 0 of 1" in lines["cast"]
    assert "scifact-queries: not in" in told.err


def test_rouge_l_is_the_longest_common_subsequence() -> None:
    """Two of three and of four words in the same order: 2 * 2 / (3 + 4)."""
    assert answers.rouge_l("tall old tower", "the tall leaning tower") == pytest.approx(4 / 7)
    assert answers.rouge_l("", "the tower") == 0


def test_a_right_word_is_one_that_the_person_has() -> None:
    """Restored is counted over the missing words, right over the added ones."""
    row = {"claim": "How does it work?", "label": "How do Venus flytraps work?", "kind": "2020", "group": "g"}
    turn = follow_ups.compared(row, "Venus plant: How does it work?")
    assert follow_ups.restored([[turn]]) == pytest.approx(1 / 2)
    assert follow_ups.right([[turn]]) == pytest.approx(1 / 2)


def test_overlap_of_pages_is_counted_in_runs_of_four_words() -> None:
    """Five words are two runs; a text that has one of them more has precision 2/3 and recall 1."""
    overlap = pages.overlap("one two three four five", "one two three four five six")
    assert overlap == (2, 1, 0)
    assert pages.precision([overlap]) == pytest.approx(2 / 3)
    assert pages.recall([overlap]) == 1


def test_ndcg_is_one_for_the_best_ranking() -> None:
    """One relevant document first: 1; second: 1 / log2(3)."""
    assert figures.ndcg([True, False], 1) == 1
    assert figures.ndcg([False, True], 1) == pytest.approx(0.6309, abs=1e-4)


def test_accuracy_is_that_of_both_labels() -> None:
    """Balanced accuracy is the mean of the shares of the two labels."""
    outcomes = [(True, True), (True, False), (False, False)]
    assert claims.balanced_accuracy(outcomes) == pytest.approx(0.75)


def test_texts_that_break_a_reader_or_hold_it_up_are_told() -> None:
    """An exception is counted with the text that raised it, and so is a text that takes far longer than others do."""

    def read(text: str) -> None:
        if text.startswith("bad"):
            raise ValueError(text)
        until = time.thread_time() + (2 * texts.MIN_SLOW_S if text.startswith("slow") else 0.0)
        while time.thread_time() < until:
            pass

    told = texts.read_all("texts, read", read, ["good " * 20_000] * 60 + ["bad " * 10, "slow " * 10])
    assert told.startswith("read: 1 exceptions {\"ValueError at 'bad bad")
    assert "1 too slow [\"'slow slow" in told
