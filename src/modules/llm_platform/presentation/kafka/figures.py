"""The worker's metrics as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from modules.llm_platform.presentation.kafka.counts import Counts
from modules.llm_platform.presentation.kafka.worker import Worker

PREFIX: Final = "llm_platform_worker_"


def figures_text(worker: Worker, counts: Counts) -> str:
    """All metrics in the text format, from a registry of this worker's own: nothing of the process beside them."""
    registry = CollectorRegistry()
    registry.register(_WorkerCollector(worker, counts))
    return generate_latest(registry).decode()


class _WorkerCollector(Collector):
    """Reads the worker's state when it is asked."""

    def __init__(self, worker: Worker, counts: Counts) -> None:
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
