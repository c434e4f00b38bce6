"""The API of SearXNG below a prefix: its parameters and its JSON (docs/reference/compatible-apis.md).

Reference of the project: https://docs.searxng.org/dev/search_api.html
"""

import html
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import Receive, Scope

from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, SourceKind
from modules.llm_platform.domain.package import package_version
from modules.llm_platform.presentation.rest.compat.dialect import (
    Dialect,
    declare_errors,
    format_message,
    make_json_response,
)
from modules.llm_platform.presentation.rest.http.access import IS_LIMITED, Headers, read_basic_password
from modules.llm_platform.presentation.rest.http.body import validate
from modules.llm_platform.presentation.rest.http.openapi import describe_body, describe_query
from modules.llm_platform.presentation.rest.http.problems import BODY_STATUSES, UPSTREAM_STATUSES, InvalidRequestError
from modules.llm_platform.presentation.rest.http.request_scope import get_services
from modules.llm_platform.presentation.rest.http.route_example import Example
from modules.llm_platform.presentation.rest.search_routes import (
    PASS_THROUGH,
    search_by_body,
    search_passed_through,
    search_web,
)
from modules.llm_platform.presentation.rest.searxng_shape import (
    SOURCE_OF_CATEGORY,
    SearchApiRequest,
    SearxngAnswer,
    from_query,
    to_searxng,
)
from shared.exceptions import AppException

SUGGESTIONS: Final = "application/x-suggestions+json"
PAGE_TEMPLATE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>llm-platform: {title}</title></head>
<body><main id="main_results">
{body}
</main></body></html>
"""
HOME_PAGE: Final = PAGE_TEMPLATE.format(
    title="search",
    body="<h1>llm-platform</h1><p>The search API of SearXNG: <code>search?q=QUERY&amp;format=json</code></p>",
)
router = APIRouter(prefix="/searxng", tags=["compatible"])


@router.get("", include_in_schema=False)  # LangChain appends the query string to the address that it is given
@router.get("/", include_in_schema=False)
async def open_instance(request: Request) -> Response:
    """Search, or answer without a query as an instance does: clients ask for its page to see whether it is there."""
    is_page = request.query_params.get("format", "html") == "html"
    return HTMLResponse(HOME_PAGE) if is_page and not request.query_params.get("q") else await search(request)


@router.get(
    "/search",
    summary="Search, for clients of SearXNG",
    response_model=SearxngAnswer,
    responses=declare_errors(422, *UPSTREAM_STATUSES),
    openapi_extra=PASS_THROUGH,
)
async def search(request: Request) -> Response:
    wanted = request.query_params.get("format", "json")
    if wanted not in ("json", "html"):
        raise InvalidRequestError.at(("query", "format"), "must be json or html")
    asked = validate(SearchApiRequest, from_query(request.query_params), "query")
    if wanted == "json":
        return await search_passed_through(request, asked)
    # The page has the class names of SearXNG's, which local-deep-research and other clients read.
    results = to_searxng(await search_web(request, asked))["results"]
    return HTMLResponse(PAGE_TEMPLATE.format(title="Results", body="\n".join(map(_render_article, results))))


def _render_article(result: Any) -> str:
    """Return one result as HTML, or nothing if it has no title or no address."""
    texts = [result.get(name) for name in ("url", "title", "content")] if isinstance(result, dict) else []
    if not texts or not all(isinstance(text, str) for text in texts[:2]):
        return ""
    url, title, content = (html.escape(text) if isinstance(text, str) else "" for text in texts)
    return (
        f'<article class="result result-default"><a class="url_header" href="{url}" rel="noreferrer">{url}</a>'
        f'<h3><a href="{url}" rel="noreferrer">{title}</a></h3><p class="content">{content}</p></article>'
    )


@router.get(
    "/healthz",
    summary="Whether the instance answers, for clients of SearXNG",
    response_class=PlainTextResponse,
    responses=declare_errors(),
)
async def health(request: Request) -> Response:
    return PlainTextResponse("OK")


router.add_api_route("/", search_by_body, methods=["POST"], include_in_schema=False)
router.add_api_route(
    "/search",
    search_by_body,
    methods=["POST"],
    summary="Search, for clients of SearXNG",
    response_model=SearxngAnswer,
    responses=declare_errors(*BODY_STATUSES, *UPSTREAM_STATUSES),
    openapi_extra=describe_body(SearchApiRequest, form=PASS_THROUGH),
)


@router.get(
    "/config",
    summary="The search providers, for clients of SearXNG",
    response_model=dict[str, Any],
    responses=declare_errors(),
)
async def config(request: Request) -> Response:
    """Return what can be searched, in the form of SearXNG's own `/config`. An engine is a configured search provider."""
    engines = [
        _describe_engine(name, kinds)
        for name, kinds in get_services(request).web_search.source_kinds.items()
        if kinds != (DOCUMENTS,)
    ] or [_describe_engine(DOCUMENTS, ("web",))]  # documents alone serve web
    values = {
        "categories": list(dict.fromkeys(category for engine in engines for category in engine["categories"])),
        "engines": engines,
        "plugins": [],
        "instance_name": "llm-platform",
        "locales": {},
        "default_locale": "",
        "autocomplete": "",
        "safe_search": 0,
        "default_theme": "",
        "version": package_version(),
        "brand": dict.fromkeys(("PRIVACYPOLICY_URL", "CONTACT_URL", "GIT_URL", "GIT_BRANCH", "DOCS_URL")),
        "limiter": {
            "enabled": request.scope.get(IS_LIMITED, False),
            "botdetection.ip_limit.link_token": False,
            "botdetection.ip_lists.pass_searxng_org": False,
        },
        "doi_resolvers": [],
        "default_doi_resolver": "",
        "public_instance": False,
    }
    return make_json_response(values)


