"""Which models serve a request."""

from __future__ import annotations

import pytest
from tests.fakes.llm_contract import question
from tests.support.cases import for_each

from modules.llm_platform.domain.exceptions import LLMConfigError, LLMRequestError
from modules.llm_platform.domain.ports.llm import LLMRegistry
from modules.llm_platform.testing.llm import FakeLLM

KIMI = FakeLLM(name="kimi", model="kimi-for-coding")
MINI = FakeLLM(name="openai", model="gpt-mini")
LOCAL = FakeLLM(name="local", model="gpt-mini")
REGISTRY = LLMRegistry((KIMI, MINI, LOCAL))


@for_each(
    ("wishes", "names"),
    [
        ({}, ["kimi", "openai", "local"]),
        ({"provider": "local"}, ["local"]),
        ({"model": "gpt-mini"}, ["openai", "local"]),
        ({"provider": "local", "model": "gpt-mini"}, ["local"]),
    ],
)
def test_matching_models_keep_their_order(wishes: dict[str, str], names: list[str]) -> None:
    """Without a requested name all models are returned, otherwise the matching ones."""
    assert [provider.name for provider in REGISTRY.resolve(question(**wishes))] == names


@for_each(
    ("wishes", "says"),
    [
        ({"provider": "other"}, "provider is not configured: choose one of kimi, openai, local"),
        ({"model": "other"}, "model is not configured: choose one of kimi-for-coding, gpt-mini"),
        ({"provider": "kimi", "model": "gpt-mini"}, "model is not configured: choose one of kimi-for-coding"),
    ],
)
def test_an_unknown_model_is_a_caller_error(wishes: dict[str, str], says: str) -> None:
    """The message lists the available models."""
    with pytest.raises(LLMRequestError) as caught:
        REGISTRY.resolve(question(**wishes))
    assert caught.value.message == says


def test_without_models_the_operator_is_told_what_to_set() -> None:
    """This also holds for a requested model, because there is nothing to choose from."""
    for wishes in ({}, {"model": "other"}):
        with pytest.raises(LLMConfigError, match=r"LLM_API_KEY.*KIMI_API_KEY.*extractive"):
            LLMRegistry(()).resolve(question(**wishes))


def test_names_are_unique() -> None:
    """Two models of one name could not be told apart."""
    with pytest.raises(ValueError, match="unique names: kimi, kimi"):
        LLMRegistry((KIMI, FakeLLM(name="kimi")))


def test_what_there_is_can_be_asked() -> None:
    """Names and providers in order."""
    assert REGISTRY.names == ("kimi", "openai", "local")
    assert REGISTRY.providers == (KIMI, MINI, LOCAL)
