"""The pages of this server, from files of this package: the research page at / and the API documentation under /docs."""

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from fastapi import Request, Response
from pydantic_core import to_json
from starlette.routing import Route

from modules.llm_platform.presentation.rest.http.access import HEADERS
from modules.llm_platform.presentation.rest.http.problems import NotFoundError
from modules.llm_platform.presentation.rest.http.responses import JSON

FOLDER: Final = Path(__file__).parent / "swagger_ui"
MEDIA_TYPES: Final[Mapping[str, str]] = {  # files that the page loads; nothing else in the folder is served
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "start.js": "text/javascript",
}
DOCUMENT: Final = "openapi.json"  # a path below /docs/ needs no API key
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
RESEARCH_FOLDER: Final = Path(__file__).parent / "page"
RESEARCH_FILES: Final[Mapping[str, str]] = {
    "page.css": "text/css",
    "print.css": "text/css",
    "icon.svg": "image/svg+xml",
    **{
        f"{name}.js": "text/javascript"
        for name in (
            *("actions", "answer", "api", "citation_card", "contents", "dom", "export", "followup", "form", "main"),
            *("markdown", "plan", "preferences", "quote", "research", "settings", "sidebar", "source_text", "sources"),
            *("steps", "summary", "texts", "thread", "underlines", "verdicts"),
            *("first_paint", "highlight", "icons", "keyboard", "problems", "theme"),
            *("choices", "choices_panel", "clipboard", "composer", "files", "kept_files", "suggestions"),
            *("receipts", "sentences", "strip", "verification", "verified_text", "watches"),
            *(
                "export_files",
                "folders",
                "formulas",
                "picture",
                "pins",
                "ready",
                "replaced",
                "sections",
                "vendor/temml",
            ),
            *("lang/ar", "lang/de", "lang/he", "lang/ru", "lang/zh", "vendor/dompurify", "vendor/markdown-it"),
        )
    },
}
# The addresses that the page names hold a hash of all its files, so that a browser need not ask whether one has changed.
VERSIONED: Final = re.compile(r"(?:(?P<version>[0-9a-f]{16})/)?(?P<name>.+)")
UNCHANGING: Final = "public, max-age=31536000, immutable"
# Only DOMPurify may turn text into elements.
RESEARCH_POLICY: Final = f"{POLICY}; manifest-src 'self'; require-trusted-types-for 'script'; trusted-types dompurify"
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
MANIFEST: Final[Mapping[str, object]] = {  # addresses are relative to the address of the manifest
    "id": "./",
    "name": "llm-platform",
    "short_name": "llm-platform",
    "description": "Search and research with a verdict for each sentence.",
    "start_url": "./",
    "scope": "./",
    "display": "standalone",
    "background_color": "#fbfbfa",
    "theme_color": "#2f5fd0",
    "icons": [{"src": "page/icon.svg", "type": "image/svg+xml", "sizes": "any", "purpose": "any maskable"}],
}
OPENSEARCH: Final = """<?xml version="1.0" encoding="UTF-8"?>
<OpenSearchDescription xmlns="http://a9.com/-/spec/opensearch/1.1/">
<ShortName>llm-platform</ShortName>
<Description>Search and research with a verdict for each sentence.</Description>
<InputEncoding>UTF-8</InputEncoding>
<Image type="image/svg+xml" width="32" height="32">{base}page/icon.svg</Image>
<Url type="text/html" method="get" template="{base}?q={{searchTerms}}"/>
</OpenSearchDescription>
"""
INDEXED_PAGES: Final = {"docs": "/docs", "openapi": "/openapi.json", "health": "/health"}
INDEXED_ROUTES: Final = (
    ("POST", "/research"),
    ("GET", "/research/options"),
    ("GET", "/research"),
    ("POST", "/verify"),
    ("POST", "/watches"),
    ("GET", "/watches"),
    ("GET", "/search"),
    ("POST", "/llm-platform/web-search"),
    ("POST", "/llm-platform/chat"),
    ("POST", "/v1/chat/completions"),
)


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is sent: plain and compressed, with the tag by which a browser asks whether it has changed."""

    content: bytes
    compressed: bytes
    tag: str


async def root(request: Request) -> Response:
    """Send the research page to browsers, and the list of routes to other clients."""
    if b"text/html" in request.scope[HEADERS].get(b"accept", b"").lower():
        return _research_file(request, "index.html", "text/html", {"Content-Security-Policy": RESEARCH_POLICY})
    mounted_at = request.scope.get("root_path", "")
    index = {
        "name": "llm-platform",
        **{name: mounted_at + path for name, path in INDEXED_PAGES.items()},
        "routes": [f"{method} {mounted_at}{path}" for method, path in INDEXED_ROUTES],
    }
    return Response(to_json(index), media_type=JSON, headers={"Vary": "Accept"})


async def research_file(request: Request) -> Response:
    """Send a file of the page. A page that was loaded before an update names another version, and gets today's file."""
    asked = VERSIONED.fullmatch(request.path_params["name"])
    if asked is None or asked["name"] not in RESEARCH_FILES:
        raise NotFoundError.of(request.scope)
    headers = {"Cache-Control": UNCHANGING} if asked["version"] == research_version() else {}
    return _research_file(request, asked["name"], RESEARCH_FILES[asked["name"]], headers)


