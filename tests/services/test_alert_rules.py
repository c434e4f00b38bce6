"""Prometheus validates the alert rules and the metrics, and runs its own tests of the rules."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from modules.llm_platform.domain.telemetry.metrics import SERVER_METRICS
from modules.llm_platform.infrastructure.telemetry.prometheus_metrics import PrometheusMetrics

pytestmark = pytest.mark.services

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
TIMEOUT_S = 120


def promtool(*arguments: str, text: str | None = None) -> None:
    command = shutil.which("promtool")
    assert command is not None, "promtool is missing: run scripts/service_tools.sh"
    done = subprocess.run(
        [command, *arguments], input=text, cwd=RULES, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_are_valid() -> None:
    """promtool reads every rule."""
    promtool("check", "rules", "alerts.yml")


def test_alerts_fire_only_in_their_cases() -> None:
    """Each alert fires in its case, and none fires within the budget."""
    promtool("test", "rules", "alerts_test.yml")


def test_exposition_passes_the_checks_of_prometheus() -> None:
    """promtool parses all metrics, and its linter reports nothing about names, units and help texts."""
    metrics = PrometheusMetrics()
    for metric in SERVER_METRICS:
        labels = [f"a {label}" for label in metric.labels]
        call = {"counter": metrics.count, "gauge": lambda m, *v: metrics.set(m, 1, *v)}.get(
            metric.kind, lambda m, *v: metrics.observe(m, 0.2, *v)
        )
        call(metric, *labels)
    promtool("check", "metrics", text=metrics.exposition())
