"""Readiness and figures of a worker over HTTP, for those who keep it running; no framework, it answers three GETs."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from modules.llm_platform.presentation.kafka.worker.handler import HandlerCounts
from modules.llm_platform.presentation.kafka.worker.worker import Worker
from shared.config import SettingsError

REQUEST_BYTES: Final = 8192  # of the line and the headers, which nobody reads
REQUEST_S: Final = 5.0
AT_ONCE: Final = 32

_END: Final = b"\r\n\r\n"
_JSON: Final = "application/json"


class WorkerHttp:
    """`not_ready` says why requests are not answered, nothing when they are; `figures` gives the text for Prometheus."""

    def __init__(self, not_ready: Callable[[], Sequence[str]], figures: Callable[[], str]) -> None:
        self._not_ready = not_ready
        self._figures = figures
        self._open = 0

    @asynccontextmanager
    async def listening(self, host: str, port: int, tried: int = 1) -> AsyncIterator[int]:
        """Answer while inside; the port: the first of `tried` ports from `port` on that is not taken, and any free one when
        `port` is 0. SettingsError when none can be had.
        """
        server = await self._listen(host, port, tried)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()

    async def _listen(self, host: str, port: int, tried: int) -> asyncio.Server:
        for number in range(port, port + tried):
            try:
                return await asyncio.start_server(self._serve, host, number, limit=REQUEST_BYTES)
            except OSError as error:
                reason = error.strerror
                if error.errno != errno.EADDRINUSE:
                    break
        ports = str(port) if number == port else f"{port} to {number}"
        raise SettingsError(
            f"WORKER_HTTP_PORT {ports} of {host} cannot be listened on ({reason}): choose another, 0 is any free one. "
            "Example: WORKER_HTTP_PORT=9101"
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(REQUEST_S):
                if self._open <= AT_ONCE:
                    head = await reader.readuntil(_END)
                    writer.write(self._answer(head.split(b"\r\n", 1)[0].decode("latin-1")))
                    await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # whoever asks so gets no answer
        finally:
            self._open -= 1
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _answer(self, line: str) -> bytes:
        method, _, rest = line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        status, kind, body = self._page(path) if method in ("GET", "HEAD") else _problem(HTTPStatus.METHOD_NOT_ALLOWED)
        data = body.encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if method == "HEAD" else data)

    def _page(self, path: str) -> tuple[HTTPStatus, str, str]:
        if path == "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, self._figures()
        if path == "/health":  # the process answers, so it is alive
            return HTTPStatus.OK, _JSON, json.dumps({"status": "alive"})
        if path == "/ready":
            reasons = list(self._not_ready())
            if not reasons:
                return HTTPStatus.OK, _JSON, json.dumps({"status": "ready", "detail": None, "reasons": []})
            told = {"status": "not ready", "detail": "; ".join(reasons), "reasons": reasons}
            return HTTPStatus.SERVICE_UNAVAILABLE, _JSON, json.dumps(told)
        return _problem(HTTPStatus.NOT_FOUND)


def _problem(status: HTTPStatus) -> tuple[HTTPStatus, str, str]:
    problem = {"type": "about:blank", "title": status.phrase, "status": status.value}
    return status, "application/problem+json", json.dumps(problem)


# The worker's metrics as Prometheus reads them.


PREFIX: Final = "llm_platform_worker_"


def metrics_text(worker: Worker, counts: HandlerCounts) -> str:
    """All metrics in the text format, from a registry of this worker's own: nothing of the process beside them."""
    registry = CollectorRegistry()
    registry.register(_WorkerCollector(worker, counts))
    return generate_latest(registry).decode()


class _WorkerCollector(Collector):
    """Reads the worker's state when it is asked."""

    def __init__(self, worker: Worker, counts: HandlerCounts) -> None:
        self._worker, self._counts = worker, counts

    def collect(self) -> Iterator[Metric]:
        yield from self._state()
        yield from self._counters()

    def _state(self) -> Iterator[Metric]:
        worker = self._worker
        view, desk, monitor = worker.reader.view, worker.desk, worker.lag_monitor
        yield _gauge("ready", "Whether requests are answered right now.", not worker.not_ready())
        yield _gauge("brokers_up", "Brokers that the consumer is connected to.", view.brokers_up)
        yield _gauge("in_flight", "Requests that are worked on.", desk.in_flight)
        yield _gauge("waiting", "Requests that were read and have not begun.", desk.waiting)
        lag = GaugeMetricFamily(
            f"{PREFIX}lag",
            "Requests that are not committed, by partition of this worker.",
            labels=("topic", "partition"),
        )
        for (topic, number), count in sorted(monitor.lag.items()):
            lag.add_metric((topic, str(number)), count)
        yield lag
        yield _gauge("lag_age_seconds", "How long ago the brokers told the lag.", monitor.age())
        yield _gauge("stalled_partitions", "Partitions that are assigned, behind and not read.", len(monitor.stalled))
        age = worker.reader.commits.age()
        yield _gauge("commit_age_seconds", "How long what could be committed has not been; 0: all is.", age)

    def _counters(self) -> Iterator[Metric]:
        counts = self._counts
        outcomes = "First outcomes, by stage and error code (ok: a result)."
        yield _counter("outcomes_total", outcomes, ("stage", "code"), counts.outcomes.items())
        repeated, reused = (
            [((stage,), count) for stage, count in counted.items()] for counted in (counts.repeated, counts.reused)
        )
        yield _counter("repeated_total", "Requests that got an earlier outcome again.", ("stage",), repeated)
        yield _counter("request_id_reused_total", "Repeated ids with another payload.", ("stage",), reused)
        waits = "Times that the store of outcomes had to be waited for."
        yield _counter("store_waits_total", waits, (), [((), counts.store_waits)])


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, about, value=value)


def _counter(name: str, about: str, labels: Sequence[str], counted: Iterable[tuple[tuple[str, ...], int]]) -> Metric:
    family = CounterMetricFamily(PREFIX + name, about, labels=labels)
    for values, count in sorted(counted):
        family.add_metric(values, count)
    return family
