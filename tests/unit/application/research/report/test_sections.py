"""A report that a slow model writes in sections: one call for the introduction, and one for each sub-question."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.cases import for_each
from tests.support.report_world import (
    QUESTION,
    SUB_QUESTIONS,
    ReportModel,
    Web,
    World,
    answer_of,
    laws_of_events,
    some_pages,
    stage_of,
    store,
)
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.application.research.report.run import ReportOptions
from modules.llm_platform.application.research.report.section_text import Section, SectionedText
from modules.llm_platform.application.research.report.section_writer import QUOTING_S, list_section_questions
from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse, Synthesis
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest
from modules.llm_platform.domain.text.messages import get_messages

MESSAGES = get_messages("en")
SECTIONS = ReportOptions(section_tokens=1500)
STAGES: tuple[LLMStage, ...] = ("plan", "write")
ANSWERS: Mapping[str, str] = {
    QUESTION: "Heat pumps work in the cold [1].",
    SUB_QUESTIONS[0]: "Heat pumps move heat [1].",
    SUB_QUESTIONS[1]: "They work in the cold, says Bravo [2].",
    SUB_QUESTIONS[2]: "NO_ANSWER The pages tell no price.",
}


class SectionModel(ReportModel):
    """Answers each question with its text in `answers`. `fails` are the questions for which it raises an error."""

    def __init__(
        self,
        answers: Mapping[str, str] = ANSWERS,
        fails: tuple[str, ...] = (),
        delays: Mapping[LLMStage, float] | None = None,
    ) -> None:
        super().__init__(delays=delays)
        self.written: list[str] = []
        self._answers, self._fails = answers, fails

    async def generate(self, request: LLMRequest) -> LLMResponse:
        if stage_of(request) == "write":
            question = request.messages[-1].content.rpartition("Question: ")[2]
            self.written.append(question)
            if question in self._fails:
                raise LLMConnectionError("lost")
            self.text = self._answers[question]
        return await super().generate(request)


def world_of(model: ReportModel, folder: Path | None = None, **fields: object) -> World:
    stored = {"store": store(folder)} if folder else {}
    return World(
        Web(some_pages()),
        model,
        **{"options": SECTIONS, "stages": STAGES, "judging": False} | stored | fields,  # type: ignore[arg-type]
    )


async def report(model: ReportModel, folder: Path | None = None, **request: object) -> ResearchResponse:
    events = await world_of(model, folder).events(**request)
    laws_of_events(events)
    return answer_of(events)


async def test_each_sub_question_is_a_section_with_a_prompt_of_its_own() -> None:
    """A question without an answer is listed at the end."""
    model = SectionModel()
    answer = await report(model)
    text = answer.synthesis
    assert text.startswith(f"{ANSWERS[QUESTION]}\n\n## {SUB_QUESTIONS[0]}\n\n{ANSWERS[SUB_QUESTIONS[0]]}\n\n## ")
    assert f"## {MESSAGES.not_found}\n\n{MESSAGES.unanswered}\n\n- {SUB_QUESTIONS[2]}" in text
    assert f"## {SUB_QUESTIONS[2]}" not in text
    assert model.written == [QUESTION, *SUB_QUESTIONS]
    for request in model.requests[1:]:
        assert sum(question in request.messages[-1].content for question in ANSWERS) == 1
    assert model.asked == ["plan", *["write"] * 4]
    assert answer.metadata.llm_calls == 5
    assert not answer.degraded
    assert {citation.verdict for citation in answer.citations} == {"supported"}


@for_each(
    ("sub_questions", "count"),
    [
        (("How do heat pumps work in cold winters",), 1),
        (("Is it fine at 5 °C?", "Is it fine at -5 °C?", "Is it fine at  5 °c"), 3),
        (("What is C?", "What is C++?", "What is C#?"), 4),
        (("它多少钱?", "它多少钱？", "它怎么工作?"), 3),
    ],
)
def test_a_question_is_asked_once(sub_questions: tuple[str, ...], count: int) -> None:
    """The main question and each sub-question count once. Signs make another question, and the end of the sentence does not."""
    assert len(list_section_questions(QUESTION, sub_questions)) == count


async def test_a_report_without_any_answer_says_so() -> None:
    """It has no sections, and passages that are closest to the question stand below."""
    answer = await report(SectionModel(dict.fromkeys(ANSWERS, "NO_ANSWER")))
    assert answer.synthesis.startswith(f"{MESSAGES.not_answered}\n\n{MESSAGES.closest}")
    assert "##" not in answer.synthesis


async def test_an_introduction_without_an_answer_is_left_out() -> None:
    """Its question is listed with the other unanswered ones, and the report begins with its first section."""
    answer = await report(SectionModel({**ANSWERS, QUESTION: "NO_ANSWER"}))
    assert answer.synthesis.startswith(f"## {SUB_QUESTIONS[0]}")
    assert f"- {QUESTION}\n- {SUB_QUESTIONS[2]}" in answer.synthesis
    assert MESSAGES.not_answered not in answer.synthesis


async def test_quotes_take_the_place_of_what_the_calls_do_not_suffice_for(tmp_path: Path) -> None:
    """The report says so and is not stored as complete: without the limit, only the missing sections are written."""
    limited = SectionModel()
    first = await report(limited, tmp_path, max_llm_calls=3)
    assert limited.written == [QUESTION, SUB_QUESTIONS[0]]
    assert MESSAGES.quotes_only in first.synthesis
    assert any("2 sections consist of quotes" in entry.reason for entry in first.degraded)
    free = SectionModel()
    second = await report(free, tmp_path)
    assert free.written == [SUB_QUESTIONS[1], SUB_QUESTIONS[2]]
    assert not second.degraded
    assert ANSWERS[SUB_QUESTIONS[1]] in second.synthesis
    again = SectionModel()
    assert (await report(again, tmp_path)).synthesis == second.synthesis
    assert again.asked == []


async def test_a_model_that_fails_is_not_asked_again(tmp_path: Path) -> None:
    """Quotes take the place of all sections after its failure. A repeated run asks for these sections only."""
    broken = SectionModel(fails=(SUB_QUESTIONS[0],))
    first = await report(broken, tmp_path)
    assert broken.written == [QUESTION, SUB_QUESTIONS[0]]
    assert first.synthesis.startswith(ANSWERS[QUESTION])
    assert any(entry.reason.startswith("llm_connection") for entry in first.degraded)
    healthy = SectionModel()
    second = await report(healthy, tmp_path)
    assert healthy.written == list(SUB_QUESTIONS)
    assert not second.degraded


@for_each(
    ("text", "is_shown"),
    [
        ("Heat pumps move heat.", True),
        ("Heat pumps were invented by Ada Nowak [1].", False),
        ("They come from Norway [1]. Heat pumps move heat [1].", True),
    ],
)
async def test_quotes_take_the_place_of_a_section_that_no_source_supports(text: str, is_shown: bool) -> None:
    """A sentence that is supported keeps its section, also without a marker. What the introduction says always stays."""
    answer = await report(SectionModel({**ANSWERS, QUESTION: text, SUB_QUESTIONS[0]: f"As known: {text}"}))
    assert answer.synthesis.startswith(text.removesuffix("."))
    assert ("As known" in answer.synthesis) == is_shown
    assert (f"## {SUB_QUESTIONS[0]}\n\n{MESSAGES.quotes_only}" in answer.synthesis) == (not is_shown)


@for_each(("language", "wishes"), [("de", {}), ("ru", {}), ("en", {"instructions": "Write in French."})])
async def test_what_cannot_be_compared_stays(language: str, wishes: dict[str, str]) -> None:
    """The word comparison knows too little of a text in another language than its source, or of one that the reader shaped."""
    answer = await report(SectionModel(dict.fromkeys(ANSWERS, "Gepumpte Luft [1].")), language=language, **wishes)
    assert get_messages(language).quotes_only not in answer.synthesis
    assert answer.synthesis.startswith("Gepumpte Luft")


class OwnWriter(FakeSynthesizer):
    """A custom writer beside a slow model."""


async def test_a_custom_writer_gets_the_whole_report() -> None:
    """It does not write sections, and its report stays in one piece."""
    writer = OwnWriter("# My report\n\nHeat pumps move heat [1].")
    world = world_of(SectionModel())
    tools = replace(world.make_tools(), writer=lambda llm, context: writer)
    world.make_tools = lambda: tools  # type: ignore[method-assign]
    answer = answer_of(await world.events())
    assert [call.questions for call in writer.calls] == [SUB_QUESTIONS]
    assert answer.synthesis.startswith("# My report")


class Doubtful(FakeSynthesizer):
    """A writer of sections whose passages never seem to answer."""

    writes_sections = True


@for_each(
    "text, is_shown", [("Heat pumps move heat [1].", True), ("Heat pumps were invented by Ada Nowak [1].", False)]
)
async def test_a_doubtful_introduction_is_asked_for_and_compared(text: str, is_shown: bool) -> None:
    """The model is asked for it, and not for the doubtful sections. Without support, quotes take its place."""
    writer = Doubtful(text, is_doubtful=True)
    world = world_of(SectionModel())
    tools = replace(world.make_tools(), writer=lambda llm, context: writer)
    world.make_tools = lambda: tools  # type: ignore[method-assign]
    answer = answer_of(await world.events())
    assert [call.asks_in_doubt for call in writer.calls] == [True, False, False, False]
    assert (text in answer.synthesis) == is_shown
    assert (MESSAGES.quotes_only in answer.synthesis) == (not is_shown)


@in_virtual_time
async def test_quotes_of_all_sections_fit_before_the_deadline() -> None:
    """Each of them may take QUOTING_S."""
    model = SectionModel(delays={"write": 30.0})
    world = world_of(model)
    tools = world.make_tools()
    world.make_tools = lambda: replace(tools, fallback=SlowQuotes())  # type: ignore[method-assign]
    answer = answer_of(await world.events(max_seconds=60))
    for question in SUB_QUESTIONS:
        assert question in answer.synthesis
    assert any("consist of quotes" in entry.reason for entry in answer.degraded)


class SlowQuotes(ExtractiveSynthesizer):
    async def synthesize(self, request: SynthesisRequest) -> Synthesis:
        await asyncio.sleep(QUOTING_S - 0.1)
        return await super().synthesize(request)


@in_virtual_time
async def test_a_late_model_loses_no_question() -> None:
    """Quotes take the place of the section that is not finished in time, and of the sections after it."""
    model = SectionModel(delays={"write": 30.0})
    answer = await report(model, max_seconds=70)
    assert model.written == [QUESTION, *SUB_QUESTIONS[:2]]
    assert answer.synthesis.startswith(ANSWERS[QUESTION])
    for question in SUB_QUESTIONS:
        assert question in answer.synthesis
    assert any(entry.is_timeout for entry in answer.degraded)
    assert answer.metadata.latency_ms <= 70_000


class StopsAt(SectionModel):
    """A model during whose n-th section the process ends."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at

    async def generate(self, request: LLMRequest) -> LLMResponse:
        if stage_of(request) == "write" and len(self.written) == self._at:
            raise asyncio.CancelledError
        return await super().generate(request)


