"""Statistics and entries of the research store."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

StoreStage = Literal[
    "search_queries", "search_results", "ranked_results", "docs", "summaries", "ranked_summaries", "answers"
]


class Topic(BaseModel, frozen=True):
    """The topic under which a research run is stored.

    `name` is a readable slug with a hash, and `query` the question as it was asked.
    """

    name: str
    query: str


class EndsTopic(BaseModel, frozen=True):
    """A value that completes a topic. It is stored when nothing is left to do."""


class StoredTopic(BaseModel, frozen=True):
    """A topic with what is kept of it; `finished` says whether a report of it was finished."""

    name: str
    query: str
    entries: int
    bytes: int
    oldest: datetime
    newest: datetime
    finished: bool


class StoredEntry(BaseModel, frozen=True):
    """One entry of a topic."""

    stage: StoreStage
    key: str
    made_at: datetime
    bytes: int


class StageStats(BaseModel, frozen=True):
    """The statistics of one stage over all topics.

    `hits` and `misses` count the values that were found and not found since the store was made.
    """

    stage: StoreStage
    entries: int
    bytes: int
    oldest: datetime | None
    newest: datetime | None
    hits: int
    misses: int


class StoreStats(BaseModel, frozen=True):
    """The whole store; `damaged` counts entries that were set aside."""

    stages: tuple[StageStats, ...]
    topics: int
    damaged: int


class Imported(BaseModel, frozen=True):
    """Counts of an import: entries added, those skipped because the stored one is as new, and those older than the TTL."""

    added: int
    skipped: int
    expired: int = 0
