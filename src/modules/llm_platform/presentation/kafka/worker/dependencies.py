"""What a worker cannot answer without: the index, the embedder, the model and the store of outcomes.

A cause that only the operator can mend (no index, a wrong key, another embedder's index, no such model, a full disk) is no
outcome. While there is one the worker takes no requests and is not ready; it tries again and goes on by itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.application.services.retrieval_service import RetrievalService
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest
from modules.llm_platform.domain.dtos.retrieval_dtos import RagSearch, RagStage
from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    EmbeddingError,
    LLMException,
    LLMProviderException,
    LLMUnavailableError,
)
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.presentation.kafka.contract.outcomes import MUST_MEND, DependencyName
from shared.exceptions import AppException

log = logging.getLogger(__name__)

Probe = Callable[[], Awaitable[str]]

BOTH_STAGES: Final[frozenset[RagStage]] = frozenset({"search", "answer"})

CHECK_S: Final = 5.0  # the deadline of a free probe
CALL_S: Final = 30.0  # of a real call
BACKOFF_S: Final = (
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
)  # between the tries of what has to be mended; the last one again and again
FAILED_CALL_COUNTS_S: Final = 60.0  # how long a failed call of a request says that the worker is not ready


@dataclass(frozen=True, slots=True)
class Dependency:
    """`check` is free, and asked every `every_s` seconds; None where only a real call can tell. `call` uses the dependency
    as a request does, which may cost a fraction of a cent, and is `free` on this machine: then it is made at the start. Both
    return a word for people and raise AppExceptions.
    """

    name: DependencyName
    call: Probe
    check: Probe | None
    every_s: float = 30.0
    stages: frozenset[RagStage] = BOTH_STAGES
    free: bool = False


@dataclass(slots=True)
class _State:
    """`error`: what the last probe found. `failed_call`: why a request failed by it, and until when (clock) that counts."""

    dependency: Dependency
    error: AppException | None = None
    since: float = 0.0
    check_is_wrong: bool = False  # it is refused where a real call is served: a key that may not list models
    failed_call: tuple[str, float] | None = None
    probing: asyncio.Task[None] | None = None
    probes_really: bool = False
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def must_mend(self) -> bool:
        return isinstance(self.error, MUST_MEND)

    @property
    def check(self) -> Probe | None:
        """The free probe; None where there is none that tells the truth."""
        return None if self.check_is_wrong else self.dependency.check


class Dependencies:
    """Watches what the worker needs. Belongs to one event loop. `clock`: seconds that only grow."""

    def __init__(self, dependencies: Sequence[Dependency] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._states = {each.name: _State(each) for each in dependencies}
        self._clock = clock
        self._usable = asyncio.Event()
        self._usable.set()
        self._given_up = False
        self.taking: Callable[[bool], object] = lambda _: (
            None
        )  # called with False to stop taking requests, True to go on

    def __iter__(self) -> Iterator[Dependency]:
        return iter([state.dependency for state in self._states.values()])

    def only_for(self, stages: Sequence[RagStage]) -> None:
        """Forget what none of these stages uses: who only searches needs no model."""
        self._states = {
            name: state for name, state in self._states.items() if not state.dependency.stages.isdisjoint(stages)
        }

    def watches(self, name: DependencyName | None) -> bool:
        """Whether there is a way to find out how it is."""
        return name in self._states

    def not_ready(self) -> str | None:
        """Why requests are not answered right now; None: nothing is known to stand in the way."""
        for name, state in self._states.items():
            if state.error is not None:
                return f"{name}: {state.error.message}"
        for name, state in self._states.items():
            if state.failed_call is not None and self._clock() < state.failed_call[1]:
                return f"{name}: {state.failed_call[0]}"
        return None

    def met(self, name: DependencyName, failure: str | None) -> None:
        """How a request fared with it: the message of its failure, None when it was served."""
        state = self._states.get(name)
        if state is not None:
            state.failed_call = None if failure is None else (failure, self._clock() + FAILED_CALL_COUNTS_S)

    async def usable(self) -> None:
        """Return when nothing has to be mended: at once, mostly. After `give_up` the caller is cancelled instead of waiting."""
        await self._usable.wait()
        if self._given_up and self._must_mend:
            raise asyncio.CancelledError

    def give_up(self) -> None:
        """The worker stops: who waits here, or would later, is cancelled. Its request has no outcome and is read again."""
        self._given_up = True
        self._usable.set()

    @property
    def _must_mend(self) -> bool:
        return any(state.must_mend for state in self._states.values())

    async def confirm(self, name: DependencyName) -> bool:
        """Whether the dependency fails on its own account, and not by what a request said; if so, this returns when all is
        mended. False as well where nobody can find out.
        """
        state = self._states.get(name)
        if state is None:
            return False
        if not state.must_mend:
            await self._probe(state, really=True)
        if not state.must_mend:
            return False
        await self.usable()
        return True

    async def watch(self) -> None:
        """Probe everything now and again until this is cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for state in self._states.values():
                    group.create_task(self._watch(state))
        finally:
            for state in self._states.values():
                if state.probing is not None:
                    state.probing.cancel()

    async def _watch(self, state: _State) -> None:
        tries = 0
        await self._probe(state, really=state.check is None or state.dependency.free)
        while True:
            tries = tries + 1 if state.error is not None else 0
            state.woken.clear()
            try:
                async with asyncio.timeout(_wait_s(state, tries)):
                    await state.woken.wait()
            except TimeoutError:
                await self._probe(state, really=state.must_mend or state.check is None)

    async def _probe(self, state: _State, *, really: bool) -> None:
        """Look how it is; who comes while somebody looks waits for the same answer, unless that one asks for less."""
        while state.probing is not None and not state.probing.done():
            enough = state.probes_really or not really
            await asyncio.shield(state.probing)
            if enough:
                return
        state.probes_really = really
        state.probing = asyncio.get_running_loop().create_task(self._look(state, really=really))
        await asyncio.shield(state.probing)

    async def _look(self, state: _State, *, really: bool) -> None:
        check = state.check
        if really or check is None:
            self._found(state, await _error_of(state.dependency.call, CALL_S))
            return
        error = await _error_of(check, CHECK_S)
        if isinstance(error, (*MUST_MEND, LLMProviderException)) and check is not state.dependency.call:
            # A key may be refused the free question and serve for the real one, or a service not know that question.
            error = await _error_of(state.dependency.call, CALL_S)
            state.check_is_wrong = error is None
        self._found(state, error)

    def _found(self, state: _State, error: AppException | None) -> None:
        before, state.error = state.error, error
        if error is None:
            state.failed_call = None
        if before is None or error is None or before.message != error.message:
            self._tell(state, before)
        if (error is None) is not (before is None):
            state.woken.set()
        stop = self._must_mend
        if not self._given_up and stop is self._usable.is_set():
            self._usable.clear() if stop else self._usable.set()
            self.taking(not stop)

    def _tell(self, state: _State, before: AppException | None) -> None:
        """Once for each change, however many requests wait."""
        error = state.error
        about: dict[str, str] = {"dependency": state.dependency.name}
        if error is None:
            if before is not None:
                log.warning("works again", extra={**about, "after_s": round(self._clock() - state.since, 1)})
            return
        if before is None:
            state.since = self._clock()
        about |= {"reason": error.message, "cause": error.code}
        if state.must_mend:
            log.error("no requests are taken until this is mended; it is tried again and again", extra=about)
        else:
            log.warning("a dependency does not answer", extra=about)


