"""A report with judged citations: the judge runs once within the budget, and a replay keeps its verdicts."""

from __future__ import annotations

from pydantic import BaseModel
from tests.support.cases import for_each
from tests.support.report_world import QUESTION, ReportModel, Web, World, answer_of, some_pages

from modules.llm_platform.domain.dtos.store_dtos import EndsTopic, StoreStage, Topic
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.testing import MemoryResearchStore

TEXT = "Heat is moved by heat pumps [1]. They work in the cold [2]. They cost 900 dollars [1]."
PAGE = "Heat pumps move heat. They work in the cold. They cost 400 dollars."
MOVED, COPIED, CHANGED = range(3)


class Interrupted(MemoryResearchStore):
    """Has all that a report made on its way, but for the end of it."""

    async def put(self, topic: Topic, stage: StoreStage, key: str, value: BaseModel) -> None:
        if not isinstance(value, EndsTopic):
            await super().put(topic, stage, key, value)


def world(model: ReportModel, store: MemoryResearchStore | None = None) -> World:
    pages = some_pages()
    texts = {url: f"{PAGE} {title} says so." for url, title in pages.items()}
    return World(Web(pages, texts=texts), model, store or MemoryResearchStore())


async def test_judge_is_called_once_after_the_text() -> None:
    """One call judges all citations and is counted. A verdict beyond the judge's limits stays partial."""
    model = ReportModel(text=TEXT)
    done = answer_of(await world(model).events())
    assert model.asked.count("judge") == 1
    assert model.asked.index("judge") > model.asked.index("write")
    assert done.metadata.llm_calls == len(model.asked)
    assert done.metadata.tokens_used == 110 * len(model.asked)
    assert [citation.checked_by for citation in done.citations] == ["model", "words", "model"]
    assert (done.citations[CHANGED].word_verdict, done.citations[CHANGED].verdict) == ("unsupported", "partial")
    assert not [entry for entry in done.degraded if entry.component.startswith("judge")]


async def test_without_judge_verdicts_are_lexical() -> None:
    """CITATION_JUDGE=off: no call, and the words decide."""
    model = ReportModel(text=TEXT)
    off = world(model)
    off.judging = False
    done = answer_of(await off.events())
    assert "judge" not in model.asked
    assert {citation.checked_by for citation in done.citations} == {"words"}
    assert {citation.word_verdict for citation in done.citations} == {None}


async def test_failed_judge_leaves_the_answer() -> None:
    """The report is there, with the verdicts of the words and one entry in `degraded`."""
    model = ReportModel(text=TEXT, failing={"judge": LLMConnectionError()})
    done = answer_of(await world(model).events())
    assert {citation.checked_by for citation in done.citations} == {"words"}
    assert [entry.component for entry in done.degraded] == ["judge/scripted"]
    assert done.synthesis.startswith(TEXT)


async def test_budget_has_priority_over_the_judge() -> None:
    """If the limit leaves no call, the lexical verdicts are used, and `degraded` says so."""
    model = ReportModel(text=TEXT)
    done = answer_of(await world(model).events(max_llm_calls=1))
    assert model.asked == ["write"]
    assert done.metadata.llm_calls == 1
    assert "max_llm_calls" in next(entry.reason for entry in done.degraded if entry.component == "judge/scripted")
    assert {citation.checked_by for citation in done.citations} == {"words"}
    assert "judge" not in done.synthesis


async def test_remaining_calls_are_used_by_the_judge() -> None:
    """The limit also holds with the judge."""
    unlimited = ReportModel(text=TEXT)
    await world(unlimited).events()
    model = ReportModel(text=TEXT)
    done = answer_of(await world(model).events(max_llm_calls=len(unlimited.asked)))
    assert "judge" in model.asked
    assert done.metadata.llm_calls == len(model.asked) <= len(unlimited.asked)


@for_each("verdict", ["supported", "partial", "unsupported"])
async def test_stored_report_has_its_verdicts(verdict: str) -> None:
    """A replay has the same verdicts without a call."""
    store = MemoryResearchStore()
    first = answer_of(await world(ReportModel(text=TEXT, verdict=lambda claim: verdict), store).events())
    model = ReportModel(text=TEXT, verdict=lambda claim: "partial")
    again = answer_of(await world(model, store).events())
    assert again.metadata.cache_hit
    assert not model.asked
    assert again.citations == first.citations
    assert {citation.checked_by for citation in again.citations} == {"words", "model"}


async def test_stored_text_is_not_judged_again() -> None:
    """The process ended between the text and the answer: text and verdicts are there, and nothing is paid for twice."""
    store = Interrupted()
    first = answer_of(await world(ReportModel(text=TEXT), store).events())
    model = ReportModel(text=TEXT)
    again = answer_of(await world(model, store).events())
    assert not model.asked
    assert again.citations == first.citations


async def test_report_without_judge_is_not_replayed_for_one_with_judge() -> None:
    """After the judge is enabled, a report has judged citations without a new text."""
    store = MemoryResearchStore()
    off = world(ReportModel(text=TEXT), store)
    off.judging = False
    await off.events()
    model = ReportModel(text=TEXT)
    done = answer_of(await world(model, store).events(QUESTION))
    assert set(model.asked) == {"judge"}
    assert {citation.checked_by for citation in done.citations} == {"words", "model"}
