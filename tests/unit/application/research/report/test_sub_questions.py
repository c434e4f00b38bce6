"""The plan of a report: up to three sub-questions, told while the model writes, whatever it writes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.turns import run_ready_tasks

from modules.llm_platform.application.research.find.plan import Plan
from modules.llm_platform.application.research.model_output.lists import LIST_SCHEMA
from modules.llm_platform.application.research.report.planner import SubQuestionTask, plan_sub_questions
from modules.llm_platform.application.research.report.run import ReportOptions
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMReset, LLMResponse, LLMStreamPart, LLMToken
from modules.llm_platform.domain.exceptions import LLMBlockedError, LLMConnectionError, LLMProviderException
from modules.llm_platform.domain.research.decomposition import aspect_questions
from modules.llm_platform.domain.research.question_selector import MAX_QUESTIONS, select_questions
from modules.llm_platform.testing import BrokenStream, FakeLLM

QUESTION = "How do solar sails work, and who builds them?"
THREE = ("How does a solar sail work?", "Who builds solar sails?", "What limits solar sails?")
SEED_LINES = "\n".join(f"ПОДЗАПРОС: {line}" for line in THREE)


LIMIT = ReportOptions().sub_questions


async def made(
    llm: FakeLLM | None, question: str = QUESTION, language: str = "en", other_than: Sequence[str] = ()
) -> Plan:
    """Return the plan, and check that the events contain the same plan."""
    told: list[str] = []
    task = SubQuestionTask(question, language, LIMIT, other_than)
    plan = await plan_sub_questions(task, llm, emit=told.append)
    assert tuple(told) == plan.questions
    return plan


@for_each(
    "answer",
    [
        SEED_LINES,
        SEED_LINES.replace("ПОДЗАПРОС:", "Подзапрос 1:"),
        SEED_LINES.replace("ПОДЗАПРОС", "**Sub-question**"),
        "Sure! Here they are:\n\n" + SEED_LINES + "\n\nGood luck!",
        "<think>\nПОДЗАПРОС: what do they want?\n</think>\n" + SEED_LINES,
        "\n".join(f"{number}. {line}" for number, line in enumerate(THREE, 1)),
        "\n".join(f"- {line}" for line in THREE),
        "\n".join(THREE),
        f'```json\n["{THREE[0]}", "{THREE[1]}", "{THREE[2]}",]\n```',
        f'{{"sub_questions": [{{"question": "{THREE[0]}"}}, {{"question": "{THREE[1]}"}}, {{"question": "{THREE[2]}"}}]}}',
        SEED_LINES + "\nПОДЗАПРОС: A fourth thing about sails?",
        f"ПОДЗАПРОС: {THREE[0]}\nПОДЗАПРОС: {THREE[0].upper()}\n" + SEED_LINES,
    ],
)
async def test_a_plan_in_any_form_is_the_same_plan(answer: str) -> None:
    """Prefixed lines, numbers, bullets, plain lines, JSON: the same three sub-questions, each once, in their order."""
    plan = await made(FakeLLM([answer]))
    assert plan.questions == THREE
    assert plan.spent.calls == 1
    assert plan.degraded == ()


@for_each(
    ("language", "name", "lines"),
    [
        ("ru", "Russian", ["Как летит солнечный парус?", "Кто делает солнечные паруса?"]),
        ("zh", "Chinese", ["太阳帆如何工作？", "谁制造太阳帆？"]),
        ("de", "German", ["Wie funktioniert ein Sonnensegel?", "Wer baut Sonnensegel?"]),
    ],
)
async def test_the_model_is_asked_for_the_questions_language(language: str, name: str, lines: list[str]) -> None:
    """The prompt names the language; a shorter plan than three is a plan."""
    llm = FakeLLM(["\n".join(f"ПОДЗАПРОС: {line}" for line in lines)])
    plan = await made(llm, language=language)
    assert list(plan.questions) == lines
    assert f"Write in {name}." in llm.requests[0].messages[-1].content
    assert llm.requests[0].data_kind == "query"


@for_each("answer", ["None", "I cannot comply.", "[NaN]", "<think>no</think> ", "Sure, here they are:", "{}", "?!"])
async def test_answer_without_a_plan_is_replaced_and_reported(answer: str) -> None:
    """The parts of the question serve, and `degraded` names the model."""
    plan = await made(FakeLLM([answer]))
    assert plan.questions == select_questions(aspect_questions(QUESTION, "en"), "en", written=(QUESTION,))
    assert [degradation.component for degradation in plan.degraded] == ["plan/fake"]


async def test_one_question_that_leaves_out_a_part_is_completed_and_reported() -> None:
    """A plan about half of the question is completed with the other parts of the question."""
    plan = await made(FakeLLM([f"Sub-question: {THREE[0]}"]))
    assert plan.questions == (THREE[0], *aspect_questions(QUESTION, "en"))[:3]
    assert "leaves out a part" in plan.degraded[0].reason


@pytest.mark.parametrize(
    ("question", "line"),
    [
        (QUESTION, "How do sails work, and which companies are builders of them?"),
        ("What is asyncio?", "What is asyncio in Python?"),
    ],
    ids=["other words", "one part"],
)
async def test_one_question_about_all_parts_is_a_plan(question: str, line: str) -> None:
    """A model may plan a single question in other words."""
    plan = await made(FakeLLM([f"Sub-question: {line}"]), question)
    assert (plan.questions, plan.degraded) == ((line,), ())


@for_each("language", ["en", "de", "fr", "pt-BR", "vi"])
async def test_the_prompt_for_a_question_in_latin_script_is_latin(language: str) -> None:
    """A Cyrillic mark makes a small model write Russian; the seed's mark is for Russian questions."""
    llm = FakeLLM([SEED_LINES])
    await made(llm, language=language)
    assert not re.search("[а-яА-Я]", llm.requests[0].messages[-1].content)
    await made(llm, language="ru")
    assert 'the mark "ПОДЗАПРОС:"' in llm.requests[1].messages[-1].content