def _describe_engine(name: str, kinds: Sequence[SourceKind]) -> dict[str, Any]:
    return {
        "name": name,
        "categories": [category for category, kind in SOURCE_OF_CATEGORY.items() if kind in kinds],
        "shortcut": name,
        "enabled": True,
        "paging": True,
        "language_support": True,
        "languages": [],
        "regions": [],
        "safesearch": name.startswith("searxng"),
        "time_range_support": name != DOCUMENTS,
        "timeout": None,
    }


@router.get(
    "/autocompleter",
    summary="No suggestions, for clients of SearXNG",
    response_class=Response,
    responses={200: {"content": {SUGGESTIONS: {"schema": {"type": "array", "items": {}}}}}, **declare_errors()},
    openapi_extra=describe_query(q=({"type": "string"}, False, "The beginning of a query.")),
)
async def autocomplete(request: Request) -> Response:
    """Return the query and no suggestions, as SearXNG does without a service that completes queries."""
    return Response(to_json([request.query_params.get("q", ""), []]), media_type=SUGGESTIONS)


async def _find_key(scope: Scope, headers: Headers, receive: Receive) -> tuple[bytes, Receive]:
    """Return the password of `Authorization: Basic`, which clients send for http://user:KEY@host/searxng."""
    return read_basic_password(headers), receive


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    return error.status_code, {"error": format_message(problem), **problem}


_FOUND: Final[Mapping[str, Any]] = {
    "query": "What is tea?",
    "number_of_results": 1,
    "results": [
        {"title": "Tea", "url": "https://example.org/tea", "content": "Tea is a drink.", "engine": "wikipedia"},
    ],
    "answers": [],
    "corrections": [],
    "infoboxes": [],
    "suggestions": [],
    "unresponsive_engines": [],
}

DIALECT: Final = Dialect(
    prefix="/searxng",
    clients="clients of SearXNG: address `http://localhost:8000/searxng`. `/searxng` itself answers too",
    routers=(router,),
    format_error=_format_error,
    examples={
        "get /searxng/search": Example(_FOUND, parameters={"q": "What is tea?"}),
        "post /searxng/search": Example(_FOUND, {"q": "What is tea?"}),
        "get /searxng/config": Example({"categories": ["general"], "engines": [_describe_engine("brave", ("web",))]}),
        "get /searxng/healthz": Example("OK"),
        "get /searxng/autocompleter": Example(["What is", []], parameters={"q": "What is"}),
    },
    find_key=_find_key,
    read_paths={"/searxng/", "/searxng/search"},
)
