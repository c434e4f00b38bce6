"""The API of Tavily as a whole (docs/reference/compatible-apis.md), and the use of an API key (vendor's reference:
https://docs.tavily.com/documentation/api-reference/endpoint/usage).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel
from pydantic_core import from_json
from starlette.types import Message, Receive, Scope

from modules.llm_platform.presentation.rest.compat import dialect
from modules.llm_platform.presentation.rest.compat.tavily import crawl, research, search
from modules.llm_platform.presentation.rest.compat.tavily.examples import EXAMPLES
from modules.llm_platform.presentation.rest.compat.tavily.shared import ENDPOINTS
from modules.llm_platform.presentation.rest.http.access import Headers
from modules.llm_platform.presentation.rest.http.body import receive_body_with_key
from modules.llm_platform.presentation.rest.http.request_scope import get_caller_id, get_server_state
from shared.exceptions import AppException

router = APIRouter(prefix="/tavily", tags=["compatible"])

PLAN: Final = "llm-platform"


class TavilyUsage(BaseModel):
    """Calls since the server started, of this process and of the API key of the request. There are no credits."""

    key: dict[str, int | None]
    account: dict[str, int | str | None]


@router.get(
    "/usage",
    summary="Calls of the API key, for clients of Tavily",
    response_model=TavilyUsage,
    responses=dialect.declare_errors(),
)
async def get_usage(request: Request) -> Response:
    calls, caller = get_server_state(request).calls, get_caller_id(request)
    # The numbers of other callers are none of its business, so the account has the numbers of the key.
    by_endpoint = {f"{endpoint}_usage": calls[caller, f"tavily/{endpoint}"] for endpoint in ENDPOINTS}
    total = sum(by_endpoint.values())
    account = {"current_plan": PLAN, "plan_usage": total, "plan_limit": None, "paygo_usage": 0, "paygo_limit": None}
    usage = {"key": {"usage": total, "limit": None, **by_endpoint}, "account": {**account, **by_endpoint}}
    return dialect.make_json_response(usage)


async def _find_key(scope: Scope, headers: Headers, receive: Receive) -> tuple[bytes, Receive]:
    """Return `api_key` of the body, which older clients send instead of a header."""
    if b"authorization" in headers or b"x-api-key" in headers:
        return b"", receive
    body = await receive_body_with_key(receive, headers)

    async def receive_again() -> Message:
        nonlocal body
        sent, body = body, b""
        return {"type": "http.request", "body": sent, "more_body": False} if sent else await receive()

    try:
        value = from_json(body)
    except ValueError:
        return b"", receive_again
    key = value.get("api_key") if isinstance(value, dict) else None
    return (key.encode("utf-8", "replace") if isinstance(key, str) else b""), receive_again


def _format_error(error: AppException, problem: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    return dialect.choose_readable_status(error), {"detail": {"error": dialect.format_message(problem)}}


DIALECT: Final = dialect.Dialect(
    prefix="/tavily",
    clients="clients of Tavily: API base URL `http://localhost:8000/tavily`",
    routers=(crawl.router, research.router, search.router, router),
    format_error=_format_error,
    examples=EXAMPLES,
    find_key=_find_key,
    read_paths={"/tavily/extract", "/tavily/search"},
)
