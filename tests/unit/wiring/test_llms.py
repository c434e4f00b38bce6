"""The language models that the settings name."""

from __future__ import annotations

import pytest

from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.testing import FakeLLM, MemoryMetrics
from modules.llm_platform.testing.llm import question
from modules.llm_platform.wiring.llms import all_connections, build_llm_provider
from modules.llm_platform.wiring.resources import upstream_states
from shared.config import Settings


def test_each_model_has_a_name_of_its_own() -> None:
    """Models of one name are numbered: limits, circuits and the choice of a request must not mix them up."""
    listed = [{"name": name, "model": f"m{number}"} for number, name in enumerate(("a", "a", "b", "a"))]
    settings = Settings(_env_file=None, LLM_PROVIDERS=listed)
    assert [(each.name, each.model) for each in all_connections(settings)] == [
        ("a", "m0"), ("a-2", "m1"), ("b", "m2"), ("a-3", "m3"),
    ]  # fmt: skip


@pytest.mark.parametrize(("count", "calls"), [(1, [2]), (2, [1, 1]), (3, [1, 1, 0])])
async def test_a_single_model_is_tried_again_and_several_replace_each_other(count: int, calls: list[int]) -> None:
    """After a lost connection the next model answers sooner than a second try; without another one, a second try does."""
    down, works = [LLMConnectionError("down"), "answer"], ["answer"]
    models = {f"m{number}": FakeLLM(works if number else down, name=f"m{number}") for number in range(count)}
    llm = build_llm_provider(
        Settings(_env_file=None), models, {}, upstream_states(models), MemoryMetrics(), lambda llm: llm
    )
    assert llm is not None
    assert (await llm.generate(question())).content == "answer"
    assert [len(each.requests) for each in models.values()] == calls
