"""The evidence strip of the terminal and of exported answers."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.citations.show.sentence_evidence import (
    MAX_BLOCKS,
    count_held_sentences,
    list_sentence_evidence,
    render_evidence_line,
)
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import CellVerdict, Citation, Difference, TextSpan, Verdict
from modules.llm_platform.domain.ports.synthesizer import EXTRACTIVE
from modules.llm_platform.presentation.cli.render.document import research_html, research_markdown
from modules.llm_platform.presentation.cli.render.terminal import render_sources


def citation(start: int, end: int, verdict: Verdict, source: int = 1, *cells: CellVerdict) -> Citation:
    return Citation(start=start, end=end, source_index=source, verdict=verdict, score=1.0, cells=cells)


def answer(
    *citations: Citation, uncited: tuple[tuple[int, int], ...] = (), synthesizer: str = "openai/m"
) -> ResearchResponse:
    spans = tuple(TextSpan(start=start, end=end) for start, end in uncited)
    return ResearchResponse(
        query="q", depth="deep", synthesis="x" * 400, sources=(), raw_results=(), citations=citations,
        metadata=ResearchMetadata(latency_ms=1, uncited=spans, synthesizer=synthesizer),
    )  # fmt: skip


def verdicts(*citations: Citation, uncited: tuple[tuple[int, int], ...] = ()) -> list[str]:
    return [sentence.verdict for sentence in list_sentence_evidence(answer(*citations, uncited=uncited))]


def test_sentences_stand_in_the_order_of_the_text() -> None:
    """Cited and uncited ones."""
    assert verdicts(citation(50, 60, "partial"), citation(0, 10, "supported"), uncited=((20, 30),)) == [
        "supported", "uncited", "partial",
    ]  # fmt: skip


def test_one_source_that_supports_a_sentence_is_enough() -> None:
    """Without one, the worst verdict counts."""
    assert verdicts(citation(0, 10, "unsupported"), citation(0, 10, "supported", 2)) == ["supported"]
    assert verdicts(citation(0, 10, "unchecked"), citation(0, 10, "unsupported", 2)) == ["absent"]


def test_a_sentence_that_one_source_contradicts_is_unsupported() -> None:
    """A sentence that the sources do not have is absent."""
    span = TextSpan(start=0, end=4)
    contradicted = citation(0, 10, "unsupported").model_copy(
        update={"difference": Difference(claimed=span, found=span, kind="number")}
    )
    assert verdicts(contradicted, citation(0, 10, "unsupported", 2)) == ["unsupported"]
    other = contradicted.model_copy(update={"difference": Difference(claimed=span, found=span, kind="other")})
    assert verdicts(other, citation(0, 10, "unsupported", 2)) == ["absent"]


def test_clauses_are_one_sentence_of_the_worst_verdict() -> None:
    """Statements that overlap are no two sentences."""
    (sentence,) = list_sentence_evidence(answer(citation(0, 30, "supported"), citation(0, 12, "unsupported", 2)))
    assert (sentence.start, sentence.end, sentence.verdict) == (0, 30, "absent")


def test_a_row_is_as_good_as_its_weakest_cell() -> None:
    """Each cell has the best verdict that a source gives it."""
    cells = [
        (CellVerdict(start=2, end=4, verdict=first), CellVerdict(start=6, end=8, verdict="supported"))
        for first in ("unsupported", "partial")
    ]
    rows = [citation(0, 10, "unsupported", number, *row) for number, row in enumerate(cells, 1)]
    assert verdicts(*rows) == ["partial"]


def test_a_block_for_each_sentence() -> None:
    """The line says how many hold; a long answer has the worst sentence of each stretch."""
    all_verdicts: list[Verdict] = ["supported", "partial", "unsupported", "unchecked"]
    cited = [citation(10 * place, 10 * place + 9, verdict) for place, verdict in enumerate(all_verdicts)]
    assert render_evidence_line(list_sentence_evidence(answer(*cited, uncited=((50, 59),)))) == "▁▄▆▒░ 1 of 5 hold"
    assert render_evidence_line([]) == ""
    many = [citation(10 * place, 10 * place + 9, "unsupported" if place == 99 else "supported") for place in range(100)]
    line = render_evidence_line(list_sentence_evidence(answer(*many)))
    assert len(line.split()[0]) <= MAX_BLOCKS
    assert line.split()[0].endswith("▆")
    assert line.endswith("99 of 100 hold")


def test_every_door_of_the_command_line_shows_it() -> None:
    """Terminal, Markdown and HTML; an answer without sentences has none."""
    made = answer(citation(0, 10, "supported"), citation(20, 30, "unsupported"))
    assert "▁▆ 1 of 2 hold" in [line.text for line in render_sources(made)]
    assert "▁▆ 1 of 2 hold" in research_markdown(made)
    assert 'aria-label="1 of 2 hold"><i class="supported" style="flex-grow:10"></i>' in research_html(made)
    assert "hold" not in research_markdown(answer()) + research_html(answer())


@for_each(
    "spans, line",
    [
        ([(0, 9, 1)], "▁ 1 quote from 1 source"),
        ([(0, 9, 1), (0, 9, 2)], "▁ 1 quote from 2 sources"),
        ([(0, 9, 1), (10, 19, 1)], "▁▁ 2 quotes from 1 source"),
        ([(0, 9, 1), (10, 19, 2), (20, 29, 1)], "▁▁▁ 3 quotes from 2 sources"),
        ([(0, 30, 3), (0, 12, 7)], "▁ 1 quote from 2 sources"),  # a clause
    ],
)
def test_an_answer_of_quotes_counts_quotes(spans: list[tuple[int, int, int]], line: str) -> None:
    """An answer of quotes makes no statements of its own, so quotes are counted instead of supported sentences."""
    cited = [citation(start, end, "supported", source) for start, end, source in spans]
    sentences = list_sentence_evidence(answer(*cited, synthesizer=EXTRACTIVE))
    assert {sentence.verdict for sentence in sentences} == {"quoted"}
    assert render_evidence_line(sentences) == line


def test_a_copy_that_a_model_wrote_holds() -> None:
    """The model chose it as a statement of its answer."""
    sentences = list_sentence_evidence(answer(citation(0, 9, "supported")))
    assert [sentence.verdict for sentence in sentences] == ["supported"]
    assert render_evidence_line(sentences) == "▁ 1 of 1 hold"


def test_an_answer_of_quotes_with_another_sentence_is_counted_as_before() -> None:
    """Its quotes hold."""
    quote = citation(0, 9, "supported")
    other = citation(10, 19, "partial")
    reworded = citation(20, 29, "supported").model_copy(update={"is_verbatim": False, "score": 0.9})
    sentences = list_sentence_evidence(answer(quote, other, reworded, uncited=((30, 39),), synthesizer=EXTRACTIVE))
    assert [sentence.verdict for sentence in sentences] == ["quoted", "partial", "supported", "uncited"]
    assert (render_evidence_line(sentences), count_held_sentences(sentences)) == ("▁▄▁░ 2 of 4 hold", 2)


def test_every_door_of_the_command_line_shows_quotes_as_quotes() -> None:
    """In no colour and without the sign of support; the strip of HTML has a grey cell."""
    made = answer(citation(0, 10, "supported"), citation(20, 30, "supported", 2), synthesizer=EXTRACTIVE)
    lines = list(render_sources(made))
    texts = [line.text for line in lines]
    assert "▁▁ 2 quotes from 2 sources" in texts
    assert len([text for text in texts if text.startswith("❝ quoted word for word  ")]) == 2
    assert "green" not in {line.style for line in lines}
    markdown, page = research_markdown(made), research_html(made)
    assert "\n\n▁▁ 2 quotes from 2 sources\n\n" in markdown
    assert markdown.count(": ❝ quoted word for word") == 2
    assert 'aria-label="2 quotes from 2 sources"><i class="quoted" style="flex-grow:10"></i>' in page
    assert page.count('<span class="quoted">❝ quoted word for word</span>') == 2
    for shown in ("\n".join(texts), markdown, page):
        assert "hold" not in shown
        assert "✔" not in shown
