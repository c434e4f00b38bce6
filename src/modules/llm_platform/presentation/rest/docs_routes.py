"""The page of the HTTP interface under /docs, from files of this package, and the way there from /."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from fastapi import Request, Response
from pydantic_core import to_json
from starlette.responses import RedirectResponse
from starlette.routing import Route

from modules.llm_platform.presentation.rest.middleware import HEADERS
from modules.llm_platform.presentation.rest.problems import NotFoundError
from modules.llm_platform.presentation.rest.responses import JSON

FOLDER: Final = Path(__file__).parent / "swagger_ui"
MEDIA_TYPES: Final[Mapping[str, str]] = {  # the files that the page loads; nothing else of the folder is served
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "start.js": "text/javascript",
}
DOCUMENT: Final = "openapi.json"  # the page's own copy: that of / wants a key where there are keys
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",  # the icons in the style sheet
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
FILE_HEADERS: Final[Mapping[str, str]] = {"Cache-Control": "max-age=3600"}
DOORS: Final[Mapping[str, object]] = {
    "name": "llm-platform",
    "docs": "/docs",
    "openapi": "/openapi.json",
    "health": "/health",
    "routes": ["POST /research", "GET /search", "POST /llm-platform/web-search", "POST /llm-platform/chat"],
}


async def root(request: Request) -> Response:
    """A browser is led to the page; other clients get the names of the routes."""
    if b"text/html" in request.scope[HEADERS].get(b"accept", b"").lower():
        return RedirectResponse("docs", headers={"Cache-Control": "no-cache", "Vary": "Accept"})
    return Response(to_json(DOORS), media_type=JSON, headers={"Vary": "Accept"})


async def page(request: Request) -> Response:
    return Response(_content("index.html"), media_type="text/html", headers=dict(PAGE_HEADERS))


async def page_file(request: Request) -> Response:
    name = request.path_params["name"]
    if name == DOCUMENT:
        return Response(to_json(request.app.openapi()), media_type=JSON, headers={"Cache-Control": "no-cache"})
    if name not in MEDIA_TYPES:
        raise NotFoundError
    return Response(_content(name), media_type=MEDIA_TYPES[name], headers=dict(FILE_HEADERS))


@cache
def _content(name: str) -> bytes:
    """Read once, when it is first asked for: the largest has 1.7 MB."""
    return (FOLDER / name).read_bytes()


ROUTES: Final = (Route("/", root), Route("/docs", page), Route("/docs/{name}", page_file))  # no part of the interface