@for_each("at", [0, 1, 2, 3])
async def test_finished_sections_are_not_paid_for_again(at: int, tmp_path: Path) -> None:
    """A report that was interrupted goes on with the section that was running."""
    folder = tmp_path / str(at)
    with pytest.raises(asyncio.CancelledError):
        await world_of(StopsAt(at), folder).events()
    resumed = SectionModel()
    await report(resumed, folder)
    assert resumed.written == [QUESTION, *SUB_QUESTIONS][at:]


async def test_sections_that_are_not_needed_leave_their_calls_to_the_judge() -> None:
    """A plan that repeats the question is one call, so four calls suffice for plan, text and judge."""
    model = SectionModel({QUESTION: "Heat is moved by heat pumps [1]."})
    world = world_of(model, stages=("write", "judge"), judging=True)
    answer = answer_of(await world.events(plan=[QUESTION], max_llm_calls=2))
    assert model.asked == ["write", "judge"]
    assert not answer.degraded


def section(text: str, question: str = SUB_QUESTIONS[0]) -> str:
    sources = (Source(index=1, title="Alpha", url="https://example.org/", text="Heat pumps move heat."),)
    written, added = SectionedText(QUESTION, sources, "en"), ""
    for asked, answer in ((QUESTION, "Heat pumps move heat [1]."), (question, text)):
        added = written.add(Section(asked, Synthesis(text=answer, synthesizer="m"), is_quoted=False))
    return added.removeprefix("\n\n")


