"""GuardMiddleware: access checks, headers and errors of all responses."""

from __future__ import annotations

import logging
import re
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client, platform_of

from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchError,
    WebSearchRequestError,
)
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.presentation.rest.compat.dialect import Dialect
from modules.llm_platform.presentation.rest.http.access import PROBE_PATHS, AccessPolicy
from modules.llm_platform.presentation.rest.http.middleware import GuardMiddleware
from modules.llm_platform.presentation.rest.http.problems import DEFAULT_RETRY_AFTER_S
from modules.llm_platform.presentation.rest.http.rate_limits import ClientAddresses
from modules.llm_platform.presentation.rest.http.request_log import RequestLog
from modules.llm_platform.presentation.rest.http.server_state import ServerState
from shared.config import Settings
from shared.exceptions import AppException
from shared.logging import bound_request_id

QUESTION = {"query": "solar sails"}
VARYING = re.compile(r'"(?:latency_ms|duration_ms|[a-z_]*_ms|took_ms|created_at)":\s?[0-9.]+')
KEY, OTHER_KEY = "a-long-random-word", "another-random-word"
PAGE = "https://app.example.org"


@for_each(
    "headers",
    [
        {"Origin": "http://evil.test"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://localhost.evil.test"},
        {"Origin": "http://evil.test/http://localhost"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "Cross-Site"},
        {"Sec-Fetch-Site": "something-new"},
        {"Origin": "http://localhost", "Sec-Fetch-Site": "cross-site"},
    ],
)
@for_each(("method", "path"), [("POST", "/research"), ("GET", "/search?q=x"), ("GET", "/health"), ("PUT", "/no")])
async def test_cross_site_request_is_refused(headers: dict[str, str], method: str, path: str) -> None:
    """403 on every route: a web page cannot spend the money of its visitor."""
    services = FakeServices()
    async with app_client(services) as client:
        answer = await client.request(method, path, headers=headers, json=QUESTION)
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign_site")
    assert "access-control-allow-origin" not in answer.headers
    assert services.requests == []


@for_each(
    "headers",
    [
        {},
        {"Origin": "http://localhost"},
        {"Origin": "https://LOCALHOST"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://localhost:8000", "Host": "localhost:8000", "Sec-Fetch-Site": "same-origin"},
    ],
)
async def test_same_origin_and_non_browser_requests_are_accepted(headers: dict[str, str]) -> None:
    """The same host and port is the same site; clients without these headers are not browsers."""
    async with app_client() as client:
        assert (await client.post("/research", json=QUESTION, headers=headers)).status_code == 200


@for_each(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("127.0.0.1", 200),
        ("[::1]:8000", 200),
        ("192.168.0.7:8000", 200),
        ("llm-platform:8000", 200),
        ("app.localhost", 200),
        ("LOCALHOST", 200),
        ("evil.test", 421),
        ("evil.test:8000", 421),
        ("127.0.0.1.nip.io", 421),
        ("localhost.evil.test", 421),
        ("evil.test.", 421),
        ("", 200),
    ],
)
async def test_accepted_hosts_on_loopback(host: str, status: int) -> None:
    """On loopback only names that are safe from DNS rebinding are accepted, also by the probes, because metrics contain
    costs.
    """
    async with app_client() as client:
        assert (await client.post("/research", json=QUESTION, headers={"Host": host})).status_code == status
        for path in PROBE_PATHS:
            assert (await client.get(path, headers={"Host": host})).status_code == status


async def test_allowed_hosts_setting() -> None:
    """ALLOWED_HOSTS lists the accepted names, `*.` all subdomains. Probes may name the pod's address or a short name."""
    async with app_client(ALLOWED_HOSTS="search.example.org,*.wiki.example.org") as client:

        async def status(host: str, path: str = "/search?q=x") -> int:
            return (await client.get(path, headers={"Host": host})).status_code

        assert await status("search.example.org:443") == 200
        assert await status("a.wiki.example.org") == 200
        assert await status("other.example.org") == 421
        assert await status("localhost") == 421
        for path in PROBE_PATHS:
            for host in ("10.0.0.1:8000", "[fd00::1]:8000", "llm-platform:8000", "localhost", "search.example.org"):
                assert await status(host, path) == 200
            assert await status("other.example.org", path) == 421
    async with app_client(ALLOWED_HOSTS="*") as client:
        assert (await client.get("/search?q=x", headers={"Host": "anything.example.org"})).status_code == 200
    async with app_client(LLM_PLATFORM_HOST="0.0.0.0", LLM_PLATFORM_API_KEYS=KEY) as client:
        headers = {"Host": "anything.example.org", "X-API-Key": KEY}
        assert (await client.get("/search?q=x", headers=headers)).status_code == 200


async def test_host_cache_is_bounded() -> None:
    """Many different Hosts do not fill the cache."""
    async with app_client() as client:
        for number in range(250):
            await client.get("/search?q=x", headers={"Host": f"h{number}.evil.test"})
        assert (await client.get("/search?q=x")).status_code == 200


@for_each(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": f"Bearer {KEY}"}, 200),
        ({"Authorization": f"bearer  {OTHER_KEY}"}, 200),
        ({"X-API-Key": KEY}, 200),
        ({"X-API-Key": OTHER_KEY}, 200),
        ({"Authorization": f"Basic {KEY}"}, 401),
        ({"Authorization": KEY}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": f"Bearer {KEY}x"}, 401),
        ({"X-API-Key": KEY[:-1]}, 401),
        ({"X-API-Key": ""}, 401),
        ({"X-API-Key": f"{KEY},{OTHER_KEY}"}, 401),
    ],
)
async def test_api_keys_are_required(headers: dict[str, str], status: int) -> None:
    """With API keys, every route except the probes requires one of them."""
    async with app_client(LLM_PLATFORM_API_KEYS=f"{KEY},{OTHER_KEY}") as client:
        for method, path in (("POST", "/research"), ("GET", "/nothing"), ("GET", "/openapi.json")):
            answer = await client.request(method, path, json=QUESTION, headers=headers)
            assert (answer.status_code == 401) == (status == 401)
            if status == 401:
                assert answer.headers["www-authenticate"] == "Bearer"
                assert answer.json()["code"] == "unauthorized"
        for path in ("/health", "/ready", "/metrics"):
            assert (await client.get(path, headers=headers)).status_code == 200


@for_each("field", ["api_key", "key", "apikey", "access_token", "token", "X-API-Key", "Authorization"])
async def test_a_key_in_an_address_is_none(field: str) -> None:
    """Addresses land in logs, histories and Referer headers, so no route accepts a key in one."""
    async with app_client(LLM_PLATFORM_API_KEYS=KEY) as client:
        for path in ("/search", "/searxng/search", "/openapi.json"):
            answer = await client.get(path, params={"q": "x", field: KEY})
            assert answer.status_code == 401
            assert KEY not in answer.text


async def test_cors_origin_gets_its_headers() -> None:
    """An origin of CORS_ORIGINS gets a preflight response and CORS headers, also on errors."""
    async with app_client(CORS_ORIGINS=f"{PAGE},http://localhost:3000/", LLM_PLATFORM_API_KEYS=KEY) as client:
        asked = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site", "Access-Control-Request-Method": "POST"}
        preflight = await client.options("/research", headers=asked)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == PAGE
        assert "Content-Type" in preflight.headers["access-control-allow-headers"]
        assert "POST" in preflight.headers["access-control-allow-methods"]
        answer = await client.post("/research", json=QUESTION, headers={"Origin": PAGE, "X-API-Key": KEY})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, PAGE)
        assert answer.headers["vary"] == "Origin"
        refused = await client.post("/research", json=QUESTION, headers={"Origin": "http://localhost:3000"})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "http://localhost:3000")
        stranger = await client.options("/research", headers={**asked, "Origin": "https://evil.test"})
        assert stranger.status_code == 403
        rebound = await client.options("/research", headers={**asked, "Host": "evil.test"})
        assert rebound.status_code == 421


