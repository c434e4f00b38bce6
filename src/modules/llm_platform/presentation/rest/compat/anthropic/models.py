"""The models of the Anthropic dialect: research runs of each depth, and the configured language models."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.domain.dtos.llm_dtos import ConfiguredModel
from modules.llm_platform.domain.dtos.request_dtos import Depth
from modules.llm_platform.presentation.rest.compat.dialect import declare_errors, make_json_response
from modules.llm_platform.presentation.rest.compat.openai.models import (
    DEPTHS,
    RELEASED,
    ModelNotFoundError,
    get_llm_name,
)
from modules.llm_platform.presentation.rest.http.request_scope import get_services

router = APIRouter(prefix="/anthropic/v1", tags=["compatible"])


class AnthropicModel(BaseModel):
    """One model."""

    id: str
    type: str
    display_name: str
    created_at: str
    lifecycle: str


class AnthropicModels(BaseModel):
    """The models, all on one page."""

    data: list[AnthropicModel]
    has_more: bool
    first_id: str | None
    last_id: str | None


@router.get(
    "/models",
    summary="The models, for clients of Anthropic",
    response_model=AnthropicModels,
    responses=declare_errors(),
)
async def list_models(request: Request) -> Response:
    names = [*DEPTHS, *map(get_llm_name, get_services(request).llm.models)]
    found = {"data": list(map(_describe_model, names)), "has_more": False, "first_id": names[0], "last_id": names[-1]}
    return make_json_response(found)


@router.get(
    "/models/{model:path}",
    summary="One model, for clients of Anthropic",
    response_model=AnthropicModel,
    responses=declare_errors(404),
)
async def get_model(request: Request, model: str) -> Response:
    find(get_services(request), model)
    return make_json_response(_describe_model(model))


def find(platform: LLMPlatform, name: str) -> Depth | ConfiguredModel:
    """Return what answers for a model: a research run of a depth, or a language model. Raises ModelNotFoundError.

    A name of the vendor's is replaced as ANTHROPIC_MODELS says.
    """
    known: dict[str, Depth | ConfiguredModel] = {
        **DEPTHS,
        **{get_llm_name(model): model for model in platform.llm.models},
    }
    wanted = (
        name
        if name in known
        else next((model for pattern, model in platform.llm.replacements.items() if fnmatchcase(name, pattern)), "")
    )
    if wanted and wanted not in known:
        raise ModelNotFoundError(
            "ANTHROPIC_MODELS names a model that this server does not have: GET /anthropic/v1/models"
        )
    if not wanted:
        raise ModelNotFoundError
    return known[wanted]


def _describe_model(name: str) -> Mapping[str, Any]:
    created_at = RELEASED.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"id": name, "type": "model", "display_name": name, "created_at": created_at, "lifecycle": "active"}
