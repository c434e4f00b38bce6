"""The settings of the daily budget, checked at the start of a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cases import for_each

from modules.llm_platform.container import Container
from modules.llm_platform.infrastructure.models.from_settings.daily_budgets import check_daily_budget
from shared.config import Settings, SettingsError

KEYS = "alice:0123456789,abcdefghijk"


def test_budget_of_an_unknown_key_is_refused() -> None:
    """A typing error would leave the key with the budget of all others, or with none."""
    settings = Settings(_env_file=None, LLM_PLATFORM_API_KEYS=KEYS, BUDGET_USD_PER_DAY="5,*=1,alcie=3")
    with pytest.raises(SettingsError, match=r"^BUDGET_USD_PER_DAY names alcie, .*: choose one of alice, key-2$"):
        check_daily_budget(settings)


@for_each(("keys", "budget"), [(KEYS, "1"), (KEYS, "5,*=1"), (KEYS, "alice=3,key-2=1"), ("", "alice=3")])
def test_budgets_of_known_keys_are_accepted(keys: str, budget: str) -> None:
    """By label or position. Without API keys, as for a command that shares the settings of a server, nothing is compared."""
    check_daily_budget(Settings(_env_file=None, LLM_PLATFORM_API_KEYS=keys, BUDGET_USD_PER_DAY=budget))


@for_each(
    ("shared", "store"),
    [
        ({}, "SqliteSpendingStore"),
        ({"REDIS_URL": "redis://127.0.0.1:1"}, "RedisSpendingStore"),
        ({"REDIS_URL": "redis://127.0.0.1:1", "DATABASE_URL": "postgresql://127.0.0.1:1/x"}, "PostgresSpendingStore"),
    ],
)
async def test_what_was_spent_is_in_the_safest_store(tmp_path: Path, shared: dict[str, str], store: str) -> None:
    """PostgreSQL before Redis, which may evict it or lose its memory, before a file of this machine."""
    provider = {"name": "a", "base_url": "http://127.0.0.1:1", "model": "m", "price_in": 1, "price_out": 1}
    settings = Settings(
        _env_file=None, LLM_PLATFORM_DATA_DIR=tmp_path, BUDGET_USD_PER_DAY="1", LLM_PROVIDERS=[provider], **shared
    )
    container = Container(settings=settings)
    [budget] = container.model_budgets().values()
    assert type(budget._budget._store).__name__ == store
    await container.resources().aclose()
