"""The port of metrics: counters, gauges and histograms that are declared in `domain.telemetry.metrics`."""

from abc import ABC, abstractmethod
from typing import Final

from modules.llm_platform.domain.telemetry.metrics import Metric


class IMetrics(ABC):
    """The metrics of one process.

    `labels` are the values of the metric's labels in their order. They come from small sets: never a query, a URL, a request
    id or anything else that a client chooses. Calls are cheap, synchronous and thread-safe, and raise nothing at run time;
    a wrong number of labels is a defect and raises ValueError.
    """

    @abstractmethod
    def count(self, metric: Metric, *labels: str, by: float = 1.0) -> None:
        """Add `by` (not negative) to a counter."""

    @abstractmethod
    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""

    @abstractmethod
    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Add one observation to a histogram, in the unit of its name."""

    @abstractmethod
    def exposition(self) -> str:
        """Return all metrics in Prometheus' text format 0.0.4; empty if none are collected."""


class NoMetrics(IMetrics):
    """Collects nothing. The default of commands, and of programs that import the package: nothing reads metrics there."""

    def count(self, metric: Metric, *labels: str, by: float = 1.0) -> None:
        metric.check_labels(labels)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        metric.check_labels(labels)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        metric.check_labels(labels)

    def exposition(self) -> str:
        return ""


NO_METRICS: Final = NoMetrics()
