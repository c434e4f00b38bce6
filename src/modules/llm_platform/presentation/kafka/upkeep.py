"""Removes outcomes that are older than they are kept, while the worker works."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore

log = logging.getLogger(__name__)

EVERY_S: Final = 3600.0


async def keep_clean(outcomes: IOutcomeStore, every_s: float = EVERY_S) -> None:
    """At once and then every so often, until it is cancelled."""
    while True:
        try:
            removed = await outcomes.clean()
        except OutcomeStoreError as error:  # the handler waits for the store; this has time until the next round
            log.warning("old outcomes could not be removed", extra={"error": error.message})
        else:
            log.info("old outcomes removed", extra={"count": removed})
        await asyncio.sleep(every_s)
