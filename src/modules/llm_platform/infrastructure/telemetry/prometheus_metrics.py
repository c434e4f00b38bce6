"""Metrics in a registry of prometheus-client."""

from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.telemetry.metrics import OTHER, SERVER_METRICS, Metric

MAX_SERIES: Final = 500  # series of one metric; further label values are counted as "other"
MAX_LABEL_CHARS: Final = 100


class PrometheusMetrics(IMetrics):
    """A registry for each object, so two platforms of one process do not share it. It includes the `process_` metrics."""

    def __init__(self) -> None:
        # Otherwise each counter and histogram has an unused `_created` series, too. This setting applies to the whole process.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        # Created at the first value: a gauge that nobody sets, such as the gauge of Redis without Redis, must not be 0.
        self._families: dict[str, Any] = {}
        # `labels()` of the library checks and joins the values under a lock; a dictionary look-up is a third of that.
        self._series: dict[str, dict[tuple[str, ...], Any]] = {metric.name: {} for metric in SERVER_METRICS}

    def count(self, metric: Metric, *labels: str, by: float = 1.0) -> None:
        self._get_series(metric, labels).inc(by)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        self._get_series(metric, labels).set(value)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        self._get_series(metric, labels).observe(value)

    def exposition(self) -> str:
        return generate_latest(self._registry).decode()

    def _get_series(self, metric: Metric, labels: tuple[str, ...]) -> Any:
        series = self._series[metric.name]
        return series[labels] if labels in series else self._add(metric, labels)

    def _add(self, metric: Metric, labels: tuple[str, ...]) -> Any:
        metric.check_labels(labels)
        series, family = self._series[metric.name], self._families.get(metric.name)
        if family is None:
            kinds: dict[str, Any] = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}
            buckets = {"buckets": metric.buckets} if metric.kind == "histogram" else {}
            family = kinds[metric.kind](metric.name, metric.help, metric.labels, registry=self._registry, **buckets)
            self._families[metric.name] = family
        if not labels:
            return series.setdefault((), family)
        # A lone surrogate cannot be encoded: it would fail every later exposition.
        known = tuple(value[:MAX_LABEL_CHARS].encode(errors="replace").decode() for value in labels)
        if known not in series and len(series) >= MAX_SERIES:
            known = (OTHER,) * len(labels)
        return series.setdefault(known, family.labels(*known))
