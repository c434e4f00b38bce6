"""The models of the OpenAI dialect: research runs of each depth, the configured language models, and the embedder."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, StringConstraints

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.domain.dtos.llm_dtos import ConfiguredModel
from modules.llm_platform.domain.dtos.request_dtos import Depth
from modules.llm_platform.presentation.rest.compat.dialect import declare_errors, make_json_response
from modules.llm_platform.presentation.rest.http.problems import RestError
from modules.llm_platform.presentation.rest.http.request_scope import get_services

router = APIRouter(prefix="/v1", tags=["compatible"])

DEPTHS: Final[Mapping[str, Depth]] = {
    "research-shallow": "shallow",
    "research-deep": "deep",
    "research-report": "report",
}
DEEP_RESEARCH: Final = re.compile(r"o\d[a-z0-9-]{0,40}-deep-research(-\d{4}-\d\d-\d\d)?")  # Example: o3-deep-research.
RELEASED: Final = datetime(
    2026, 11, 22, tzinfo=UTC
)  # The date of this version: clients read one, and models have none here.

ModelName = Annotated[str, StringConstraints(min_length=1, max_length=320)]


class ModelNotFoundError(RestError, code="model_not_found", status_code=404):
    """There is no such model: GET /v1/models lists them, for clients of Anthropic GET /anthropic/v1/models."""


class OpenaiModel(BaseModel):
    """One model, for clients of Perplexity too. `created` is the same for all: the date of this version."""

    id: str
    object: str
    created: int
    owned_by: str


class OpenaiModels(BaseModel):
    """The models."""

    object: str
    data: list[OpenaiModel]


@router.get(
    "/models",
    summary="The models, for clients of OpenAI",
    response_model=OpenaiModels,
    responses=declare_errors(),
)
async def list_models(request: Request) -> Response:
    return make_json_response({"object": "list", "data": list(_list_models(get_services(request)))})


@router.get(
    "/models/{model:path}",
    summary="One model, for clients of OpenAI",
    response_model=OpenaiModel,
    responses=declare_errors(404),
)
async def get_model(request: Request, model: str) -> Response:
    for listed in _list_models(get_services(request)):
        if listed["id"] == model:
            return make_json_response(listed)
    if find_depth(model):
        return make_json_response(describe(model))
    raise ModelNotFoundError


def find_depth(model: str) -> Depth | None:
    """Return the depth of a research model, or None for another model. The vendor's own deep research models are reports."""
    return "report" if DEEP_RESEARCH.fullmatch(model) else DEPTHS.get(model)


def find_llm(request: Request, model: str) -> ConfiguredModel:
    """Return the language model of this id. Raises ModelNotFoundError."""
    for configured in get_services(request).llm.models:
        if get_llm_name(configured) == model:
            return configured
    raise ModelNotFoundError


def _list_models(platform: LLMPlatform) -> Iterator[Mapping[str, Any]]:
    yield from map(describe, DEPTHS)
    yield from (describe(get_llm_name(model), model.provider) for model in platform.llm.models)
    if name := platform.embeddings.name:
        yield describe(name, name.partition("/")[0])


def get_llm_name(model: ConfiguredModel) -> str:
    return f"{model.provider}/{model.model}"


def describe(name: str, owner: str = "llm-platform") -> Mapping[str, Any]:
    return {"id": name, "object": "model", "created": int(RELEASED.timestamp()), "owned_by": owner}
