"""Reranking in the form of Cohere (`/v1/rerank`, `/v2/rerank`) and of Jina (`/v1/rerank`), docs/reference/compatible-apis.md.

References of the vendors: https://docs.cohere.com/reference/rerank and https://api.jina.ai/redoc
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, BeforeValidator, Field, StrictBool, StringConstraints

from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.compat.firecrawl import api as firecrawl
from modules.llm_platform.presentation.rest.http import problems
from modules.llm_platform.presentation.rest.http.body import read_body
from modules.llm_platform.presentation.rest.http.disconnect import CancelOnDisconnect
from modules.llm_platform.presentation.rest.http.request_scope import get_services, request_id
from modules.llm_platform.presentation.rest.http.route_example import Example
from shared.exceptions import AppException

router = APIRouter(tags=["compatible"])

MAX_DOCUMENTS: Final = 1000  # documents of one request; its body has at most 1 MiB


class RerankText(BaseModel, extra="allow", frozen=True):
    """A document as an object. Other fields than `text` are not ranked."""

    text: str


def _read_document(value: Any) -> Any:
    """Return a document as the fields of RerankText. Raises ValueError for what is neither a string nor an object."""
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, dict | RerankText):
        return value
    raise ValueError("must be a string, or an object with `text`")


_Document = Annotated[RerankText, BeforeValidator(_read_document, json_schema_input_type=str | RerankText)]
_Query = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_MESSAGE_CHARS)]


class RerankV2Request(dialect.DialectBody, frozen=True):
    """A query and the texts that are ordered for it. `model` and `max_tokens_per_doc` change nothing."""

    model: str | None = Field(default=None, max_length=200)
    query: _Query
    documents: tuple[_Document, ...] = Field(min_length=1, max_length=MAX_DOCUMENTS)
    top_n: int | None = Field(default=None, ge=1, strict=True)
    return_documents: StrictBool | None = False

    @property
    def texts(self) -> list[str]:
        return [document.text for document in self.documents]


class RerankV1Request(RerankV2Request, frozen=True):
    """The request of the older form, and of Jina: the results have their documents unless it asks for none."""

    return_documents: StrictBool | None = True


class RerankResponse(BaseModel):
    """The best documents by their index in the request. `relevance_score` is relative to the documents of the request."""

    id: str
    object: str
    model: str
    results: list[dict[str, Any]]
    usage: dict[str, int]
    meta: dict[str, Any]


async def _rerank(request: Request, body: RerankV2Request, version: str) -> Response:
    reranking, texts = get_services(request).reranking, body.texts
    async with CancelOnDisconnect(request.receive):
        ranked = await reranking.rerank(body.query, texts)
    tokens = count_tokens(body.query) + sum(map(count_tokens, texts))
    results: list[dict[str, Any]] = [
        {"index": document.index, "relevance_score": document.score} for document in ranked[: body.top_n]
    ]
    if body.return_documents:
        results = [{**result, "document": {"text": texts[result["index"]]}} for result in results]
    answer = {
        "id": request_id(request),
        "object": "list",
        "model": reranking.name,
        "results": results,
        "usage": {"total_tokens": tokens, "prompt_tokens": tokens},
        "meta": {"api_version": {"version": version}, "billed_units": {"search_units": 0}},
    }
    return dialect.make_json_answer(answer, body, "model")


@router.post(
    "/v2/rerank",
    **dialect.declare_route(
        "Order documents, for clients of Cohere", RerankV2Request, RerankResponse, dialect.ERROR_STATUSES_400
    ),
)
async def rerank(request: Request) -> Response:
    return await _rerank(request, await read_body(request, RerankV2Request), "2")


@router.post(
    "/v1/rerank",
    **dialect.declare_route(
        "Order documents, for clients of Cohere and Jina", RerankV1Request, RerankResponse, dialect.ERROR_STATUSES_400
    ),
)
async def rerank_v1(request: Request) -> Response:
    request.scope[problems.ERROR_FORMAT] = _format_error  # other routes below /v1 have OpenAI's
    return await _rerank(request, await read_body(request, RerankV1Request), "1")


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """Return the error as both read it: Cohere's `message` and Jina's `detail`."""
    message = dialect.format_message(problem)
    return dialect.choose_status_400(error), {"message": message, "detail": message}


_EXAMPLE: Final[Mapping[str, Any]] = {
    "id": "3f2c8a5e",
    "object": "list",
    "model": "bm25+wordllama/l2_supercat_256",
    "results": [{"index": 1, "relevance_score": 0.666667}],
    "usage": {"total_tokens": 13, "prompt_tokens": 13},
    "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 0}},
}
_DOCUMENTS: Final = ["A dog is an animal.", "Tea is a drink."]

DIALECT: Final = dialect.Dialect(
    prefix="/v2",
    clients="clients of Cohere: base URL `http://localhost:8000`; rerankers in the form of Jina: address "
    "`http://localhost:8000/v1/rerank`",
    routers=(router,),
    format_error=firecrawl.format_error,  # Firecrawl's Python client asks below /v2, too
    examples={
        "post /v1/rerank": Example(
            {
                **_EXAMPLE,
                "results": [{"index": 1, "relevance_score": 0.666667, "document": {"text": "Tea is a drink."}}],
                "meta": {"api_version": {"version": "1"}, "billed_units": {"search_units": 0}},
            },
            {"query": "What is tea?", "documents": _DOCUMENTS, "top_n": 1},
        ),
        "post /v2/rerank": Example(
            _EXAMPLE, {"model": "rerank-v3.5", "query": "What is tea?", "documents": _DOCUMENTS, "top_n": 1}
        ),
    },
    read_paths={"/v1/rerank", "/v2/rerank"},
)
