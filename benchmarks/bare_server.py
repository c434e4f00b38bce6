"""Our server without limits, metrics, the log line of a request and circuit breakers.    uvicorn benchmarks.bare_server:app

There are no settings for all of that, so the parts are replaced before the application is built. For a comparison only.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

from modules.llm_platform.domain.ports.metrics import NO_METRICS
from modules.llm_platform.infrastructure.policies.rate_limits import _LimitedCalls
from modules.llm_platform.presentation.rest.http.request_log import RequestLog
from modules.llm_platform.wiring import llms, search, services

OFF = {"RATE_LIMIT_PER_MINUTE": "0", "RATE_LIMIT_GLOBAL_PER_HOUR": "0", "LOG_LEVEL": "ERROR"}


class _AnyCall:
    def succeed(self) -> None:
        """Nobody counts."""


def _unmeasured(upstream: Any, metrics: Any) -> Any:
    return upstream


def _replace(place: object, **parts: object) -> None:
    for name, part in parts.items():
        setattr(place, name, part)


def _make_app() -> Any:
    _replace(_LimitedCalls, call=lambda _self: nullcontext(_AnyCall()))  # upstream slots, Retry-After, breaker
    _replace(search, MeasuredWebSearch=_unmeasured)
    _replace(llms, MeasuredLLM=_unmeasured)
    _replace(RequestLog, started=lambda *_: 0.0, finished=lambda *_: None)
    _replace(services, build_metrics=lambda: NO_METRICS)
    os.environ.update(OFF)
    from modules.llm_platform.asgi import app

    return app


app = _make_app()
