"""An answer is checked while it is written, each sentence once and against the text that is kept of its source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pytest
from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.checked_answers import record_checks
from tests.support.written_answers import make_draft

from modules.llm_platform.application.research.check.early_judging import EarlyJudging
from modules.llm_platform.application.research.find.read_pages import SourcesBeingRead
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.read.sentences import AnswerSentence
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.source_dtos import Source

EXCERPT = Source(index=1, title="Bridge", url="https://a.example/1", text="A bridge in the north.", text_kind="snippet")
PAGE = EXCERPT.model_copy(update={"text": "The bridge has three arches. It was opened in 1912.", "text_kind": "page"})
FIRST, SECOND = "The bridge has three arches [1].", " It was opened in 1912 [1]."


class ScriptedReading(SourcesBeingRead):
    """Has one source, whose page is read while `is_reading`. `comes`: the page can be read."""

    def __init__(self, *, comes: bool) -> None:
        self._comes = comes
        self.is_reading = True

    def get_sources(self) -> tuple[Source, ...]:
        return (PAGE,) if self._comes and not self.is_reading else (EXCERPT,)

    def read_cited(self, cited: Collection[int]) -> None:
        """The page is being read from the beginning."""

    def list_being_read(self) -> frozenset[int]:
        return frozenset({1}) if self.is_reading else frozenset()

    async def finish(self, cited: Collection[int]) -> None:
        self.is_reading = False


class RecordingJudge(EarlyJudging):
    """Records the claims that the judge could receive."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []  # sentences and quotes

    def add(self, checked: Iterable[tuple[str, Citation]]) -> None:
        self.asked += [(claim, citation.quote) for claim, citation in checked]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sentences that are compared before the text is complete."""
    sentences: list[str] = []
    check_early = CitationChecker.check_early

    def recorded(checker: CitationChecker, part: Sequence[AnswerSentence]) -> list[tuple[str, Citation]]:
        sentences.extend(sentence.claim for sentence in part)
        return check_early(checker, part)

    monkeypatch.setattr(CitationChecker, "check_early", recorded)
    return sentences


@pytest.mark.parametrize("comes_early", [True, False])
async def test_a_sentence_waits_for_the_page_that_is_being_read(compared: list[str], comes_early: bool) -> None:
    """It is compared once, and the judge is never asked about a quote that the page replaces."""
    reading, judge = ScriptedReading(comes=True), RecordingJudge()
    draft = make_draft(FakeSynthesizer(), (EXCERPT,), reading=reading)
    draft.comparison.early = judge
    await draft.feed(FIRST)
    assert not compared
    assert not judge.asked
    reading.is_reading = not comes_early
    await draft.feed(SECOND)
    await draft.finish()
    await draft.comparison.wait_for_pages(draft.text)
    checked = await draft.check_citations()
    assert compared == ["The bridge has three arches", "It was opened in 1912"]
    assert [quote for _, quote in judge.asked] == [citation.quote for citation in checked.citations]
    assert {(citation.verdict, citation.checked_against) for citation in checked.citations} == {("supported", "page")}


async def test_a_sentence_whose_page_is_never_read_is_checked_against_the_excerpt(compared: list[str]) -> None:
    """The judge also gets the sentence."""
    judge = RecordingJudge()
    reading = ScriptedReading(comes=False)
    draft = make_draft(FakeSynthesizer(), (EXCERPT,), reading=reading)
    draft.comparison.early = judge
    await draft.feed(FIRST)
    await draft.finish()
    await draft.comparison.wait_for_pages(draft.text)
    checked = await draft.check_citations()
    assert compared == ["The bridge has three arches"]
    assert [citation.checked_against for citation in checked.citations] == ["snippet"]
    assert len(judge.asked) == 1


async def test_a_text_whose_pages_were_read_while_it_was_written_is_checked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next draft of the same text takes the citations if it has the same pages, and checks against others."""
    checked = record_checks(monkeypatch)
    text = f"{FIRST}{SECOND} Boats pass below it [1]."
    verdicts = []
    for comes in (True, True, False):
        draft = make_draft(FakeSynthesizer(), (EXCERPT,), reading=ScriptedReading(comes=comes))
        await draft.feed(text)
        await draft.finish()
        await draft.comparison.wait_for_pages(draft.text)
        verdicts.append([citation.verdict for citation in (await draft.check_citations()).citations])
    assert checked == [text, text]
    assert verdicts[0] == verdicts[1] != verdicts[2]
