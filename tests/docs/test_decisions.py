"""The index of decisions."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, text_of

FOLDER = ROOT / "docs/adr"
_ROW = re.compile(r"^\| (\d+) \| \[(.+)\]\((\d{4}-[a-z0-9-]+\.md)\) \| (.+) \|$", re.M)


def test_each_decision_has_one_line_in_the_index() -> None:
    """The index has one line for each decision, with its number, title and current status."""
    decisions = sorted(FOLDER.glob("[0-9]*.md"))
    headings = [path.read_text(encoding="utf-8").partition("\n")[0] for path in decisions]
    rows = _ROW.findall(text_of("docs/adr/README.md"))
    listed = sorted((file, f"# {number}. {title}") for number, title, file, _ in rows)
    assert listed == [(path.name, heading) for path, heading in zip(decisions, headings, strict=True)]


def test_numbers_of_decisions_are_unique() -> None:
    """Each number belongs to one decision, and the heading repeats the number of the file name."""
    names = [path.name for path in FOLDER.glob("[0-9]*.md")]
    numbers = [int(name[:4]) for name in names]
    assert len(numbers) == len(set(numbers))
    for name, number in zip(names, numbers, strict=True):
        assert text_of(f"docs/adr/{name}").startswith(f"# {number}. "), name
