"""The metrics fulfil the contract of the port, and the number of their series is limited."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.fakes.metrics import MemoryMetrics, MetricsContract, ReadValue

from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.telemetry import metrics as declared
from modules.llm_platform.domain.telemetry.metrics import CACHE_REQUESTS, METRICS, REDIS_UP, SERVER_METRICS, Metric
from modules.llm_platform.infrastructure.telemetry.prometheus_metrics import MAX_SERIES, PrometheusMetrics


def samples(metrics: IMetrics) -> dict[tuple[str, tuple[str, ...]], float]:
    families = text_string_to_metric_families(metrics.exposition())
    return {
        (sample.name, tuple(sample.labels.values())): sample.value for family in families for sample in family.samples
    }


class TestPrometheusMetrics(MetricsContract):
    @pytest.fixture
    def metrics(self) -> PrometheusMetrics:
        return PrometheusMetrics()

    @pytest.fixture
    def read(self, metrics: PrometheusMetrics) -> ReadValue:
        def read(metric: Metric, *labels: str) -> float:
            name = metric.name + ("_sum" if metric.kind == "histogram" else "")
            # The library writes labels in alphabetical order.
            ordered = tuple(value for _, value in sorted(zip(metric.labels, labels, strict=True)))
            return samples(metrics)[name, ordered]

        return read

    def test_series_are_bounded(self, metrics: PrometheusMetrics) -> None:
        """Label values beyond the limit are counted together, and none is lost."""
        for number in range(MAX_SERIES + 50):
            metrics.count(CACHE_REQUESTS, f"cache-{number}", "hit")
        series = {key: value for key, value in samples(metrics).items() if key[0] == CACHE_REQUESTS.name}
        assert len(series) <= MAX_SERIES + 1
        assert series[CACHE_REQUESTS.name, ("other", "other")] == 50
        assert sum(series.values()) == MAX_SERIES + 50

    def test_untrusted_label_values_do_not_break_the_exposition(self, metrics: PrometheusMetrics) -> None:
        """Quotes, line feeds and lone surrogates are escaped or replaced, long values are cut."""
        for value in ('"} 1\nfake_metric 7', "\ud800", "x" * 10_000):
            metrics.count(CACHE_REQUESTS, value, "hit")
        text = metrics.exposition()
        assert "\nfake_metric" not in text
        assert len(text.encode()) < 20_000

    def test_a_gauge_without_a_value_is_absent(self, metrics: PrometheusMetrics) -> None:
        """A gauge that starts at 0 would report that Redis is down although none is configured."""
        assert REDIS_UP.name not in metrics.exposition()
        metrics.set(REDIS_UP, 1)
        assert samples(metrics)[REDIS_UP.name, ()] == 1

    def test_two_registries_share_nothing(self, metrics: PrometheusMetrics) -> None:
        """Two platforms in one process count separately."""
        PrometheusMetrics().count(CACHE_REQUESTS, "search", "hit")
        assert (CACHE_REQUESTS.name, ("search", "hit")) not in samples(metrics)


class TestMemoryMetrics(MetricsContract):
    @pytest.fixture
    def metrics(self) -> MemoryMetrics:
        return MemoryMetrics()

    @pytest.fixture
    def read(self, metrics: MemoryMetrics) -> ReadValue:
        return lambda metric, *labels: metrics.values[(metric.name, *labels)]


def test_no_metrics_has_no_exposition_and_checks_labels() -> None:
    """By default nothing is collected, and a wrong call fails in every test."""
    NO_METRICS.count(CACHE_REQUESTS, "search", "hit")
    assert NO_METRICS.exposition() == ""
    with pytest.raises(ValueError, match="label"):
        NO_METRICS.count(CACHE_REQUESTS)


def test_names_and_units_follow_the_advice_of_prometheus() -> None:
    """Names are unique; counters end in _total, histograms in their unit; buckets ascend; only histograms have buckets."""
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.startswith("llm_platform_")
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert bool(metric.buckets) == (metric.kind == "histogram")
        assert list(metric.buckets) == sorted(set(metric.buckets))
        if metric.kind == "histogram":
            assert metric.name.endswith(("_seconds", "_bytes"))
    assert set(SERVER_METRICS) < set(METRICS)


def test_all_metrics_together() -> None:
    """No two metrics of a process share a name, with or without the suffix that Prometheus adds to counters."""
    metrics = PrometheusMetrics()
    for metric in SERVER_METRICS:
        labels = ("x",) * len(metric.labels)
        if metric.kind == "counter":
            metrics.count(metric, *labels)
        else:
            (metrics.set if metric.kind == "gauge" else metrics.observe)(metric, 1.0, *labels)
    text = metrics.exposition()
    assert all(f"\n{metric.name}" in text for metric in SERVER_METRICS)


def test_every_metric_is_in_the_tables() -> None:
    """A metric that is missing in the tables would be counted but never shown."""
    assert {value for value in vars(declared).values() if isinstance(value, Metric)} == set(METRICS)
