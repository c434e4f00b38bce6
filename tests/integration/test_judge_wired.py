"""CITATION_JUDGE as set in the settings: which answers a model verifies, what it costs, and what is cached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import ValidationError
from tests.fakes.citation_judge import FakeCitationJudge
from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.cases import for_each
from tests.support.report_world import stage_of
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform import (
    ICitationJudge,
    ILLMProvider,
    ISynthesizer,
    IWebSearchProvider,
    LLMPlatform,
    LLMRequest,
    LLMResponse,
    ResearchRequest,
    ResearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.application.research.events import Done
from modules.llm_platform.container import Container, build_platform
from modules.llm_platform.domain.dtos.llm_dtos import LLMStreamPart
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, RagQuestion
from modules.llm_platform.testing import FakeLLM, FakeWebSearch
from modules.llm_platform.wiring.writers import choose_judged_answers
from shared.config import Settings

QUESTION = "What does the event loop run?"
LOOP = "The event loop runs asynchronous tasks and callbacks on port 7071."
TEXT = "Tasks are what an event loop executes [1]. The event loop runs callbacks on port 7070 [1]."
SUPPORTED_TEXT = "The event loop runs callbacks and asynchronous tasks on port 7071 [1]."
REWORDED, CHANGED = range(2)


class Model(FakeLLM):
    """Writes TEXT, and judges every claim as supported once `may_judge` is set."""

    def __init__(self, text: str = TEXT) -> None:
        super().__init__([text], name="scripted")
        self.judged: list[list[str]] = []
        self.may_judge = asyncio.Event()
        self.may_judge.set()

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        if stage_of(request) != "judge":
            async for part in super().stream(request):
                yield part
            return
        pairs = [json.loads(line) for line in request.messages[-1].content.splitlines() if line.startswith("[")]
        self.judged.append([claim for _, claim, *_ in pairs])
        await self.may_judge.wait()
        *_, answer = [part async for part in super().stream(request)]
        assert isinstance(answer, LLMResponse)
        yield answer.model_copy(update={"content": json.dumps([[number, "supported"] for number, *_ in pairs])})


def platform(model: ILLMProvider, **settings: Any) -> LLMPlatform:
    settings = {"STORE_TTL_DAYS": 0, **settings}
    return build_platform(Settings(**settings), {ILLMProvider: model, IWebSearchProvider: FakeWebSearch([found()])})


def found() -> WebSearchResultItem:
    return WebSearchResultItem(title="Loops", url="https://docs.test/loops", snippet=LOOP)


async def run_research(wired: LLMPlatform, **wishes: Any) -> ResearchResponse:
    return await wired.research.research(ResearchRequest.model_validate({"query": QUESTION, **wishes}))


async def streamed_research(wired: LLMPlatform, **wishes: Any) -> ResearchResponse:
    """Return the answer as a streaming client gets it, which has the text and waits for the verdicts."""
    *_, done = [
        event async for event in wired.research.stream(ResearchRequest.model_validate({"query": QUESTION, **wishes}))
    ]
    assert isinstance(done, Done)
    return done.response


@for_each(
    ("setting", "depth", "calls"),
    [
        ("off", "shallow", 0),
        ("off", "report", 0),
        ("report", "shallow", 0),
        ("report", "deep", 0),
        ("report", "report", 1),
        ("all", "shallow", 1),
        ("all", "deep", 1),
        ("all", "report", 1),
    ],
)
async def test_the_setting_decides_which_answers_are_judged(setting: str, depth: str, calls: int) -> None:
    """The setting decides between one judge call and none for an answer. Each citation says who checked it."""
    model = Model()
    async with platform(model, CITATION_JUDGE=setting, CITATION_ENCODER="off") as wired:
        done = await run_research(wired, depth=depth)
    assert len(model.judged) == calls
    assert {citation.checked_by for citation in done.citations} == {"model" if calls else "words"}
    assert done.metadata.llm_calls == len(model.requests)
    assert done.citations[CHANGED].verdict == ("partial" if calls else "unsupported")


@pytest.mark.parametrize("depth", ["shallow", "deep", "report"])
async def test_doubts_are_judged_unless_the_operator_says_otherwise(depth: str) -> None:
    """The default for a remote model is one call for doubtful citations. The answer says how many verdicts it changed."""
    assert Settings().CITATION_JUDGE == "auto"
    model = Model()
    async with platform(model) as wired:
        done = await streamed_research(wired, depth=depth)
    assert len(model.judged) == 1
    changed = [
        citation
        for citation in done.citations
        if citation.checked_by == "model" and citation.verdict != citation.word_verdict
    ]
    assert done.metadata.verdicts_changed == len(changed) > 0
    assert done.metadata.llm_calls == len(model.requests)
    assert done.metadata.tokens_used > 0


async def test_a_quick_answer_without_a_doubt_costs_no_second_call() -> None:
    """By default a model judges only the citations that the lexical check doubts."""
    model = Model(SUPPORTED_TEXT)
    async with platform(model) as wired:
        done = await streamed_research(wired)
        assert [citation.verdict for citation in done.citations] == ["supported"]
        assert (model.judged, done.metadata.llm_calls) == ([], 1)
    model = Model(f"{SUPPORTED_TEXT} {TEXT}")
    async with platform(model) as wired:
        await streamed_research(wired)
    assert len(model.judged) == 1
    assert not any("callbacks and asynchronous" in claim for claim in model.judged[0])
    assert model.judged[0]


def test_the_setting_has_four_values() -> None:
    """Any other value stops the start."""
    with pytest.raises(ValidationError, match="CITATION_JUDGE"):
        Settings(CITATION_JUDGE="deep")


CLOUD = {"name": "cloud", "kind": "openai", "model": "m", "api_key": "k"}
OWN = {"name": "own", "kind": "openai", "model": "m", "base_url": "http://127.0.0.1:8080/v1"}


@for_each(
    ("values", "judged"),
    [
        ({"LLM_KIND": "ollama", "LLM_MODEL": "m"}, "off"),
        ({"LLM_KIND": "vllm", "LLM_MODEL": "m", "LLM_BASE_URL": "http://gpu.example:8000/v1"}, "off"),
        ({"LLM_PROVIDERS": json.dumps([OWN, CLOUD])}, "off"),
        ({"LLM_PROVIDERS": json.dumps([CLOUD, OWN])}, "auto"),
        ({"LLM_PROVIDERS": json.dumps([OWN, CLOUD]), "LLM_STAGES": {"judge": "cloud"}}, "auto"),
        ({"LLM_PROVIDERS": json.dumps([CLOUD, OWN]), "LLM_STAGES": {"judge": "own"}}, "off"),
        ({"LLM_KIND": "ollama", "LLM_MODEL": "m", "CITATION_JUDGE": "all"}, "all"),
        ({"LLM_API_KEY": "k", "LLM_MODEL": "m"}, "auto"),
    ],
)
def test_no_local_model_judges_by_default(values: dict[str, Any], judged: str) -> None:
    """A small local model judges worse than the lexical check, so it must be enabled explicitly.

    The model of the judge stage decides.
    """
    assert choose_judged_answers(Settings(**values)) == judged


async def test_a_cached_answer_is_not_paid_for_again() -> None:
    """A cached answer has its text and verdicts from the cache, without a call."""
    model = Model()
    async with platform(model, CITATION_JUDGE="all") as wired:
        first = await run_research(wired)
        asked = len(model.requests)
        again = await run_research(wired)
    assert asked == 2
    assert len(model.requests) == asked
    assert again.metadata.cache_hit
    assert (again.metadata.llm_calls, again.metadata.tokens_used) == (0, 0)
    assert again.citations == first.citations
    assert first.citations[REWORDED].checked_by == "model"


async def test_tokens_come_first_and_verdicts_last() -> None:
    """A stream sends the text and the lexical verdicts while the judge is still working, and the verdicts of the judge
    at the end.
    """
    model = Model()
    model.may_judge.clear()
    verified = []
    async with platform(model, CITATION_JUDGE="all", RESEARCH_TIMEOUT_S=10) as wired:
        text = ""
        async for event in wired.research.stream(ResearchRequest(query=QUESTION)):
            if event.type == "token":
                text += event.text
            elif event.type == "verified":
                verified.append(event)
                assert text == TEXT
                model.may_judge.set()
            elif event.type == "done":
                done = event.response
    assert done.synthesis == text == TEXT
    assert done.citations[CHANGED].word_verdict == "unsupported"
    assert not done.degraded
    assert [event.pending for event in verified] == [2, 0]
    assert {citation.checked_by for citation in verified[0].citations} == {"words"}
    assert verified[1].citations == done.citations


@in_virtual_time
async def test_a_judge_that_hangs_costs_no_answer() -> None:
    """A stream ends before its deadline with the lexical verdicts and the reason.

    A plain answer does not wait for the judge.
    """
    for research, reasons in ((streamed_research, ["judge/scripted"]), (run_research, [])):
        model = Model()
        model.may_judge.clear()
        async with platform(model, RESEARCH_TIMEOUT_S=3, CITATION_ENCODER="off") as wired:
            done = await asyncio.wait_for(research(wired), 3)
        assert {citation.checked_by for citation in done.citations} == {"words"}
        assert done.citations[CHANGED].verdict == "unsupported"
        assert [entry.component for entry in done.degraded] == reasons
        assert done.metadata.verdicts_changed == 0
        assert done.metadata.llm_calls == 1 + len(model.judged) == 2


async def test_answers_of_documents_are_judged_with_all() -> None:
    """With CITATION_JUDGE=all, `ask` is judged too.

    Its cited documents follow the final verdicts, and the call is counted.
    """
    question = RagQuestion(question=QUESTION, context=(ContextItem(doc_id="d", snippet=LOOP),))
    model = Model()
    async with platform(model, CITATION_JUDGE="all") as wired:
        said = await wired.answers.answer(question)
    assert len(model.judged) == 1
    assert said.spent.calls == 2
    model = Model()
    async with platform(model) as wired:
        assert (await wired.answers.answer(question)).spent.calls == 1
    assert not model.judged


async def test_a_custom_judge_needs_no_model() -> None:
    """Research runs and reports use a custom judge (an override of the port) without a model."""
    judge = FakeCitationJudge("partial")
    overrides = {
        ICitationJudge: judge,
        ISynthesizer: FakeSynthesizer(TEXT),
        IWebSearchProvider: FakeWebSearch([found()]),
    }
    async with build_platform(Settings(CITATION_JUDGE="all", STORE_TTL_DAYS=0), overrides) as wired:
        for depth in ("shallow", "report"):
            done = await run_research(wired, depth=depth)
            assert {citation.verdict for citation in done.citations} == {"partial"}
    assert len(judge.calls) == 2


def test_the_judge_can_have_its_own_model() -> None:
    """LLM_STAGES can name the model of the judge, in reports and elsewhere."""
    models = [
        {"name": n, "kind": "openai", "api_key": "k", "base_url": "http://127.0.0.1:1/v1", "model": n} for n in "ab"
    ]
    settings = Settings(LLM_PROVIDERS=json.dumps(models), LLM_STAGES={"judge": "b"}, CITATION_JUDGE="all")
    wired = Container(settings=settings)
    first = wired.models().build_stage_llms()["judge"]._registry.providers[0].name  # type: ignore[attr-defined]
    assert first == wired.answer_judge()._llm._registry.providers[0].name == "b"
