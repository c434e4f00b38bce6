"""What a sub-question asks the search engines: each language once, no query twice, also without a model."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.turns import run_ready_tasks

from modules.llm_platform.application.research.report.queries import (
    Queries,
    QueryTask,
    choose_query_languages,
    plan_search_queries,
)
from modules.llm_platform.domain.exceptions import LLMBudgetError, LLMConnectionError
from modules.llm_platform.domain.text.tokens import split_words
from modules.llm_platform.testing import BrokenStream, FakeLLM

QUESTION = "Расскажи о Mixture of Tokens"
SUB_QUESTION = "Где используется Mixture of Tokens?"
RUSSIAN, ENGLISH = "применение Mixture of Tokens", "Mixture of Tokens applications"


async def made(
    llm: FakeLLM | None,
    question: str = QUESTION,
    sub_question: str = SUB_QUESTION,
    languages: tuple[str, ...] = ("ru", "en"),
) -> Queries:
    """Return the queries, and check that the events contain the same queries."""
    emitted: list[str] = []
    queries = await plan_search_queries(QueryTask(question, sub_question, languages), llm, emit=emitted.append)
    assert tuple(emitted) == queries.queries
    return queries


@for_each(
    ("asked", "wanted", "languages"),
    [
        ("ru", (), ("ru", "en")),
        ("en", (), ("en",)),
        ("en-GB", (), ("en-GB",)),
        ("zh", ("zh", "ja", "en"), ("zh", "ja", "en")),
        ("de", ("fr", "FR", "fr-CA"), ("fr",)),
    ],
)
def test_a_question_is_searched_in_its_language_and_in_english(
    asked: str, wanted: tuple[str, ...], languages: tuple[str, ...]
) -> None:
    """One set where both are the same; the operator's languages replace them; none twice."""
    assert choose_query_languages(asked, wanted) == languages


@for_each(
    "answer",
    [
        f"ЗАПРОС: {RUSSIAN}\nЗАПРОС: {ENGLISH}",
        f"Запрос 1: {RUSSIAN}\n\nЗапрос 2: «{ENGLISH}»",
        f"Query: {RUSSIAN}\nQuery: {ENGLISH}",
        f"1. {RUSSIAN}\n2. {ENGLISH}",
        f'{{"ru": ["{RUSSIAN}"], "en": ["{ENGLISH}"]}}',
        f'["{RUSSIAN}", "{ENGLISH}"]',
        f"{RUSSIAN}\n{ENGLISH}",
        f"ЗАПРОС: {RUSSIAN}\nЗАПРОС: {RUSSIAN}\nЗАПРОС: {ENGLISH}\nЗАПРОС: one too many",
    ],
)
async def test_queries_are_read_from_any_list_format(answer: str) -> None:
    """The seed's lines, other prefixes, numbers, JSON, plain lines: one query in each language, no duplicate."""
    assert await made(FakeLLM([answer])) == Queries((RUSSIAN, ENGLISH))


async def test_a_term_that_needs_no_translation_is_searched_once() -> None:
    """A term that is the same in two languages is one query, without a replacement."""
    assert (await made(FakeLLM(["ЗАПРОС: solar sail\nЗАПРОС: solar sail"]))).queries == ("solar sail",)


async def test_prompt_names_count_languages_and_topic() -> None:
    """Languages by name and in order, the number of queries, the question and the sub-question; pages are not in it."""
    llm = FakeLLM([f"ЗАПРОС: {RUSSIAN}"])
    await made(llm)
    prompt = llm.requests[0].messages[-1].content
    assert "Exactly 2, in this order: 1 in Russian, then 1 in English" in prompt
    assert f"Question: {QUESTION}\nTopic: {SUB_QUESTION}" in prompt
    assert 'the mark "ЗАПРОС:"' in prompt
    assert llm.requests[0].data_kind == "query"
    assert len(prompt) < 900


async def test_the_prompt_for_a_question_in_latin_script_is_latin() -> None:
    """A Cyrillic mark makes a small model search and write in Russian."""
    llm = FakeLLM([f"Query: {ENGLISH}"])
    assert (await made(llm, "What do heat pumps cost?", "heat pump costs", ("en", "de"))).queries == (ENGLISH,)
    assert 'the mark "Query:"' in llm.requests[0].messages[-1].content
    assert llm.requests[0].messages[-1].content.isascii()


