"""The same attacks on every route.

The routes come from docs/reference/openapi.json, so a new route is attacked automatically. /mcp is added here, because
OpenAPI cannot describe it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from tests.e2e.hostile_requests import JSON, MARK, MIB, Case
from tests.support import fuzz

from modules.llm_platform.presentation.mcp.tools import TOOLS
from modules.llm_platform.presentation.rest.http.body import CONVERSATION
from modules.llm_platform.presentation.rest.research_routes import WITH_FILES

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "openapi.json"
WRONG_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    10**30,
    "",
    "\x00",
    "\u200b",
    MARK * 200,
    [],
    [[]],
    [None],
    {},
    {MARK: MARK},
    [{"type": MARK}] * 300,
    "../../etc/passwd",
    "a\r\nSet-Cookie: a=b",
)
MAX_BYTES = {  # routes that accept larger bodies
    "/research": WITH_FILES.max_bytes,
    "/v1/chat/completions": CONVERSATION.max_bytes,
    "/v1/responses": CONVERSATION.max_bytes,
    "/anthropic/v1/messages": CONVERSATION.max_bytes,
    "/anthropic/v1/messages/count_tokens": CONVERSATION.max_bytes,
}
NO_OBJECTS = (
    b"",
    b"null",
    b"[]",
    b"0",
    b"{",
    b'"' + MARK.encode() + b'"',
    b'{"' + MARK.encode(),
    b"NaN",
    b"\xff\xfe",
    b"{}{}",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"a":1e999}',
    b'{"a":"\\ud800"}',
)
MCP_PATH = "/mcp"
NAMES = ("a\r\nset-cookie: a=b", "é", "x" * 9000, "__proto__", "api_key", "stream", "")
INSIDE = (
    "http://127.0.0.1/",
    "http://localhost:8080/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://0/",
    "http://0x7f.1/",
    "http://2130706433/",
    "http://169.254.169.254/latest/meta-data/",
    "http://metadata.google.internal/",
    "http://10.0.0.1/",
    "http://[fd00:ec2::254]/",
    "http://[64:ff9b::7f00:1]/",
    "http://user:pass@127.0.0.1/",
    "http://127.0.0.1:6379/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_INFO",
    "http://127.0.0.1\\@example.org/",
    "http://①②⑦.⓪.⓪.①/",
    "doc:sails.md",
)
IDS = (MARK, "..", "%00", "%ff", "a" * 5000, "..%2f..%2fx", "x' OR '1'='1", "%0d%0aset-cookie:%20a=b", "*", "plan%00")
ID_NAMES = ("{request_id}", "{response_id}", "{api_request}")  # path parameters
EVENT_IDS = ("-1", "9" * 9, "9" * 4000, "1e9", "١", "", "1, 2", "\t7", MARK)


class Route(NamedTuple):
    """A route with its documented statuses and a valid example body or query."""

    method: str
    path: str
    statuses: tuple[int, ...]
    body: Mapping[str, Any] | None
    fields: tuple[str, ...]
    query: Mapping[str, Any]
    headers: Mapping[str, str] = MappingProxyType({})  # headers of a valid request in addition to the media type

    def case(self, why: str, body: Any = None, headers: Mapping[str, str] = JSON, **changed: Any) -> Case:
        """Return a request with this body (bytes are sent unchanged) or these parameters.

        Any documented status except 500 is accepted.
        """
        target = quote(self.path.replace("{index}", "1"), safe="/{}")
        for name in ID_NAMES:
            target = target.replace(name, "x")
        if query := {**self.query, **changed}:
            target += "?" + urlencode(query, doseq=True)
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return Case(why, self.statuses, self.method, target, {**self.headers, **headers}, sent)

    def refused(self, case: Case, *statuses: int) -> Case:
        return Case(case.why, statuses, case.method, case.target, case.headers, case.body)


def _mcp(method: str, target: str = "", **params: Any) -> Route:
    """Return an MCP message that needs no session. `target` is the value of the Mcp-Name header."""
    version, client = MODERN_PROTOCOL_VERSIONS[-1], {"name": "x", "version": "1"}
    meta = {PROTOCOL_VERSION_META_KEY: version, CLIENT_INFO_META_KEY: client, CLIENT_CAPABILITIES_META_KEY: {}}
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": version, "mcp-method": method}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    named = {"mcp-name": target} if target else {}
    return Route("POST", MCP_PATH, (200, 202, 400, 404, 422), body, tuple(body), {}, {**headers, **named})


def _tool(name: str, arguments: Mapping[str, Any]) -> Route:
    return _mcp("tools/call", name, name=name, arguments=arguments)


QUESTIONS: Mapping[str, Mapping[str, Any]] = {"fetch": {"id": INSIDE[0]}, "get_research": {"id": "x", "wait_s": 0}}
ASKED: Mapping[str, Any] = {"query": "solar sails"}
MCP = (
    _mcp("server/discover"),
    _mcp("tools/list"),
    _tool("search", ASKED),
    _mcp("resources/list"),
    _mcp("resources/read", "llm-platform://reports/x", uri="llm-platform://reports/x"),
)


@cache
def routes() -> tuple[Route, ...]:
    document = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    documented = (
        _route(document, path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    )
    return (*documented, *MCP)


def _route(document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]) -> Route:
    media = operation.get("requestBody", {}).get("content", {}).get("application/json")
    fields: tuple[str, ...] = ()
    if media:
        schema = media["schema"]
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        fields = tuple(schema.get("properties", ()))
    parameters = [
        parameter
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and parameter["required"]
    ]
    query = {parameter["name"]: parameter["example"] for parameter in parameters}
    statuses = tuple(int(status) for status in operation["responses"] if status != "500")
    return Route(method.upper(), path, (*statuses, 404), media and media.get("example", {}), fields, query)


def values_of(position: int) -> tuple[Any, ...]:
    """Return wrong values for the field at this position: a third of WRONG_VALUES in rotation, or all in `make fuzz`."""
    share = fuzz.chosen(3, 1)
    return WRONG_VALUES[position % share :: share]


def with_bodies() -> Iterator[Route]:
    return (route for route in routes() if route.body is not None)


def door_bodies() -> Iterator[Case]:
    for route in with_bodies():
        for body in NO_OBJECTS:
            yield route.case(repr(body[:20]), body)
        size = MAX_BYTES.get(route.path, MIB)
        yield route.refused(route.case("too large", b" " * size + b'{"a":1}'), 413)
        for headers in ({"content-type": "text/plain"}, {**JSON, "content-encoding": "gzip"}):
            yield route.refused(route.case("type", dict(route.body or {}), headers), 400, 415)


def door_fields() -> Iterator[Case]:
    """Yield each field with wrong values, and fields that the route does not have."""
    positions = itertools.count()
    for route in with_bodies():
        for field in route.fields:
            for value in values_of(next(positions)):
                yield route.case(f"{field}={value!r:.40}", {**(route.body or {}), field: value})
        for name in NAMES:
            yield route.case(f"name {name!r:.40}", {**(route.body or {}), name: MARK})
        yield route.case("many names", {**(route.body or {}), **{f"{MARK}{number}": 1 for number in range(5000)}})


def mcp_arguments() -> Iterator[Case]:
    """Yield each argument of each MCP tool with wrong values. A tool error counts as a result."""
    positions = itertools.count()
    for tool in TOOLS:
        right = QUESTIONS.get(tool.name, ASKED)
        for name in (*tool.parameters, MARK):
            for value in values_of(next(positions)):
                route = _tool(tool.name, {**right, name: value})
                yield route.refused(route.case(f"{tool.name} {name}={value!r:.40}", dict(route.body or {})), 200)
        for value in WRONG_VALUES:
            route = _tool(tool.name, value)
            yield route.case(f"{tool.name} arguments={value!r:.40}", dict(route.body or {}))


def door_queries() -> Iterator[Case]:
    for route in routes():
        if route.method == "GET":
            for name in (*route.query, "api_key", "format", "limit", "before", "page"):
                for value in ("", "\x00", "\r\nset-cookie: a=b", "1e9", "9" * 4000, MARK, ["a", "b"]):
                    yield route.case(f"{name}={value!r:.40}", None, {}, **{name: value})


def door_ids() -> Iterator[Case]:
    for route in routes():
        for parameter in filter(route.path.__contains__, ID_NAMES):
            for name in IDS:
                target = route.path.replace(parameter, name.replace(" ", "%20")).replace("{index}", "1")
                yield Case(name[:40], (400, 404, 405, 422), route.method, target, {})
            for number in EVENT_IDS:
                statuses = (400, 404) if route.body is None else (400, 404, 422)  # a missing body is reported first
                yield Case(number[:40], statuses, route.method, route.case("").target, {"last-event-id": number})


def door_senders() -> Iterator[Case]:
    """Cross-site pages and DNS rebinding reach no route except the probes."""
    for route in routes():
        if route.path in ("/health", "/ready", "/metrics"):
            continue
        body = dict(route.body) if route.body is not None else None
        for headers in ({"origin": "null"}, {"origin": "http://evil.test"}, {"sec-fetch-site": "cross-site"}):
            yield route.refused(route.case(str(headers), body, {**JSON, **headers}), 403)
        yield route.refused(route.case("host", body, {**JSON, "host": "evil.test"}), 421)


def webhooks() -> Iterator[Case]:
    for url in (
        *INSIDE,
        "https://127.0.0.1/",
        "https://[::1]:8443/",
        "https://10.1.2.3/",
        "https://evil.test:22/",
        MARK,
    ):
        body = {"query": "solar sails", "background": True, "webhook": url}
        yield Case(url, (422,), body=json.dumps(body).encode())


GROUPS = (door_bodies, door_fields, mcp_arguments, door_queries, door_ids, door_senders, webhooks)