async def test_key_header_of_a_dialect() -> None:
    """A compatible API may have its own key header. It is valid only below the API's prefix, and browsers may send it."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def openai_error(error: AppException, problem: Any) -> tuple[int, dict[str, Any]]:
        return error.status_code, {}

    settings = Settings(_env_file=None, LLM_PLATFORM_API_KEYS=KEY, CORS_ORIGINS=PAGE)
    server = ServerState(platform_of(FakeServices()))
    dialect = Dialect("/own", "its clients", APIRouter(), openai_error, examples={}, key_header=b"x-own-token")
    log = RequestLog(server, [], quiet=PROBE_PATHS, log_queries=False)
    guard = GuardMiddleware(
        answer, AccessPolicy(settings), ClientAddresses(()), server, None, log, compatible_apis={"own": dialect}
    )
    transport = httpx2.ASGITransport(app=guard)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/own/search", headers={"X-Own-Token": KEY})).status_code == 200
        assert (await client.get("/own/search", headers={"X-Own-Token": "another"})).status_code == 401
        assert (await client.get("/own/search", headers={"Authorization": f"Bearer {KEY}"})).status_code == 200
        assert (await client.get("/search", headers={"X-Own-Token": KEY})).status_code == 401
        asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}
        preflight = await client.options("/own/search", headers=asked)
        assert "x-own-token" in preflight.headers["access-control-allow-headers"]


async def test_head_answers_as_get_does_without_a_body() -> None:
    """Health checks and link checkers send HEAD: every GET route has the same status and headers for it, errors too."""
    every = {"x-request-id": "1", "accept-encoding": "identity"}
    app = create_app(platform_of(FakeServices()), Settings.without_environment())
    paths = {
        route.path for route in app.routes if "GET" in (getattr(route, "methods", None) or ()) and "{" not in route.path
    }
    assert {"/health", "/ready", "/", "/v1/models", "/search"} <= paths
    async with app_client() as client:
        for path in [*sorted(paths - {"/mcp", "/openapi.json"}), "/nothing", "/search?q=sails", "/research/x"]:
            get, head = [await client.request(method, path, headers=every) for method in ("GET", "HEAD")]
            assert (head.status_code, head.content) == (get.status_code, b""), path
            of_both = [{**answer.headers, "content-length": ""} for answer in (get, head)]  # times and metrics vary
            assert of_both[0] == of_both[1], path
        assert (await client.head("/ready")).headers["content-length"] == "18"


@for_each("secrets", [{}, {"LLM_API_KEY": "sk-secret-of-the-operator"}])
async def test_head_ends_a_stream_at_its_head(secrets: dict[str, str]) -> None:
    """A stream never ends by itself, so HEAD must not wait for its end."""
    is_closed = False

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        nonlocal is_closed
        assert scope["method"] == "GET"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"data: 1", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        is_closed = True

    settings = Settings.without_environment(**secrets)
    server = ServerState(platform_of(FakeServices()))
    log = RequestLog(server, [], quiet=PROBE_PATHS, log_queries=False)
    redactor = Redactor(settings.secrets()) if secrets else None
    guard = GuardMiddleware(stream, AccessPolicy(settings), ClientAddresses(()), server, redactor, log)
    transport = httpx2.ASGITransport(app=guard)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.head("/research/1/events")
    assert (answer.status_code, answer.content, is_closed) == (200, b"", True)


async def test_cors_wildcard_excludes_null() -> None:
    """`*` allows every origin except `null`, which any sandboxed page sends."""
    async with app_client(CORS_ORIGINS="*") as client:
        assert (
            await client.post("/research", json=QUESTION, headers={"Origin": "https://any.test"})
        ).status_code == 200
        assert (await client.post("/research", json=QUESTION, headers={"Origin": "null"})).status_code == 403


@for_each("sent", ["abc-123", "a b", "x" * 128, "~!@#"])
async def test_valid_request_id_is_used(sent: str) -> None:
    """Up to 128 printable characters are used in the header, in problems and by the service."""
    services = FakeServices()
    async with app_client(services) as client:
        answer = await client.post("/research", json=QUESTION, headers={"X-Request-ID": sent})
        problem = await client.post("/research", json={}, headers={"X-Request-ID": sent})
    assert answer.headers["x-request-id"] == answer.json()["metadata"]["request_id"] == sent
    assert services.request_ids == [sent]
    assert problem.headers["x-request-id"] == problem.json()["request_id"] == sent


@for_each("sent", ["", "x" * 129, b"caf\xe9", b"a\x01b", b"a\tb"])
async def test_invalid_request_id_is_replaced(sent: str | bytes) -> None:
    """It is replaced by a random one."""
    async with app_client() as client:
        ids = {
            (await client.get(path, headers=[("X-Request-ID", sent)])).headers["x-request-id"]
            for path in ("/health", "/nothing", "/health")
        }
    assert len(ids) == 3
    assert all(len(name) == 32 and name.isalnum() for name in ids)


async def test_request_id_is_bound_for_logs(caplog: pytest.LogCaptureFixture) -> None:
    """The request id is bound only during its request."""
    seen: list[str | None] = []
    services = FakeServices()
    original = services.search

    async def search(request: Any) -> Any:
        seen.append(bound_request_id())
        return await original(request)

    services.search = search  # type: ignore[method-assign]
    async with app_client(services) as client:
        await client.get("/search?q=x", headers={"X-Request-ID": "abc"})
    assert seen == ["abc"]
    assert bound_request_id() is None


@for_each(
    ("error", "status", "code", "retry_after", "wait_s"),
    [
        (WebSearchConfigError("set BOCHA_API_KEY"), 503, "web_search_config", None, None),
        (WebSearchConfigError("set BOCHA_API_KEY", retry_after_s=3), 503, "web_search_config", None, None),
        (WebSearchBlockedError("later", retry_after_s=12.2), 503, "web_search_blocked", "13", 13),
        (WebSearchBlockedError("later"), 503, "web_search_blocked", str(DEFAULT_RETRY_AFTER_S), None),
        (
            WebSearchBlockedError("later", retry_after_s=float("inf")),
            503,
            "web_search_blocked",
            str(DEFAULT_RETRY_AFTER_S),
            None,
        ),
        (WebSearchBlockedError("later", retry_after_s=-3), 503, "web_search_blocked", "1", 1),
        (WebSearchError("no"), 502, "web_search_error", None, None),
    ],
)
async def test_service_errors_become_problems(
    error: AppException, status: int, code: str, retry_after: str | None, wait_s: int | None
) -> None:
    """Each error has its status and code.

    Only retryable errors have Retry-After, and `retry_after_s` if the upstream gave it.
    """
    services = FakeServices()
    services.error = error
    async with app_client(services) as client:
        for path in ("/research", "/llm-platform/web-search"):
            answer = await client.post(path, json=QUESTION)
            problem = answer.json()
            assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
            assert problem["detail"] == error.message
            assert problem["retryable"] is error.retryable
            assert problem["instance"] == path
            assert answer.headers.get("retry-after") == retry_after
            assert problem.get("retry_after_s") == wait_s


async def test_provider_422_has_field_errors() -> None:
    """`errors` has the message and location of the provider's 422."""
    services = FakeServices()
    services.error = WebSearchRequestError("freshness must be oneDay")
    async with app_client(services) as client:
        posted = (await client.post("/research", json=QUESTION)).json()
        asked = (await client.get("/search?q=x")).json()
    wrong = {"msg": "freshness must be oneDay", "type": "web_search_request"}
    assert posted["errors"] == [{"loc": ["body"], **wrong}]
    assert asked["errors"] == [{"loc": ["query"], **wrong}]


