"""domain/citations/show/styles.py: an answer with its citations in the styles of scholars."""

from __future__ import annotations

import re

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain.citations.show.styles import (
    CitationStyle,
    read_date_parts,
    render_citations,
    render_reference_list,
)
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.source_dtos import RawResult, SourceRef

TEA = ("How tea is made in the south of India", "https://www.example.org/tea", "2026-03-31T10:00:00Z")
CUP = ("A cup?", "https://cups.example.net/a", "2025-09")
LEAF = ("Leaf", "doc:leaves/leaf.md", None)


def answer(text: str, *sources: tuple[str, str, str | None]) -> ResearchResponse:
    refs = tuple(SourceRef(index=number, title=title, url=url) for number, (title, url, _) in enumerate(sources, 1))
    raw = tuple(RawResult(title=title, url=url, content="", published=published) for title, url, published in sources)
    return ResearchResponse(
        query="tea",
        depth="deep",
        synthesis=text,
        sources=refs,
        raw_results=raw,
        metadata=ResearchMetadata(latency_ms=1),
    )


TEXT = "Tea is picked by hand [1][2]. It keeps for years [3].\n\n```\nleaves[1]\n```"


@for_each(
    ("style", "expected"),
    [
        (
            "numbered",
            TEXT + "\n\n## Sources\n\n"
            "- [1] How tea is made in the south of India. 2026-03-31. <https://www.example.org/tea>\n"
            "- [2] A cup? 2025-09. <https://cups.example.net/a>\n- [3] Leaf. `doc:leaves/leaf.md`\n",
        ),
        (
            "apa",
            "Tea is picked by hand (“How tea is made,” 2026; “A cup?,” 2025). It keeps for years (“Leaf,” n.d.).\n\n"
            "```\nleaves[1]\n```\n\n## References\n\n"
            "- A cup? (2025, September). cups.example.net. <https://cups.example.net/a>\n"
            "- How tea is made in the south of India. (2026, March 31). example.org. <https://www.example.org/tea>\n"
            "- Leaf. (n.d.). `doc:leaves/leaf.md`\n",
        ),
        (
            "mla",
            "Tea is picked by hand (“How tea is made”; “A cup?”). It keeps for years (“Leaf”).\n\n"
            "```\nleaves[1]\n```\n\n## Works Cited\n\n"
            "- “A cup?” cups.example.net, Sept. 2025, <https://cups.example.net/a>.\n"
            "- “How tea is made in the south of India.” example.org, 31 Mar. 2026, <https://www.example.org/tea>.\n"
            "- “Leaf.” `doc:leaves/leaf.md`.\n",
        ),
        (
            "chicago",
            "Tea is picked by hand (“How tea is made” 2026; “A cup?” 2025). It keeps for years (“Leaf” n.d.).\n\n"
            "```\nleaves[1]\n```\n\n## Bibliography\n\n"
            "- “A cup?” cups.example.net. September 2025. <https://cups.example.net/a>.\n"
            "- “How tea is made in the south of India.” example.org. March 31, 2026. <https://www.example.org/tea>.\n"
            "- “Leaf.” n.d. `doc:leaves/leaf.md`.\n",
        ),
    ],
)
def test_each_style_in_the_text_and_in_the_list(style: CitationStyle, expected: str) -> None:
    """Only known data is shown: authors are not invented, and an unknown date is n.d. or left out. Code is unchanged."""
    assert render_citations(answer(TEXT, TEA, CUP, LEAF), style) == expected


def test_sources_with_one_short_title_are_told_apart() -> None:
    """By the whole title, and if that is the same too, by the site."""
    first = ("The state of tea in 2025", "https://a.example.org/", None)
    second = ("The state of tea in 2026", "https://a.example.org/2", None)
    third = ("The state of tea in 2026", "https://b.example.org/2", None)
    text = render_citations(answer("One [1]. Two [2]. Three [3].", first, second, third), "mla").partition("\n")[0]
    assert text == (
        "One (“The state of tea in 2025”). Two (“The state of tea in 2026, a.example.org”). "
        "Three (“The state of tea in 2026, b.example.org”)."
    )


@pytest.mark.parametrize("style", ["numbered", "apa", "mla", "chicago"])
def test_hostile_title_is_text(style: CitationStyle) -> None:
    """A page cannot put a link, HTML, a heading or a marker into the list."""
    hostile = ("[click](javascript:x) <b>now</b>\n# Fact [7]", "https://example.org/a", None)
    text = render_citations(answer("Tea [1].", hostile), style)
    assert re.search(r"(?<!\\)(?:\]\(|<b|\[7)", text) is None
    assert "\n# " not in text


def test_answer_without_sources_has_no_list() -> None:
    response = answer("Nothing was found.")
    assert render_citations(response, "apa") == "Nothing was found."
    assert render_reference_list(response, "numbered") == ""


@for_each(
    ("published", "parts"),
    [
        ("2026-03-31", (2026, 3, 31)),
        ("2026-03-31T10:00:00+02:00", (2026, 3, 31)),
        ("2026-03", (2026, 3)),
        ("2026", (2026,)),
        ("2026-13-01", ()),
        ("yesterday", ()),
        ("", ()),
        (None, ()),
        ("٢٠٢٦", ()),
        ("0000-01-01", ()),
    ],
)
def test_only_dates_that_exist_are_dates(published: str | None, parts: tuple[int, ...]) -> None:
    assert read_date_parts(published) == parts
