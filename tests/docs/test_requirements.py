"""Requirements: each id that the code cites is on the page, and each path of the page is there.

The source is read, because only docstrings cite ids, and a reader alone would notice one that leads nowhere.
"""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, rows_of, text_of

PAGE = "docs/reference/requirements.md"
CITED = re.compile(r"\b(?:RB|WS|MS|RC)\d{1,2}\b")
UNREADABLE = re.compile(
    r"\b(?:research-bridge|mind-search|rag-core|bocha-web-search|interface|contracts|habits|house)\.md"
)
MIN_PLACES = 40  # on the page; fewer would mean that the pattern finds nothing
FOLDERS = ("src", "tests", "scripts", "benchmarks")


def rows() -> list[list[str]]:
    return [row for row in rows_of(PAGE) if CITED.fullmatch(row[0])]


def test_ids_are_unique() -> None:
    """An id means one requirement."""
    ids = [row[0] for row in rows()]
    assert len(ids) == len(set(ids)) >= 40


def test_every_cited_id_is_there() -> None:
    """A docstring cites what its reader can open."""
    cited = {
        found for path in (ROOT / "src").rglob("*.py") for found in CITED.findall(path.read_text(encoding="utf-8"))
    }
    assert cited
    assert sorted(cited - {row[0] for row in rows()}) == []


def test_no_page_is_cited_that_is_not_in_the_repository() -> None:
    """The names of pages that were never published say nothing to a reader."""
    texts = {
        path: path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "test_requirements.py"
    }
    assert [str(path) for path, text in texts.items() if UNREADABLE.search(text)] == []


def test_every_place_exists() -> None:
    """Where a requirement is met, and what shows it."""
    missing = []
    for name, _, met, shown, *_ in rows():
        missing += [
            (name, place)
            for base, cell in ((ROOT / "src/modules/llm_platform", met), (ROOT / "tests", shown))
            for place in re.findall(r"`([\w/.]+)`", cell)
            if not (base / place).exists()
        ]
    assert missing == []


def test_every_path_of_the_architecture_page_exists() -> None:
    """The page names files in order, so a file that moved must be renamed there."""
    package = ROOT / "src/modules/llm_platform"
    bases = (package, ROOT / "src", ROOT)
    places = re.findall(r"`([\w/]+\.(?:py|md)|[\w/]+/)`", text_of("docs/explanation/architecture.md"))
    assert len(places) > MIN_PLACES
    assert [place for place in places if not any((base / place).exists() for base in bases)] == []
