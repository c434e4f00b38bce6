"""Who may come in, under which name, with which key; and what every answer carries or never carries."""

from __future__ import annotations

import logging
from typing import Any

import httpx2
import pytest
from tests.unit.presentation.rest.fake_platform import Scripted, door, platform_of

from modules.llm_platform.domain.exceptions import (
    WebSearchBlockedError,
    WebSearchConfigError,
    WebSearchError,
    WebSearchRequestError,
)
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.presentation.rest.middleware import CrossSiteGuard, GuardMiddleware
from modules.llm_platform.presentation.rest.problems import UNKNOWN_WAIT_S
from modules.llm_platform.presentation.rest.responses import ServerState
from shared.config import Settings
from shared.exceptions import AppException
from shared.logging import bound_request_id

QUESTION = {"query": "solar sails"}
KEY, OTHER_KEY = "a-long-random-word", "another-random-word"
PAGE = "https://app.example.org"


@pytest.mark.parametrize(
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
    ids=str,
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/research"), ("GET", "/search?q=x"), ("GET", "/health"), ("PUT", "/no")]
)
async def test_pages_of_other_sites_are_refused(headers: dict[str, str], method: str, path: str) -> None:
    """403 on every route: no page can spend the money of whoever visits it."""
    scripted = Scripted()
    async with door(scripted) as client:
        answer = await client.request(method, path, headers=headers, json=QUESTION)
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign_site")
    assert "access-control-allow-origin" not in answer.headers
    assert scripted.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost"},
        {"Origin": "https://LOCALHOST"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://localhost:8000", "Host": "localhost:8000", "Sec-Fetch-Site": "same-origin"},
    ],
    ids=str,
)
async def test_own_pages_and_plain_clients_come_in(headers: dict[str, str]) -> None:
    """The same host and port is no other site, and who sends no such header is no browser."""
    async with door() as client:
        assert (await client.post("/research", json=QUESTION, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200), ("127.0.0.1", 200), ("[::1]:8000", 200), ("192.168.0.7:8000", 200), ("llm-platform:8000", 200),
        ("app.localhost", 200), ("LOCALHOST", 200), ("evil.test", 421), ("evil.test:8000", 421), ("127.0.0.1.nip.io", 421),
        ("localhost.evil.test", 421), ("evil.test.", 421), ("", 200),
    ],
)  # fmt: skip
async def test_the_host_on_loopback(host: str, status: int) -> None:
    """Bound to loopback, only names that no stranger can point here are ours (DNS rebinding)."""
    async with door() as client:
        assert (await client.post("/research", json=QUESTION, headers={"Host": host})).status_code == status


async def test_allowed_hosts() -> None:
    """With ALLOWED_HOSTS the list decides, `*.` stands for all below; probes need no name."""
    async with door(ALLOWED_HOSTS="search.example.org,*.wiki.example.org") as client:

        async def status(host: str, path: str = "/search?q=x") -> int:
            return (await client.get(path, headers={"Host": host})).status_code

        assert await status("search.example.org:443") == 200
        assert await status("a.wiki.example.org") == 200
        assert await status("other.example.org") == 421
        assert await status("localhost") == 421
        assert await status("10.0.0.1", "/ready") == 200
    async with door(ALLOWED_HOSTS="*") as client:
        assert (await client.get("/search?q=x", headers={"Host": "anything.example.org"})).status_code == 200
    async with door(LLM_PLATFORM_HOST="0.0.0.0", LLM_PLATFORM_API_KEYS=KEY) as client:
        headers = {"Host": "anything.example.org", "X-API-Key": KEY}
        assert (await client.get("/search?q=x", headers=headers)).status_code == 200


async def test_many_hosts_take_no_memory() -> None:
    """Whoever invents a new Host for each request fills nothing."""
    async with door() as client:
        for number in range(250):
            await client.get("/search?q=x", headers={"Host": f"h{number}.evil.test"})
        assert (await client.get("/search?q=x")).status_code == 200


@pytest.mark.parametrize(
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
    ids=str,
)
async def test_keys(headers: dict[str, str], status: int) -> None:
    """With keys set, every route but the probes wants one of them."""
    async with door(LLM_PLATFORM_API_KEYS=f"{KEY},{OTHER_KEY}") as client:
        for method, path in (("POST", "/research"), ("GET", "/nothing"), ("GET", "/openapi.json")):
            answer = await client.request(method, path, json=QUESTION, headers=headers)
            assert (answer.status_code == 401) == (status == 401)
            if status == 401:
                assert answer.headers["www-authenticate"] == "Bearer"
                assert answer.json()["code"] == "unauthorized"
        for path in ("/health", "/ready"):
            assert (await client.get(path, headers=headers)).status_code == 200


