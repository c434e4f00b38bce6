"""Each path on the page of requirements and the pages about the code exists. Only the page of requirements uses ids.

The source is read, because docstrings have no behaviour.
"""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, rows_of, text_of
from tests.support.cases import for_each

PAGE = "docs/reference/requirements.md"
ARCHITECTURE, CHANGES = "docs/explanation/architecture.md", "docs/howto/change-the-code.md"
REQUIREMENT_ID = re.compile(r"\b(?:RB|WS|MS|RC|OP|IF)\d{1,2}\b")
UNREADABLE = re.compile(
    r"\b(?:research-bridge|mind-search|rag-core|bocha-web-search|interface|contracts|habits|house)\.md"
)
MIN_PLACES = 40  # places on the page; fewer would mean that the pattern does not match
FOLDERS = ("src", "tests", "scripts", "benchmarks", "arena")


def rows() -> list[list[str]]:
    return [row for row in rows_of(PAGE) if REQUIREMENT_ID.fullmatch(row[0])]


def test_ids_are_unique() -> None:
    """Each id belongs to one requirement."""
    ids = [row[0] for row in rows()]
    assert len(ids) == len(set(ids)) >= 40


def test_code_uses_no_id() -> None:
    """Code describes itself in words. The page of requirements links to the code."""
    cited = [
        f"{path.relative_to(ROOT)}:{number} {id_}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for id_ in REQUIREMENT_ID.findall(line)
    ]
    assert not cited, f"Replace the ids of requirements by a sentence: {', '.join(cited)}. Ids belong to {PAGE}."


def test_no_page_is_cited_that_is_not_in_the_repository() -> None:
    """Readers cannot open pages that were never published."""
    texts = {
        path: path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "test_requirements.py"
    }
    unreadable = [str(path.relative_to(ROOT)) for path, text in texts.items() if UNREADABLE.search(text)]
    assert not unreadable, f"These files name a page that is not in the repository: {', '.join(unreadable)}."


def test_every_place_exists() -> None:
    """The code that meets a requirement and the test that shows it exist."""
    missing = []
    for name, _, met, shown, *_ in rows():
        missing += [
            (name, position)
            for bases, cell in (((ROOT / "src/modules/llm_platform", ROOT), met), ((ROOT / "tests",), shown))
            for position in re.findall(r"`([\w/.]+)`", cell)
            if not any((base / position).exists() for base in bases)
        ]
    assert not missing, f"{PAGE} names paths that do not exist: {missing}. Name the files that took their places."


@for_each("page", [ARCHITECTURE, CHANGES])
def test_every_path_of_the_pages_about_the_code_exists(page: str) -> None:
    """Readers open the named files, so the pages must follow a moved file."""
    package = ROOT / "src/modules/llm_platform"
    bases = (package, ROOT / "src", ROOT)
    positions = re.findall(r"`([\w/]+\.(?:py|md|json|js|jsonl)|[\w/]+/)`", text_of(page))
    assert len(positions) > MIN_PLACES
    missing = [position for position in positions if not any((base / position).exists() for base in bases)]
    assert not missing, f"{page} names files that do not exist: {', '.join(missing)}."


def test_every_name_of_the_recipes_exists() -> None:
    """The page names what to edit, so a renamed class, function, constant or test must be renamed there too."""
    names = set(re.findall(r"`([A-Za-z_]\w*_\w*|[A-Z]\w+)`", text_of(CHANGES)))
    folders = (ROOT / "src", ROOT / "tests" / "unit")
    sources = (path for folder in folders for path in folder.rglob("*") if path.suffix in {".py", ".js"})
    words = {word for path in sources for word in re.findall(r"\w+", path.read_text("utf-8"))}
    assert len(names) > MIN_PLACES
    assert names <= words, (
        f"{CHANGES} names what is neither in src nor in tests/unit: {', '.join(sorted(names - words))}."
    )
