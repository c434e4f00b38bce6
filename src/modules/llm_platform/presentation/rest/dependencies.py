"""What routes ask for: the services of the platform, and the name of the request.

Plain calls, not `Depends`: FastAPI takes 10 us of CPU to resolve each of those, a tenth of what a whole request costs.
"""

from __future__ import annotations

from fastapi import Request

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.presentation.rest.door import Door
from modules.llm_platform.presentation.rest.problems import REQUEST_ID


def door_of(request: Request) -> Door:
    """The door that the request came through."""
    door: Door = request.app.state.door
    return door


def services(request: Request) -> LLMPlatform:
    """The platform behind it; NotServingError before it has started."""
    return door_of(request).services()


def request_id(request: Request) -> str:
    """The request's id, as it stands in headers, problems and logs."""
    name: str = request.scope[REQUEST_ID]
    return name
