"""Watch the dependencies of a worker: the index, the embedder, the model and the outcome store.

A cause that only the operator can repair (no index, an invalid key, the index of another embedder, an unknown model, a full
disk) is not an outcome. Until it is repaired, the worker is not ready and consumes no requests. It probes the dependency, and
resumes when that works again.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.application.rag.retrieval import RetrievalService
from modules.llm_platform.domain import exceptions
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest
from modules.llm_platform.domain.dtos.retrieval_dtos import RagSearch, RagStage
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.presentation.kafka.contract.outcomes import OPERATOR_ERRORS, DependencyName
from modules.llm_platform.presentation.kafka.contract.requests import STAGES
from shared.exceptions import AppException

log = logging.getLogger(__name__)

Probe = Callable[[], Awaitable[str]]

CHECK_TIMEOUT_S: Final = 5.0
CALL_TIMEOUT_S: Final = 30.0
BACKOFF_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)  # The waits between probes of a failed dependency. The last one repeats.
FAILED_CALL_TTL_S: Final = 60.0  # After a failed call of a request, the worker is not ready for this time.
LOCAL_INTERVAL_S: Final = 10.0  # The pause between probes of a dependency on this machine.
REMOTE_INTERVAL_S: Final = 30.0
PROBE_TEXT: Final = "python"
PROBE_TOKENS: Final = 16


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency and its probes, which return a description or raise an AppException.

    - `check` costs nothing and runs every `interval_s` seconds. It is None if only a real call shows whether the dependency
      works.
    - `call` uses the dependency as a request does, which may cost a fraction of a cent.
    - `is_free` is True if `call` costs nothing. It then runs at the start, too.
    """

    name: DependencyName
    call: Probe
    check: Probe | None
    interval_s: float = REMOTE_INTERVAL_S
    stages: frozenset[RagStage] = frozenset(STAGES)
    is_free: bool = False


@dataclass(slots=True)
class _State:
    """The state of a dependency.

    - `error` is the result of the last probe.
    - `is_check_refused` is True if the check fails although a real call works, such as with a key that may not list models.
    - `failed_call` is the error of a request, and the time in monotonic seconds until which it counts.
    """

    dependency: Dependency
    error: AppException | None = None
    failed_at: float = 0.0
    is_check_refused: bool = False
    failed_call: tuple[str, float] | None = None
    probe_task: asyncio.Task[None] | None = None
    is_real_probe: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def needs_operator(self) -> bool:
        return isinstance(self.error, OPERATOR_ERRORS)

    @property
    def check(self) -> Probe | None:
        return None if self.is_check_refused else self.dependency.check

    def compute_next_probe_s(self, failed_probes: int) -> float | None:
        """Return the seconds until the next probe, or None if no probe is planned, because it costs money.

        Requests then show errors.
        """
        if failed_probes:
            return BACKOFF_S[min(failed_probes, len(BACKOFF_S)) - 1]
        return None if self.check is None else self.dependency.interval_s


