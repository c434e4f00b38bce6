"""The table: what each player's answers sum up to, with intervals, and where we lose."""

from __future__ import annotations

import json
import os
import platform
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from arena.labels import SUPPORTED, Agreement, agree, cited_sentences, read_labels
from arena.questions import KINDS, Question, Result, score
from arena.roster import OURS, ROSTER
from arena.web import FrozenWeb

RESAMPLES: Final = 2000
SEED: Final = 7
LABELS: Final = "labels*.jsonl"
BEGIN: Final = "<!-- The table of `make arena`; do not edit. -->"
END: Final = "<!-- End of the table. -->"
OUR_NAMES: Final = frozenset(player.name for player in OURS)


@dataclass
class Tally:
    """The outcomes of one player."""

    name: str
    results: dict[str, Result] = field(default_factory=dict)  # by the id of the question
    errors: Counter[str] = field(default_factory=Counter)
    sentences: int = 0
    cited: int = 0
    hold: int = 0
    cites: int = 0  # addresses after sentences
    invented: int = 0  # of which the frozen web has no page
    tokens: dict[str, int] = field(default_factory=dict)
    cached_tokens: int = 0
    calls: int = 0
    strangers: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    load: float = 0.0

    @property
    def asked(self) -> int:
        return len(self.results)

    def count(self, result: Result) -> int:
        return sum(1 for given in self.results.values() if given == result)


def read_tallies(runs: Path, questions: Sequence[Question], web: FrozenWeb) -> list[Tally]:
    """Return the tallies in the order of the roster, without players that answered nothing."""
    tallies = [_tally(runs, name, questions, web) for name in ROSTER]
    return [tally for tally in tallies if tally.asked]


def _tally(runs: Path, name: str, questions: Sequence[Question], web: FrozenWeb) -> Tally:
    tally = Tally(name)
    for question in questions:
        path = runs / name / f"{question.id}.json"
        if path.exists():
            outcome = json.loads(path.read_text(encoding="utf-8"))
            if outcome["question"] == question.text and outcome["web"] == web.digest:
                _add(tally, question, outcome, path.with_suffix(".check.json"), web)
    return tally


def _add(tally: Tally, question: Question, outcome: Mapping[str, Any], check: Path, web: FrozenWeb) -> None:
    tally.results[question.id] = "crashed" if outcome["error"] else score(question, outcome["answer"])
    if outcome["error"]:
        tally.errors[outcome["error"]] += 1
    tally.tokens[question.id] = outcome["prompt_tokens"] + outcome["completion_tokens"]
    tally.cached_tokens += outcome["cached_tokens"]
    tally.calls += outcome["calls"]
    tally.strangers.update(outcome["strangers"])
    tally.seconds[question.id] = outcome["seconds"] if outcome["seconds"] is not None else outcome["wall_s"]
    tally.load = max(tally.load, outcome["load"])
    if not check.exists():
        return
    for sentence in json.loads(check.read_text(encoding="utf-8"))["sentences"]:
        tally.sentences += 1
        tally.cited += sentence["is_cited"]
        tally.hold += sentence["is_cited"] and sentence["verdict"] == SUPPORTED
        tally.cites += len(sentence["cites"])
        tally.invented += sum(1 for url in sentence["cites"] if web.find(url) is None)


