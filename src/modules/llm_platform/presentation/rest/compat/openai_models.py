"""The models of the OpenAI dialect: research runs of each depth, the configured language models, and the embedder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, StringConstraints
from pydantic_core import to_json

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.domain.dtos.llm_dtos import ConfiguredModel
from modules.llm_platform.domain.dtos.research_dtos import Depth
from modules.llm_platform.presentation.rest.compat.dialect import JSON, Example, error_responses
from modules.llm_platform.presentation.rest.http.problems import RestError
from modules.llm_platform.presentation.rest.http.responses import services

router = APIRouter(prefix="/v1", tags=["compatible"])  # of all routes of the dialect

DEPTHS: Final[Mapping[str, Depth]] = {
    "research-shallow": "shallow",
    "research-deep": "deep",
    "research-report": "report",
}
OWNER: Final = "llm-platform"

ModelName = Annotated[str, StringConstraints(min_length=1, max_length=320)]


class ModelNotFoundError(RestError):
    """There is no such model: GET /v1/models lists them."""

    code = "model_not_found"
    status_code = 404


class OpenaiModel(BaseModel):
    """One model. `created` is always 0: there is no such date."""

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
    responses=error_responses(),
)
async def list_models(request: Request) -> Response:
    found = {"object": "list", "data": list(_models(services(request)))}
    return Response(to_json(found), media_type=JSON)


@router.get(
    "/models/{model:path}",
    summary="One model, for clients of OpenAI",
    response_model=OpenaiModel,
    responses=error_responses(404),
)
async def get_model(request: Request, model: str) -> Response:
    for each in _models(services(request)):
        if each["id"] == model:
            return Response(to_json(each), media_type=JSON)
    raise ModelNotFoundError


def find_llm(request: Request, model: str) -> ConfiguredModel:
    """Return the language model of this id. Raises ModelNotFoundError."""
    for each in services(request).llm.models:
        if _id(each) == model:
            return each
    raise ModelNotFoundError


def _models(platform: LLMPlatform) -> Iterator[Mapping[str, Any]]:
    yield from (_model(name, OWNER) for name in DEPTHS)
    yield from (_model(_id(each), each.provider) for each in platform.llm.models)
    if name := platform.embeddings.name:
        yield _model(name, name.partition("/")[0])


def _id(model: ConfiguredModel) -> str:
    return f"{model.provider}/{model.model}"


def _model(name: str, owner: str) -> Mapping[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}


EXAMPLE_MODEL: Final = _model("research-deep", OWNER)
EXAMPLES: Final[Mapping[tuple[str, str], Example]] = {
    ("get", "/v1/models"): Example({"object": "list", "data": [EXAMPLE_MODEL]}),
    ("get", "/v1/models/{model}"): Example(EXAMPLE_MODEL, parameters={"model": "research-deep"}),
}
