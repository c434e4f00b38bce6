"""The page's examples of errors that the check misses match its current verdicts."""

from __future__ import annotations

from pathlib import Path

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.source_dtos import Source

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "citation-examples.md"
OTHER = " The hall was built in 1911."  # a page has more than one sentence


def rows(head: str) -> list[list[str]]:
    """Return the cells of the table with this head."""
    _, _, table = PAGE.read_text(encoding="utf-8").partition(f"| {head} |\n")
    lines = table.split("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def cite(sentence: str, text: str) -> Citation:
    source = Source(index=1, title="", url="https://example.org/", text=text)
    return CitationChecker((source,), "en").check(f"{sentence} [1]").citations[0]


def test_true_sentences_that_are_not_called_supported() -> None:
    examples = rows("source | sentence | verdict")
    assert len(examples) == 6
    for source, sentence, verdict in examples:
        citation = cite(sentence, source + OTHER)
        assert ", ".join(filter(None, (citation.verdict, citation.finding))) == verdict, sentence


def test_false_sentences_that_are_called_supported() -> None:
    examples = rows("source | sentence")
    assert len(examples) == 6
    for source, sentence in examples:
        assert cite(sentence, source).verdict == "supported", sentence
