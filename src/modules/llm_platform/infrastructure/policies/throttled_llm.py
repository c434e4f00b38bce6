"""No more calls a second than a model's service allows, and none while it asked to be left alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Final

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart
from modules.llm_platform.domain.exceptions import LLMBlockedError, LLMException
from modules.llm_platform.domain.ports.llm import ILLMProvider, IWarmUp
from modules.llm_platform.infrastructure.policies.pace import Busy, Pace

LONGEST_WAIT_S: Final = 30.0  # beyond it the next model, or the extractive writer, is better for a person who waits

BUSY = "{name} may not be asked more often: it is busy for the next {seconds:.0f} s; try later, or raise LLM_RPS"


class ThrottledLLM(ILLMProvider):
    """Asks `llm` at the pace of its service; a streamed answer keeps its place until its end. Who would wait longer than
    `longest_wait_s` is sent away at once with LLMBlockedError that cost no call; a Retry-After is honoured for all who
    share the pace, whichever of them was told.
    """

    def __init__(self, llm: ILLMProvider, pace: Pace, *, longest_wait_s: float = LONGEST_WAIT_S) -> None:
        self.name = llm.name
        self.model = llm.model
        self._llm = llm
        self._pace = pace
        self._longest_wait_s = longest_wait_s

    async def generate(self, request: LLMRequest) -> LLMResponse:
        with self._told_by_the_port():
            async with self._pace.turn(self._longest_wait_s):
                return await self._llm.generate(request)

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        with self._told_by_the_port():
            parts = self._llm.stream(request)  # begins when it is first asked for a part
            async with self._pace.turn(self._longest_wait_s), aclosing(parts) as stream:  # type: ignore[type-var]
                async for part in stream:
                    yield part

    async def warm_up(self) -> None:
        if isinstance(self._llm, IWarmUp):
            await self._llm.warm_up()

    @contextmanager
    def _told_by_the_port(self) -> Iterator[None]:
        """A turn that is not to be had becomes an error of the port; a wait that the service names holds for all."""
        try:
            yield
        except Busy as busy:
            words = BUSY.format(name=self.name, seconds=busy.wait_s)
            raise LLMBlockedError(words, retry_after_s=busy.wait_s) from None
        except LLMException as error:
            self._pace.heed(error)
            raise
