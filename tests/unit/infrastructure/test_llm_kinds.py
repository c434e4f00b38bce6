"""What is known of each kind of service."""

from __future__ import annotations

from typing import get_args

import pytest

from modules.llm_platform.infrastructure.llm.kinds import KINDS, LLMConnection, Variables
from shared.config import LLMKind, Settings, variable_names


def _connection(kind: str, **config: object) -> LLMConnection:
    return LLMConnection(**{"name": "n", "kind": kind, "model": "m", **config})  # type: ignore[arg-type]


def test_the_settings_and_the_table_know_the_same_kinds() -> None:
    """Every kind that can be configured has its data, and no other."""
    assert set(KINDS) == set(get_args(LLMKind))


@pytest.mark.parametrize("kind", KINDS)
def test_the_variables_that_messages_name_exist(kind: str) -> None:
    """A remedy that names a variable names one that is read."""
    known = {name for field in Settings.model_fields for name in variable_names(field)}
    names = KINDS[kind].variables
    assert {names.key, names.address, names.model} <= known
    assert names.user_agent is None or names.user_agent in known


@pytest.mark.parametrize(("kind", "address"), [("kimi", "KIMI_BASE_URL"), ("aitunnel", "AITUNNEL_BASE_URL")])
def test_default_addresses_are_those_of_the_settings(kind: str, address: str) -> None:
    """One default, told in two places, is the same in both."""
    assert KINDS[kind].address == Settings.model_fields[address].default


def test_the_operators_word_goes_before_the_kinds() -> None:
    """Address, context, prices and variables of the connection replace those of its kind."""
    said = _connection(
        "kimi", base_url="http://here/v1", context_tokens=5000, price_in=1.0, price_out=2.0, variables=Variables()
    )
    assert (said.address, said.context, said.settings.key) == ("http://here/v1", 5000, "LLM_API_KEY")
    assert said.cost_usd(1_000_000, 1_000_000) == 3.0
    silent = _connection("kimi")
    assert (silent.context, silent.settings.key, silent.cost_usd(5, 5)) == (262_144, "KIMI_API_KEY", 0.0)
    assert silent.address == "https://api.kimi.com/coding/v1"


@pytest.mark.parametrize("prices", [{}, {"price_in": 1.0}, {"price_out": 1.0}])
def test_one_unknown_price_makes_the_cost_unknown(prices: dict[str, float]) -> None:
    """Half a price is no price."""
    assert _connection("openai", **prices).cost_usd(1, 1) is None


def test_services_of_ones_own_need_no_key_and_cost_nothing() -> None:
    """Ollama and vLLM run on one's own machine."""
    for kind in ("ollama", "vllm"):
        assert not KINDS[kind].needs_key
        assert _connection(kind).cost_usd(10, 10) == 0.0
        assert (_connection(kind).address or "").startswith("http://localhost:")


def test_an_unknown_kind_is_refused() -> None:
    """A kind without data cannot be asked; the message names those that there are."""
    with pytest.raises(ValueError, match="choose one of openai, kimi"):
        _connection("other")


def test_the_key_is_not_shown() -> None:
    """A connection can be printed."""
    assert "sk-secret" not in repr(_connection("openai", api_key="sk-secret"))