@for_each("name", ["Host", "Origin", "Sec-Fetch-Site", "Authorization", "X-API-Key", "Content-Type"])
async def test_repeated_single_value_header_is_refused(name: str) -> None:
    """Two readers could use different values of a repeated header."""
    async with app_client(FakeServices()) as client:
        answer = await client.post("/research", headers=[(name, "a"), (name, "b")], content=b"{}")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


async def test_repeated_list_header_is_joined() -> None:
    """Two Accept headers are one list (RFC 9110, 5.3)."""
    accepted = [("Accept", "application/json;q=0.5"), ("Accept", "text/event-stream")]
    async with app_client(FakeServices()) as client:
        answer = await client.post("/research", headers=accepted, json=QUESTION)
    assert answer.headers["content-type"].startswith("text/event-stream")


async def test_unexpected_error_is_logged_and_hidden(caplog: pytest.LogCaptureFixture) -> None:
    """500 without details; the log has the traceback."""
    services = FakeServices()
    services.error = ValueError("the secret of the pyramids")
    async with app_client(services) as client:
        answer = await client.post("/research", json=QUESTION)
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "x-request-id" in answer.headers
    assert "pyramids" not in answer.text
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert "pyramids" in caplog.text


SECRET = "sk-kimi-0123456789"


@pytest.mark.parametrize("stream", [False, True])
async def test_secrets_are_redacted_in_responses(stream: bool) -> None:
    """No response contains a configured key, and the content length is correct."""
    services = FakeServices()
    services.answer = f"The key is {SECRET}, {SECRET}."
    async with app_client(services, KIMI_API_KEY=SECRET) as client:
        answer = await client.post("/research", json={"query": "what is it", "stream": stream})
        chat = await client.post("/llm-platform/chat", json={"messages": [{"role": "user", "content": "hi"}]})
    for got in (answer, chat):
        assert SECRET not in got.text
        assert SECRET not in str(got.headers)
    assert answer.text.count("[redacted]") >= 2
    assert int(chat.headers["content-length"]) == len(chat.content)
    assert chat.json()["content"] == "The key is [redacted], [redacted]."


