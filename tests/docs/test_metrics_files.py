"""The dashboard, the alert rules and the reference pages name only existing metrics, labels and spans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from tests.support.cases import for_each

from modules.llm_platform.domain.telemetry.metrics import METRICS, Metric
from modules.llm_platform.domain.telemetry.spans import OF_EVERY_SPAN, SPANS

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "deploy" / "grafana" / "llm-platform.json"
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
RULE_TESTS = ROOT / "deploy" / "prometheus" / "alerts_test.yml"

NAME = re.compile(r"(?<![:\w])llm_platform_\w+(?!:)")
SELECTOR = re.compile(r"(?<![:\w])(llm_platform_\w+)\{([^}]*)\}")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPING = re.compile(r"\bby \(([^)]*)\)")
OF_TARGETS = {"job", "instance", "le"}


def known_names() -> dict[str, Metric]:
    suffixes = {"histogram": ("_bucket", "_sum", "_count")}
    return {metric.name + suffix: metric for metric in METRICS for suffix in suffixes.get(metric.kind, ("",))}


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[str]:
    yield from (target["expr"] for panel in panels() for target in panel["targets"])
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for test in yaml.safe_load(RULE_TESTS.read_text())["tests"]:
        yield from (series["series"] for series in test["input_series"])


@for_each("expression", sorted(set(expressions())))
def test_metrics_and_labels_exist(expression: str) -> None:
    """A renamed metric or label fails here instead of leaving an empty panel and a silent alert."""
    known = known_names()
    names = set(NAME.findall(expression))
    assert names <= set(known)
    for name, selector in SELECTOR.findall(expression):
        labels = {*known[name].labels, *OF_TARGETS}
        assert set(LABEL.findall(re.sub(r'"[^"]*"', '""', selector))) <= labels
    of_all = {label for name in names for label in known[name].labels} | OF_TARGETS
    for grouping in GROUPING.findall(expression):
        assert not names or {label.strip() for label in grouping.split(",")} <= of_all


def test_panels_have_distinct_ids_and_places() -> None:
    """The ids differ, because Grafana drops one of two panels with the same id."""
    every = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in every}) == len(every)


def test_each_alert_is_tested_and_says_what_happened() -> None:
    """Each alert has a severity, a summary and a test case that fires it."""
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    alerts = {rule["alert"]: rule for rule in rules if "alert" in rule}
    fired = {
        case["alertname"]
        for test in yaml.safe_load(RULE_TESTS.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert fired == set(alerts)
    assert all(rule["labels"]["severity"] and rule["annotations"]["summary"] for rule in alerts.values())


def test_page_of_traces_has_the_declared_spans() -> None:
    """The page lists each declared span with kind, attributes and description, and no other span."""
    page = (ROOT / "docs" / "reference" / "traces.md").read_text(encoding="utf-8")
    rows = [
        f"| `{span.name}` | {span.kind} | {', '.join(f'`{name}`' for name in span.attributes)} | {span.help} |"
        for span in SPANS
    ]
    table = page.partition("## Spans")[2].partition("Every span")[0]
    assert [line for line in table.splitlines() if line.startswith("| `")] == rows
    assert all(f"`{name}`" in page for name in OF_EVERY_SPAN)
