"""Store each finished item of a research run at once, so that a run that is repeated does not make it again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel

from modules.llm_platform.domain.dtos.store_dtos import StoreStage, Topic
from modules.llm_platform.domain.exceptions import StoreError
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.research.store_key import store_key
from modules.llm_platform.domain.telemetry.metrics import OK, STORE_REQUESTS
from shared.exceptions import AppException

log = logging.getLogger(__name__)

STORE_TIMEOUT_S = 10.0  # limit for one entry; every item of the research run waits for the store
SLOW = f"the store did not answer within {STORE_TIMEOUT_S:.0f} s: nothing more of this research run is stored"

READ, WRITE, MISS = "read", "write", "miss"  # values of labels

Value = TypeVar("Value", bound=BaseModel)
Result = TypeVar("Result")


class CheckpointStore:
    """The items of one topic in one language. A `fresh` run writes items and reads none.

    After the first error or timeout, nothing more is written, `failure` has the error, and the run continues. If a write failed
    with an error, entries are still read, because a full disk or a read-only database still has the items that were paid for.
    After any other failure nothing is read.

    `on_stored` is called for each stored item that a repeated run would find.
    """

    def __init__(
        self, store: IResearchStore, topic: Topic, language: str, *, fresh: bool, metrics: IMetrics = NO_METRICS
    ) -> None:
        self._metrics = metrics
        self.topic = topic
        self.failure: AppException | None = None
        self._is_readable = not fresh
        self._store = store
        self._language = language
        self.on_stored: Callable[[], None] = lambda: None

    def make_key(self, version: str, model: str, **inputs: object) -> str:
        """Return the key of an entry made by this prompt version and model from these inputs."""
        return store_key(version=version, model=model, language=self._language, **inputs)

    async def get(self, stage: StoreStage, key: str, kind: type[Value]) -> Value | None:
        if not self._is_readable:
            return None
        return await self._call_guarded(READ, self._store.get(self.topic, stage, key, kind))

    async def values(self, stage: StoreStage, kind: type[Value]) -> tuple[Value, ...]:
        if not self._is_readable:
            return ()
        return await self._call_guarded(READ, self._store.values(self.topic, stage, kind)) or ()

    async def put(self, stage: StoreStage, key: str, value: BaseModel) -> None:
        if not self.failure:
            await self._call_guarded(WRITE, self._store.put(self.topic, stage, key, value))
            if self._is_readable and not self.failure:
                self.on_stored()

    async def _call_guarded(self, operation: str, call: Awaitable[Result]) -> Result | None:
        """Return the result of the call; None after an error or a timeout."""
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                result = await call
            is_miss = operation == READ and not result
            self._metrics.count(STORE_REQUESTS, operation, MISS if is_miss else OK)
            return result
        except TimeoutError:
            self.failure, self._is_readable = StoreError(SLOW), False
        except AppException as error:
            self.failure = error
            self._is_readable = self._is_readable and operation == WRITE
        self._metrics.count(STORE_REQUESTS, operation, self.failure.code)
        log.warning("store disabled for this research run", extra={"error": self.failure.code})
        return None
