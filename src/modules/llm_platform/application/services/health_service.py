"""Asks the configured upstreams how they are, seldom and with a deadline (docs/reference/http.md)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime

from modules.llm_platform.domain.dtos.health_dtos import ComponentHealth, HealthReport, OverallStatus
from modules.llm_platform.domain.ports.health import IHealthProbe
from shared.exceptions import AppException

log = logging.getLogger(__name__)

DEADLINE_S = 0.8  # the route promises an answer within a second, whatever hangs
FRESH_S = 10.0  # upstreams are asked at most this often
NOT_ASKED = "configured; not asked, since that would cost money"
CRASHED = "the check itself failed; the log says why"

Named = Mapping[str, object]


class HealthService:
    """One report for all who ask within ten seconds. `search` and `llms` map names to configured providers.

    A provider that is an IHealthProbe is asked; any other counts as able to answer. `searxng` and `kimi` say which
    of the names the two flags of the report speak of.
    """

    def __init__(
        self,
        search: Named,
        llms: Named,
        *,
        searxng: Collection[str] = ("searxng",),
        kimi: Collection[str] = ("kimi",),
        clock: Callable[[], float] = time.monotonic,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._search = dict(search)
        self._llms = dict(llms)
        self._searxng = frozenset(searxng)
        self._kimi = frozenset(kimi)
        self._clock = clock
        self._deadline_s = deadline_s
        self._pings: dict[tuple[str, str], asyncio.Task[str]] = {}
        self._asking: asyncio.Task[HealthReport] | None = None
        self._report: HealthReport | None = None
        self._asked_at = 0.0

    async def check(self) -> HealthReport:
        """The report, at most ten seconds old. Never raises and takes 0.8 s at most; callers share one check."""
        if self._report is not None and self._clock() - self._asked_at < FRESH_S:
            return self._report
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_all())
        return await asyncio.shield(self._asking)

    async def _ask_all(self) -> HealthReport:
        self._asked_at = self._clock()
        pings = {**self._begin("search", self._search), **self._begin("llm", self._llms)}
        if pings:
            _, hanging = await asyncio.wait(pings.values(), timeout=self._deadline_s)
            for task in hanging:
                task.cancel()  # ends in its own time: a ping that does not listen must not hold up the report
        search = self._components("search", self._search)
        llms = self._components("llm", self._llms)
        self._report = _report(search, llms, self._searxng, self._kimi)
        return self._report

    def _begin(self, kind: str, providers: Named) -> dict[tuple[str, str], asyncio.Task[str]]:
        """A ping for each provider that can be asked; one that still hangs from last time is not asked twice."""
        for name, provider in providers.items():
            last = self._pings.get((kind, name))
            if isinstance(provider, IHealthProbe) and (last is None or last.done()):
                self._pings[kind, name] = asyncio.create_task(_ping(provider))
        return {key: task for key, task in self._pings.items() if key[0] == kind}

    def _components(self, kind: str, providers: Named) -> dict[str, ComponentHealth]:
        return {name: self._component(self._pings.get((kind, name))) for name in providers}

    def _component(self, ping: asyncio.Task[str] | None) -> ComponentHealth:
        now = datetime.now(UTC)
        if ping is None:
            return ComponentHealth(status="unknown", detail=NOT_ASKED, checked_at=now)
        if not ping.done() or ping.cancelled():
            detail = f"did not answer within {self._deadline_s:g} s"
            return ComponentHealth(status="unhealthy", detail=detail, checked_at=now)
        error = ping.exception()
        if error is None:
            return ComponentHealth(status="healthy", detail=ping.result(), checked_at=now)
        if isinstance(error, AppException):
            return ComponentHealth(status="unhealthy", detail=error.message, checked_at=now)
        log.error("health check failed", exc_info=error)
        return ComponentHealth(status="unhealthy", detail=CRASHED, checked_at=now)


async def _ping(probe: IHealthProbe) -> str:
    return await probe.ping()


def _report(
    search: Mapping[str, ComponentHealth],
    llms: Mapping[str, ComponentHealth],
    searxng: Collection[str],
    kimi: Collection[str],
) -> HealthReport:
    return HealthReport(
        status=_overall(search, llms),
        searxng_connected=any(search[name].status == "healthy" for name in search if name in searxng),
        kimi_coding_available=any(llms[name].status != "unhealthy" for name in llms if name in kimi),
        components={**llms, **search},
    )


def _overall(search: Mapping[str, ComponentHealth], llms: Mapping[str, ComponentHealth]) -> OverallStatus:
    if all(component.status == "unhealthy" for component in search.values()):
        return "unhealthy"
    failing = any(component.status == "unhealthy" for component in (*search.values(), *llms.values()))
    return "degraded" if failing else "healthy"
