"""The worker's figures as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.presentation.kafka.counts import Counts
from modules.llm_platform.presentation.kafka.worker import Worker

PREFIX: Final = "llm_platform_worker_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str | int]
Sample = tuple[Labels, float]


class Figure(NamedTuple):
    """One metric and its samples."""

    name: str
    kind: Literal["gauge", "counter"]
    about: str
    samples: Iterable[Sample]


def figures_text(worker: Worker, counts: Counts) -> str:
    """All figures in the text format."""
    return "".join(line for figure in _figures(worker, counts) for line in _lines(figure))


def _figures(worker: Worker, counts: Counts) -> Iterator[Figure]:
    view, desk, monitor = worker.reader.view, worker.desk, worker.lag_monitor
    yield Figure("ready", "gauge", "Whether requests are answered right now.", one(not worker.not_ready()))
    yield Figure("brokers_up", "gauge", "Brokers that the consumer is connected to.", one(view.brokers_up))
    yield Figure("in_flight", "gauge", "Requests that are worked on.", one(desk.in_flight))
    yield Figure("waiting", "gauge", "Requests that were read and have not begun.", one(desk.waiting))
    lag: list[Sample] = [
        ({"topic": topic, "partition": number}, count) for (topic, number), count in sorted(monitor.lag.items())
    ]
    yield Figure("lag", "gauge", "Requests that are not committed, by partition of this worker.", lag)
    yield Figure("lag_age_seconds", "gauge", "How long ago the brokers told the lag.", one(monitor.age()))
    stalled = one(len(monitor.stalled))
    yield Figure("stalled_partitions", "gauge", "Partitions that are assigned, behind and not read.", stalled)
    age = worker.reader.commits.age()
    yield Figure("commit_age_seconds", "gauge", "How long what could be committed has not been; 0: all is.", one(age))
    outcomes: list[Sample] = [
        ({"stage": stage, "code": code}, count) for (stage, code), count in sorted(counts.outcomes.items())
    ]
    yield Figure("outcomes_total", "counter", "First outcomes, by stage and error code (ok: a result).", outcomes)
    yield Figure("repeated_total", "counter", "Requests that got an earlier outcome again.", by_stage(counts.repeated))
    yield Figure("request_id_reused_total", "counter", "Repeated ids with another payload.", by_stage(counts.reused))
    waits = one(counts.store_waits)
    yield Figure("store_waits_total", "counter", "Times that the store of outcomes had to be waited for.", waits)


def one(value: float) -> list[Sample]:
    """A figure without labels."""
    return [({}, value)]


def by_stage(counts: Mapping[RagStage, int]) -> list[Sample]:
    """A figure that is counted by stage."""
    return [({"stage": stage}, count) for stage, count in sorted(counts.items())]


def _lines(figure: Figure) -> Iterator[str]:
    name = PREFIX + figure.name
    yield f"# HELP {name} {figure.about}\n# TYPE {name} {figure.kind}\n"
    for labels, value in figure.samples:
        inside = ",".join(f'{key}="{_escaped(str(of))}"' for key, of in labels.items())
        yield f"{name}{{{inside}}} {_number(value)}\n" if inside else f"{name} {_number(value)}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return f"{value:d}" if isinstance(value, int) else f"{value:.3f}"
