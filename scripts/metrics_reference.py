"""The text of docs/reference/metrics.md, made from the table of metrics in domain/telemetry/metrics.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from modules.llm_platform.domain.telemetry.metrics import SERVER_METRICS, WORKER_METRICS, Metric

HEAD = """\
# Metrics

`GET /metrics` of a server and of a worker is in Prometheus' text format 0.0.4. It needs no API key and has no rate limit.
[Watch a server](../howto/watch-a-server.md) explains the dashboard and the alerts.

Each process counts for itself from its start, so every process is a target of its own. Durations are in seconds. A metric
appears with its first value. No label contains a query, a URL or a request id; a metric has at most 500 combinations of
label values, and further ones are counted as `other`. `process_…` metrics (memory, CPU time, open files) are those of
prometheus-client, on Linux.

<!-- Written by `make docs`; do not edit. -->
"""
SECTIONS = (
    ("Of a server", "A worker has those of upstreams, caches, models and stores too.", SERVER_METRICS),
    ("Of a worker", "", WORKER_METRICS),
)


def reference() -> str:
    """Return the text of the page: one table for each kind of process."""
    return HEAD + "".join(_sections())


def _sections() -> Iterator[str]:
    for title, note, metrics in SECTIONS:
        yield f"\n## {title}\n\n" + (f"{note}\n\n" if note else "")
        yield "| name | type | labels | description |\n|---|---|---|---|\n"
        yield from map(_row, metrics)
    yield "\n## Buckets\n\nUpper bounds of the histograms, in seconds.\n\n| name | buckets |\n|---|---|\n"
    for metric in SERVER_METRICS:
        if metric.buckets:
            yield f"| `{metric.name}` | {_joined(f'{bound:g}' for bound in metric.buckets)} |\n"


def _row(metric: Metric) -> str:
    labels = _joined(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |\n"


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(parts)
