"""Build metrics and traces. Traces are on if the standard OTEL_… variables name an exporter that can be used."""

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Final, TextIO

from modules.llm_platform.domain.package import package_version
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.tracing import NO_TRACER, ITracer
from modules.llm_platform.infrastructure.resources import is_installed, is_loopback
from shared.config import Settings, opentelemetry_variables

log = logging.getLogger(__name__)

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP_PROTOBUF: Final = "http/protobuf"
NO_EXPORTER: Final = "none"
DEFAULT_ENDPOINT: Final = "http://localhost:4318"  # the standard's

# A process that cannot be traced still answers, so these are warnings.
NOT_INSTALLED: Final = 'no traces: OTEL_… variables are set, and a package is missing: pip install "llm-platform[otel]"'
UNKNOWN_EXPORTER: Final = "no traces: OTEL_TRACES_EXPORTER must be otlp, console or none"
UNKNOWN_PROTOCOL: Final = (
    "no traces: OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf; collectors expect it at port 4318"
)
OFFLINE: Final = "no traces: the collector is not on this machine, and LLM_PLATFORM_OFFLINE is set"
INVALID: Final = "no traces: OpenTelemetry's SDK refuses the value of an OTEL_… variable"


def build_metrics() -> IMetrics:
    """Return the metrics of a server or a worker. Without prometheus-client, none are collected."""
    if not is_installed(("prometheus_client",)):
        return NO_METRICS
    from modules.llm_platform.infrastructure.telemetry.prometheus_metrics import PrometheusMetrics

    return PrometheusMetrics()


def build_tracer(
    settings: Settings, service: str, warn: Callable[[str], object] = log.warning, console: TextIO | None = None
) -> ITracer:
    """Return the tracer of a process, or NO_TRACER if there is no exporter, with a warning if one is configured.

    `service` is the default of OTEL_SERVICE_NAME. The exporter `console` writes to `console`, by default standard output.
    """
    variables = opentelemetry_variables()
    exporters = choose_exporters(variables)
    if not exporters:
        return NO_TRACER
    if problem := _find_problem(variables, exporters, is_offline=settings.LLM_PLATFORM_OFFLINE):
        warn(problem)
        return NO_TRACER
    try:
        from modules.llm_platform.infrastructure.telemetry.otel_tracer import OtelTracer, make_processors

        return OtelTracer(service, package_version(), *make_processors(exporters, console or sys.stdout))
    except ModuleNotFoundError:
        warn(NOT_INSTALLED)
    except ValueError:  # the SDK reads its variables now; its message may contain a header with a key
        warn(INVALID)
    return NO_TRACER


def choose_exporters(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names in OTEL_TRACES_EXPORTER, or otlp if there is an endpoint. There are none if tracing is off."""
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    names = [name.strip().lower() for name in variables.get("OTEL_TRACES_EXPORTER", "").split(",")]
    named = tuple(dict.fromkeys(filter(None, names)))
    if named:
        return () if named == (NO_EXPORTER,) else named
    return ("otlp",) if any(variables.get(name) for name in ENDPOINTS) else ()


def _find_problem(variables: Mapping[str, str], exporters: tuple[str, ...], *, is_offline: bool) -> str | None:
    if not set(exporters) <= {"otlp", "console"}:
        return UNKNOWN_EXPORTER
    if "otlp" in exporters:
        if _find_first(variables, PROTOCOLS, HTTP_PROTOBUF) != HTTP_PROTOBUF:
            return UNKNOWN_PROTOCOL
        if is_offline and not is_loopback(_find_first(variables, ENDPOINTS, DEFAULT_ENDPOINT)):
            return OFFLINE
    return None


def _find_first(variables: Mapping[str, str], names: tuple[str, ...], default: str) -> str:
    return next((variables[name] for name in names if variables.get(name)), default)
