"""An exported answer is verified as the answer that it is."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.citations.forms.citation_forms import read_citations
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource

STRIP = "▁▆ 1 of 2 hold"
COST = "*0\\.4 s · 1 search (documents) · made of quotes, without a language model*"
ANSWER = "The allowance is 28 euros [1]. Trips need approval [1]."
SOURCES = "## Sources\n\n- [1] Travel `doc:trips/docs.md`"
CITATIONS = (
    "## Citations\n\n- The allowance is 28 euros [1]: ✔ quoted\n  > It is 28 euros.\n\n## Notes\n\n- searxng: captcha"
)
FILE = CitedSource(900, title="trips/docs.md", text="The allowance is 28 euros.", is_numbered=False)


@for_each(
    "blocks",
    [
        ["# How high is it?", STRIP, ANSWER, SOURCES, CITATIONS, COST],
        ["# How high is it?", ANSWER, SOURCES, COST],
        ["# How high is it?", STRIP, ANSWER, SOURCES],
        ["# How high is it?", "▁▁ 2 quotes from 1 source", ANSWER, SOURCES],
        ["# How high is it?", "▁ 1 quote from 2 sources", ANSWER, SOURCES],
    ],
)
def test_only_the_answer_is_text_and_its_documents_are_the_given_ones(blocks: list[str]) -> None:
    cited = read_citations("\n\n".join(blocks) + "\n", [FILE])
    assert [(source.index, source.text) for source in cited.sources] == [(1, FILE.text)]
    for left_out in ("hold", "quote", "captcha", "without a language model"):
        assert left_out not in cited.markdown
    assert ANSWER in cited.markdown


def test_a_text_of_another_author_keeps_such_lines() -> None:
    """A heading *Citations* or a last line in italics does not make a text an export."""
    text = "Ole paints.\n\n## Notes\n\nThe gate is red · and open.\n\n*It was sold · in May.*\n"
    assert read_citations(text).markdown == text
