"""The common part of the compatible interfaces (docs/reference/compatible-apis.md).

A dialect translates the requests, answers and errors of another system's API. Clients of that system change one address.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationInfo,
    WrapValidator,
    model_validator,
)
from pydantic_core import to_json

from modules.llm_platform.domain.concurrency.page_allowance import page_allowance
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.request_dtos import MAX_URL_CHARS
from modules.llm_platform.domain.dtos.source_dtos import RawResult
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import PageBlockedError, PageConnectionError, PageError, PageRequestError
from modules.llm_platform.domain.retrieval.excerpt import select_excerpt
from modules.llm_platform.domain.urls.site_names import MAX_SITES, parse_unsigned_site, split_sites
from modules.llm_platform.presentation.rest.http import ignored_fields, problems
from modules.llm_platform.presentation.rest.http.access import FindKey
from modules.llm_platform.presentation.rest.http.disconnect import CancelOnDisconnect
from modules.llm_platform.presentation.rest.http.openapi import declare_data_stream, describe_body
from modules.llm_platform.presentation.rest.http.request_scope import get_services
from modules.llm_platform.presentation.rest.http.route_example import Example
from modules.llm_platform.presentation.rest.search_routes import search_web
from modules.llm_platform.presentation.written_values import read_written_values
from shared.exceptions import AppException, status_phrase

JSON: Final = "application/json"
_FIELD_NAME: Final = re.compile(r"[A-Za-z_]\w{0,59}", re.ASCII)  # Clients and proxies refuse headers of some kilobytes.
MAX_CONCURRENT_READS: Final = 5  # Pages of one request that are read at once.
SNIPPET_TOKENS: Final = 500  # The snippet of a result whose page was read.

ERROR_STATUSES: Final = (*problems.BODY_STATUSES, *problems.UPSTREAM_STATUSES)
# Statuses that `choose_status_400` covers.
ERROR_STATUSES_400: Final = (400, *problems.BODY_STATUSES[:-1], *problems.UPSTREAM_STATUSES)

PageUrl = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_URL_CHARS)]


def accept_one_or_several(one: Any, several: Any) -> WrapValidator:
    """Validate a list as `several` and any other value as `one`, so that an error names the field, or the place in the list."""
    adapters = TypeAdapter(one), TypeAdapter(several)
    return WrapValidator(lambda value, _: adapters[isinstance(value, list | tuple)].validate_python(value))


Sites = Annotated[
    tuple[Annotated[str, AfterValidator(parse_unsigned_site)], ...],
    Field(max_length=MAX_SITES),
    BeforeValidator(split_sites),
]  # Sites to search or to leave out, as the name of the field says.


def not_before(first_field: str) -> AfterValidator:
    """Validate the last day of a range, whose first day is in the field `first_field`, declared above."""

    def check(last: date | None, info: ValidationInfo) -> date | None:
        first = info.data.get(first_field)
        if first and last and last < first:
            raise ValueError(f"must not be before {first_field}")
        return last

    return AfterValidator(check)


def limit_sites_with(included_field: str) -> AfterValidator:
    """Validate sites that are left out: at most MAX_SITES with those of the field `included_field`, declared above."""

    def check(excluded: Sites | None, info: ValidationInfo) -> Sites | None:
        if len(excluded or ()) + len(info.data.get(included_field) or ()) > MAX_SITES:
            raise ValueError(f"must have at most {MAX_SITES} sites together with {included_field}")
        return excluded

    return AfterValidator(check)


def join_domains(included: Sites | None, excluded: Sites | None) -> tuple[str, ...]:
    return (*(included or ()), *(f"-{site}" for site in excluded or ()))


class DialectBody(BaseModel, extra="allow", frozen=True):
    """The body of a request. `report_ignored` reports fields that are not served."""


class StringValuesBody(DialectBody, frozen=True):
    """A request whose numbers may be strings, as in query strings, in forms and in what a language model writes."""

    @model_validator(mode="before")
    @classmethod
    def _read_strings(cls, values: object) -> object:
        return read_written_values(cls, values) if isinstance(values, dict) else values


@dataclass(frozen=True, slots=True)
class Dialect:
    """The API of another system below `prefix`.

    - `clients` says, in Markdown, whose clients it serves and what they set: the table of
      docs/reference/compatible-apis.md shows it.
    - `routers` have the routes. A request is matched in their order.
    - `format_error` returns the status and the JSON body that the clients of the system read.
    - `examples` has the example of each route of the OpenAPI document, for example under `post /open-webui/search`.
    - `key_header` is the header, in small letters, in which they send the API key, if it is neither `Authorization:
      Bearer` nor `X-API-Key`.
    - `find_key` returns a key that they send elsewhere, or b"", and a `receive` that still has the body.
    - `request_id_header` is the header, in small letters, in which they read the request id, if it is not
      `X-Request-ID`.
    - `read_paths` are the paths of POST requests that search, read pages or count, and start no research. They count
      for the limit of reads.
    """

    prefix: str
    clients: str
    routers: tuple[APIRouter, ...]
    format_error: problems.ErrorFormat
    examples: Mapping[str, Example]
    key_header: bytes = b""
    find_key: FindKey | None = None
    request_id_header: bytes = b""
    read_paths: Set[str] = frozenset()


@asynccontextmanager
async def reading(request: Request) -> AsyncIterator[None]:
    """Read pages until the client disconnects. Raises InvalidRequestError that names `url` if it may not be read."""
    try:
        async with CancelOnDisconnect(request.receive):
            yield
    except PageRequestError as error:
        raise problems.InvalidRequestError.at(("body", "url"), error.message, error.code) from None


async def search_web_multi(request: Request, searches: Sequence[WebSearchRequest]) -> list[WebSearchResponse]:
    """Return the results of all searches, which run at once. Raises the first error if none has an answer."""
    if len(searches) == 1:
        return [await search_web(request, searches[0])]
    async with CancelOnDisconnect(request.receive):
        found = await get_services(request).web_search.search_multi(searches)
    answers = [response for response in found if isinstance(response, WebSearchResponse)]
    if not answers:
        raise next(error for error in found if isinstance(error, Exception))
    return answers


def select_snippet(result: RawResult, question: str) -> str:
    """Return the part of a result's text that fits the question. The text is a whole page if the page was read."""
    return select_excerpt(result.content, question, SNIPPET_TOKENS)


