"""The judge looks at an answer after the words did, and can be done without."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

import pytest
from tests.fakes.citation_judge import FakeCitationJudge
from tests.fakes.synthesizer import FakeSynthesizer, SlowWords
from tests.support.cases import for_each
from tests.support.garbage import no_collections
from tests.support.virtual_time import in_virtual_time
from tests.support.written_answers import FOREVER_S, judge_of, shown_text, write_answer

from modules.llm_platform.application.research.check.early_judging import MAX_EARLY_CALLS, EarlyJudging
from modules.llm_platform.application.research.check.judge_task import JudgedCitations, judge_citations
from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.application.research.write.writing import WrittenAnswer
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.citation_dtos import CitedClaim, ModelVerdict
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import LLMBudgetError, LLMTimeoutError

QUESTION = "How long do session tokens last?"
SOURCES = (
    Source(
        index=1,
        title="Sessions",
        url="https://docs.example.org/sessions",
        text="A session token stays valid for thirty minutes after the last request. Expired tokens are deleted nightly. "
        "The service listens on port 7071.",
    ),
)
ANSWER = (
    "A session token stays valid for thirty minutes after the last request [1]. "
    "Session tokens that are stale get purged each night [1]. "
    "The service listens on port 7070 [1]."
)
VERBATIM, REWORDED, CHANGED = range(3)


async def verified(judge: FakeCitationJudge, *, seconds: float = FOREVER_S) -> JudgedCitations:
    citations = CitationChecker(SOURCES, "en").check(ANSWER).citations
    judge_task = judge_of(judge, QUESTION, SOURCES, seconds=seconds)
    return await judge_citations(judge_task, ANSWER, citations, lambda citations, pending: None)


async def test_the_models_verdict_is_final_within_its_limits() -> None:
    """A paraphrase can become supported, a changed port at most partial, and a verbatim quote is not sent to the model."""
    judge = FakeCitationJudge("supported")
    done = await verified(judge)
    words = CitationChecker(SOURCES, "en").check(ANSWER).citations
    assert words[CHANGED].verdict == "unsupported"
    assert [citation.verdict for citation in done.citations] == ["supported", "supported", "partial"]
    assert [citation.checked_by for citation in done.citations] == ["words", "model", "model"]
    assert [citation.word_verdict for citation in done.citations[1:]] == [citation.verdict for citation in words[1:]]
    assert done.citations[VERBATIM] == words[VERBATIM]
    (asked,) = judge.calls
    assert [request.claim for request in asked] == [
        "Session tokens that are stale get purged each night",
        "The service listens on port 7070",
    ]
    assert {request.title for request in asked} == {"Sessions"}


async def test_it_may_lower() -> None:
    """What the words found good enough need not be."""
    done = await verified(FakeCitationJudge("unsupported"))
    assert {citation.verdict for citation in done.citations[1:]} == {"unsupported"}


@for_each(
    ("judge", "said"),
    [
        (FakeCitationJudge(error=LLMTimeoutError(spent=Spending(calls=1))), "llm_timeout"),
        (FakeCitationJudge(error=LLMBudgetError("max_llm_calls (1) leaves no call for judge")), "max_llm_calls"),
        (FakeCitationJudge(lambda claim: None), "no verdicts"),
        (FakeCitationJudge(delay_s=FOREVER_S), "timeout"),
    ],
)
async def test_without_a_judge_the_words_decide(judge: FakeCitationJudge, said: str) -> None:
    """Late, failed, over budget or unreadable: the verdicts of the words stay, and one word says why."""
    done = await verified(judge, seconds=1.2)
    assert done.citations == CitationChecker(SOURCES, "en").check(ANSWER).citations
    (entry,) = done.degraded
    assert entry.component == "judge/fake"
    assert said in entry.reason


async def test_a_failed_call_counts() -> None:
    """The cost of a failed call is reported."""
    done = await verified(FakeCitationJudge(error=LLMTimeoutError(spent=Spending(calls=2, prompt_tokens=70))))
    assert (done.spent.calls, done.spent.tokens) == (2, 70)


async def test_no_judgment_near_the_deadline() -> None:
    """A call that would surely be late is not paid for."""
    judge = FakeCitationJudge("supported")
    done = await verified(judge, seconds=0.5)
    assert not judge.calls
    assert done.spent.calls == 0
    assert "timeout" in done.degraded[0].reason


async def test_missing_verdicts_are_counted() -> None:
    """Claims without a verdict of the model keep their lexical verdict, and `degraded` counts them."""

    def one(claim: CitedClaim) -> ModelVerdict | None:
        return "unsupported" if "purged" in claim.claim else None

    done = await verified(FakeCitationJudge(one))
    assert [citation.checked_by for citation in done.citations] == ["words", "model", "words"]
    assert "1 of 2" in done.degraded[0].reason


async def write_judged(
    judge: FakeCitationJudge, writer: FakeSynthesizer, max_wait_share: float | None = None, **fields: Any
) -> WrittenAnswer:
    """Return an answer of the writer whose doubted citations the judge verifies."""
    judge_task = judge_of(judge, QUESTION, SOURCES, skips_supported=True, max_wait_share=max_wait_share)
    return await write_answer(writer, SOURCES, question=QUESTION, judge_task=judge_task, **fields)


class Watching(FakeCitationJudge):
    """Records what the client had received when the judge was called."""

    def __init__(self, seen: list[str]) -> None:
        super().__init__("supported", spent=Spending(calls=1, prompt_tokens=10, cost_usd=0.5))
        self._seen = seen
        self.seen_before = ""

    async def judge(self, question: str, claims: object) -> object:  # type: ignore[override]
        self.seen_before = "".join(self._seen)
        return await super().judge(question, claims)  # type: ignore[arg-type]


async def test_the_text_is_sent_before_it_is_judged() -> None:
    """Tokens do not wait for the judge. Its cost is added to the writer's."""
    seen: list[str] = []
    judge = Watching(seen)
    writer = FakeSynthesizer(ANSWER, spent=Spending(calls=1, prompt_tokens=5, cost_usd=0.25))
    written = await write_judged(judge, writer, streamed=True, emit=shown_text(seen))
    assert judge.seen_before == written.text == ANSWER
    assert (written.spent.calls, written.spent.tokens, written.spent.cost_usd) == (2, 15, 0.75)
    assert written.checked.citations[CHANGED].verdict == "partial"


