"""Check claims about the rows of tables, and print how many verdicts are right.

    python scripts/table_claims.py             figures for each of four sets
    python scripts/table_claims.py --show 4    and each claim of a set whose verdict is not the one of its label

A set has 160 claims about eight tables, as a model would write them: 72 true ones, 72 false ones, and 16 about which the table
says nothing. The authors of the sets know nothing of the rules. The rules were written with the first set. The second and the
third were measured once, and then read. The fourth was measured and not read: its figures are those of other tables.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from modules.llm_platform.domain.citations.checker import CitationChecker  # noqa: E402
from modules.llm_platform.domain.dtos.citation_dtos import Citation  # noqa: E402
from modules.llm_platform.domain.dtos.source_dtos import Source  # noqa: E402
from modules.llm_platform.domain.privacy.redaction import Redactor  # noqa: E402
from modules.llm_platform.domain.text.language import detect_language  # noqa: E402
from modules.llm_platform.infrastructure.documents.reading import read_content  # noqa: E402
from modules.llm_platform.infrastructure.parsing.parser_process import ParserProcess  # noqa: E402

FOLDER = ROOT / "tests" / "quality" / "table_claims"
Label = Literal["true", "false", "unknown"]
Outcome = Literal["supported", "partial", "contradicted", "absent"]


@dataclass(frozen=True)
class Checked:
    """A claim with its label, and what the check says."""

    claim: str
    kind: str
    label: Label
    outcome: Outcome

    @property
    def is_right(self) -> bool:
        if self.label == "false":
            return self.outcome in ("contradicted", "absent")
        return self.outcome == "supported" if self.label == "true" else self.outcome in ("partial", "absent")


def read_claims(number: int) -> list[dict[str, Any]]:
    """Return the claims of a set."""
    lines = (FOLDER / "claims.jsonl").read_text(encoding="utf-8").splitlines()
    return [claim for claim in map(json.loads, lines) if claim["set"] == number]


def check(claims: Sequence[Mapping[str, Any]]) -> list[Checked]:
    """Check each claim against its whole table, by words and cells, without a model."""
    sources = dict(_read_sources({claim["file"] for claim in claims}))
    return [
        Checked(claim["claim"], claim["kind"], claim["label"], _check(claim["claim"], sources[claim["file"]]))
        for claim in claims
    ]


def _read_sources(names: set[str]) -> Iterator[tuple[str, Source]]:
    parser = ParserProcess()
    try:
        for name in sorted(names):
            read = read_content(name, FOLDER / "files" / name, parser, Redactor())
            title = read.title or Path(name).stem
            yield (
                name,
                Source(index=1, title=title, url=f"doc:{name}", text=read.text, text_kind="document", is_whole=True),
            )
    finally:
        parser.stop()


def _check(claim: str, source: Source) -> Outcome:
    language = detect_language(claim) or "en"
    citations = CitationChecker([source], language).check(f"{claim.removesuffix('.')} [1].").citations
    return _name_outcome(citations[0]) if citations else "absent"


def _name_outcome(citation: Citation) -> Outcome:
    if citation.verdict in ("supported", "partial"):
        return citation.verdict
    return "contradicted" if citation.finding == "contradicts" else "absent"


def count(checked: Sequence[Checked]) -> dict[tuple[Label, Outcome], int]:
    return dict(collections.Counter((one.label, one.outcome) for one in checked))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--show", type=int, help="the number of a set")
    shown = arguments.parse_args().show
    for number in range(1, 5):
        checked = check(read_claims(number))
        counts = count(checked)
        print(
            f"set {number}: true {counts.get(('true', 'supported'), 0)} supported, {counts.get(('true', 'contradicted'), 0)}"
            f" contradicted; false {counts.get(('false', 'contradicted'), 0)} contradicted,"
            f" {counts.get(('false', 'supported'), 0)} supported; unknown {counts.get(('unknown', 'supported'), 0)} supported"
        )
        for one in checked:
            if number == shown and not one.is_right:
                print(f"  {one.label:8}{one.outcome:13}{one.kind:8}{one.claim}")


if __name__ == "__main__":
    main()