def interval(values: Sequence[float], of: Callable[[Sequence[float]], float] | None = None) -> tuple[float, float]:
    """Return the middle 95 % of the means of samples drawn with replacement; the same in every run."""
    if not values:
        return 0.0, 0.0
    chance = random.Random(SEED)
    measure = of or (lambda sample: sum(sample) / len(sample))
    drawn = sorted(measure(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return drawn[round(0.025 * (RESAMPLES - 1))], drawn[round(0.975 * (RESAMPLES - 1))]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "–"


def summary_rows(tallies: Iterable[Tally], labels: Mapping[str, Agreement]) -> list[list[str]]:
    rows = [
        ["player", "asked", "right (95 %)", "wrong", "refused", "crashed", "sentences", "cited", "hold, by the checker",
         "hold, by hand (agreement)", "invented", "calls", "tokens", "tokens a right answer", "strangers", "seconds"]
    ]  # fmt: skip
    for tally in tallies:
        right = [float(result == "right") for result in tally.results.values()]
        low, high = interval(right)
        label = labels.get(tally.name)
        tokens = sum(tally.tokens.values())
        rows.append(
            [
                f"{ROSTER[tally.name].title} ({ROSTER[tally.name].version})",
                str(tally.asked),
                f"{_share(tally.count('right'), tally.asked)} ({low:.2f} to {high:.2f})",
                str(tally.count("wrong")),
                str(tally.count("declined")),
                str(tally.count("crashed")),
                str(tally.sentences),
                _share(tally.cited, tally.sentences),
                _share(tally.hold, tally.cited),
                f"{_share(label.holds, label.labelled)} of {label.labelled} ({_share(label.alike, label.labelled)})"
                if label
                else "–",
                f"{tally.invented} of {tally.cites}",
                f"{tally.calls / tally.asked:.1f}",
                f"{tokens / tally.asked:,.0f}",
                f"{tokens / tally.count('right'):,.0f}" if tally.count("right") else "–",
                str(sum(tally.strangers.values())),
                f"{sum(tally.seconds.values()) / tally.asked:.0f}",
            ]
        )
    return rows


def kind_rows(tallies: Iterable[Tally], questions: Sequence[Question]) -> list[list[str]]:
    rows = [["right", *KINDS]]
    for tally in tallies:
        cells = []
        for kind in KINDS:
            results = [tally.results[q.id] for q in questions if q.kind == kind and q.id in tally.results]
            cells.append(f"{results.count('right')} of {len(results)}")
        rows.append([ROSTER[tally.name].title, *cells])
    return rows


def where_we_lose(tallies: Sequence[Tally], questions: Sequence[Question]) -> str:
    """Return the kind of question at which another player is furthest ahead of our best, over questions that both answered."""
    worst: tuple[float, str] | None = None
    for kind in KINDS:
        ids = {question.id for question in questions if question.kind == kind}
        for other in (tally for tally in tallies if tally.name not in OUR_NAMES):
            for ours in (tally for tally in tallies if tally.name in OUR_NAMES):
                both = [id_ for id_ in ids if id_ in other.results and id_ in ours.results]
                if not both or _is_beaten_by_another(kind, ours, tallies, questions):
                    continue
                theirs = sum(other.results[id_] == "right" for id_ in both)
                mine = sum(ours.results[id_] == "right" for id_ in both)
                lead = (theirs - mine) / len(both)
                names = ROSTER[other.name].title, ROSTER[ours.name].title
                told = f"{kind}: {names[0]} has {theirs} of {len(both)} right, {names[1]} {mine}"
                if lead > 0 and (worst is None or lead > worst[0]):
                    worst = lead, told
    if worst is None:
        return "No other player has more right answers than our best one at any kind of question."
    return f"We lose first at questions of this kind: {worst[1]}."


def _is_beaten_by_another(kind: str, ours: Tally, tallies: Sequence[Tally], questions: Sequence[Question]) -> bool:
    """Return whether another depth of ours has more right answers of this kind."""

    def rights(tally: Tally) -> int:
        return sum(tally.results.get(q.id) == "right" for q in questions if q.kind == kind)

    return any(rights(tally) > rights(ours) for tally in tallies if tally.name in OUR_NAMES)


def leads(tallies: Sequence[Tally]) -> list[str]:
    """Return how far each of ours is ahead of the best other player, on the questions that both were asked."""
    others = [tally for tally in tallies if tally.name not in OUR_NAMES]
    lines = []
    for ours in (tally for tally in tallies if tally.name in OUR_NAMES):
        pairs = []
        for other in others:
            both = [id_ for id_ in ours.results if id_ in other.results]
            steps = [float(ours.results[i] == "right") - float(other.results[i] == "right") for i in both]
            if steps:
                pairs.append((sum(steps) / len(steps), other, steps))
        if pairs:
            lead, other, steps = min(pairs, key=lambda pair: (pair[0], pair[1].name))
            low, high = interval(steps)
            lines.append(
                f"{ROSTER[ours.name].title} against {ROSTER[other.name].title}: {lead:+.2f} right"
                f" ({low:+.2f} to {high:+.2f}, {len(steps)} questions)"
            )
    return lines


def markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def plain(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def read_agreement(runs: Path) -> dict[str, Agreement]:
    sheets = sorted(runs.glob(LABELS))
    return agree(cited_sentences(runs), read_labels(*sheets)) if sheets else {}


def print_table(runs: Path, questions: Sequence[Question], web: FrozenWeb, left_out: Mapping[str, str]) -> None:
    tallies = read_tallies(runs, questions, web)
    if not tallies:
        print("Nothing was answered yet.")
        return
    print(plain(summary_rows(tallies, read_agreement(runs))), plain(kind_rows(tallies, questions)), sep="\n\n")
    print("", *leads(tallies), where_we_lose(tallies, questions), sep="\n")
    for line in failures(tallies, left_out):
        print(line)


def failures(tallies: Iterable[Tally], left_out: Mapping[str, str]) -> list[str]:
    crashed = [f"{t.name}, {count} times: {error}" for t in tallies for error, count in sorted(t.errors.items())]
    return [*crashed, *(f"{name} does not play: {reason}" for name, reason in left_out.items())]


def print_strangers(runs: Path) -> None:
    """Print which player tried to reach which server that is not of the arena."""
    for name in ROSTER:
        paths = [path for path in sorted((runs / name).glob("*.json")) if not path.name.endswith(".check.json")]
        if not paths:
            continue
        hosts: Counter[str] = Counter()
        for path in paths:
            hosts.update(json.loads(path.read_text(encoding="utf-8"))["strangers"])
        told = ", ".join(f"{host} {count}" for host, count in sorted(hosts.items())) or "none"
        print(f"{name}: {sum(hosts.values())} requests to strangers' servers in {len(paths)} runs: {told}")


def write_page(
    page: Path, runs: Path, questions: Sequence[Question], web: FrozenWeb, left_out: Mapping[str, str], *, model: str
) -> None:
    """Write the table between its marks. What stands around it is written by hand."""
    tallies = read_tallies(runs, questions, web)
    head, rest = page.read_text(encoding="utf-8").split(BEGIN)
    tail = rest.split(END)[1]
    processors = os.cpu_count()
    load = max((tally.load for tally in tallies), default=0)
    lines = [
        f"{time.strftime('%d %B %Y', time.gmtime())}, model `{model or 'none'}`, {platform.system()} {platform.machine()},"
        f" {processors} processors with a load of up to {load:.1f}, Python {platform.python_version()};"
        f" {len(web.pages)} pages of {len(web.hosts)} hosts (digest `{web.digest}`), {len(questions)} questions.",
        "",
        f"**{where_we_lose(tallies, questions)}**",
        "",
        markdown(summary_rows(tallies, read_agreement(runs))),
        "",
        markdown(kind_rows(tallies, questions)),
        "",
        *(f"- {line}" for line in leads(tallies)),
        "",
        *(f"- {line}" for line in failures(tallies, left_out)),
    ]
    page.write_text(f"{head}{BEGIN}\n\n" + "\n".join(lines).rstrip() + f"\n\n{END}{tail}", encoding="utf-8")