def test_api_key_that_can_be_guessed_is_told_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """One line in the log, without the key."""
    create_app(platform_of(FakeServices()), Settings(LLM_PLATFORM_API_KEYS="a-short-word"))
    [record] = [record for record in caplog.records if "LLM_PLATFORM_API_KEYS" in record.getMessage()]
    assert record.levelno == logging.WARNING
    assert "a-short-word" not in caplog.text


GUESS = "sk-kimi-9876543210"  # the same length as the secret


@pytest.mark.parametrize("stream", [False, True])
async def test_echoed_input_does_not_reveal_secrets(stream: bool) -> None:
    """A secret in the request id, the address or the question is redacted in responses, however it is written."""
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in SECRET)
    quoted = "".join(f"%{ord(letter):02x}" for letter in SECRET)
    seen = []
    async with app_client(FakeServices(), KIMI_API_KEY=SECRET) as client:
        for sent, in_json, in_url in ((SECRET, SECRET, SECRET), (SECRET, escaped, quoted), (GUESS, GUESS, GUESS)):
            body = f'{{"query": "what is {in_json}", "stream": {str(stream).lower()}}}'
            as_json = {"X-Request-ID": sent, "Content-Type": "application/json"}
            got = [
                await client.post("/research", content=body, headers=as_json),
                await client.get(f"/{in_url}", headers={"X-Request-ID": sent}),
                await client.get(f"/search?q={in_url}", headers={"X-Request-ID": sent, "Accept": "application/json"}),
            ]
            assert [answer.headers["x-request-id"] for answer in got] == [sent] * 3
            seen.append([VARYING.sub("", answer.text).replace(sent, "SENT") for answer in got])
    assert seen[0] == seen[1] == seen[2]
    assert "[redacted]" not in str(seen)