async def manifest(request: Request) -> Response:
    """Send what a browser needs to install the page."""
    return Response(to_json(MANIFEST), media_type="application/manifest+json", headers={"Cache-Control": "no-cache"})


async def opensearch(request: Request) -> Response:
    """Send what a browser needs to offer the page as a search engine. Its addresses are absolute, as the format requires.

    Behind a proxy that ends TLS, only `X-Forwarded-Proto` says that the address of the page begins with https.
    """
    is_https = request.headers.get("x-forwarded-proto", "").lower() == "https"
    base = str(request.base_url.replace(scheme="https") if is_https else request.base_url)
    return Response(
        OPENSEARCH.format(base=escape(base, {'"': "&quot;"})),
        media_type="application/opensearchdescription+xml",
        headers={"Cache-Control": "no-store"},  # the content depends on the Host
    )


def _research_file(request: Request, name: str, media_type: str, headers: Mapping[str, str]) -> Response:
    file = _read_research_file(name)
    sent = {"Cache-Control": "no-cache", "ETag": file.tag, "Vary": "Accept, Accept-Encoding", **headers}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=sent)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, media_type=media_type, headers={**sent, "Content-Encoding": "gzip"})
    return Response(file.content, media_type=media_type, headers=sent)


@cache
def _read_research_file(name: str) -> _File:
    content = (RESEARCH_FOLDER / name).read_bytes()
    if name == "index.html":
        content = content.replace(b'"page/', f'"page/{research_version()}/'.encode())
    return _File(content, gzip.compress(content, mtime=0), f'W/"{hashlib.sha256(content).hexdigest()[:32]}"')


@cache
def research_version() -> str:
    """The hash of all files that the page loads: they name each other by relative addresses, so that one hash serves all."""
    digest = hashlib.sha256()
    for name in sorted(RESEARCH_FILES):
        digest.update(_read_research_file(name).content)
    return digest.hexdigest()[:16]


async def page(request: Request) -> Response:
    return Response(_load_file("index.html"), media_type="text/html", headers=dict(PAGE_HEADERS))


async def page_file(request: Request) -> Response:
    name = request.path_params["name"]
    if name == DOCUMENT:
        document = request.app.openapi()
        if root_path := request.scope.get("root_path", ""):
            document = {**document, "servers": [{"url": root_path}]}  # the path where a host mounts the application
        return Response(to_json(document), media_type=JSON, headers={"Cache-Control": "no-cache"})
    if name not in MEDIA_TYPES:
        raise NotFoundError.of(request.scope)
    return Response(_load_file(name), media_type=MEDIA_TYPES[name], headers={"Cache-Control": "max-age=3600"})


@cache
def _load_file(name: str) -> bytes:
    """Return a file, read once: the largest has 1.7 MB."""
    return (FOLDER / name).read_bytes()


ROUTES: Final = (
    Route("/", root),
    Route("/manifest.webmanifest", manifest),
    Route("/opensearch.xml", opensearch),
    Route("/page/{name:path}", research_file),
    Route("/docs", page),
    Route("/docs/{name}", page_file),
)  # kept out of the OpenAPI document
