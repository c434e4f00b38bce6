"""The threads of a verification get the scores of a model that works on the event loop, within the time of the verification."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.fakes.support_model import FakeSupportModel

from modules.llm_platform.application.research.check import thread_support
from modules.llm_platform.application.research.check.support_reader import score_claims
from modules.llm_platform.application.research.check.thread_support import ThreadSupport
from modules.llm_platform.application.verification.sentence_check import SentenceCheck
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.forms.citation_forms import read_citations
from modules.llm_platform.domain.concurrency.stoppable import StopSignal
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import SupportModelError

SOURCE = Source(index=1, title="", url="https://a.example/1", text="The mill was built in 1742. Its tenant is a baker.")
CHECKER = CitationChecker([SOURCE], "en")
CHECKER.check("A baker rents it [1]. They put the mill up long ago [1].")
CLAIMS = CHECKER.undecided.list_first(10)
GERMAN = replace(CLAIMS[0], claim="Ein Bäcker mietet sie.", is_english=False)


async def ask(support: ThreadSupport) -> list[Sequence[float]]:
    return list(await asyncio.to_thread(support, CLAIMS))


async def test_scores_come_back_in_order() -> None:
    support = ThreadSupport(FakeSupportModel(lambda claim, _: float(len(claim))), StopSignal())
    assert await ask(support) == [[float(len(claim.claim))] for claim in CLAIMS]
    assert support.degraded == ()


async def test_other_languages_are_read_apart_and_keep_their_places() -> None:
    model = FakeSupportModel(lambda claim, _: float(len(claim)))
    claims = [GERMAN, CLAIMS[0], GERMAN, CLAIMS[1]]
    assert await score_claims(model, claims) == [[float(len(claim.claim))] for claim in claims]
    assert model.foreign == [[(GERMAN.claim, GERMAN.passages[0].text)] * 2]


async def test_a_claim_is_read_with_its_quote_and_its_passage() -> None:
    """The quote has the sentence that says most of the claim, the passage more of the source."""
    text = "The mill was built in 1742. Its tenant is a baker. The baker and the miller share the yard."
    checker = CitationChecker([SOURCE.model_copy(update={"text": text})], "en")
    checker.check("A baker rents it as the tenant [1].")
    model = FakeSupportModel()
    await score_claims(model, checker.undecided.list_first(10))
    [[(_, passage)]], [[quote]] = model.calls, model.quotes
    assert quote == "Its tenant is a baker."
    assert passage == "Its tenant is a baker. The baker and the miller share the yard."


async def test_each_passage_of_a_claim_has_its_score() -> None:
    passages = [GERMAN.passages[0]._replace(text=text) for text in ("a", "bb", "ccc")]
    several = replace(GERMAN, passages=tuple(passages))
    model = FakeSupportModel(lambda _, passage: float(len(passage)))
    assert await score_claims(model, [several, CLAIMS[1]]) == [[1, 2, 3], [float(len(CLAIMS[1].passages[0].text))]]


async def test_a_failure_is_said_once_and_ends_the_reading() -> None:
    model = FakeSupportModel(error=SupportModelError("install it"))
    support = ThreadSupport(model, StopSignal())
    assert [await ask(support), await ask(support)] == [[], []]
    assert [entry.reason for entry in support.degraded] == ["support_model: install it"]
    assert len(model.calls) == 1


async def test_no_score_is_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_support, "MAX_WAIT_S", 0.01)
    model = FakeSupportModel()
    model.may_score.clear()
    support = ThreadSupport(model, StopSignal())
    assert await ask(support) == []
    assert [entry.reason for entry in support.degraded] == [thread_support.LATE]


async def test_a_score_is_waited_for_as_long_as_there_is_time() -> None:
    """What was read before keeps its verdicts: a caller that gives up would lose them all."""
    model = FakeSupportModel()
    model.may_score.clear()
    support = ThreadSupport(model, StopSignal(seconds=0.05))
    assert await asyncio.wait_for(ask(support), thread_support.MAX_WAIT_S / 2) == []
    assert [entry.reason for entry in support.degraded] == [thread_support.LATE]


async def test_nothing_is_asked_when_the_time_is_over() -> None:
    model = FakeSupportModel()
    support = ThreadSupport(model, StopSignal(seconds=-1))
    assert await ask(support) == []
    assert model.calls == []
    assert [entry.reason for entry in support.degraded] == [thread_support.LATE]


async def test_the_pairs_of_a_text_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_support, "MAX_PAIRS", 2)
    support = ThreadSupport(FakeSupportModel(), StopSignal())
    assert len(await ask(support)) == 2
    assert await ask(support) == []
    assert [entry.reason for entry in support.degraded] == [thread_support.TOO_MANY]


def test_the_sentences_of_a_text_are_decided_by_the_model() -> None:
    """A cited sentence, one with a marker after its paragraph, and one that names no source."""
    source = Source(
        index=1,
        title="Rules",
        url="https://a.example/1",
        text="Employees may work remotely on two days a week if their manager agrees. Lunch is free for all guests.",
    )
    said = "Staff can do their jobs remotely with the consent of the manager"
    for text in (
        f"{said} [1].",
        f"{said}. Lunch is free for all guests. [1]",
        "Employees may work remotely two days if managers consent.",
    ):
        check = SentenceCheck(read_citations(text), "en", read_support=lambda claims: [[50.0] for _ in claims])
        check.add_sources([source])
        check.find_sources(check.list_uncited())
        assert ("supported", "encoder") in [(c.verdict, c.checked_by) for c in check.list_citations()], text
        check = SentenceCheck(read_citations(text), "en", read_support=lambda claims: ())
        check.add_sources([source])
        check.find_sources(check.list_uncited())
        assert {found.checked_by for found in check.list_citations()} == {"words"}
