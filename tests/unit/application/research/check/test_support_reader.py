"""A support model reads the sentences in doubt while the answer is written, and never holds the answer up for long."""

from __future__ import annotations

import asyncio
import math

import pytest
from tests.fakes.citation_judge import FakeCitationJudge
from tests.fakes.support_model import FakeSupportModel
from tests.fakes.synthesizer import FakeSynthesizer, SlowWords
from tests.support.cases import for_each
from tests.support.virtual_time import in_virtual_time
from tests.support.written_answers import make_draft, write_answer

from modules.llm_platform.application.research.check import support_reader
from modules.llm_platform.application.research.check.judge_task import JudgeTask
from modules.llm_platform.application.research.write.draft import _REMEMBERED
from modules.llm_platform.application.research.write.writing import WrittenAnswer
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis
from modules.llm_platform.domain.dtos.citation_dtos import CitedClaim, ModelVerdict
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import LLMProviderException, SupportModelError
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer, SynthesisRequest

SURE = 50.0  # log-odds
SOURCE = Source(
    index=1,
    title="Rules",
    url="https://a.example/1",
    text="Employees may work remotely on two days a week if their manager agrees. The canteen serves soup at noon.",
)
FIRST = "Staff can do their jobs remotely with the consent of the manager [1]."
SECOND = " At midday soup is what the canteen offers to its guests [1]."
COPY = "The canteen serves soup at noon [1]."


