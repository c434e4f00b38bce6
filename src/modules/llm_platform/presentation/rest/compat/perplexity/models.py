"""The models of Perplexity and the depth of the research that answers for each."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Response

from modules.llm_platform.domain.dtos.request_dtos import Depth
from modules.llm_platform.presentation.rest.compat.dialect import declare_errors, make_json_response
from modules.llm_platform.presentation.rest.compat.openai.models import OpenaiModels, describe

router = APIRouter(prefix="/perplexity", tags=["compatible"])

DEPTHS: Final[Mapping[str, Depth]] = {
    "sonar": "shallow",
    "sonar-pro": "deep",
    "sonar-reasoning": "deep",
    "sonar-reasoning-pro": "deep",
    "sonar-deep-research": "report",
}
# `effort` of the Agent API, and the presets that it replaced.
EFFORTS: Final[Mapping[str, Depth]] = {
    "fast": "shallow",
    "low": "shallow",
    "medium": "deep",
    "high": "deep",
    "xhigh": "report",
    "fast-search": "shallow",
    "pro-search": "deep",
    "deep-research": "report",
    "advanced-deep-research": "report",
    **DEPTHS,
}


def find_depth(name: str) -> Depth | None:
    """Return the depth for a model, a preset or an effort, or None for another name. A version after @ changes nothing."""
    return EFFORTS.get(name.partition("@")[0].removeprefix("perplexity/"))


@router.get(
    "/v1/models",
    summary="The models, for clients of Perplexity's Agent API",
    response_model=OpenaiModels,
    responses=declare_errors(),
)
async def list_models() -> Response:
    return make_json_response(_MODELS)


_MODELS: Final[Mapping[str, Any]] = {"object": "list", "data": list(map(describe, DEPTHS))}
