"""Check one sentence against one source, and compare the difference that the check finds."""

from __future__ import annotations

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.source_dtos import Source


def cite(sentence: str, text: str, language: str = "en") -> Citation:
    source = Source(index=1, title="", url="https://example.org/", text=text)
    return CitationChecker((source,), language).check(f"{sentence} [1]").citations[0]


def assert_contradicted(sentence: str, text: str, language: str, *, claimed: str, found: str) -> None:
    """Fail unless the source contradicts the sentence, with this difference."""
    citation = cite(sentence, text, language)
    assert (citation.verdict, citation.finding) == ("unsupported", "contradicts")
    difference = citation.difference
    assert difference is not None
    assert sentence[difference.claimed.start : difference.claimed.end] == claimed
    assert text[difference.found.start : difference.found.end] == found