class Remembered(ISynthesizer):
    """A writer whose text comes from a cache."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def synthesize(self, request: SynthesisRequest) -> Synthesis:
        return Synthesis(text=self._text, synthesizer="fake", cached=True)


@pytest.fixture(autouse=True)
def forget() -> None:
    _REMEMBERED.clear()


def verdicts(answer: WrittenAnswer) -> list[tuple[str, str]]:
    return [(citation.verdict, citation.checked_by) for citation in answer.checked.citations]


async def test_the_model_decides_what_the_words_leave_in_doubt() -> None:
    by_words = await write_answer(FakeSynthesizer(FIRST + SECOND), (SOURCE,))
    assert {by for _, by in verdicts(by_words)} == {"words"}
    assert {verdict for verdict, _ in verdicts(by_words)} != {"supported"}
    read = await write_answer(FakeSynthesizer(FIRST + SECOND), (SOURCE,), support_model=FakeSupportModel(SURE))
    assert verdicts(read) == [("supported", "encoder")] * 2
    assert not read.degraded


async def test_a_judge_reads_the_doubts_instead() -> None:
    model, judge = FakeSupportModel(SURE), FakeCitationJudge()
    judge_task = JudgeTask(judge, math.inf, "How do pumps work?", "en", (SOURCE,))
    draft = await write_answer(FakeSynthesizer(FIRST), (SOURCE,), support_model=model, judge_task=judge_task)
    assert not model.calls
    assert verdicts(draft) == [("supported", "model")]


FAILURE = LLMProviderException("no route to the model")


@for_each(
    "judge, share",
    [
        (FakeCitationJudge(error=FAILURE), None),
        (FakeCitationJudge(error=FAILURE), 1.0),
    ],
)
async def test_the_model_reads_what_a_judge_that_fails_leaves(judge: FakeCitationJudge, share: float | None) -> None:
    """The judge may also fail while the answer is written."""
    model = FakeSupportModel(SURE)
    judge_task = JudgeTask(judge, math.inf, "How do pumps work?", "en", (SOURCE,), max_wait_share=share)
    draft = await write_answer(FakeSynthesizer(FIRST + SECOND), (SOURCE,), support_model=model, judge_task=judge_task)
    assert verdicts(draft) == [("supported", "encoder")] * 2
    assert [entry.component for entry in draft.degraded] == [judge.name]


@in_virtual_time
async def test_the_model_leaves_the_verdicts_that_a_judge_gave_before_it_failed() -> None:
    def judge_first(claim: CitedClaim) -> ModelVerdict:
        if "midday" in claim.claim:
            raise FAILURE
        return "partial"

    judge_task = JudgeTask(
        FakeCitationJudge(judge_first), math.inf, "How do pumps work?", "en", (SOURCE,), max_wait_share=1.0
    )
    draft = await write_answer(
        SlowWords(FIRST + SECOND), (SOURCE,), support_model=FakeSupportModel(SURE), judge_task=judge_task
    )
    assert verdicts(draft) == [("partial", "model"), ("supported", "encoder")]


async def test_a_judge_that_is_late_is_not_replaced() -> None:
    """The reader does not wait for it, and its verdicts are there for the next answer."""
    model, judge = FakeSupportModel(SURE), FakeCitationJudge(delay_s=60.0)
    judge_task = JudgeTask(judge, math.inf, "How do pumps work?", "en", (SOURCE,), max_wait_share=0.0)
    draft = await write_answer(FakeSynthesizer(FIRST), (SOURCE,), support_model=model, judge_task=judge_task)
    assert not model.calls
    assert {by for _, by in verdicts(draft)} == {"words"}


async def test_a_judge_that_answers_is_not_replaced() -> None:
    """A sentence without a verdict keeps the verdict of the words."""
    judge, model = (
        FakeCitationJudge(lambda claim: "unsupported" if "consent" in claim.claim else None),
        FakeSupportModel(),
    )
    judge_task = JudgeTask(judge, math.inf, "How do pumps work?", "en", (SOURCE,))
    draft = await write_answer(FakeSynthesizer(FIRST + SECOND), (SOURCE,), support_model=model, judge_task=judge_task)
    assert not model.calls
    assert [by for _, by in verdicts(draft)] == ["model", "words"]


async def test_a_copy_costs_nothing() -> None:
    model = FakeSupportModel(-SURE)
    draft = await write_answer(FakeSynthesizer(COPY), (SOURCE,), support_model=model)
    assert verdicts(draft) == [("supported", "words")]
    assert model.calls == []


async def test_sentences_are_read_while_the_next_ones_are_written() -> None:
    model = FakeSupportModel(SURE)
    async with make_draft(FakeSynthesizer(), (SOURCE,), support_model=model) as draft:
        await draft.feed(FIRST + SECOND[:4])
        await asyncio.sleep(0.01)
        ((pair,),) = model.calls
        assert pair[0].startswith("Staff")
        await draft.feed(SECOND[4:])
        await draft.finish()
        checked = await draft.check_citations()
    assert [citation.verdict for citation in checked.citations] == ["supported", "supported"]
    assert [len(call) for call in model.calls] == [1, 1]  # no sentence twice


async def test_a_text_that_was_checked_before_is_not_read_again() -> None:
    model = FakeSupportModel(SURE)
    for _ in range(2):
        draft = await write_answer(Remembered(FIRST), (SOURCE,), support_model=model)
        assert verdicts(draft) == [("supported", "encoder")]
    assert len(model.calls) == 1
    without = await write_answer(Remembered(FIRST), (SOURCE,))
    assert verdicts(without)[0][1] == "words"  # another platform of the process has no model


async def test_a_failure_leaves_the_words_and_says_so() -> None:
    model = FakeSupportModel(error=SupportModelError("install it"))
    draft = await write_answer(FakeSynthesizer(FIRST + SECOND), (SOURCE,), support_model=model)
    assert {by for _, by in verdicts(draft)} == {"words"}
    (entry,) = draft.degraded
    assert (entry.component, entry.reason) == ("encoder", "support_model: install it")
    assert not _REMEMBERED  # the next answer tries again


@in_virtual_time
async def test_a_slow_model_ends_with_the_time_of_the_run() -> None:
    model = FakeSupportModel(SURE)
    model.may_score.clear()
    draft = await write_answer(FakeSynthesizer(FIRST), (SOURCE,), support_model=model, seconds=5.0)
    assert verdicts(draft)[0][1] == "words"
    assert [entry.reason for entry in draft.degraded] == [support_reader.LATE]


async def test_the_pairs_of_an_answer_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support_reader, "MAX_PAIRS", 1)
    model = FakeSupportModel(SURE)
    draft = await write_answer(FakeSynthesizer(FIRST + SECOND), (SOURCE,), support_model=model)
    assert sorted(by for _, by in verdicts(draft)) == ["encoder", "words"]
    assert [entry.reason for entry in draft.degraded] == [support_reader.TOO_MANY]


async def test_a_text_that_was_taken_back_is_not_read() -> None:
    model = FakeSupportModel(SURE)
    model.may_score.clear()
    async with make_draft(FakeSynthesizer(), (SOURCE,), support_model=model) as draft:
        await draft.feed(FIRST + SECOND)
        draft.reset("deadline")
        model.may_score.set()
        await draft.feed(COPY)
        await draft.finish()
        checked = await draft.check_citations()
    assert [citation.checked_by for citation in checked.citations] == ["words"]
    assert not model.calls


async def test_nothing_runs_on_after_an_answer_that_was_left() -> None:
    model = FakeSupportModel(SURE)
    model.may_score.clear()
    before = asyncio.all_tasks()
    async with make_draft(FakeSynthesizer(), (SOURCE,), support_model=model) as draft:
        await draft.feed(FIRST + SECOND)
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_long_sources_are_read_too() -> None:
    """They are compared in a thread, which has the checker to itself meanwhile."""
    long = SOURCE.model_copy(update={"text": SOURCE.text + " The garden has a fence and a gate." * 6000})
    draft = await write_answer(FakeSynthesizer(FIRST + SECOND), (long,), support_model=FakeSupportModel(SURE))
    assert verdicts(draft) == [("supported", "encoder")] * 2
