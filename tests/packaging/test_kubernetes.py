"""The manifests of deploy/kubernetes are valid and match the program. They were not applied to a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.support.cases import for_each

from modules.llm_platform.domain.telemetry.metrics import WORKER_LAG
from modules.llm_platform.infrastructure.parsing.parser_pool import POOL_BYTES
from modules.llm_platform.presentation.rest.http.access import PROBE_PATHS
from shared.config import Settings, variable_names

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
VERSIONS = ("1.30", "1.34")
NOT_MANIFESTS = {"kustomization.yaml", "prometheus-adapter-values.yaml"}
PRESTOP_S = 5
PROGRAM_MB = 512  # a server or a worker under load, without its parsers
PORTS = {"server": "LLM_PLATFORM_PORT", "worker": "WORKER_HTTP_PORT"}


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(FOLDER.glob("*.yaml")):
        if path.name not in NOT_MANIFESTS:
            for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                yield f"{manifest['kind']}/{manifest['metadata']['name']}", manifest


ALL = list(manifests())


def one(kind: str, name: str) -> dict[str, Any]:
    (found,) = [manifest for label, manifest in ALL if label == f"{kind}/{name}"]
    return found


def pods() -> dict[str, dict[str, Any]]:
    return {
        label: manifest["spec"]["template"]["spec"] for label, manifest in ALL if "template" in manifest.get("spec", {})
    }


@for_each("version", VERSIONS)
@for_each(("label", "manifest"), ALL)
def test_a_manifest_follows_the_schema(label: str, manifest: dict[str, Any], version: str) -> None:
    """Both Kubernetes versions know every field. A misspelt field is an error."""
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_misspelt_field_is_found() -> None:
    """The check rejects a misspelt field."""
    broken = one("Deployment", "llm-platform-server") | {"spce": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[0], strict=True)


def test_every_file_is_applied_or_named_in_its_place() -> None:
    """Users apply the secret and the migration first and by hand. The kustomization lists everything else."""
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    files = {path.name for path in FOLDER.glob("*.yaml")} - NOT_MANIFESTS
    assert files == {*listed, "secret.example.yaml", "migrate.yaml"}


def test_settings_exist() -> None:
    """Every key of the config map and the secret is an existing setting."""
    known = {name for field in Settings.model_fields for name in variable_names(field)}
    config, secret = one("ConfigMap", "llm-platform")["data"], one("Secret", "llm-platform")["stringData"]
    assert {*config, *secret} <= known
    assert set(config) & set(secret) == set()
    Settings(**config, **{name: value for name, value in secret.items() if "REPLACE" not in name})


@pytest.mark.parametrize("component", PORTS)
def test_probes_ask_real_routes(component: str) -> None:
    """Liveness asks /health and readiness asks /ready, without a key, on the port that the image listens on."""
    (container,) = pods()[f"Deployment/llm-platform-{component}"]["containers"]
    (port,) = container["ports"]
    assert port["containerPort"] == Settings.model_fields[PORTS[component]].default
    paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "readiness", "liveness")}
    assert (paths["readiness"], paths["liveness"]) == ("/ready", "/health")
    assert set(paths.values()) <= PROBE_PATHS
    assert {container[f"{probe}Probe"]["httpGet"]["port"] for probe in paths} == {port["name"]}


@for_each("label", pods())
def test_pods_have_no_rights(label: str) -> None:
    """Pods run without root, capabilities, a writable root and a token. Service variables are off: they would act as settings."""
    pod = pods()[label]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"/tmp", "/var/lib/llm-platform"}
    assert "memory" in container["resources"]["limits"]


def test_grace_periods_follow_from_the_drain_timeout() -> None:
    """A server gets the preStop time, the drain time and five seconds. A worker gets twice the drain time and five seconds."""
    drain = int(one("ConfigMap", "llm-platform")["data"]["DRAIN_TIMEOUT_S"])
    server, worker = (pods()[f"Deployment/llm-platform-{component}"] for component in PORTS)
    assert server["containers"][0]["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", str(PRESTOP_S)]
    assert server["terminationGracePeriodSeconds"] >= PRESTOP_S + drain + 5
    assert worker["terminationGracePeriodSeconds"] >= 2 * drain + 5


def test_workers_are_scaled_by_a_metric_that_they_export() -> None:
    """The autoscaler, the adapter's rule and the worker's /metrics use the same metric name."""
    (metric,) = one("HorizontalPodAutoscaler", "llm-platform-worker")["spec"]["metrics"]
    (rule,) = yaml.safe_load((FOLDER / "prometheus-adapter-values.yaml").read_text())["rules"]["external"]
    assert metric["external"]["metric"]["name"] == rule["name"]["as"] == WORKER_LAG.name
    assert rule["seriesQuery"].startswith(f"{WORKER_LAG.name}{{")
    (labels,) = re.findall(r"by \(([^)]*)\)", rule["metricsQuery"])
    assert set(labels.split(", ")) <= set(WORKER_LAG.labels)


@for_each("kind", ["PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy"])
@for_each("component", PORTS)
def test_policies_select_the_deployments(kind: str, component: str) -> None:
    """A policy without a matching label or target would silently do nothing."""
    labels = one("Deployment", f"llm-platform-{component}")["spec"]["template"]["metadata"]["labels"]
    spec = one(kind, f"llm-platform-{component}")["spec"]
    if kind == "HorizontalPodAutoscaler":
        assert spec["scaleTargetRef"]["name"] == f"llm-platform-{component}"
    else:
        assert spec["podSelector" if kind == "NetworkPolicy" else "selector"]["matchLabels"].items() <= labels.items()


@for_each("component", PORTS)
def test_the_memory_limit_has_room_for_the_parsers(component: str) -> None:
    """The limit covers the program and all parsers at their memory limit."""
    (container,) = one("Deployment", f"llm-platform-{component}")["spec"]["template"]["spec"]["containers"]
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Mi"))
    assert limit >= PROGRAM_MB + POOL_BYTES / (1 << 20)
