"""A fake of the metrics, and the contract of `IMetrics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pytest

from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.telemetry.metrics import CACHE_REQUESTS, REDIS_UP, RESEARCH_DURATION, Metric


class MemoryMetrics(IMetrics):
    """`values` maps the name and the label values to the sum of a counter or histogram, or to the value of a gauge."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, ...], float] = {}

    @property
    def values(self) -> Mapping[tuple[str, ...], float]:
        return self._values

    def count(self, metric: Metric, *labels: str, by: float = 1.0) -> None:
        metric.check_labels(labels)
        self._values[(metric.name, *labels)] = self._values.get((metric.name, *labels), 0.0) + by

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        metric.check_labels(labels)
        self._values[(metric.name, *labels)] = value

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        self.count(metric, *labels, by=value)

    def exposition(self) -> str:
        return "".join(f"{' '.join(key)} {value}\n" for key, value in self._values.items())


class ReadValue(Protocol):
    """Returns the value of a series: the sum of a counter or histogram, the value of a gauge."""

    def __call__(self, metric: Metric, *labels: str) -> float: ...


class MetricsContract:
    """Subclass it and add these fixtures.

    `metrics`: an empty IMetrics · `read`: a ReadValue for it.
    """

    def test_counts_add_up_by_labels(self, metrics: IMetrics, read: ReadValue) -> None:
        """Each combination of label values has its own sum."""
        metrics.count(CACHE_REQUESTS, "search", "hit")
        metrics.count(CACHE_REQUESTS, "search", "hit", by=2)
        metrics.count(CACHE_REQUESTS, "search", "miss")
        assert read(CACHE_REQUESTS, "search", "hit") == 3
        assert read(CACHE_REQUESTS, "search", "miss") == 1

    def test_last_value_of_a_gauge_remains(self, metrics: IMetrics, read: ReadValue) -> None:
        """A gauge has the value that was set last."""
        metrics.set(REDIS_UP, 1)
        metrics.set(REDIS_UP, 0)
        assert read(REDIS_UP) == 0

    def test_observations_add_up(self, metrics: IMetrics, read: ReadValue) -> None:
        """The sum of a histogram is that of its observations."""
        metrics.observe(RESEARCH_DURATION, 0.5, "deep")
        metrics.observe(RESEARCH_DURATION, 2.0, "deep")
        assert read(RESEARCH_DURATION, "deep") == 2.5

    def test_a_missing_label_is_a_defect(self, metrics: IMetrics) -> None:
        """A call without a value for each label raises ValueError and counts nothing."""
        for labels in ((), ("search",), ("search", "hit", "more")):
            with pytest.raises(ValueError, match=CACHE_REQUESTS.name):
                metrics.count(CACHE_REQUESTS, *labels)

    def test_exposition_names_what_was_counted(self, metrics: IMetrics) -> None:
        """The text contains the names of metrics with values."""
        metrics.count(CACHE_REQUESTS, "search", "hit")
        assert CACHE_REQUESTS.name in metrics.exposition()
