"""A sheet of cited sentences to be labelled by hand, and how far the labels agree with the checker.

    python -m arena.labels write RUNS SHEET     at most 200 sentences, evenly from all players, without the checker's verdict
    python -m arena.labels score RUNS SHEETS    agreement, and the share that holds by hand, for each player

A further sheet has sentences that no earlier sheet has: `write RUNS SECOND --without FIRST --players ours-deep,ours-report`.

A line of the sheet is JSON: `question`, `sentence`, `pages` (what the sentence cites), `excerpts` of them, and `label`, to be
filled in: `holds`, `fails` (the pages do not say it, or say it otherwise), or `?`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MAX_LABELS: Final = 200
HOLDS: Final = "holds"
FAILS: Final = "fails"
SUPPORTED: Final = "supported"


@dataclass(frozen=True, slots=True)
class Cited:
    """A cited sentence of an answer."""

    player: str
    question: str
    text: str
    pages: tuple[str, ...]
    quote: str
    verdict: str

    @property
    def key(self) -> str:
        return hashlib.sha256(json.dumps([self.player, self.question, self.text]).encode()).hexdigest()[:12]


def cited_sentences(runs: Path) -> list[Cited]:
    found = []
    for path in sorted(runs.glob("*/*.check.json")):
        outcome = json.loads(path.with_name(path.name.replace(".check", "")).read_text(encoding="utf-8"))
        for sentence in json.loads(path.read_text(encoding="utf-8"))["sentences"]:
            if sentence["is_cited"]:
                pages = tuple(sentence["cites"])
                quote, verdict = sentence["quote"], sentence["verdict"]
                found.append(Cited(outcome["player"], outcome["question"], sentence["text"], pages, quote, verdict))
    return found


def sample(sentences: Iterable[Cited], count: int = MAX_LABELS) -> list[Cited]:
    """Return sentences from all players in turn, in an order that hangs on their text alone, so that the players are hidden."""
    by_player: dict[str, list[Cited]] = defaultdict(list)
    by_key = {sentence.key: sentence for sentence in sentences}  # an answer may say the same twice
    for _, sentence in sorted(by_key.items()):
        by_player[sentence.player].append(sentence)
    longest = max(map(len, by_player.values()), default=0)
    turns = [rows[n] for n in range(longest) for _, rows in sorted(by_player.items()) if n < len(rows)]
    return sorted(turns[:count], key=lambda sentence: sentence.key)


def leave_out(sentences: Iterable[Cited], sheets: Iterable[Path], players: Sequence[str] = ()) -> list[Cited]:
    """Return the sentences that no sheet has, labelled or not. `players` limits them to these players."""
    seen = {row["key"] for sheet in sheets for row in _read_rows(sheet)}
    return [
        sentence for sentence in sentences if sentence.key not in seen and (not players or sentence.player in players)
    ]


def write_sheet(sentences: Sequence[Cited], sheet: Path) -> None:
    """Write the sheet. Labels of a sheet that is there are kept."""
    labels = read_labels(sheet) if sheet.exists() else {}
    rows = (
        {
            "key": row.key,
            "question": row.question,
            "sentence": row.text,
            "pages": row.pages,
            "excerpt": row.quote,
            "label": labels.get(row.key, ""),
        }
        for row in sentences
    )
    sheet.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read_labels(*sheets: Path) -> dict[str, str]:
    rows = (row for sheet in sheets for row in _read_rows(sheet))
    return {row["key"]: row["label"] for row in rows if row["label"] in (HOLDS, FAILS)}


def _read_rows(sheet: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in sheet.read_text(encoding="utf-8").splitlines() if line]


@dataclass(slots=True)
class Agreement:
    """Labels of one player: `holds` by hand, and those that the checker sees alike."""

    labelled: int = 0
    holds: int = 0
    alike: int = 0


def agree(sentences: Iterable[Cited], labels: dict[str, str]) -> dict[str, Agreement]:
    """Return the agreement for each player that has labels."""
    table: dict[str, Agreement] = defaultdict(Agreement)
    for sentence in sentences:
        if label := labels.get(sentence.key):
            row = table[sentence.player]
            row.labelled += 1
            row.holds += label == HOLDS
            row.alike += (label == HOLDS) == (sentence.verdict == SUPPORTED)
    return dict(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=("write", "score"))
    parser.add_argument("runs", type=Path)
    parser.add_argument(
        "sheets", type=Path, nargs="+", metavar="SHEET", help="write takes one, score all that there are"
    )
    parser.add_argument("--without", type=Path, nargs="+", default=[], metavar="SHEET", help="sheets written earlier")
    parser.add_argument("--players", default="", help="comma-separated list; all by default")
    given = parser.parse_args()
    sentences = cited_sentences(given.runs)
    if given.command == "write":
        if len(given.sheets) > 1:
            parser.error("write takes one sheet; sheets written earlier go after --without")
        sheet = given.sheets[0]
        chosen = sample(leave_out(sentences, given.without, [name for name in given.players.split(",") if name]))
        write_sheet(chosen, sheet)
        print(f"{len(chosen)} of {len(sentences)} cited sentences are in {sheet}")
        return
    for player, row in sorted(agree(sentences, read_labels(*given.sheets)).items()):
        print(f"{player}: {row.labelled} labels, {row.holds} hold by hand, the checker agrees with {row.alike}")


if __name__ == "__main__":
    main()
