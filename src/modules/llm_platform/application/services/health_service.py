"""The health check of the configured upstreams, rate-limited and with a deadline (docs/reference/http.md)."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime

from modules.llm_platform.domain.concurrency.single_flight import SingleFlight
from modules.llm_platform.domain.dtos import health_dtos as dtos
from modules.llm_platform.domain.ports.health import ICircuit, IHealthProbe
from shared.exceptions import AppException

log = logging.getLogger(__name__)

DEADLINE_S = 0.8  # /health answers within a second, even if an upstream hangs
REPORT_TTL_S = 10.0
NOT_CHECKED = "configured, not checked: every check would cost money"
CIRCUIT_OPEN = "the last {failures} calls failed, so calls are paused for a few seconds"
CHECK_FAILED = "the check itself failed: see the log"

Providers = Mapping[str, object]  # keyed by name


class HealthService:
    """Checks the configured upstreams, and caches the report for REPORT_TTL_S seconds.

    - `search` and `llms` map names to the configured providers. A provider that is no IHealthProbe is not called: its status is
      `unknown`, which does not lower the overall status.
    - `stores` are shared services such as Redis. The platform works without them, so a failed store only makes it `degraded`.
    - `searxng` and `kimi` are the provider names that set the two flags of the report.
    - `circuits` maps a kind (search, llm) and a name to a circuit breaker. A provider whose circuit is open is `unhealthy`.
    """

    def __init__(
        self,
        search: Providers,
        llms: Providers,
        *,
        stores: Providers | None = None,
        searxng: Collection[str] = ("searxng",),
        kimi: Collection[str] = ("kimi",),
        circuits: Mapping[str, Mapping[str, ICircuit]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._search = dict(search)
        self._llms = dict(llms)
        self._stores = dict(stores or {})
        self._searxng = frozenset(searxng)
        self._kimi = frozenset(kimi)
        self._circuits = circuits or {}
        self._clock = clock
        self._deadline_s = deadline_s
        self._pings: dict[tuple[str, str], asyncio.Task[str]] = {}
        self._checks: SingleFlight[dtos.HealthReport] = SingleFlight()
        self._report: dtos.HealthReport | None = None
        self._checked_at = 0.0

    async def check(self) -> dtos.HealthReport:
        """Return the report, at most REPORT_TTL_S seconds old. A check waits at most `deadline_s` seconds for the upstreams.

        Never raises for an upstream that fails. Concurrent callers share one check.
        """
        if self._report is not None and self._clock() - self._checked_at < REPORT_TTL_S:
            return self._report
        report, _ = await self._checks.run("check", self._check_all)
        return report

    async def _check_all(self) -> dtos.HealthReport:
        began = self._clock()
        kinds: dict[dtos.ComponentKind, Providers] = {"search": self._search, "llm": self._llms, "store": self._stores}
        for kind, providers in kinds.items():
            for name, provider in providers.items():
                last = self._pings.get((kind, name))
                if isinstance(provider, IHealthProbe) and (last is None or last.done()):
                    self._pings[kind, name] = asyncio.create_task(_ping(provider))
        if self._pings:
            _, hanging = await asyncio.wait(self._pings.values(), timeout=self._deadline_s)
            for task in hanging:
                task.cancel()  # it is not awaited: a ping that ignores the cancellation must not delay the report
        search, llms, stores = (self._check_components(kind, providers) for kind, providers in kinds.items())
        self._report, self._checked_at = _report(search, llms, stores, self._searxng, self._kimi), began
        return self._report

    def _check_components(self, kind: dtos.ComponentKind, providers: Providers) -> dict[str, dtos.ComponentHealth]:
        circuits = self._circuits.get(kind, {})
        components: dict[str, dtos.ComponentHealth] = {}
        for name in providers:
            status, detail = self._read_status(self._pings.get((kind, name)))
            if kind == "store" and not detail:  # a healthy store with an empty status is left out, such as local files
                continue
            circuit = circuits.get(name)
            # The error of a failed check says more than an open circuit.
            if circuit is not None and circuit.state == "open" and status != "unhealthy":
                status, detail = "unhealthy", CIRCUIT_OPEN.format(failures=circuit.failures)
            components[name] = dtos.ComponentHealth(
                kind=kind, status=status, detail=detail, checked_at=datetime.now(UTC)
            )
        return components

    def _read_status(self, ping: asyncio.Task[str] | None) -> tuple[dtos.ComponentStatus, str]:
        if ping is None:
            return "unknown", NOT_CHECKED
        if not ping.done() or ping.cancelled():
            return "unhealthy", f"did not answer within {self._deadline_s:g} s"
        error = ping.exception()
        if error is None:
            return "healthy", ping.result()
        if isinstance(error, AppException):
            return "unhealthy", error.message
        log.error("health check failed", exc_info=error)
        return "unhealthy", CHECK_FAILED


async def _ping(probe: IHealthProbe) -> str:
    return await probe.ping()


def _report(
    search: Mapping[str, dtos.ComponentHealth],
    llms: Mapping[str, dtos.ComponentHealth],
    stores: Mapping[str, dtos.ComponentHealth],
    searxng: Collection[str],
    kimi: Collection[str],
) -> dtos.HealthReport:
    components = (*search.values(), *{**llms, **stores}.values())
    status: dtos.OverallStatus = "healthy"
    if all(component.status == "unhealthy" for component in search.values()):
        status = "unhealthy"
    elif any(component.status == "unhealthy" for component in components):
        status = "degraded"
    return dtos.HealthReport(
        status=status,
        searxng_connected=any(search[name].status == "healthy" for name in search if name in searxng),
        kimi_coding_available=any(llms[name].status != "unhealthy" for name in llms if name in kimi),
        components={**stores, **llms, **search},
    )
