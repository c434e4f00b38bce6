"""The figures as Prometheus reads them."""

from __future__ import annotations

import re
from types import SimpleNamespace

from prometheus_client.parser import text_string_to_metric_families

from modules.llm_platform.presentation.kafka.worker.consumer import ClientView
from modules.llm_platform.presentation.kafka.worker.handler import HandlerCounts
from modules.llm_platform.presentation.kafka.worker.http import metrics_text

PREFIX = "llm_platform_worker_"


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Each sample by its name and labels, as Prometheus would read it."""
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert all(sample.name.startswith(PREFIX) for sample in found)
    return {(sample.name.removeprefix(PREFIX), tuple(sorted(sample.labels.items()))): sample.value for sample in found}


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
    counts = HandlerCounts()
    counts.outcomes["search", "ok"] = 40
    counts.outcomes["answer", "llm_failed"] = 2
    counts.repeated["search"] = 3
    counts.reused["search"] = 1
    counts.store_waits = 4
    assert samples(metrics_text(worker(), counts)) == {  # type: ignore[arg-type]
        ("ready", ()): 1,
        ("brokers_up", ()): 2,
        ("in_flight", ()): 5,
        ("waiting", ()): 6,
        ("lag", (("partition", "0"), ("topic", "rag_search_request"))): 3,
        ("lag", (("partition", "1"), ("topic", "rag_search_request"))): 7,
        ("lag_age_seconds", ()): 1.5,
        ("stalled_partitions", ()): 1,
        ("commit_age_seconds", ()): 0.25,
        ("outcomes_total", (("code", "llm_failed"), ("stage", "answer"))): 2,
        ("outcomes_total", (("code", "ok"), ("stage", "search"))): 40,
        ("repeated_total", (("stage", "search"),)): 3,
        ("request_id_reused_total", (("stage", "search"),)): 1,
        ("store_waits_total", ()): 4,
    }


def test_each_is_explained_once() -> None:
    """One HELP and one TYPE before the samples of each, also where there are none yet."""
    text = metrics_text(worker("stopping"), HandlerCounts())  # type: ignore[arg-type]
    helped = re.findall(r"(?m)^# HELP (\S+) \S.*$", text)
    assert len(helped) == len(set(helped)) == 12
    assert re.findall(r"(?m)^# TYPE (\S+) (?:gauge|counter)$", text) == helped
    assert samples(text)["ready", ()] == 0


def test_a_counter_does_not_round() -> None:
    """Whatever it counts up to."""
    counts = HandlerCounts()
    counts.outcomes["search", "ok"] = 12_345_678
    text = metrics_text(worker(), counts)  # type: ignore[arg-type]
    assert samples(text)["outcomes_total", (("code", "ok"), ("stage", "search"))] == 12_345_678
