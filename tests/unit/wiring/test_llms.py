"""The language models that the settings name."""

from __future__ import annotations

from modules.llm_platform.wiring.llms import all_connections
from shared.config import Settings


def test_each_model_has_a_name_of_its_own() -> None:
    """Models of one name are numbered: limits, circuits and the choice of a request must not mix them up."""
    listed = [{"name": name, "model": f"m{number}"} for number, name in enumerate(("a", "a", "b", "a"))]
    settings = Settings(_env_file=None, LLM_PROVIDERS=listed)
    assert [(each.name, each.model) for each in all_connections(settings)] == [
        ("a", "m0"), ("a-2", "m1"), ("b", "m2"), ("a-3", "m3"),
    ]  # fmt: skip