async def test_fallback_quotes_are_not_judged() -> None:
    """If the model failed and quotes replace its text, no second call is made."""
    judge = FakeCitationJudge("unsupported")
    failing, fallback = FakeSynthesizer(error=LLMTimeoutError()), FakeSynthesizer(ANSWER, name="quotes")
    written = await write_judged(judge, failing, fallback=fallback)
    assert written.synthesis.synthesizer == "quotes"
    assert written.checked.citations[CHANGED].verdict != "supported"  # a judge would be asked about this one
    assert not judge.calls


@in_virtual_time
async def test_a_reader_of_a_whole_answer_does_not_wait_for_the_judge() -> None:
    """Doubted sentences are judged while the next ones are written; the answer is there when the text is."""
    text = f"{ANSWER} {' '.join('Nobody knows more of it than this.' for _ in range(40))}"
    for judging_s, verdicts in ((0.2, {"model"}), (FOREVER_S, {"words"})):
        judge = FakeCitationJudge("supported", delay_s=judging_s, spent=Spending(calls=1))
        writer = SlowWords(text)
        began = asyncio.get_running_loop().time()
        written = await write_judged(judge, writer, 0.05)
        took = asyncio.get_running_loop().time() - began
        assert took <= writer.seconds * 1.05 + 0.001
        reworded, changed = written.checked.citations[REWORDED], written.checked.citations[CHANGED]
        assert {reworded.checked_by, changed.checked_by} == verdicts
        assert written.spent.calls == len(judge.calls) > 0


@in_virtual_time
async def test_the_judge_is_called_a_bounded_number_of_times_while_an_answer_is_written() -> None:
    """Each call repeats its rules. No further one is made after a call that failed."""
    text = " ".join(f"The service number {number} listens on port {number} [1]." for number in range(100, 160))
    for judge, calls in (
        (FakeCitationJudge("unsupported", delay_s=0.01), MAX_EARLY_CALLS),
        (FakeCitationJudge(error=LLMTimeoutError()), 1),
    ):
        await write_judged(judge, SlowWords(text), 0.05)
        assert len(judge.calls) == calls


@in_virtual_time
async def test_a_judge_that_is_late_for_a_repeated_answer_is_paid_once() -> None:
    """A text from the cache is there at once: a call about it would be cancelled, and paid for, at each repeat."""
    judge = FakeCitationJudge("supported", delay_s=FOREVER_S)
    judge_task = judge_of(judge, QUESTION, SOURCES, skips_supported=True, max_wait_share=0.05)
    calls = []
    for _ in range(3):
        draft = await write_answer(FakeSynthesizer(ANSWER), SOURCES, question=QUESTION, judge_task=judge_task)
        calls.append(draft.spent.calls)
    assert calls == [1, 0, 0]
    assert len(judge.calls) == 1


@in_virtual_time
async def test_a_judge_call_about_a_discarded_text_is_counted_and_not_repeated() -> None:
    """The writer fails after some sentences, and quotes replace them.

    The finished judge call is paid for, and no other is made.
    """
    text = " ".join(f"The service number {number} listens on port {number} [1]." for number in range(100, 160))
    judge = FakeCitationJudge("unsupported", delay_s=0.1, spent=Spending(calls=1, cost_usd=0.5))
    writer = SlowWords(text, fail_after=16, error=LLMBudgetError())
    began = asyncio.get_running_loop().time()
    written = await write_judged(judge, writer, 0.05)
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.16)  # sixteen words, and no wait for the judge
    assert written.synthesis.synthesizer == ExtractiveSynthesizer().name
    assert written.spent.calls == len(judge.calls) == 1


@in_virtual_time
async def test_a_call_that_came_too_late_keeps_no_sources() -> None:
    """The cancelled call and what waited for it are freed at once, not by a garbage collection."""
    judge = FakeCitationJudge("supported", delay_s=FOREVER_S)
    judge_task = judge_of(judge, QUESTION, SOURCES, max_wait_share=0.0)
    with no_collections():
        early = EarlyJudging(judge_task)
        checked = CitationChecker(SOURCES, "en").check(ANSWER)
        early.add((ANSWER[citation.start : citation.end], citation) for citation in checked.citations)
        await asyncio.sleep(0.1)
        await early.finish()
        assert early.spent.calls == 1
        seen = weakref.ref(early)
        del early
        assert seen() is None