async def read_pages(
    request: Request, urls: Sequence[str], *, are_whole: bool = False
) -> dict[str, Page | AppException]:
    """Return each page, or the error of reading it. Addresses that differ only in the fragment are read once.

    With `are_whole`, pages have all of their visible text. Reading stops if the client disconnects.
    """
    platform = get_services(request)
    reads = asyncio.Semaphore(MAX_CONCURRENT_READS)

    async def read(url: str) -> Page | AppException:
        try:
            async with reads:
                if are_whole:
                    return (await platform.site_crawl.read_page(url, is_whole=True)).page
                return await platform.pages.read(url)
        except AppException as error:
            return error

    with page_allowance():
        async with CancelOnDisconnect(request.receive), asyncio.TaskGroup() as tasks:
            running = {
                page: tasks.create_task(read(page)) for page in dict.fromkeys(url.partition("#")[0] for url in urls)
            }
    return {url: running[url.partition("#")[0]].result() for url in dict.fromkeys(urls)}


def report_ignored(response: Response, body: BaseModel, *partly_served: str) -> Response:
    """Name in a header the fields that the client sent and that have no effect, or only a part of it. A null is not named.

    `partly_served` are fields that have only a part of their effect, and parts of fields (`tools.max_uses`).
    """
    unknown = [
        name for name, value in (body.model_extra or {}).items() if value is not None and _FIELD_NAME.fullmatch(name)
    ]
    sent = {name for name in body.model_fields_set if getattr(body, name) is not None}
    ignored = [*(name for name in partly_served if name.partition(".")[0] in sent), *unknown]
    if ignored:
        response.headers[ignored_fields.HEADER] = ", ".join(ignored[: ignored_fields.NAMED_FIELDS])
    return response


def make_json_response(content: Any, status: int = 200) -> Response:
    return Response(to_json(content), status, media_type=JSON)


def make_json_answer(content: Any, body: BaseModel, *partly_served: str) -> Response:
    """Return the content as JSON, with the header of `report_ignored`."""
    return report_ignored(make_json_response(content), body, *partly_served)


def choose_status_400(error: AppException) -> int:
    """Return the status of an error. Invalid fields are a 400, which clients turn into their BadRequestError."""
    return HTTPStatus.BAD_REQUEST if error.status_code == HTTPStatus.UNPROCESSABLE_ENTITY else error.status_code


def choose_readable_status(error: AppException) -> int:
    """Return a status with which clients show the message of an error. After a 502 or 503 they show only the number, or
    repeat the request.
    """
    if isinstance(error, PageBlockedError):
        return HTTPStatus.FORBIDDEN
    if isinstance(error, PageError | PageConnectionError):
        return HTTPStatus.BAD_REQUEST
    return choose_status_400(error)


def format_message(problem: Mapping[str, Any]) -> str:
    """Return the message of an error for clients that show nothing else: it names each invalid field."""
    errors = problem.get("errors") or ()
    fields = [f"{'.'.join(map(str, error['loc'][1:]))}: {error['msg']}" for error in errors if error["loc"][1:]]
    return "; ".join(fields) or str(problem["detail"])


def declare_route(
    summary: str, body: type[BaseModel], answer: Any, statuses: Sequence[int] = ERROR_STATUSES, stream: str = ""
) -> dict[str, Any]:
    """Return the arguments of a route that calls `read_body`. `stream` describes an answer that can be a stream, too."""
    responses = {**declare_errors(*statuses), **(declare_data_stream(stream) if stream else {})}
    return {"summary": summary, "response_model": answer, "responses": responses, "openapi_extra": describe_body(body)}


def declare_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route of a dialect that can also fail with these statuses."""
    content = {JSON: {"schema": {"type": "object"}}}
    return {
        status: {"description": status_phrase(status), "content": content}
        for status in sorted({*problems.COMMON_STATUSES, *problems.ACCESS_STATUSES, *statuses})
    }
