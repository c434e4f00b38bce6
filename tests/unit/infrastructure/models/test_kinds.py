"""What is known of each kind of service."""

from __future__ import annotations

from typing import get_args

import pytest
from tests.support.cases import for_each

from modules.llm_platform.infrastructure.models.kinds import AZURE_API_VERSION, KINDS, LLMConnection, Variables
from shared.config import Settings, variable_names
from shared.setting_types import LLMKindName


def _connection(kind: str, **config: object) -> LLMConnection:
    return LLMConnection(**{"name": "n", "kind": kind, "model": "m", **config})  # type: ignore[arg-type]


def test_settings_and_table_have_the_same_kinds() -> None:
    """Every kind of the settings has a row, and no other."""
    assert set(KINDS) == set(get_args(LLMKindName))


@for_each("kind", KINDS)
def test_the_settings_in_messages_exist(kind: str) -> None:
    """Each is a field of Settings."""
    known = {name for field in Settings.model_fields for name in variable_names(field)}
    names = KINDS[kind].variables
    assert {names.key, names.address, names.model} <= known
    assert names.user_agent is None or names.user_agent in known


@pytest.mark.parametrize(("kind", "address"), [("kimi", "KIMI_BASE_URL"), ("aitunnel", "AITUNNEL_BASE_URL")])
def test_default_addresses_are_those_of_the_settings(kind: str, address: str) -> None:
    """Both places have the same default."""
    assert KINDS[kind].address == Settings.model_fields[address].default


def test_only_azure_has_a_version() -> None:
    """The configured one, or one whose streams report their usage."""
    assert KINDS["openai"].version("2025") is None
    assert (KINDS["azure"].version(None), KINDS["azure"].version("2025")) == (AZURE_API_VERSION, "2025")


def test_a_connection_overrides_its_kind() -> None:
    """Address, context, prices and variables."""
    overridden = _connection(
        "kimi", base_url="http://here/v1", context_tokens=5000, price_in=1.0, price_out=2.0, variables=Variables()
    )
    assert (overridden.address, overridden.context, overridden.settings.key) == ("http://here/v1", 5000, "LLM_API_KEY")
    assert overridden.cost_usd(1_000_000, 1_000_000) == 3.0
    silent = _connection("kimi")
    assert (silent.context, silent.settings.key, silent.cost_usd(5, 5)) == (262_144, "KIMI_API_KEY", 0.0)
    assert silent.address == "https://api.kimi.com/coding/v1"


@for_each("prices", [{}, {"price_in": 1.0}, {"price_out": 1.0}])
def test_one_unknown_price_makes_the_cost_unknown(prices: dict[str, float]) -> None:
    """Input and output prices are both needed."""
    assert _connection("openai", **prices).cost_usd(1, 1) is None


def test_local_services_need_no_key_and_cost_nothing() -> None:
    """Ollama and vLLM."""
    for kind in ("ollama", "vllm"):
        assert not KINDS[kind].needs_key
        assert _connection(kind).cost_usd(10, 10) == 0.0
        assert (_connection(kind).address or "").startswith("http://localhost:")


def test_an_unknown_kind_is_a_value_error() -> None:
    """The message lists the known kinds."""
    with pytest.raises(ValueError, match="choose one of openai, kimi"):
        _connection("other")


def test_repr_does_not_contain_the_key() -> None:
    """A connection can be printed."""
    assert "sk-secret" not in repr(_connection("openai", api_key="sk-secret"))
