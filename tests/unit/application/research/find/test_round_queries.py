"""The queries that a model adds to a further round."""

from collections.abc import Sequence
from functools import partial

from modules.llm_platform.application.research.find.round_queries import (
    MAX_ANSWER_TOKENS,
    MAX_PROMPT_TOKENS,
    RoundContext,
    ask_for_queries,
    ask_model,
)
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.testing import FakeLLM

QUESTION = "Which waterfall is in the country where the Bubye River is found?"
RIVER = Source(index=1, title="Bubye River", url="https://river.example/", text="The Bubye River is found in Zimbabwe.")


def make_context(passages: Sequence[Source], missing: str = "", searched: Sequence[str] = ()) -> RoundContext:
    return RoundContext(
        question=QUESTION,
        rows=(EvidenceRow(question=QUESTION),),
        passages=passages,
        missing=missing,
        searched=searched,
        count=4,
        language="en",
        written=(QUESTION,),
    )


async def asked(llm: FakeLLM, *passages: Source, searched: tuple[str, ...] = ()) -> tuple[str, ...]:
    context = make_context(passages or (RIVER,), "waterfall", searched)
    return (await ask_for_queries(partial(ask_model, llm), context)).queries


async def test_a_line_needs_a_word_of_the_question_or_a_name_of_a_passage() -> None:
    """What is on neither is refused: a page or a fancy of the model wrote it."""
    lines = "Query: Zimbabwe landmarks\nQuery: waterfalls of Africa\nQuery: cheap flights tonight"
    assert await asked(FakeLLM([lines])) == ("Zimbabwe landmarks", "waterfalls of Africa")


async def test_addresses_operators_and_bangs_are_refused() -> None:
    """A page with instructions for the model cannot choose the site of a search or what is sent to it."""
    refused = (
        "waterfall site:evil.example",
        "!g waterfall",
        "waterfall https://evil.example/?d=1",
        "waterfall -Zimbabwe",
    )
    lines = (*refused, "waterfall")
    assert await asked(FakeLLM(["\n".join(f"Query: {line}" for line in lines)])) == ("waterfall",)


async def test_the_call_is_small_whatever_was_found() -> None:
    """The call has at most 1,200 input and 100 output tokens, and page text is between two fence lines."""
    text, title = "Zimbabwe has falls. " * 500, "River " * 40
    long = [RIVER.model_copy(update={"index": number, "text": text, "title": title}) for number in range(30)]
    llm = FakeLLM(["Query: waterfall"])
    await asked(llm, *long, searched=tuple("waterfall in Zimbabwe " * 9 for _ in range(40)))
    [request] = llm.requests
    assert count_tokens(request.messages[0].content) <= MAX_PROMPT_TOKENS
    assert request.max_tokens == MAX_ANSWER_TOKENS


async def test_a_failing_model_adds_nothing() -> None:
    """The rules continue without the model, and `degraded` gives the reason."""
    made = await ask_for_queries(partial(ask_model, FakeLLM([LLMConnectionError()])), make_context((RIVER,)))
    assert (made.queries, made.is_done) == ((), False)
    assert [entry.component for entry in made.degraded] == ["queries/fake"]


async def test_a_model_is_done_when_it_says_so() -> None:
    """Text without a query neither adds a query nor ends the rounds."""
    for text, is_done in (("Query: none", True), ("None", True), ("Let me think about it.", False)):
        made = await ask_for_queries(partial(ask_model, FakeLLM([text])), make_context((RIVER,)))
        assert (made.queries, made.is_done) == ((), is_done), text
