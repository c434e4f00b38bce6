"""What a worker is put together from, besides Kafka's clients."""

from __future__ import annotations

from dataclasses import dataclass

from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.presentation.kafka.handler import RagHandler


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """`outcomes` is the store that the handler uses; `notes` are what its operator should know, a line each."""

    handler: RagHandler
    outcomes: IOutcomeStore
    notes: tuple[str, ...] = ()
