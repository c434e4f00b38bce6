"""What the writing stage asks a writer for."""

from __future__ import annotations

import asyncio

from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.cases import for_each

from modules.llm_platform.application.research.writers.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.application.research.writing import WritingRequest, write
from modules.llm_platform.domain.dtos.research_dtos import Source

SOURCES = (Source(index=1, title="Harbour", url="https://docs.test/1", text="The wall is nine metres high."),)


@for_each("streamed", [True, False])
async def test_the_writer_is_told_whether_its_text_is_read_as_it_is_written(streamed: bool) -> None:
    """A model's stream is passed on in larger parts if nobody reads the text before its end."""
    writer = FakeSynthesizer("The wall is nine metres high [1].")
    request = WritingRequest(
        question="How high is the wall?",
        sources=SOURCES,
        language="en",
        max_tokens=100,
        writer=writer,
        fallback=ExtractiveSynthesizer(),
        deadline=asyncio.get_running_loop().time() + 60,
        offer_deep=False,
    )
    await write(request, streamed, lambda _: None, lambda _: None)
    assert [asked.is_streamed for asked in writer.calls] == [streamed]