async def test_failing_model_is_reported_and_replaced() -> None:
    """The cost of a failed model is counted, and rules make the plan."""
    plan = await made(FakeLLM([LLMBlockedError("quota used up", retry_after_s=60)]))
    assert plan.questions == select_questions(aspect_questions(QUESTION, "en"), "en", written=(QUESTION,))
    assert plan.degraded[0].component == "plan/fake"
    assert plan.degraded[0].until is not None
    assert plan.spent.calls == 1


async def test_questions_of_a_broken_stream_stay() -> None:
    """Sub-questions that were announced are already searched, so parts of the question are added after them."""
    plan = await made(FakeLLM([BrokenStream(f"ПОДЗАПРОС: {THREE[0]}\nПОДЗАПРОС: Who bu")]))
    assert plan.questions == (THREE[0], *aspect_questions(QUESTION, "en"))[:3]
    assert len(plan.degraded) == 1


class _TwoModels(FakeLLM):
    """The first model dies after a line, the second one answers."""

    async def stream(self, request: LLMRequest):  # type: ignore[no-untyped-def]
        yield LLMToken(text=f"ПОДЗАПРОС: {THREE[0]}\nПОДЗАПРОС: half a li")
        yield LLMReset(error=LLMConnectionError())
        async for part in super().stream(request):
            yield part


async def test_a_second_model_goes_on() -> None:
    """A second model continues without repeating announced questions. The incomplete line is dropped."""
    plan = await made(_TwoModels([SEED_LINES]))
    assert plan.questions == THREE


class _Silent(FakeLLM):
    async def stream(self, request: LLMRequest):  # type: ignore[no-untyped-def]
        yield LLMToken(text="ПОДЗАПРОС: A question about sails?\n")


async def test_stream_without_an_end_is_reported() -> None:
    """A broken provider does not break the plan."""
    plan = await made(_Silent())
    assert plan.questions == ("A question about sails?", *aspect_questions(QUESTION, "en"))
    assert plan.degraded[0].reason.startswith(LLMProviderException.code)


@pytest.mark.parametrize("answer", [SEED_LINES, json.dumps({"questions": THREE})], ids=["lines", "by the schema"])
async def test_question_is_emitted_when_it_is_complete(answer: str) -> None:
    """The first sub-question is known long before the model has ended, in lines and in JSON without line breaks."""
    told = asyncio.Event()
    llm = FakeLLM([answer], chunk_chars=30, chunk_delay_s=0.05)
    task = asyncio.create_task(
        plan_sub_questions(SubQuestionTask(QUESTION, "en", LIMIT), llm, emit=lambda _: told.set())
    )
    await asyncio.wait_for(told.wait(), 60)
    assert not task.done()
    assert llm.running == 1
    assert (await task).questions == THREE
    assert llm.requests[0].json_schema == LIST_SCHEMA