async def test_sentence_is_no_query() -> None:
    """A sentence of the model is not searched. If there is no query, the sub-question is used instead."""
    sentence = (
        "Heat pumps are devices that transfer heat from a colder outdoor space into a warmer building by compression."
    )
    assert (await made(FakeLLM([f"Query: {sentence}\nQuery: {ENGLISH}"]))).queries == (ENGLISH,)
    alone = await made(FakeLLM([f"Query: {sentence}"]))
    assert alone.queries == (SUB_QUESTION, "используется Mixture of Tokens")
    assert [degradation.component for degradation in alone.degraded] == ["queries/fake"]


@pytest.mark.parametrize("error", [LLMConnectionError(), LLMBudgetError()])
async def test_failing_model_is_reported_and_replaced(error: Exception) -> None:
    """The sub-question itself is searched, and its words; `degraded` says why."""
    queries = await made(FakeLLM([error]))
    assert queries.queries == (SUB_QUESTION, "используется Mixture of Tokens")
    assert [degradation.component for degradation in queries.degraded] == ["queries/fake"]


async def test_queries_of_a_model_that_failed_half_way_stay() -> None:
    """Its whole lines are searched already and serve; its half line does not."""
    queries = await made(FakeLLM([BrokenStream(f"ЗАПРОС: {RUSSIAN}\nЗАПРОС: Mix")]))
    assert queries.queries == (RUSSIAN,)
    assert len(queries.degraded) == 1


@for_each("answer", ["None", "I cannot comply.", "[NaN]", "Извините, я не могу помочь.", "A matter for experts."])
async def test_answer_without_a_query_is_reported_and_replaced(answer: str) -> None:
    """A refusal is never searched for."""
    queries = await made(FakeLLM([answer]))
    assert queries.queries[0] == SUB_QUESTION
    assert [degradation.component for degradation in queries.degraded] == ["queries/fake"]


@for_each(
    ("sub_question", "languages", "queries"),
    [
        ("What do heat pumps cost?", ("en",), ("What do heat pumps cost?",)),
        ("heat pumps", ("en", "de"), ("heat pumps",)),
        ("What are the limits?", ("en", "de"), ("What are the limits?", "limits heat pumps cold winters")),
        ("What do heat pumps cost?", ("en", "de"), ("What do heat pumps cost?", "heat pumps cost")),
    ],
)
async def test_without_a_model_the_sub_question_is_searched(
    sub_question: str, languages: tuple[str, ...], queries: tuple[str, ...]
) -> None:
    """The sub-question is searched unchanged, and then by its keywords, with words of the question if it does not name
    its topic.
    """
    made_without = await made(None, "How do heat pumps do in cold winters?", sub_question, languages)
    assert made_without == Queries(queries)


async def test_query_is_emitted_when_its_line_is_complete() -> None:
    """The first search can begin while the model writes."""
    emitted = asyncio.Event()
    llm = FakeLLM([f"ЗАПРОС: {RUSSIAN}\nЗАПРОС: {ENGLISH}"], chunk_chars=40, chunk_delay_s=0.05)
    task = asyncio.create_task(
        plan_search_queries(QueryTask(QUESTION, SUB_QUESTION, ("ru", "en")), llm, emit=lambda _: emitted.set())
    )
    await asyncio.wait_for(emitted.wait(), 60)
    assert not task.done()
    assert (await task).queries == (RUSSIAN, ENGLISH)


async def test_cancelling_passes_through() -> None:
    """Cancelling makes no fallback query and leaves no call running."""
    llm = FakeLLM(delay_s=60)
    task = asyncio.create_task(made(llm))
    await run_ready_tasks()
    assert llm.running == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert llm.running == 0


@hypothesis_settings(max_examples=80, deadline=None)
@given(
    answer=st.text(min_size=1, max_size=300).filter(str.strip) | st.none(),
    sub_question=st.text(min_size=3, max_size=60).filter(lambda text: text.isprintable() and len(text.split()) > 0),
)
def test_there_are_between_one_and_the_requested_number_of_queries(answer: str | None, sub_question: str) -> None:
    """Whatever the model says: at most one query for each of the two languages, all different."""
    llm = None if answer is None else FakeLLM([answer])
    queries = asyncio.run(made(llm, sub_question=sub_question)).queries
    assert 1 <= len(queries) <= 2
    assert len({tuple(split_words(query)) or query for query in queries}) == len(queries)