class Dependencies:
    """Probes the dependencies. An object belongs to one event loop.

    `on_usable_changed` is called with False when consumption must stop, and with True when it may continue.
    """

    def __init__(self, dependencies: Sequence[Dependency] = ()) -> None:
        self._states = {dependency.name: _State(dependency) for dependency in dependencies}
        self._usable = asyncio.Event()
        self._usable.set()
        self._is_stopping = False
        self.on_usable_changed: Callable[[bool], object] = lambda _: None

    def __iter__(self) -> Iterator[Dependency]:
        return iter([state.dependency for state in self._states.values()])

    def restrict_to(self, stages: Sequence[RagStage]) -> None:
        """Remove the dependencies that none of these stages uses."""
        self._states = {
            name: state for name, state in self._states.items() if not state.dependency.stages.isdisjoint(stages)
        }

    def is_watched(self, name: DependencyName) -> bool:
        return name in self._states

    def not_ready(self) -> str | None:
        """Return why requests cannot be answered now, or None if no failure is known."""
        for name, state in self._states.items():
            if state.error is not None:
                return f"{name}: {state.error.message}"
        for name, state in self._states.items():
            if state.failed_call is not None and time.monotonic() < state.failed_call[1]:
                return f"{name}: {state.failed_call[0]}"
        return None

    def record_call(self, name: DependencyName, failure: str | None) -> None:
        """Record the result of a request's call: the message of the failure, or None for success."""
        state = self._states.get(name)
        if state is not None:
            state.failed_call = None if failure is None else (failure, time.monotonic() + FAILED_CALL_TTL_S)

    async def wait_until_usable(self) -> None:
        """Wait until no repair is needed. After `stop_waiting`, raise CancelledError instead of waiting."""
        await self._usable.wait()
        if self._is_stopping and self._needs_operator:
            raise asyncio.CancelledError

    def stop_waiting(self) -> None:
        """Cancel all current and future waits. The worker stops, and the requests are read again."""
        self._is_stopping = True
        self._usable.set()

    @property
    def _needs_operator(self) -> bool:
        return any(state.needs_operator for state in self._states.values())

    async def confirm_failure(self, name: DependencyName) -> bool:
        """Probe a dependency that failed a request.

        If the failure is real, wait for its repair and return True. Return False at once if the dependency works or cannot be
        probed.
        """
        state = self._states.get(name)
        if state is None:
            return False
        if not state.needs_operator:
            await self._probe(state, is_real=True)
        if not state.needs_operator:
            return False
        await self.wait_until_usable()
        return True

    async def watch(self) -> None:
        """Probe all dependencies periodically until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for state in self._states.values():
                    group.create_task(self._watch(state))
        finally:
            for state in self._states.values():
                if state.probe_task is not None:
                    state.probe_task.cancel()

    async def _watch(self, state: _State) -> None:
        failed_probes = 0
        await self._probe(state, is_real=state.check is None or state.dependency.is_free)
        while True:
            failed_probes = failed_probes + 1 if state.error is not None else 0
            state.changed.clear()
            try:
                async with asyncio.timeout(state.compute_next_probe_s(failed_probes)):
                    await state.changed.wait()
            except TimeoutError:
                await self._probe(state, is_real=state.needs_operator or state.check is None)

    async def _probe(self, state: _State, *, is_real: bool) -> None:
        """Run a probe, or wait for the running one if that is a real call or a check suffices."""
        while state.probe_task is not None and not state.probe_task.done():
            is_sufficient = state.is_real_probe or not is_real
            await asyncio.shield(state.probe_task)
            if is_sufficient:
                return
        state.is_real_probe = is_real
        state.probe_task = asyncio.get_running_loop().create_task(self._run_probe(state, is_real=is_real))
        await asyncio.shield(state.probe_task)

    async def _run_probe(self, state: _State, *, is_real: bool) -> None:
        call, check = state.dependency.call, state.check
        if is_real or check is None:
            self._update(state, await _probe_error(call, CALL_TIMEOUT_S))
            return
        error = await _probe_error(check, CHECK_TIMEOUT_S)
        if isinstance(error, (*OPERATOR_ERRORS, exceptions.LLMProviderException)) and check is not call:
            # A key may be refused for the check and valid for a call, or a service may not support the check.
            error = await _probe_error(call, CALL_TIMEOUT_S)
            state.is_check_refused = error is None
        self._update(state, error)

    def _update(self, state: _State, error: AppException | None) -> None:
        previous, state.error = state.error, error
        if error is None:
            state.failed_call = None
        if previous is None or error is None or previous.message != error.message:
            self._log_change(state, previous)
        if (error is None) is not (previous is None):
            state.changed.set()
        is_usable = not self._needs_operator
        if not self._is_stopping and is_usable is not self._usable.is_set():
            self._usable.set() if is_usable else self._usable.clear()
            self.on_usable_changed(is_usable)

    def _log_change(self, state: _State, previous: AppException | None) -> None:
        error = state.error
        about: dict[str, str] = {"dependency": state.dependency.name}
        if error is None:
            if previous is not None:
                after_s = round(time.monotonic() - state.failed_at, 1)
                log.warning("a dependency works again", extra={**about, "after_s": after_s})
            return
        if previous is None:
            state.failed_at = time.monotonic()
        about |= {"reason": error.message, "cause": error.code}
        if state.needs_operator:
            log.error("a dependency needs repair: no requests are consumed until it works again", extra=about)
        else:
            log.warning("a dependency fails", extra=about)


async def run_probe(probe: Probe, timeout_s: float = CALL_TIMEOUT_S) -> str | AppException:
    """Return the description that the probe returns, or its error."""
    try:
        async with asyncio.timeout(timeout_s):
            return await probe()
    except AppException as error:
        return error
    except TimeoutError:
        return AppException(f"did not answer within {timeout_s:g} s")


async def _probe_error(probe: Probe, timeout_s: float) -> AppException | None:
    result = await run_probe(probe, timeout_s)
    return result if isinstance(result, AppException) else None


def make_outcome_store_dependency(outcomes: IOutcomeStore) -> Dependency:
    """Return the dependency of the outcome store, which is probed with a write."""

    async def write() -> str:
        await outcomes.probe()
        return f"shared by {outcomes.reach}"

    return Dependency("outcomes", write, write, LOCAL_INTERVAL_S, is_free=True)


def make_retrieval_dependencies(
    retrieval: RetrievalService, embedder: IEmbedder, *, is_paid: bool
) -> tuple[Dependency, Dependency]:
    """Return the dependencies of the index and its embedder. A paid embedder is called only at the start and after an error."""

    async def describe() -> str:
        collection = await retrieval.describe()
        return f"collection {collection.name}, by {collection.embedder}"

    async def search() -> str:
        description = await describe()
        try:
            await retrieval.search(RagSearch(query=PROBE_TEXT, top_k=1, keyword_fallback=False))
        except (exceptions.EmbeddingError, exceptions.EmbeddingConfigError):
            return description  # The embedder has a probe of its own.
        return description

    async def embed() -> str:
        await embedder.embed([PROBE_TEXT])
        return embedder.name

    interval_s = REMOTE_INTERVAL_S if is_paid else LOCAL_INTERVAL_S
    index = Dependency("index", search, describe, interval_s, is_free=not is_paid)
    return index, Dependency("embedder", embed, None if is_paid else embed, interval_s, is_free=not is_paid)


def make_model_dependency(llm: ILLMProvider, models: Mapping[str, ILLMProvider]) -> Dependency:
    """Return the dependency of the model. `llm` tries `models` in order, so one that works is enough."""

    async def ping() -> str:
        errors: list[exceptions.LLMException] = []
        for model in models.values():
            try:
                return await model.ping() if isinstance(model, IHealthProbe) else ""
            except exceptions.LLMException as error:
                errors.append(error)
        raise next((error for error in errors if error.retryable), errors[-1])

    async def generate() -> str:
        request = LLMRequest(messages=(ChatMessage(role="user", content=PROBE_TEXT),), max_tokens=PROBE_TOKENS)
        try:
            response = await llm.generate(request)
        except exceptions.LLMUnavailableError:
            raise
        except exceptions.LLMProviderException as error:
            # A reasoning model may use all tokens before its answer, but it works.
            return error.message
        return f"{response.provider}/{response.model} answers"

    return Dependency("model", generate, ping, REMOTE_INTERVAL_S, frozenset({"answer"}))
