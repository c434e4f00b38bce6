"""One log line, the HTTP metrics and the span of each request (docs/reference/metrics.md, docs/howto/watch-a-server.md).

A line holds the template of the route and not the path, the length of a query and not its text: requests contain what people
ask, and logs are copied to many places. LOG_QUERIES adds the text.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse
from modules.llm_platform.domain.dtos.verification_dtos import VerifiedText
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse
from modules.llm_platform.domain.ports.metrics import NO_METRICS
from modules.llm_platform.domain.ports.tracing import TRACE_HEADERS, ISpan, running
from modules.llm_platform.domain.telemetry.metrics import (
    CANCELLED,
    DEGRADED_ANSWERS,
    HTTP_DURATION,
    HTTP_REQUESTS,
    OK,
    OTHER,
)
from modules.llm_platform.domain.telemetry.spans import METHOD, REQUEST_ID, REQUEST_SPAN, ROUTE, STATUS
from modules.llm_platform.presentation.rest.http import problems
from modules.llm_platform.presentation.rest.http.access import get_route_path
from modules.llm_platform.presentation.rest.http.request_scope import ANSWER, CALLER, ERROR
from modules.llm_platform.presentation.rest.http.server_state import ServerState

log = logging.getLogger(__name__)

CLIENT_CLOSED: Final = 499  # Logged if the client left before the response began. The number is nginx's.
METHODS: Final = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"})

_SPAN: Final = "llm_platform.span"  # Key in the ASGI scope: the span of the request, as `running`.
_TRACE_HEADERS: Final = frozenset(name.encode() for name in TRACE_HEADERS)

# Loggers of the steps of a request, which a program without a server reads. In a server the line of the request says the same.
STEP_LOGGERS: Final = (
    "modules.llm_platform.application.rag.retrieval",
    "modules.llm_platform.application.research",
    "modules.llm_platform.application.services.answer_service",
    "modules.llm_platform.application.services.page_service",
    "modules.llm_platform.application.services.web_search_service",
    "modules.llm_platform.infrastructure.search.web_search_chain",
    "mcp",  # The SDK of MCP, which logs ids of sessions.
)

Answer = ResearchResponse | WebSearchResponse | LLMResponse | VerifiedText


def mute_steps() -> None:
    """Log the steps of requests with LOG_LEVEL=DEBUG only, and their errors always. Entry points of a server call this."""
    for name in STEP_LOGGERS:
        logging.getLogger(name).setLevel(logging.DEBUG if log.isEnabledFor(logging.DEBUG) else logging.ERROR)


class RequestLog:
    """Logs and counts the requests of one application. `quiet` paths are polled: their successes are logged at debug."""

    def __init__(
        self, server: ServerState, routes: Iterable[BaseRoute], *, quiet: frozenset[str], log_queries: bool
    ) -> None:
        self._server = server
        self._routes = routes
        self._quiet = quiet
        self._log_queries = log_queries
        self._fixed_paths: frozenset[str] | None = None

    def started(self, scope: Scope) -> float:
        """Start the span of a request, and return the time for `finished`, which must run in the same context."""
        platform = self._server.platform
        if platform is not None and platform.tracer.is_enabled and get_route_path(scope) not in self._quiet:
            sent = {
                name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _TRACE_HEADERS
            }
            scope[_SPAN] = running(platform.tracer.start(REQUEST_SPAN, _name_method(scope), sent))
            scope[_SPAN].__enter__()
        return time.perf_counter()

    def finished(self, scope: Scope, status: int, began: float) -> None:
        """Log and count a request. `status` is 499 if the client left before the response began."""
        duration_s = time.perf_counter() - began
        route = self._name_route(scope)
        method = _name_method(scope)
        trace_id = _end_span(scope, method, route, status) if _SPAN in scope else ""
        answer: Answer | None = scope.get(ANSWER)
        metrics = self._server.platform.metrics if self._server.platform else NO_METRICS
        metrics.count(HTTP_REQUESTS, route, method, f"{status // 100}xx")
        metrics.observe(HTTP_DURATION, duration_s, route)
        for entry in answer.degraded if answer else ():
            metrics.count(DEGRADED_ANSWERS, entry.component)
        is_quiet = route in self._quiet and status < 400
        level = logging.WARNING if status >= 500 else logging.DEBUG if is_quiet else logging.INFO
        if not log.isEnabledFor(level):
            return
        fields: dict[str, Any] = {
            "method": method,
            "route": route,
            "status": status,
            "duration_ms": round(duration_s * 1000, 1),
        }
        if trace_id:
            fields["trace_id"] = trace_id
        if CALLER in scope and scope[CALLER].label:
            fields["client"] = scope[CALLER].label
        if answer is not None:
            fields |= list_answer_fields(answer)
            if self._log_queries and isinstance(answer, ResearchResponse | WebSearchResponse):
                fields["query"] = answer.query
        if ERROR in scope:
            fields["error"] = scope[ERROR]
        # `log.log` walks the stack to find the line of the call, which would double the cost and is not needed.
        log.handle(log.makeRecord(log.name, level, __file__, 0, "request", (), None, extra=fields))

    def _name_route(self, scope: Scope) -> str:
        """Return the template of the route.

        A request that is refused before routing has no route. Then only a path without parameters is named.
        """
        route = scope.get("route")
        if route is not None:
            return str(route.path_format)
        if self._fixed_paths is None:  # Routes may be added after the middleware.
            self._fixed_paths = frozenset(
                route.path for route in self._routes if isinstance(route, Route) and "{" not in route.path
            )
        path = get_route_path(scope)
        return path if path in self._fixed_paths else "unmatched"


def _end_span(scope: Scope, method: str, route: str, status: int) -> str:
    scope[_SPAN].__exit__()
    span: ISpan = scope[_SPAN].span
    span.rename(f"{method} {route}")
    for attribute, value in (
        (METHOD, method),
        (ROUTE, route),
        (STATUS, status),
        (REQUEST_ID, scope[problems.REQUEST_ID]),
    ):
        span.set(attribute, value)
    result = CANCELLED if status == CLIENT_CLOSED else OK
    span.end(scope.get(ERROR, f"{status}") if status >= 500 else result)
    return span.trace_id


def _name_method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in METHODS else OTHER


def list_answer_fields(answer: Answer) -> Mapping[str, Any]:
    """Return what the log line says of an answer: provider, cache, tokens, cost, and the components in `degraded`."""
    if isinstance(answer, ResearchResponse):
        metadata = answer.metadata
        fields: dict[str, Any] = {
            "depth": answer.depth,
            "query_chars": len(answer.query),
            "provider": ",".join(metadata.providers),
            "synthesizer": metadata.synthesizer,
            "cache": "hit" if metadata.cache_hit else "miss",
            "tokens": metadata.tokens_used,
            "cost_usd": metadata.cost_usd,
        }
    elif isinstance(answer, WebSearchResponse):
        fields = {
            "query_chars": len(answer.query),
            "provider": answer.provider,
            "cache": "hit" if answer.cached else "miss",
        }
    elif isinstance(answer, VerifiedText):
        fields = {
            "sentences": answer.counts.sentences,
            "unsupported": answer.counts.unsupported,
            "pages": answer.counts.read,
            "tokens": answer.metadata.tokens_used,
            "cost_usd": answer.metadata.cost_usd,
        }
    else:
        tokens = answer.usage.prompt_tokens + answer.usage.completion_tokens
        fields = {
            "provider": answer.provider,
            "model": answer.model,
            "tokens": answer.spent.tokens or tokens,
            "cost_usd": answer.spent.cost_usd,
        }
    if answer.degraded:
        fields["degraded"] = sorted({entry.component for entry in answer.degraded})
    return fields