async def test_brackets_and_dashes_in_a_question_stay() -> None:
    """Only at the beginning they are a bullet."""
    asked = (
        "How does garbage collection (gc) of Git decide what to prune?",
        "Which settings does gc - as a command - have?",
    )
    assert (await made(FakeLLM([json.dumps({"questions": asked})]), "How does git gc prune?")).questions == asked


@for_each("names_topic", [False, True])
async def test_a_small_model_must_name_the_topic(names_topic: bool) -> None:
    """Its questions about the question are left out, in lines and in the whole answer."""
    task = SubQuestionTask("How many crayfish live in Lake Orsa?", "en", LIMIT, names_topic=names_topic)
    asked = ("What is the subject of the question?", "How are crayfish counted?", "Who counts the crayfish?")
    plan = await plan_sub_questions(task, FakeLLM([json.dumps({"questions": asked})]), emit=lambda _: None)
    assert plan.questions == (asked[1:] if names_topic else asked)
    assert not plan.degraded


@for_each("chunk", [1, 7, 500])
async def test_strings_of_the_schema_are_read_in_any_pieces(chunk: int) -> None:
    """Escaped quotation marks end no question."""
    quoted = ('What does "solar sail" mean?', *THREE[1:])
    answer = json.dumps({"questions": quoted}, indent=1)
    assert (await made(FakeLLM([answer], chunk_chars=chunk))).questions == quoted


async def test_cancelling_passes_through() -> None:
    """A cancelled plan leaves no call running and makes no fallback."""
    llm = FakeLLM([SEED_LINES], delay_s=60)
    told: list[str] = []
    task = asyncio.create_task(plan_sub_questions(SubQuestionTask(QUESTION, "en", LIMIT), llm, emit=told.append))
    await run_ready_tasks()
    assert llm.running == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert llm.running == 0
    assert told == []


async def test_without_a_model_the_question_is_taken_apart() -> None:
    """Nothing is asked or spent; the parts of the question are the plan."""
    plan = await made(None)
    assert plan.questions == select_questions(aspect_questions(QUESTION, "en"), "en", written=(QUESTION,))
    assert plan.spent.calls == 0


async def test_other_sub_questions_are_asked_for() -> None:
    """Rejected questions are named to the model and never appear again, in any spelling."""
    llm = FakeLLM([SEED_LINES])
    plan = await made(llm, other_than=(THREE[0].upper(), "  who builds\nSOLAR sails"))
    assert plan.questions == (THREE[2],)
    assert "who builds SOLAR sails" in llm.requests[0].messages[-1].content


async def test_nothing_else_to_think_of_gives_the_same_again() -> None:
    """A plan is never empty: where all was refused, it is offered once more."""
    everything = tuple(aspect_questions("fusion", "en"))
    assert (await made(None, "fusion", other_than=everything)).questions[0] == "fusion"


@hypothesis_settings(max_examples=60, deadline=None)
@given(answer=st.text(min_size=1, max_size=300).filter(str.strip), chunk=st.integers(1, 40))
def test_no_answer_breaks_the_plan(answer: str, chunk: int) -> None:
    """Whatever a model says, in whatever pieces: one to three different usable questions, told as planned."""
    plan = asyncio.run(made(FakeLLM([answer], chunk_chars=chunk)))
    assert 1 <= len(plan.questions) <= MAX_QUESTIONS
    assert select_questions(plan.questions, "en", written=()) == plan.questions


async def test_endless_repetition_is_no_plan_and_no_load() -> None:
    """A model that repeats one line for 100 kB gives that line once."""
    part: LLMStreamPart = LLMResponse(content="ПОДЗАПРОС: sails again\n" * 4500, provider="fake", model="fake-1")
    assert isinstance(part, LLMResponse)
    plan = await made(FakeLLM([part], chunk_chars=5000))
    assert plan.questions == ("sails again", *aspect_questions(QUESTION, "en"))


async def test_a_plan_has_as_many_sub_questions_as_its_limit_says() -> None:
    """Asked of the model, taken from its answer, and made by rules alike."""
    llm = FakeLLM([SEED_LINES])
    for model in (llm, None):
        plan = await plan_sub_questions(SubQuestionTask(QUESTION, "en", 2), model, emit=lambda _: None)
        assert len(plan.questions) == 2
    assert "up to 2 sub-questions" in llm.requests[0].messages[-1].content
