"""Health, readiness and metrics of a worker over HTTP. Three GET routes need no framework."""

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

from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.telemetry import metrics
from modules.llm_platform.presentation.kafka.worker.handler import HandlerCounters
from modules.llm_platform.presentation.kafka.worker.worker import Worker
from modules.llm_platform.presentation.request_head import find_refused_status, is_safe_from_rebinding
from shared.config import LOOPBACK_HOSTS, SettingsError

READ_BYTES: Final = 8192  # bytes read at once
REQUEST_TIMEOUT_S: Final = 5.0
LINGER_S: Final = 1.0  # time for a refused client to read the error
MAX_CONNECTIONS: Final = 32

_JSON: Final = "application/json"


class WorkerHttp:
    """The HTTP endpoints of a worker.

    - `not_ready` returns the reasons why requests are not answered.
    - `metrics` returns the Prometheus text.
    """

    def __init__(self, not_ready: Callable[[], Sequence[str]], metrics: Callable[[], str]) -> None:
        self._not_ready = not_ready
        self._metrics = metrics
        self._connections = 0
        self._is_loopback = False

    @asynccontextmanager
    async def listening(self, host: str, port: int, max_ports: int = 1) -> AsyncIterator[int]:
        """Serve inside the context, and yield the port: the first free one of `max_ports` from `port` on.

        With port 0, it is any free one. Raises SettingsError if none is free.
        """
        self._is_loopback = host in LOOPBACK_HOSTS
        server = await self._start_server(host, port, max_ports)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()

    async def _start_server(self, host: str, port: int, max_ports: int) -> asyncio.Server:
        for number in range(port, port + max_ports):
            try:
                return await asyncio.start_server(self._serve, host, number, limit=READ_BYTES)
            except OSError as error:
                reason = error.strerror
                if error.errno != errno.EADDRINUSE:
                    break
        ports = str(port) if number == port else f"{port} to {number}"
        raise SettingsError(
            f"WORKER_HTTP_PORT {ports} of {host} cannot be used ({reason}): choose another, or 0 for any free port. "
            "Example: WORKER_HTTP_PORT=9101"
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        refused: HTTPStatus | None = None
        self._connections += 1
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                if self._connections <= MAX_CONNECTIONS:
                    head, refused = await _read_head(reader)
                    writer.write(b"".join(_serialize(*_make_problem(refused))) if refused else self._respond(head))
                    await writer.drain()
        except (TimeoutError, EOFError, ConnectionError):
            pass  # an incomplete or slow request gets no response
        finally:
            self._connections -= 1
            if refused:
                # Read on for a moment: closing while the client still sends would discard the response.
                with suppress(TimeoutError, ConnectionError):
                    async with asyncio.timeout(LINGER_S):
                        writer.write_eof()
                        while await reader.read(READ_BYTES):
                            pass
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _respond(self, request_head: bytes) -> bytes:
        request_line, *headers = request_head.split(b"\r\n")
        method, _, rest = request_line.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        fields = (header.partition(b":") for header in headers)
        hosts = (value for name, _, value in fields if name.strip().lower() == b"host")
        if self._is_loopback and not all(map(is_safe_from_rebinding, hosts)):
            page = _make_problem(HTTPStatus.MISDIRECTED_REQUEST)
        else:
            page = self._make_page(path) if method in ("GET", "HEAD") else _make_problem(HTTPStatus.METHOD_NOT_ALLOWED)
        head, body = _serialize(*page)
        return head + (b"" if method == "HEAD" else body)

    def _make_page(self, path: str) -> tuple[HTTPStatus, str, str]:
        if path == "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, self._metrics()
        if path == "/health":
            return HTTPStatus.OK, _JSON, json.dumps({"status": "alive"})
        if path != "/ready":
            return _make_problem(HTTPStatus.NOT_FOUND)
        reasons = list(self._not_ready())
        state = {
            "status": "not ready" if reasons else "ready",
            "detail": "; ".join(reasons) or None,
            "reasons": reasons,
        }
        return HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK, _JSON, json.dumps(state)


async def _read_head(reader: asyncio.StreamReader) -> tuple[bytes, HTTPStatus | None]:
    """Return request line and headers, and the status that refuses them. Raises EOFError if they are incomplete."""
    received = bytearray()
    while True:
        data = await reader.read(READ_BYTES)
        received += data
        head, end, _ = bytes(received).partition(b"\r\n\r\n")
        refused = find_refused_status(head)
        if end or refused:
            return head, refused
        if not data:
            raise EOFError


def _serialize(status: HTTPStatus, content_type: str, text: str) -> tuple[bytes, bytes]:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode(), body


def _make_problem(status: HTTPStatus) -> tuple[HTTPStatus, str, str]:
    problem = {"type": "about:blank", "title": status.phrase, "status": status.value}
    return status, "application/problem+json", json.dumps(problem)


def render_metrics(worker: Worker, counters: HandlerCounters, shared: IMetrics = NO_METRICS) -> str:
    """Return the metrics of the worker in Prometheus' text format, then those that it shares with a server."""
    registry = CollectorRegistry()
    registry.register(_WorkerCollector(worker, counters))
    return generate_latest(registry).decode() + shared.exposition()


class _WorkerCollector(Collector):
    def __init__(self, worker: Worker, counters: HandlerCounters) -> None:
        self._worker, self._counters = worker, counters

    def collect(self) -> Iterator[Metric]:
        worker, counters = self._worker, self._counters
        scheduler, monitor = worker.scheduler, worker.lag_monitor
        for metric, value in (
            (metrics.WORKER_READY, not worker.not_ready()),
            (metrics.WORKER_BROKERS_UP, worker.consumer.state.brokers_up),
            (metrics.WORKER_IN_FLIGHT, scheduler.in_flight),
            (metrics.WORKER_WAITING, scheduler.waiting),
            (metrics.WORKER_LAG_AGE, monitor.age_s()),
            (metrics.WORKER_STALLED, len(monitor.stalled)),
            (metrics.WORKER_COMMIT_AGE, worker.consumer.committer.age_s()),
            (metrics.WORKER_STORE_WAITS, counters.store_waits),
        ):
            yield _make_family(metric, [((), value)])
        yield _make_family(
            metrics.WORKER_LAG, [((topic, str(number)), n) for (topic, number), n in monitor.lag.items()]
        )
        yield _make_family(metrics.WORKER_OUTCOMES, counters.outcomes.items())
        yield _make_family(metrics.WORKER_REPEATED, [((stage,), count) for stage, count in counters.duplicates.items()])
        yield _make_family(
            metrics.WORKER_REUSED_IDS, [((stage,), count) for stage, count in counters.reused_ids.items()]
        )


def _make_family(metric: metrics.Metric, values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family: CounterMetricFamily | GaugeMetricFamily = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in sorted(values):
        family.add_metric(labels, value)
    return family