async def test_invited_pages() -> None:
    """An origin of CORS_ORIGINS gets its preflight and the headers its browser wants, also on errors."""
    async with door(CORS_ORIGINS=f"{PAGE},http://localhost:3000/", LLM_PLATFORM_API_KEYS=KEY) as client:
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


async def test_all_pages_can_be_invited_but_the_nameless() -> None:
    """`*` invites every origin except `null`, which any sandboxed page sends."""
    async with door(CORS_ORIGINS="*") as client:
        assert (await client.post("/research", json=QUESTION, headers={"Origin": "https://any.test"})).status_code == 200
        assert (await client.post("/research", json=QUESTION, headers={"Origin": "null"})).status_code == 403


@pytest.mark.parametrize("sent", ["abc-123", "a b", "x" * 128, "~!@#"])
async def test_a_request_id_is_kept(sent: str) -> None:
    """Up to 128 printable characters come back, in the header, in problems, and reach the service."""
    scripted = Scripted()
    async with door(scripted) as client:
        answer = await client.post("/research", json=QUESTION, headers={"X-Request-ID": sent})
        problem = await client.post("/research", json={}, headers={"X-Request-ID": sent})
    assert answer.headers["x-request-id"] == answer.json()["metadata"]["request_id"] == sent
    assert scripted.request_ids == [sent]
    assert problem.headers["x-request-id"] == problem.json()["request_id"] == sent


@pytest.mark.parametrize("sent", ["", "x" * 129, b"caf\xe9", b"a\x01b", b"a\tb"])
async def test_an_unfit_request_id_is_replaced(sent: str | bytes) -> None:
    """Another one is given, which nobody can guess."""
    async with door() as client:
        ids = {
            (await client.get(path, headers=[("X-Request-ID", sent)])).headers["x-request-id"]
            for path in ("/health", "/nothing", "/health")
        }
    assert len(ids) == 3
    assert all(len(name) == 32 and name.isalnum() for name in ids)


async def test_the_request_id_is_in_the_logs(caplog: pytest.LogCaptureFixture) -> None:
    """What is logged while a request is answered carries its id, and nothing of it stays behind."""
    seen: list[str | None] = []
    scripted = Scripted()
    original = scripted.search

    async def search(request: Any) -> Any:
        seen.append(bound_request_id())
        return await original(request)

    scripted.search = search  # type: ignore[method-assign]
    async with door(scripted) as client:
        await client.get("/search?q=x", headers={"X-Request-ID": "abc"})
    assert seen == ["abc"]
    assert bound_request_id() is None


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (WebSearchConfigError("set BOCHA_API_KEY"), 503, "web_search_config", None),
        (WebSearchBlockedError("later", retry_after_s=12.2), 503, "web_search_blocked", "13"),
        (WebSearchBlockedError("later"), 503, "web_search_blocked", str(UNKNOWN_WAIT_S)),
        (WebSearchBlockedError("later", retry_after_s=float("inf")), 503, "web_search_blocked", str(UNKNOWN_WAIT_S)),
        (WebSearchBlockedError("later", retry_after_s=-3), 503, "web_search_blocked", "1"),
        (WebSearchError("no"), 502, "web_search_error", None),
    ],
    ids=str,
)
async def test_errors_of_the_services(error: AppException, status: int, code: str, retry_after: str | None) -> None:
    """Each has its status and code; only those that pass by themselves say when to come back."""
    scripted = Scripted()
    scripted.error = error
    async with door(scripted) as client:
        for path in ("/research", "/llm-platform/web-search"):
            answer = await client.post(path, json=QUESTION)
            problem = answer.json()
            assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
            assert problem["detail"] == error.message
            assert problem["retryable"] is error.retryable
            assert problem["instance"] == path
            assert answer.headers.get("retry-after") == retry_after


async def test_every_422_names_what_is_wrong() -> None:
    """Also the one that only the provider could see: `errors` holds its words, and where they are about."""
    scripted = Scripted()
    scripted.error = WebSearchRequestError("freshness must be oneDay")
    async with door(scripted) as client:
        posted = (await client.post("/research", json=QUESTION)).json()
        asked = (await client.get("/search?q=x")).json()
    wrong = {"msg": "freshness must be oneDay", "type": "web_search_request"}
    assert posted["errors"] == [{"loc": ["body"], **wrong}]
    assert asked["errors"] == [{"loc": ["query"], **wrong}]


