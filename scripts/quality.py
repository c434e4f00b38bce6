"""Measure the citation checker on labelled pairs of sentences and sources.

    python scripts/quality.py          the shares of each set; tests/quality holds the bars

The rules were written while some sets were read ("tuned on", "written last", both of the second author, "pages"): their
results are those of a checker that knows the answers. Their wrong verdicts are printed.

The others are blind: nobody reads their single verdicts, and the script does not print them. Their totals have been acted
upon: a rule of the checker stays when one of these sets gets worse without it.

- "unseen": 120 pairs by a third author who had not seen the checker.
- "pages, held back": by the author of the other pages, who also made the first rules for pages.
- "documentation": sentences about passages of the manuals of Git, Postfix, SQLite, Python and Debian, drawn at random and
  labelled before the checker ran on them, by somebody who had read its code. "documentation, on pages": the same
  sentences, with the text around each passage.
- "documentation, edited": a program changed a number, a name or a "not" of sentences drawn at random.
- "last" and "last, edited": made in the same way later, on other passages. New text is best compared with these two.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from modules.llm_platform.domain.citations.checker import CitationChecker  # noqa: E402
from modules.llm_platform.domain.dtos.citation_dtos import Verdict  # noqa: E402
from modules.llm_platform.domain.dtos.source_dtos import Source  # noqa: E402
from modules.llm_platform.domain.text.sentences import split_sentences  # noqa: E402

NUMBER_KINDS = frozenset({"number", "date"})
NAME_KINDS = frozenset({"name", "identifier"})
PAIRS = ROOT / "tests" / "quality"
UNSEEN = "unseen"
PAGES = "pages"
HELD_PAGES = "pages, held back"
DOCUMENTATION = "documentation"
EDITED = "documentation, edited"
DOCUMENTATION_PAGES = "documentation, on pages"
LAST = "last"
LAST_EDITED = "last, edited"
BLIND = (UNSEEN, HELD_PAGES, DOCUMENTATION, EDITED, DOCUMENTATION_PAGES, LAST, LAST_EDITED)
CACHED_CHECKERS = 64  # one for each prepared source


@dataclass(frozen=True)
class Pair:
    """A sentence, the source that it cites, and what a person says of the two."""

    id: str
    kind: str
    sentence: str
    source: str
    label: Verdict
    language: str
    held_out: bool = False
    title: str = ""


@dataclass(frozen=True)
class Figures:
    """Shares, 0..1. `flagged`, `numbers`, `names`: unsupported sentences not called supported, of all or of those with a
    changed number or name; `supported`: supported sentences called so; `verbatim`: sentences of the sources found supported."""

    pairs: int
    three_class: float
    flagged: float
    numbers: float
    names: float
    supported: float
    verbatim: float
    wrong: tuple[tuple[Pair, Verdict], ...]


def load() -> dict[str, list[Pair]]:
    """Return the sets of pairs by name, in the order in which they were written."""
    pairs = _read("citation_pairs.jsonl")
    pages = _on_pages()
    return {
        "tuned on": [pair for pair in pairs if not pair.held_out],
        "written last": [pair for pair in pairs if pair.held_out],
        "second author": _read("second_pairs.jsonl"),
        "second author, later": _read("third_pairs.jsonl"),
        UNSEEN: _read("unseen_pairs.jsonl"),
        PAGES: [pair for pair in pages if not pair.held_out],
        HELD_PAGES: [pair for pair in pages if pair.held_out],
        DOCUMENTATION: _of_documentation("{text}"),
        EDITED: _read("edited_pairs.jsonl"),
        DOCUMENTATION_PAGES: _of_documentation("{before}\n\n{text}\n\n{behind}", prefix="page-"),
        LAST: _read("last_pairs.jsonl"),
        LAST_EDITED: _read("last_edited_pairs.jsonl"),
    }


def _read(name: str) -> list[Pair]:
    return [Pair(**row) for row in _rows(name)]


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (PAIRS / name).read_text(encoding="utf-8").split("\n") if line]


def _of_documentation(source: str, prefix: str = "") -> list[Pair]:
    """Return the pairs about passages of manuals. `source` is made of the passage's `text`, `before` and `after`."""
    passages = {row["passage"]: source.format_map(row) for row in _rows("documentation_passages.jsonl")}
    rows = [(row.pop("passage"), row) for row in _rows("documentation_pairs.jsonl")]
    return [Pair(**{**row, "id": prefix + row["id"]}, source=passages[name].strip()) for name, row in rows]