async def test_unexpected_error_with_redaction_is_a_problem() -> None:
    """An error before the response started is a complete problem also with redaction."""
    services = FakeServices()
    services.error = ValueError(SECRET)
    async with app_client(services, KIMI_API_KEY=SECRET) as client:
        answer = await client.post("/research", json=QUESTION)
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal"


async def test_requests_before_start_and_after_shutdown_are_503() -> None:
    """Without a platform all routes return 503; the platform is opened on startup and closed once."""
    services = FakeServices()
    opened = []

    def factory() -> Any:
        opened.append(1)
        return platform_of(services)

    app = create_app(factory, Settings(_env_file=None))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
        assert opened == []
        answer = await client.post("/research", json=QUESTION)
        assert (answer.status_code, answer.json()["code"]) == (503, "not_serving")
        assert answer.headers["retry-after"] == str(DEFAULT_RETRY_AFTER_S)
        assert (await client.get("/ready")).status_code == 503
        assert (await client.get("/health")).status_code == 503
        async with app.router.lifespan_context(app):
            assert (await client.get("/ready")).json() == {"status": "ready"}
            app.state.server.requests.is_draining = True
            assert (await client.get("/ready")).status_code == 503
            assert (await client.post("/research", json=QUESTION)).status_code == 503
            assert (await client.get("/health")).status_code == 200
        assert (await client.get("/ready")).status_code == 503
    assert services.closed == 1


async def test_websocket_is_closed() -> None:
    """The middleware passes on other protocols; a web socket has no route."""
    app = create_app(platform_of(FakeServices()), Settings(_env_file=None))
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(
        {"type": "websocket", "path": "/research", "headers": [], "query_string": b"", "subprotocols": []},
        receive,
        send,
    )
    assert sent[0]["type"] == "websocket.close"


async def test_error_after_the_response_started_is_raised() -> None:
    """After a response has started, the error is raised so that the server closes the connection."""

    async def half(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("half-way")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    server = ServerState(platform_of(FakeServices()))
    request_log = RequestLog(server, [], quiet=PROBE_PATHS, log_queries=False)
    guard = GuardMiddleware(
        half, AccessPolicy(Settings(_env_file=None)), ClientAddresses(()), server, None, request_log
    )
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    with pytest.raises(ValueError, match="half-way"):
        await guard(scope, send, send)
    assert sent == ["http.response.start"]
