"""The daily budget: its limits, its store, and the models that it applies to."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.spending_store import ISpendingStore
from modules.llm_platform.infrastructure.models.kinds import LLMConnection
from modules.llm_platform.wiring.llms import ModelBudgets, llm_connections
from modules.llm_platform.wiring.resources import Resources, data_folder
from shared.config import Settings, SettingsError

if TYPE_CHECKING:
    from modules.llm_platform.infrastructure.redis_client import RedisClient
    from modules.llm_platform.infrastructure.stores.database.postgres import Database

SPENDING_FILE: Final = "spending.sqlite3"
ALL: Final = ""  # in BUDGET_USD_PER_DAY: the number without a label
EACH_KEY: Final = "*"
UNKNOWN_PRICE: Final = (
    "BUDGET_USD_PER_DAY needs the price of every model, and that of {models} is not known: set price_in and price_out in "
    'LLM_PROVIDERS. Example: LLM_PROVIDERS=[{{"name": "a", "model": "{model}", "price_in": 0.15, "price_out": 0.6}}]'
)

UNKNOWN_LABEL: Final = (
    "BUDGET_USD_PER_DAY names {unknown}, which is no label of LLM_PLATFORM_API_KEYS: choose of {labels}"
)


def check_daily_budget(settings: Settings) -> None:
    """Raise SettingsError if there is a daily budget and the price of a configured model is not known, or if the budget is
    that of an API key that a server with API keys does not have.
    """
    if not settings.BUDGET_USD_PER_DAY:
        return
    labels = [key.label or f"key-{number}" for number, key in enumerate(settings.api_keys(), 1)]
    for label in settings.BUDGET_USD_PER_DAY:
        if labels and label not in (ALL, EACH_KEY, *labels):
            raise SettingsError(UNKNOWN_LABEL.format(unknown=label, labels=", ".join(dict.fromkeys(labels))))
    unknown = [each.model or each.name for each in llm_connections(settings) if each.cost_usd(1, 1) is None]
    if unknown:
        raise SettingsError(UNKNOWN_PRICE.format(models=", ".join(unknown), model=unknown[0]))


def build_model_budgets(
    settings: Settings,
    resources: Resources,
    redis: RedisClient | None,
    database: Database | None,
    metrics: IMetrics = NO_METRICS,
) -> ModelBudgets:
    """Return the daily budget of each model that costs money; empty without one."""
    priced = [each for each in llm_connections(settings) if each.cost_usd(1, 1)]
    if not settings.BUDGET_USD_PER_DAY or not priced:
        return {}
    from modules.llm_platform.infrastructure.limits.daily_budget import DailyBudget, DailyLimits, ModelBudget

    by_label = dict(settings.BUDGET_USD_PER_DAY)
    limits = DailyLimits(by_label.pop(ALL, None), by_label.pop(EACH_KEY, None), by_label)
    budget = DailyBudget(_build_spending_store(settings, redis, database), limits, metrics=metrics)
    resources.on_close(budget.aclose)
    return {each.name: ModelBudget(budget, partial(_price, each)) for each in priced}


def _price(connection: LLMConnection, prompt_tokens: int, completion_tokens: int) -> float:
    return connection.cost_usd(prompt_tokens, completion_tokens) or 0.0


def _build_spending_store(settings: Settings, redis: RedisClient | None, database: Database | None) -> ISpendingStore:
    """PostgreSQL before Redis: it neither evicts a sum nor loses it with its memory."""
    if database is not None:
        from modules.llm_platform.infrastructure.stores.spending.postgres import PostgresSpendingStore

        return PostgresSpendingStore(database)
    if redis is not None:
        from modules.llm_platform.infrastructure.stores.spending.redis import RedisSpendingStore

        return RedisSpendingStore(redis)
    from modules.llm_platform.infrastructure.stores.spending.sqlite import SqliteSpendingStore

    return SqliteSpendingStore(data_folder(settings) / SPENDING_FILE)
