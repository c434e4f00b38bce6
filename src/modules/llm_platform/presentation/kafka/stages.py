"""Carries a request out: what it asked for, or the failure to tell."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from modules.llm_platform.domain.dtos.retrieval_dtos import RagAnswer, RagHits, RagQuestion, RagSearch
from modules.llm_platform.presentation.kafka.attempts import Sleep, until_deadline
from modules.llm_platform.presentation.kafka.deadlines import Deadlines
from modules.llm_platform.presentation.kafka.failures import UNFORESEEN, Failure, failure_of
from modules.llm_platform.presentation.kafka.request_error import RequestError
from shared.exceptions import AppException
from shared.logging import bind_request_id

log = logging.getLogger(__name__)

Search = Callable[[RagSearch], Awaitable[RagHits]]
Answer = Callable[[RagQuestion], Awaitable[RagAnswer]]


class Stages:
    """The two stages under one deadline for each request, `timeout_s` seconds with all tries together."""

    def __init__(self, search: Search, answer: Answer, timeout_s: float, sleep: Sleep) -> None:
        self._search, self._answer = search, answer
        self._deadlines, self._sleep = Deadlines(timeout_s), sleep

    async def carry_out(
        self, request_id: str, asked: RagSearch | RagQuestion | RequestError
    ) -> RagHits | RagAnswer | Failure:
        """Raises nothing but CancelledError, and that only when somebody cancels us."""
        if isinstance(asked, RequestError):
            return failure_of(asked)
        try:
            with bind_request_id(request_id):
                return await until_deadline(self._call(asked), self._deadlines, self._sleep)
        except (AppException, TimeoutError) as error:
            return failure_of(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            log.exception("a stage cancelled itself")  # nobody would handle the request again
            return UNFORESEEN
        except Exception as error:  # the outermost loop of a request: one that breaks a stage breaks no other
            log.error("unexpected error", exc_info=error)
            return UNFORESEEN

    def _call(self, asked: RagSearch | RagQuestion) -> Callable[[], Awaitable[RagHits | RagAnswer]]:
        return partial(self._search, asked) if isinstance(asked, RagSearch) else partial(self._answer, asked)