def _wait_s(state: _State, tries: int) -> float | None:
    """Until the next probe; None: not before something happens, since it costs money and the calls of requests tell."""
    if tries:
        return BACKOFF_S[min(tries, len(BACKOFF_S)) - 1]
    return None if state.check is None else state.dependency.every_s


async def outcome_of(probe: Probe, within_s: float = CALL_S) -> str | AppException:
    """What a probe tells: a word for people, or what is wrong."""
    try:
        async with asyncio.timeout(within_s):
            return await probe()
    except AppException as error:
        return error
    except TimeoutError:
        return AppException(f"did not answer within {within_s:g} s")


async def _error_of(probe: Probe, within_s: float) -> AppException | None:
    found = await outcome_of(probe, within_s)
    return found if isinstance(found, AppException) else None


# How each dependency of a worker is asked how it is: for nothing where that is possible, and by a real call.


LOCAL_EVERY_S: Final = 10.0  # between two probes of what is on this machine
REMOTE_EVERY_S: Final = 30.0
PROBE_WORD: Final = "python"
PROBE_TOKENS: Final = 16


def of_outcomes(outcomes: IOutcomeStore) -> Dependency:
    """The store, with a write."""

    async def write() -> str:
        await outcomes.probe()
        return f"shared by {outcomes.reach}"

    return Dependency("outcomes", write, write, LOCAL_EVERY_S, free=True)


def of_retrieval(retrieval: RetrievalService, embedder: IEmbedder, *, paid: bool) -> tuple[Dependency, Dependency]:
    """The index and its embedder. `paid`: to embed a word costs money, so it is done only when something is wrong."""

    async def describe() -> str:
        facts = await retrieval.describe()
        return f"collection {facts.name}, by {facts.embedder}"

    async def search() -> str:
        word = await describe()
        try:
            await retrieval.search(RagSearch(query=PROBE_WORD, top_k=1, by_words_alone=False))
        except (EmbeddingError, EmbeddingConfigError):
            return word  # that is the embedder's matter, which is probed by itself
        return word

    async def embed() -> str:
        await embedder.embed([PROBE_WORD])
        return embedder.name

    every_s = REMOTE_EVERY_S if paid else LOCAL_EVERY_S
    index = Dependency("index", search, describe, every_s, free=not paid)
    return index, Dependency("embedder", embed, None if paid else embed, every_s, free=not paid)


def of_models(llm: ILLMProvider, models: Mapping[str, ILLMProvider]) -> Dependency:
    """The models that `llm` asks in their order: one that serves is enough."""

    async def ping() -> str:
        errors: list[LLMException] = []
        for model in models.values():
            try:
                return await model.ping() if isinstance(model, IHealthProbe) else ""
            except LLMException as error:
                errors.append(error)
        raise next((error for error in errors if error.retryable), errors[-1])

    async def generate() -> str:
        asked = LLMRequest(messages=(ChatMessage(role="user", content=PROBE_WORD),), max_tokens=PROBE_TOKENS)
        try:
            answer = await llm.generate(asked)
        except LLMUnavailableError:
            raise
        except (
            LLMProviderException
        ) as odd:  # so few tokens make no answer of a model that thinks first; but it was there
            return odd.message
        return f"{answer.provider}/{answer.model} answers"

    return Dependency("model", generate, ping, REMOTE_EVERY_S, frozenset({"answer"}))