@pytest.mark.parametrize("name", ["Host", "Origin", "Sec-Fetch-Site", "Authorization", "X-API-Key", "Content-Type"])
async def test_what_has_one_value_is_not_sent_twice(name: str) -> None:
    """Two checks may believe different ones of two Hosts or Origins: such a request is refused."""
    async with door(Scripted()) as client:
        answer = await client.post("/research", headers=[(name, "a"), (name, "b")], content=b"{}")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


async def test_what_is_a_list_may_come_in_pieces() -> None:
    """Two Accept headers are one list (RFC 9110, 5.3)."""
    accepted = [("Accept", "application/json;q=0.5"), ("Accept", "text/event-stream")]
    async with door(Scripted()) as client:
        answer = await client.post("/research", headers=accepted, json=QUESTION)
    assert answer.headers["content-type"].startswith("text/event-stream")


async def test_what_nobody_expected(caplog: pytest.LogCaptureFixture) -> None:
    """500 without a word about it; the log has the traceback."""
    scripted = Scripted()
    scripted.error = ValueError("the secret of the pyramids")
    async with door(scripted) as client:
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
async def test_no_secret_leaves(stream: bool) -> None:
    """A configured key stands in no answer, whoever put it there, and the length still fits."""
    scripted = Scripted()
    scripted.answer = f"The key is {SECRET}, {SECRET}."
    async with door(scripted, KIMI_API_KEY=SECRET) as client:
        headers = {"X-Request-ID": SECRET}
        answer = await client.post("/research", json={"query": f"what is {SECRET}", "stream": stream}, headers=headers)
        missing = await client.get(f"/{SECRET}")
        chat = await client.post("/llm-platform/chat", json={"messages": [{"role": "user", "content": "hi"}]})
    for got in (answer, missing, chat):
        assert SECRET not in got.text
        assert SECRET not in str(got.headers)
    assert answer.text.count("[redacted]") >= 3
    assert int(chat.headers["content-length"]) == len(chat.content)
    assert chat.json()["content"] == "The key is [redacted], [redacted]."


async def test_a_secret_in_an_unexpected_error() -> None:
    """An error that strikes before anything was sent is still a whole problem when answers are looked through."""
    scripted = Scripted()
    scripted.error = ValueError(SECRET)
    async with door(scripted, KIMI_API_KEY=SECRET) as client:
        answer = await client.post("/research", json=QUESTION)
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal"


async def test_nothing_is_served_before_the_start_and_after_the_end() -> None:
    """Without a platform every route but the probe says 503; the platform is opened late and closed once."""
    scripted = Scripted()
    opened = []

    def factory() -> Any:
        opened.append(1)
        return platform_of(scripted)

    app = create_app(factory, Settings(_env_file=None))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
        assert opened == []
        answer = await client.post("/research", json=QUESTION)
        assert (answer.status_code, answer.json()["code"]) == (503, "not_serving")
        assert answer.headers["retry-after"] == str(UNKNOWN_WAIT_S)
        assert (await client.get("/ready")).status_code == 503
        assert (await client.get("/health")).status_code == 503
        async with app.router.lifespan_context(app):
            assert (await client.get("/ready")).json() == {"status": "ready"}
            app.state.door.draining = True
            assert (await client.get("/ready")).status_code == 503
            assert (await client.post("/research", json=QUESTION)).status_code == 503
            assert (await client.get("/health")).status_code == 200
        assert (await client.get("/ready")).status_code == 503
    assert scripted.closed == 1


async def test_other_protocols_pass_by() -> None:
    """The guard speaks HTTP; a web socket finds no route."""
    app = create_app(platform_of(Scripted()), Settings(_env_file=None))
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "websocket", "path": "/research", "headers": [], "query_string": b"", "subprotocols": []}, receive, send)
    assert sent[0]["type"] == "websocket.close"


async def test_an_answer_that_breaks_off() -> None:
    """Once an answer has begun there is no second one: the server hears of it and closes the connection."""

    async def half(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("half-way")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    guard = GuardMiddleware(half, CrossSiteGuard(Settings(_env_file=None)), ServerState(platform_of(Scripted())), None)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    with pytest.raises(ValueError, match="half-way"):
        await guard(scope, send, send)
    assert sent == ["http.response.start"]
