"""What the writing stage asks a writer for."""

from __future__ import annotations

from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.cases import for_each
from tests.support.written_answers import write_answer

from modules.llm_platform.application.research.write.llm_synthesizer import LLMSynthesizer
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.llm.context_budget import SMALL_BUDGET_TOKENS
from modules.llm_platform.testing import FakeLLM

SOURCES = (Source(index=1, title="Harbour", url="https://docs.test/1", text="The wall is nine metres high."),)


@for_each("streamed", [True, False])
async def test_the_writer_knows_whether_its_text_is_streamed(streamed: bool) -> None:
    """A model's stream is forwarded in larger parts if no client streams the text."""
    writer = FakeSynthesizer("The wall is nine metres high [1].")
    await write_answer(writer, SOURCES, question="How high is the wall?", streamed=streamed)
    assert [asked.is_streamed for asked in writer.calls] == [streamed]


async def test_rows_that_a_small_model_is_not_asked_about_are_no_failure() -> None:
    """The answer is quotes, as the fallback writes them, and does not say that the model failed."""
    rows = "| Name | Age |\n|---|---|\n| Ann | 34 |\n| Ben | 16 |\n| Cleo | 50 |\n"
    source = Source(index=1, title="crew", url="doc:crew.md", text=rows, text_kind="document", is_whole=True)
    writer = LLMSynthesizer(FakeLLM(["Ben [1]."]), sources_tokens=SMALL_BUDGET_TOKENS)
    draft = await write_answer(writer, (source,), question="Who is under 18?", has_llm=True)
    assert draft.text == "1 of 3 rows:\n\n| Name | Age |\n| --- | --- |\n| Ben | 16 [1] |"
    assert (draft.synthesis.synthesizer, draft.degraded, draft.spent.tokens) == ("extractive", (), 0)


async def test_a_writer_reads_excerpts_and_citations_are_checked_against_the_whole_texts() -> None:
    whole = Source(index=1, title="Pumps", url="https://example.org/p", text="A pump moves water. It has two valves.")
    excerpt = whole.model_copy(update={"text": "A pump moves water."})
    writer = FakeSynthesizer("It has two valves [1].")
    draft = await write_answer(writer, (whole,), excerpts=(excerpt,))
    assert writer.calls[0].sources == (excerpt,)
    assert draft.checked.citations[0].verdict == "supported"