@for_each(
    ("text", "shown"),
    [
        ("```markdown\nIt moves heat [1].\n```", "It moves heat [1]."),
        ("Run this [1]:\n\n```sh\npump on", "Run this [1]:\n\n```sh\npump on\n```"),
        ("Run this [1]:\n\n~~~~\n```\npump on", "Run this [1]:\n\n~~~~\n```\npump on\n~~~~"),
        ("Run this [1]:\n\n```\npump on\n```", "Run this [1]:\n\n```\npump on\n```"),
        ("# Winter\n\nIt is cold [1].", "### Winter\n\nIt is cold [1]."),
        ("#### Winter\n\nIt is cold [1].", "#### Winter\n\nIt is cold [1]."),
        (f"## {SUB_QUESTIONS[0]}\n\nIt is cold [1].", "It is cold [1]."),
        (f"**{SUB_QUESTIONS[0]}** [1]\nIt is cold [1].", "It is cold [1]."),
        ("- Run [1]:\n\n  ```sh\n  pump on", "- Run [1]:\n\n  ```sh\n  pump on"),
        ("Heat pumps move heat. [1]", MESSAGES.quoted_above),
    ],
)
def test_an_answer_becomes_a_section(text: str, shown: str) -> None:
    """Its code ends in it, its headings are below the heading of the section, and an answer is not repeated."""
    assert section(text).partition("\n\n")[2] == shown


def test_an_answer_that_only_repeats_its_question_is_none() -> None:
    assert section(f"# {SUB_QUESTIONS[0]}") == ""


@for_each(
    ("question", "heading"),
    [
        ("What is C#?", "## What is C#?"),
        ("# What is new in C#", "## What is new in C#"),
        ("Is [1] right?", "## Is (1) right?"),
    ],
)
def test_a_heading_is_the_question_without_markers(question: str, heading: str) -> None:
    assert section("It moves heat [1].", question).partition("\n\n")[0] == heading


@for_each(
    ("reasons", "told"),
    [(("stop", "stop"), "stop"), (("length", "repetition"), "repetition"), (("stop", "length"), "length")],
)
def test_a_section_that_is_cut_off_cuts_the_report_off(reasons: tuple[str, ...], told: str) -> None:
    """A text that is not finished counts more than one that is at its maximum length."""
    text = SectionedText(QUESTION, (), "en")
    for place, reason in enumerate(reasons):
        answer = Synthesis(text=f"Answer {place}.", synthesizer="m", finish_reason=reason)
        text.add(Section(f"Question {place}?", answer, is_quoted=False))
    assert text.make_synthesis().finish_reason == told
