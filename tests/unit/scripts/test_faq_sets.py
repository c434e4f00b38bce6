"""scripts/faq_sets.py and scripts/faq_quality.py, on pages that are written here."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from scripts import faq_quality, faq_sets
from tests.docs.pages import rows_of

SOURCE = faq_sets.Source(("tea-doc",), ("tea*/html",), r"/faq")
ANSWER = "Water that has just stopped boiling draws out most of what the leaves hold, in about four minutes."
OTHER = "Kettles are made of steel or of enamel, and those with a whistle tell you when they are to be taken off."
FAQ = f"""<html><head><title>Tea FAQ</title></head><body><article><h1>Tea FAQ</h1>
<ul><li>1.1 How hot should the water be?</li></ul>
<h2>1.1 How hot should the water be?</h2><p>{ANSWER}</p>
<h2>2. Is this a test?</h2><p>See above.</p>
<h2>Kettles</h2><p>{OTHER}</p></article></body></html>"""
PAGE = (
    f"<html><head><title>Pots</title></head><body><article><h1>Pots</h1><p>{OTHER} {OTHER}</p></article></body></html>"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pages = tmp_path / "tea-1" / "html"
    pages.mkdir(parents=True)
    (pages / "faq.html").write_text(FAQ)
    (pages / "pots.html").write_text(PAGE)
    (pages / "genindex.html").write_text(PAGE)
    return tmp_path


def test_a_heading_that_asks_is_the_question_of_the_text_below_it(folder: Path) -> None:
    """It stands in no section; an answer of two words is none, and an index of a manual is no page."""
    made = faq_sets.build(folder, SOURCE)
    ((question, positions),) = made.questions.items()
    assert question == "How hot should the water be?"
    assert [made.sections[position].text for position in positions] == [ANSWER]
    assert [section.title for section in made.sections].count("Pots") == 1
    assert not any(question in section.text for section in made.sections)


def test_a_folder_without_the_pages_says_how_to_fetch_them(tmp_path: Path) -> None:
    """Nothing is measured on nothing."""
    with pytest.raises(SystemExit, match="make faq-quality"):
        faq_sets.build(tmp_path, SOURCE)


def test_each_section_is_a_file_of_its_own(folder: Path, tmp_path: Path) -> None:
    """As Markdown under its title, which is indexed and asked."""
    made = faq_sets.build(folder, SOURCE)
    measured = tmp_path / "measured"
    measured.mkdir()
    words, _ = asyncio.run(faq_quality.compare(made, measured))
    written = sorted((measured / "sections").iterdir(), key=lambda path: int(path.stem))
    assert [path.read_text() for path in written] == [section.markdown for section in made.sections]
    assert (words.ndcg, words.recall) == (1.0, 1.0)


def test_the_table_of_the_page_has_each_set() -> None:
    """And no other: each row there can be measured again."""
    named = [row[0].rpartition(", ")[0] for row in rows_of("docs/explanation/searching.md") if row[0][-1:].isdigit()]
    assert named == list(faq_sets.SOURCES)


def test_the_packages_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """For scripts/debian_docs.sh, each once."""
    faq_quality.main(["--packages"])
    printed = capsys.readouterr().out.split()
    assert len(set(printed)) == len(printed) > 10
