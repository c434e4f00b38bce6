"""Health of the upstreams, readiness and metrics of the server."""

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from modules.llm_platform.domain.dtos.health_dtos import HealthReport
from modules.llm_platform.domain.telemetry.metrics import HTTP_IN_PROGRESS
from modules.llm_platform.presentation.rest.http.problems import NoMetricsError, NotServingError, declare_problems
from modules.llm_platform.presentation.rest.http.request_scope import get_server_state, get_services
from modules.llm_platform.presentation.rest.http.responses import make_json_response

router = APIRouter(tags=["health"])
PROBE_RESPONSES = declare_problems(is_probe=True)


class Ready(BaseModel):
    """The server accepts requests."""

    status: str = "ready"


READY = Ready()


@router.get("/health", summary="Health of the upstreams", response_model=HealthReport, responses=PROBE_RESPONSES)
async def health(request: Request) -> Response:
    return make_json_response(await get_services(request).health.check())


@router.get("/ready", summary="Readiness of the server", response_model=Ready, responses=PROBE_RESPONSES)
async def ready(request: Request) -> Response:
    if not get_server_state(request).is_ready:
        raise NotServingError
    return make_json_response(READY)


@router.get(
    "/metrics",
    summary="Metrics of the server for Prometheus",
    response_class=Response,
    responses={
        200: {"description": "Prometheus' text format", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **PROBE_RESPONSES,
    },
)
async def metrics(request: Request) -> Response:
    collected = get_services(request).metrics
    server = get_server_state(request)
    server.researches.report(collected)
    collected.set(HTTP_IN_PROGRESS, len(server.requests))
    text = collected.exposition()
    if not text:
        raise NoMetricsError
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")  # Prometheus' text format
