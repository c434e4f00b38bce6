"""The page of a PDF in each output that has a place for it. Those of compatible interfaces: compat/test_dialect_answers.py."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain.citations.show.source_pages import format_pages, list_cited_pdf_pages
from modules.llm_platform.domain.citations.show.styles import render_citations
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation, Verdict
from modules.llm_platform.domain.dtos.retrieval_dtos import RagAnswer, RagCitation, RagQuestion
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.dtos.verification_dtos import (
    VerificationCounts,
    VerificationMetadata,
    VerifiedSentence,
    VerifiedSource,
    VerifiedText,
)
from modules.llm_platform.presentation.cli.commands.ask import TimedAnswer, as_research, write_answer_json
from modules.llm_platform.presentation.cli.render import terminal, verification
from modules.llm_platform.presentation.cli.render.csl import render_csl_json
from modules.llm_platform.presentation.cli.render.document import research_html, research_markdown
from modules.llm_platform.presentation.mcp.results import VerifiedTextAndSource
from modules.llm_platform.presentation.mcp.text import render_verified_text, research_text
from modules.llm_platform.presentation.rest.compat.structured import make_marker_annotations
from modules.llm_platform.presentation.rest.compat.tavily import research as tavily

URL = "https://a.example/report.pdf"
TEXT = "Owls hunt mice [1]. Voles sleep by day [1]. Both live in meadows [1]."


def citation(sentence: str, page: int | None, verdict: Verdict = "supported") -> Citation:
    start = TEXT.index(sentence)
    return Citation(
        start=start,
        end=start + len(sentence),
        source_index=1,
        quote=sentence,
        quote_end=len(sentence),
        verdict=verdict,
        score=1.0,
        page=page,
        quote_url=f"{URL}#page={page}" if page else None,
    )


CITATIONS = (
    citation("Owls hunt mice", 15),
    citation("Voles sleep by day", 3),
    citation("Both live in meadows", 9, "unsupported"),
)
RESPONSE = ResearchResponse(
    query="What do owls hunt?",
    depth="deep",
    synthesis=TEXT,
    citations=CITATIONS,
    output={"says": "Owls hunt mice [1]."},
    sources=(SourceRef(index=1, title="Report", url=URL),),
    metadata=ResearchMetadata(latency_ms=1),
)


def printed(response: ResearchResponse) -> str:
    return "\n".join(line.text for line in terminal.render_sources(response))


@for_each(
    ("render", "expected"),
    [
        (research_markdown, ("Owls hunt mice [1], p. 15:", f"(<{URL}#page=15>)")),
        (research_html, (">[1]</a>, p. 15:", f'href="{URL}#page=15"')),
        (printed, ("“Owls hunt mice” — [1], p. 15", "[1], p. 9 does not say")),
        (render_csl_json, ('"note": "pp. 3, 15"', f'"URL": "{URL}"')),
        (lambda response: render_citations(response, "numbered"), (f"[1] Report. Pp. 3, 15. <{URL}>",)),
        (lambda response: render_citations(response, "apa"), ("mice (“Report,” n.d., p. 15)", "day (“Report,” n.d., p. 3)",
                                                       "meadows (“Report,” n.d.).")),
        (lambda response: render_citations(response, "mla"), ("mice (“Report” 15)", "day (“Report” 3)", "meadows (“Report”).")),
        (lambda response: render_citations(response, "chicago"), ("mice (“Report” n.d., 15)", "meadows (“Report” n.d.).")),
        (research_text, (f"[1] Report, pp. 3, 15 — {URL}#page=15", "not found in [1], p. 9: Both")),
        (lambda response: json.dumps(tavily._list_sources(response)), (f'"url": "{URL}#page=15"',)),
        (lambda response: json.dumps(list(make_marker_annotations('{"says": "Mice [1]."}', response))), (f"{URL}#page=15",)),
    ],
)  # fmt: skip
def test_an_answer_names_the_page(render: Callable[[ResearchResponse], str], expected: tuple[str, ...]) -> None:
    """The page is part of the citation. If only sources are shown, it is the page of the supporting quotes."""
    text = render(RESPONSE)
    assert [part for part in expected if part not in text] == []


def verified() -> VerifiedText:
    found = citation("Both live in meadows", 9, "unsupported")
    sentence = VerifiedSentence(
        start=found.start, end=found.end, verdict="unsupported", citations=(found,), is_cited=True, sources=(1,)
    )
    return VerifiedText(
        sentences=(sentence,),
        counts=VerificationCounts(sentences=1, unsupported=1, sources=1, read=1),
        sources=(VerifiedSource(index=1, title="Report", url=URL, state="read"),),
        metadata=VerificationMetadata(latency_ms=1, language="en"),
    )


@for_each(
    ("render", "expected"),
    [
        (
            lambda: "\n".join(line.text for line in verification.render_verification_lines(TEXT, verified(), "")),
            "in [1], p. 9",
        ),
        (
            lambda: "\n".join(line.text for line in verification.render_github_annotations(TEXT, verified(), "")),
            "in [1], p. 9",
        ),
        (lambda: verification.render_verification_markdown(TEXT, verified(), ""), f"(<{URL}#page=9>)"),
        (lambda: verification.render_verification_html(TEXT, verified(), ""), f'href="{URL}#page=9"'),
        (lambda: render_verified_text(VerifiedTextAndSource(**dict(verified()), text=TEXT)), "in (1), p. 9"),
    ],
)
def test_a_verified_text_names_the_page(render: Callable[[], str], expected: str) -> None:
    """In every form of the report."""
    assert expected in render()


@pytest.mark.parametrize(("url", "shown"), [(URL, f"{URL}#page=15"), ("doc:report.pdf", "doc:report.pdf")])
def test_an_answer_of_the_index_names_the_page(url: str, shown: str) -> None:
    """`ask` shows the page after the title, and links to it.

    `--json` has the contract's field and the unchanged address.
    """
    answer = RagAnswer(answer="Mice [1].", citations=(RagCitation(doc_id="a", title="Report", url=url, page=15),))
    timed = TimedAnswer(RagQuestion(question="What?"), answer, 1)
    assert as_research(timed).sources == (SourceRef(index=1, title="Report, p. 15", url=shown),)
    assert json.loads(write_answer_json(timed))["citations"] == [
        {"doc_id": "a", "title": "Report", "url": url, "page": 15}
    ]


def test_pages_of_sources() -> None:
    """Pages are listed once, in the order of the text. A quote that supports nothing has no page."""
    assert list_cited_pdf_pages([CITATIONS[1], *CITATIONS]) == {1: (15, 3)}
    assert [format_pages(pages) for pages in ((), (3,), (15, 3, 3))] == ["", "p. 3", "pp. 3, 15"]
