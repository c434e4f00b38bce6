"""For probes and people: how the upstreams are, and whether this server takes requests."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from modules.llm_platform.domain.dtos.health_dtos import HealthReport
from modules.llm_platform.presentation.rest.problems import NotServingError, documented
from modules.llm_platform.presentation.rest.responses import json_answer, server_state, services

router = APIRouter(tags=["health"])


class Ready(BaseModel):
    """This server takes requests."""

    status: str = "ready"


READY = Ready()


@router.get("/health", summary="How the upstreams are", response_model=HealthReport, responses=documented())
async def health(request: Request) -> Response:
    return json_answer(await services(request).health.check())


@router.get("/ready", summary="Whether requests are taken", response_model=Ready, responses=documented())
async def ready(request: Request) -> Response:
    if not server_state(request).open:
        raise NotServingError
    return json_answer(READY)
