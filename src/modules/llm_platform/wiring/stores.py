"""Stores: outcomes of the worker, and researches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.infrastructure.adapters.disk_research_store import NoResearchStore
from modules.llm_platform.wiring.resources import Resources, data_folder
from shared.config import Settings

if TYPE_CHECKING:
    pass


def build_outcome_store(settings: Settings, resources: Resources) -> IOutcomeStore:
    from modules.llm_platform.infrastructure.adapters.sqlite_outcome_store import SqliteOutcomeStore

    store = SqliteOutcomeStore(data_folder(settings) / "outcomes.sqlite3", settings.OUTCOME_TTL_DAYS)
    resources.closing(store.aclose)
    return store


def build_research_store(settings: Settings) -> IResearchStore:
    """The store in the data folder, which is made when the first entry comes."""
    if settings.STORE_TTL_DAYS == 0:
        return NoResearchStore()
    from modules.llm_platform.infrastructure.adapters.disk_research_store import DiskResearchStore

    return DiskResearchStore(data_folder(settings) / "store", settings.STORE_TTL_DAYS)
