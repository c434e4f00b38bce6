"""The health of the platform and of the services that it calls (docs/reference/http.md)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import BaseModel

ComponentKind = Literal["search", "llm", "store"]
ComponentStatus = Literal["healthy", "unhealthy", "unknown"]
OverallStatus = Literal["healthy", "degraded", "unhealthy"]
CheckVerdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of a diagnosis: the checked part, the verdict, and what to do."""

    subject: str
    verdict: CheckVerdict
    text: str


class ComponentHealth(BaseModel, frozen=True):
    """One configured upstream.

    The state `unknown` means that asking it would cost money. It counts as able to answer.
    """

    kind: ComponentKind
    status: ComponentStatus
    detail: str
    checked_at: datetime


class HealthReport(BaseModel, frozen=True):
    """The state of the platform.

    It is `unhealthy` if no search provider can answer, `degraded` if another configured upstream cannot, and else `healthy`.
    """

    status: OverallStatus
    searxng_connected: bool
    kimi_coding_available: bool
    components: dict[str, ComponentHealth]
