"""The writer without a model: where its work runs, and that nothing can make it fail."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.application.research.writers.extractive_synthesizer import INLINE_CHARS, ExtractiveSynthesizer
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceQuote, EvidenceRow, RowState
from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest

SENTENCE = "A pump of number {n} moves water through the pipe of the garden and needs a filter against the sand. "


def source(text: str, index: int = 1) -> Source:
    return Source(index=index, title="Pumps", url="https://example.org/p", text=text)


@given(
    st.text(min_size=1, max_size=60),
    st.lists(st.text(max_size=200), min_size=1, max_size=4),
    st.sampled_from(["en", "de", "zh", "xx", "pt-BR"]),
)
def test_any_sources_give_a_text(question: str, texts: list[str], language: str) -> None:
    """An answer has markers."""
    sources = [source(text, number) for number, text in enumerate(texts, 1)]
    written = asyncio.run(ExtractiveSynthesizer().synthesize(SynthesisRequest(question, sources, language)))
    assert written.text.strip()
    assert (
        written.answered is any(f"[{number}]" in written.text for number in range(1, len(texts) + 1))
        or not written.answered
    )
    assert (written.spent.calls, written.synthesizer) == (0, "extractive")


async def test_large_sources_do_not_block_the_event_loop() -> None:
    """They are processed in a thread."""
    large = [source("\n\n".join(SENTENCE.format(n=n) for n in range(260)), index) for index in range(1, 11)]
    assert sum(len(one.text) for one in large) > INLINE_CHARS
    writing = asyncio.create_task(
        ExtractiveSynthesizer().synthesize(SynthesisRequest("What does pump 77 need?", large, "en"))
    )
    turns = 0
    while not writing.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10  # one or two where the loop does the work itself
    assert "A pump of number 77 moves water" in (await writing).text


async def test_without_sources_the_text_says_so() -> None:
    """In the requested language, and not as an answer."""
    written = await ExtractiveSynthesizer().synthesize(SynthesisRequest("What?", (), "fr"))
    assert (written.text, written.answered) == ("Rien n’a été trouvé.", False)


PIPES = source("Pipes of copper are old.")
DIRECT = Source(index=3, title="Engine", url="https://example.org/e", text="The pump of Aston was built in 1810.")


ASTON = "When was the pump of Aston built?"


def quoted(state: RowState, count: int) -> EvidenceRow:
    """A row with this many quotes of one source."""
    quotes = tuple(
        EvidenceQuote(url=PIPES.url, title="Pipes", text=f"Copper pipe {number} is old.") for number in range(count)
    )
    return EvidenceRow(question=ASTON, quotes=quotes, coverage=0.5, state=state)


@pytest.mark.parametrize(("count", "shown"), [(2, 2), (4, 3)])
async def test_quotes_that_answer_in_part_stand_behind_a_passage_that_answers(count: int, shown: int) -> None:
    """A further round does not hide what the first search found, and makes no text longer than a row. Quotes that answer are
    the whole text.
    """
    held = PIPES.model_copy(update={"text": " ".join(quote.text for quote in quoted("partly", count).quotes)})
    texts = {}
    for state in get_args(RowState)[:2]:
        request = SynthesisRequest(ASTON, (held, DIRECT), "en", evidence=(quoted(state, count),))
        texts[state] = (await ExtractiveSynthesizer().synthesize(request)).text
    assert texts["partly"].startswith(f"{DIRECT.text[:-1]} [3].")
    assert texts["partly"].count("Copper pipe") == shown
    assert DIRECT.text[:-1] not in texts["answered"]
    assert texts["answered"].count("Copper pipe") == count


@pytest.mark.parametrize("limit", [1, 40])
async def test_the_first_passage_is_always_included(limit: int) -> None:
    """Also with a limit below one sentence."""
    written = await ExtractiveSynthesizer().synthesize(
        SynthesisRequest("What does a pump move?", [source("A pump moves water.")], "en", max_tokens=limit)
    )
    assert written.text == "A pump moves water [1]."
