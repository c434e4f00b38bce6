"""Our server without limits, metrics, the log line of a request and circuit breakers.    uvicorn benchmarks.bare_server:app

There are no settings for all of that, so the parts are replaced before the application is built. For a comparison only.
"""

from __future__ import annotations

import os
from typing import Any

from modules.llm_platform.domain.ports.metrics import NO_METRICS
from modules.llm_platform.infrastructure.limits.upstream_guard import UpstreamGuard
from modules.llm_platform.infrastructure.telemetry import from_settings as telemetry
from modules.llm_platform.presentation.rest.http.request_log import RequestLog

OFF = {"RATE_LIMIT_PER_MINUTE": "0", "RATE_LIMIT_GLOBAL_PER_HOUR": "0", "LOG_LEVEL": "ERROR"}


async def _call(_guard: UpstreamGuard, send: Any) -> Any:
    """Return a search without limits, circuit, retries and metrics."""
    return await send()


async def _admit(_guard: UpstreamGuard) -> int:
    """Return a call of a model that waits for nothing."""
    return 0


def _replace(position: object, **parts: object) -> None:
    for name, part in parts.items():
        setattr(position, name, part)


def _make_app() -> Any:
    _replace(UpstreamGuard, call=_call, admit=_admit, leave=lambda *_: None)  # upstream slots, Retry-After, breaker
    _replace(RequestLog, started=lambda *_: 0.0, finished=lambda *_: None)
    _replace(telemetry, build_metrics=lambda: NO_METRICS)
    os.environ.update(OFF)
    from modules.llm_platform.asgi import app

    return app


app = _make_app()
