"""The figures as Prometheus reads them."""

from __future__ import annotations

import re
from types import SimpleNamespace

from modules.llm_platform.presentation.kafka.client_view import ClientView
from modules.llm_platform.presentation.kafka.counts import Counts
from modules.llm_platform.presentation.kafka.figures import figures_text

SAMPLE = re.compile(r'llm_platform_worker_[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+')


def worker(*why: str) -> SimpleNamespace:
    view = ClientView(2, True)
    lag = {("rag_search_request", 1): 7, ("rag_search_request", 0): 3}
    return SimpleNamespace(
        not_ready=lambda: why,
        lag_monitor=SimpleNamespace(lag=lag, stalled={("rag_search_request", 1): 31.0}, age=lambda: 1.5),
        desk=SimpleNamespace(in_flight=5, waiting=6),
        reader=SimpleNamespace(view=view, commits=SimpleNamespace(age=lambda: 0.25)),
    )


def test_every_figure_is_there() -> None:
    """Lag by partition, requests in flight, outcomes by stage and code, the age of what is not committed."""
    counts = Counts()
    counts.outcomes["search", "ok"] = 40
    counts.outcomes["answer", "llm_failed"] = 2
    counts.repeated["search"] = 3
    counts.reused["search"] = 1
    counts.store_waits = 4
    lines = figures_text(worker(), counts).splitlines()  # type: ignore[arg-type]
    samples = [line for line in lines if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples)
    assert set(samples) == {
        "llm_platform_worker_ready 1",
        "llm_platform_worker_brokers_up 2",
        "llm_platform_worker_in_flight 5",
        "llm_platform_worker_waiting 6",
        'llm_platform_worker_lag{topic="rag_search_request",partition="0"} 3',
        'llm_platform_worker_lag{topic="rag_search_request",partition="1"} 7',
        "llm_platform_worker_lag_age_seconds 1.500",
        "llm_platform_worker_stalled_partitions 1",
        "llm_platform_worker_commit_age_seconds 0.250",
        'llm_platform_worker_outcomes_total{stage="answer",code="llm_failed"} 2',
        'llm_platform_worker_outcomes_total{stage="search",code="ok"} 40',
        'llm_platform_worker_repeated_total{stage="search"} 3',
        'llm_platform_worker_request_id_reused_total{stage="search"} 1',
        "llm_platform_worker_store_waits_total 4",
    }


def test_each_is_explained_once() -> None:
    """One HELP and one TYPE before the samples of each, also where there are none yet."""
    text = figures_text(worker("stopping"), Counts())  # type: ignore[arg-type]
    helped = re.findall(r"(?m)^# HELP (\S+) \S.*$", text)
    assert len(helped) == len(set(helped)) == 12
    assert re.findall(r"(?m)^# TYPE (\S+) (?:gauge|counter)$", text) == helped
    assert "llm_platform_worker_ready 0\n" in text


def test_millions_are_written_out() -> None:
    """A counter that rounds does not count."""
    counts = Counts()
    counts.outcomes["search", "ok"] = 12_345_678
    assert " 12345678\n" in figures_text(worker(), counts)  # type: ignore[arg-type]
