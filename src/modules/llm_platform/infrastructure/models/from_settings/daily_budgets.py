"""The daily budget: its limits, and the models that it applies to."""

from collections.abc import Callable
from functools import partial
from typing import Final

from modules.llm_platform.domain.ports.spending_store import ISpendingStore
from modules.llm_platform.infrastructure.limits.daily_budget import DailyBudget, DailyLimits, ModelBudget
from modules.llm_platform.infrastructure.models.from_settings.chat_models import ModelBudgets, list_connections
from modules.llm_platform.infrastructure.models.kinds import LLMConnection
from modules.llm_platform.infrastructure.resources import Resources
from shared.config import Settings, SettingsError

ALL: Final = ""  # the number without a label in BUDGET_USD_PER_DAY
EACH_KEY: Final = "*"
UNKNOWN_PRICE: Final = (
    "BUDGET_USD_PER_DAY needs the price of every model, and that of {models} is not known: set price_in and price_out in "
    'LLM_PROVIDERS. Example: LLM_PROVIDERS=[{{"name": "a", "model": "{model}", "price_in": 0.15, "price_out": 0.6}}]'
)

UNKNOWN_LABEL: Final = (
    "BUDGET_USD_PER_DAY names {unknown}, which is not a label in LLM_PLATFORM_API_KEYS: choose one of {labels}"
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
    unknown = [
        connection.model or connection.name
        for connection in list_connections(settings)
        if connection.cost_usd(1, 1) is None
    ]
    if unknown:
        raise SettingsError(UNKNOWN_PRICE.format(models=", ".join(unknown), model=unknown[0]))


def build_model_budgets(
    settings: Settings, resources: Resources, open_store: Callable[[], ISpendingStore]
) -> ModelBudgets:
    """Return the daily budgets of models that cost money. There are none if no budget is set."""
    priced = [connection for connection in list_connections(settings) if connection.cost_usd(1, 1)]
    if not settings.BUDGET_USD_PER_DAY or not priced:
        return {}
    by_label = dict(settings.BUDGET_USD_PER_DAY)
    limits = DailyLimits(by_label.pop(ALL, None), by_label.pop(EACH_KEY, None), by_label)
    budget = resources.closing(DailyBudget(open_store(), limits, metrics=resources.metrics))
    return {connection.name: ModelBudget(budget, partial(_compute_price, connection)) for connection in priced}


def _compute_price(connection: LLMConnection, prompt_tokens: int, completion_tokens: int) -> float:
    return connection.cost_usd(prompt_tokens, completion_tokens) or 0.0
