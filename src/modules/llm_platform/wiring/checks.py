"""Check the settings before a process serves."""

from modules.llm_platform.infrastructure.cache.from_settings import uses_redis
from modules.llm_platform.infrastructure.limits.from_settings import check_rate_limits
from modules.llm_platform.infrastructure.models.from_settings.chat_models import resolve_stages
from modules.llm_platform.infrastructure.models.from_settings.daily_budgets import check_daily_budget
from modules.llm_platform.infrastructure.resources import has_index
from modules.llm_platform.infrastructure.search.from_settings.providers import check_providers
from modules.llm_platform.infrastructure.stores.from_settings import check_database
from modules.llm_platform.wiring.watches import check_mail
from modules.llm_platform.wiring.writers import uses_sentence_encoder, uses_support_model
from shared.config import Settings


def check_settings(settings: Settings) -> None:
    """Raise the SettingsError that the first use of a component would raise later."""
    resolve_stages(settings)
    check_providers(settings)
    check_daily_budget(settings)
    uses_redis(settings)
    check_database(settings)
    check_mail(settings)
    uses_sentence_encoder(settings)
    uses_support_model(settings)


def check_server_settings(settings: Settings) -> None:
    """Raise SettingsError, or ModuleNotFoundError for a package that servers need, before the first request would."""
    check_providers(settings)
    check_daily_budget(settings)
    check_rate_limits(settings)
    uses_sentence_encoder(settings)
    uses_support_model(settings)
    has_index(settings)  # looks into the data folder
