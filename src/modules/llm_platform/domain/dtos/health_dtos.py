"""How the platform and the services it asks are doing (docs/reference/http.md)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

ComponentKind = Literal["search", "llm", "store"]
ComponentStatus = Literal["healthy", "unhealthy", "unknown"]
OverallStatus = Literal["healthy", "degraded", "unhealthy"]


class ComponentHealth(BaseModel):
    """One configured upstream. `unknown`: it cannot be asked without spending money, so it counts as able to answer."""

    model_config = ConfigDict(frozen=True)

    kind: ComponentKind
    status: ComponentStatus
    detail: str
    checked_at: datetime


class HealthReport(BaseModel):
    """unhealthy: no search provider can answer; degraded: a configured upstream cannot; else healthy."""

    model_config = ConfigDict(frozen=True)

    status: OverallStatus
    searxng_connected: bool
    kimi_coding_available: bool
    components: dict[str, ComponentHealth]