def _on_pages() -> list[Pair]:
    """Sentences about whole pages. `padding` says how many characters of other texts stand around the page's own, before
    and after it; `stray` is the wrong fact as it is elsewhere on the same page."""
    rows = [json.loads(line) for line in (PAIRS / "page_pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    names = dict.fromkeys((pair["page"], pair["language"]) for pair in rows)
    pages = {name: (PAIRS / "pages" / f"{name}.txt").read_text(encoding="utf-8").strip() for name, _ in names}
    others = _short_texts()
    pairs = []
    for pair in rows:
        name, size, _ = pair.pop("page"), pair.pop("padding"), pair.pop("stray")
        padding = others[pair["language"]] + [
            pages[other] for other, language in names if language == pair["language"] and other != name
        ]
        before, behind = _padding(padding, size)
        title, _, body = pages[name].partition("\n")
        pairs.append(Pair(**pair, title=title, source="\n\n".join([title, *before, body.strip(), *behind])))
    return pairs


def _short_texts() -> dict[str, list[str]]:
    """Return the texts of the sets without pages by language, except those of the unseen set."""
    pairs = [pair for name in ("citation_pairs", "second_pairs", "third_pairs") for pair in _read(f"{name}.jsonl")]
    found: dict[str, list[str]] = {}
    for source, language in dict.fromkeys((pair.source, pair.language) for pair in pairs):
        found.setdefault(language, []).append(source)
    return found


def strays() -> list[tuple[str, str]]:
    """Each wrong fact of the sentences about pages, and the page on which it stands."""
    rows = [json.loads(line) for line in (PAIRS / "page_pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(pair["stray"], page.source) for pair, page in zip(rows, _on_pages(), strict=True) if pair["stray"]]


def _padding(texts: Sequence[str], size: int) -> tuple[list[str], list[str]]:
    """Return the texts that fit into `size` characters, in two halves."""
    ends = accumulate(map(len, texts))
    fitting = [text for text, end in zip(texts, ends, strict=True) if end <= size]
    return fitting[::2], fitting[1::2]


def verdict_of(sentence: str, source: str, language: str, title: str = "") -> Verdict:
    return _checker(source, language, title).check(f"{sentence} [1]").citations[-1].verdict


@lru_cache(maxsize=CACHED_CHECKERS)
def _checker(source: str, language: str, title: str) -> CitationChecker:
    return CitationChecker([Source(index=1, title=title, url="https://example.org/", text=source)], language)


def measure(pairs: Sequence[Pair], final: Sequence[Verdict] | None = None) -> Figures:
    """`final` are the verdicts to measure, in the order of the pairs; None: those of the checker."""
    final = final or [verdict_of(pair.sentence, pair.source, pair.language, pair.title) for pair in pairs]
    verdicts = list(zip(pairs, final, strict=True))
    bad = [(pair, verdict) for pair, verdict in verdicts if pair.label == "unsupported"]
    good = [verdict for pair, verdict in verdicts if pair.label == "supported"]
    return Figures(
        pairs=len(pairs),
        three_class=share(verdict == pair.label for pair, verdict in verdicts),
        flagged=share(verdict != "supported" for _, verdict in bad),
        numbers=share(verdict != "supported" for pair, verdict in bad if pair.kind in NUMBER_KINDS),
        names=share(verdict != "supported" for pair, verdict in bad if pair.kind in NAME_KINDS),
        supported=share(verdict == "supported" for verdict in good),
        verbatim=share(_verbatim(pairs)),
        wrong=tuple((pair, verdict) for pair, verdict in verdicts if verdict != pair.label),
    )


def _verbatim(pairs: Iterable[Pair]) -> Iterable[bool]:
    for source, language, title in sorted({(pair.source, pair.language, pair.title) for pair in pairs}):
        for start, end in split_sentences(source, language):
            citations = _checker(source, language, title).check(f"{source[start:end]} [1]").citations
            if citations and any(map(str.isalnum, source[start:end])):  # a rule or a line of code is not a sentence
                yield citations[-1].verdict == "supported"


def share(outcomes: Iterable[bool]) -> float:
    counted = Counter(outcomes)
    return counted[True] / max(1, counted.total())


def report(title: str, figures: Figures) -> None:
    print(f"{title}: {figures.pairs} pairs")
    for name in ("three_class", "flagged", "numbers", "names", "supported", "verbatim"):
        print(f"  {name:13} {getattr(figures, name):.2f}")
    for pair, verdict in figures.wrong if title not in BLIND else ():
        print(f"    {pair.id} ({pair.kind}): {verdict}, should be {pair.label}")


def main() -> None:
    for name, pairs in load().items():
        report(name, measure(pairs))


if __name__ == "__main__":
    main()
