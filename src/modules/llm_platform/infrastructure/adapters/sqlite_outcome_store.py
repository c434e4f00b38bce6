"""Outcomes in one SQLite file, which all workers of a machine share.

Calls that come together are carried out together: with many requests in flight one transaction keeps all their outcomes,
and a durable answer costs little more than one that is not.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeVar

from modules.llm_platform.domain.dtos.outcome import Outcome
from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.domain.exceptions import OutcomeStoreError
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.infrastructure.outcome_table import OtherFormatError, OutcomeTable

Result = TypeVar("Result")
_Answers = tuple[list[list[Outcome | None]], list[list[Outcome]]]  # what was looked up, what was kept

DAY_S: Final = 86_400
CLOSED: Final = "the store of outcomes is closed"
_OF_THE_FILE: Final = (sqlite3.Error, OSError, OtherFormatError)
_BROKEN: Final = (
    "the file of outcomes is damaged: move it away (outcomes.sqlite3 in LLM_PLATFORM_DATA_DIR), and start again"
)
_NEWER: Final = "a newer version wrote the file of outcomes: use that one, or another LLM_PLATFORM_DATA_DIR"


@dataclass(slots=True)
class _Round:
    """What was asked while the last round was carried out."""

    wanted: list[Sequence[tuple[RagStage, str, str]]] = field(default_factory=list)
    askers: list[asyncio.Future[list[Outcome | None]]] = field(default_factory=list)
    offered: list[Sequence[Outcome]] = field(default_factory=list)
    givers: list[asyncio.Future[list[Outcome]]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.wanted or self.offered)


class SqliteOutcomeStore(IOutcomeStore):
    """Outcomes in `file`, made at the first call, each kept for `ttl_days`. `clock`: seconds since 1970."""

    reach = "all workers of this machine"

    def __init__(self, file: Path, ttl_days: float, clock: Callable[[], float] = time.time) -> None:
        self._table = OutcomeTable(file, clock)
        self._ttl_s = ttl_days * DAY_S
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "outcomes")  # owns the connection
        self._next = _Round()
        self._under_way = False
        self._closed = False

    async def get(self, stage: RagStage, request_id: str, tenant: str = "") -> Outcome | None:
        [found] = await self.get_many(((stage, request_id, tenant),))
        return found

    async def get_many(self, wanted: Sequence[tuple[RagStage, str, str]]) -> list[Outcome | None]:
        answer: asyncio.Future[list[Outcome | None]] = self._asked()
        self._next.wanted.append(wanted)
        self._next.askers.append(answer)
        return await answer

    async def keep(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        answer: asyncio.Future[list[Outcome]] = self._asked()
        self._next.offered.append(outcomes)
        self._next.givers.append(answer)
        return await answer

    async def clean(self) -> int:
        before = self._clock() - self._ttl_s
        removed = 0
        while some := await self._in_thread(partial(self._table.clean, before)):
            removed += some
        return removed

    async def probe(self) -> None:
        await self._in_thread(self._table.probe)

    async def identity(self) -> str:
        return await self._in_thread(self._table.identity)

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._table.close)
            self._thread.shutdown()

    def _asked(self) -> asyncio.Future[Any]:
        """The answer to a question of the next round, which begins with the next turn of the loop, or after this one."""
        if self._closed:
            raise OutcomeStoreError(CLOSED)
        loop = asyncio.get_running_loop()
        if not self._under_way:
            self._under_way = True
            loop.call_soon(self._begin, loop)
        return loop.create_future()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        asked, self._next = self._next, _Round()
        if self._closed:
            _refuse((*asked.askers, *asked.givers), OutcomeStoreError(CLOSED))
            return
        work = self._thread.submit(_carried_out, self._table, asked)
        work.add_done_callback(partial(self._done, loop, asked))

    def _done(self, loop: asyncio.AbstractEventLoop, asked: _Round, work: Future[_Answers]) -> None:
        """In the thread."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._answer, loop, asked, work)

    def _answer(self, loop: asyncio.AbstractEventLoop, asked: _Round, work: Future[_Answers]) -> None:
        self._under_way = False
        if self._next:
            self._under_way = True
            self._begin(loop)
        error = work.exception()
        if error is not None:
            _refuse((*asked.askers, *asked.givers), _as_ours(error))
            return
        found, kept = work.result()
        _tell(asked.askers, found)
        _tell(asked.givers, kept)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        if self._closed:
            raise OutcomeStoreError(CLOSED)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, _fresh_after_an_error, self._table, work)
        except _OF_THE_FILE as error:
            raise OutcomeStoreError(_said(error)) from error


def _carried_out(table: OutcomeTable, asked: _Round) -> _Answers:
    """In the thread. What was kept in a round is found in it as well."""
    with ExitStack() as after_an_error:
        after_an_error.callback(table.close)  # the next round begins with a fresh look at the file
        offered = list(chain.from_iterable(asked.offered))
        kept = iter(table.keep_all(offered) if offered else ())
        found = iter(table.get_all(list(chain.from_iterable(asked.wanted))))
        after_an_error.pop_all()
    return _shared_out(found, asked.wanted), _shared_out(kept, asked.offered)


def _fresh_after_an_error(table: OutcomeTable, work: Callable[[], Result]) -> Result:
    """In the thread."""
    with ExitStack() as after_an_error:
        after_an_error.callback(table.close)
        done = work()
        after_an_error.pop_all()
    return done


def _shared_out(answers: Iterator[Result], questions: Iterable[Sequence[object]]) -> list[list[Result]]:
    """To each who asked as many as were asked for."""
    return [list(islice(answers, len(asked))) for asked in questions]


def _tell(waiting: Sequence[asyncio.Future[Result]], answers: Sequence[Result]) -> None:
    for future, answer in zip(waiting, answers, strict=True):
        if not future.done():  # cancelled: nobody waits for it any more
            future.set_result(answer)


def _refuse(waiting: Iterable[asyncio.Future[Any]], error: BaseException) -> None:
    for future in waiting:
        if not future.done():
            future.set_exception(error)


def _as_ours(error: BaseException) -> BaseException:
    """What the file has against a round, in our words."""
    if not isinstance(error, _OF_THE_FILE):
        return error
    ours = OutcomeStoreError(_said(error))
    ours.__cause__ = error
    return ours


def _said(error: Exception) -> str:
    if isinstance(error, OtherFormatError):
        return _NEWER
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return _BROKEN
    why = error.strerror if isinstance(error, OSError) else str(error)
    return f"the file of outcomes cannot be used ({why}): see LLM_PLATFORM_DATA_DIR; nothing is answered until it can"
