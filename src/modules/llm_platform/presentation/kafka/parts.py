"""What a worker is put together from, besides Kafka's clients."""

from __future__ import annotations

from dataclasses import dataclass, field

from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.presentation.kafka.dependencies import Dependencies
from modules.llm_platform.presentation.kafka.handler import RagHandler


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """`outcomes` is the store that the handler uses; `notes` are what its operator should know, a line each; `dependencies`
    are those that the handler asks.
    """

    handler: RagHandler
    outcomes: IOutcomeStore
    notes: tuple[str, ...] = ()
    dependencies: Dependencies = field(default_factory=Dependencies)
