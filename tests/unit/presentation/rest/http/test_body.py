"""Every invalid request gets a small problem object that names the reason and never repeats the input."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.callers.current_caller import set_current_caller
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS
from modules.llm_platform.presentation.rest.http import body as body_module
from modules.llm_platform.presentation.rest.http.body import MAX_BODY_BYTES
from modules.llm_platform.presentation.rest.http.problems import OverloadedError

SENT_TEXT = "Zq7mark"
LARGEST_PROBLEM_BYTES = 16_384
JSON = {"content-type": "application/json"}


def assert_problem(answer: httpx2.Response, *statuses: int) -> dict[str, Any]:
    assert answer.status_code in statuses, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) <= LARGEST_PROBLEM_BYTES
    assert SENT_TEXT not in answer.text
    problem: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail", "instance", "code", "retryable", "request_id"} <= problem.keys()
    assert problem["status"] == answer.status_code
    assert problem["request_id"] == answer.headers["x-request-id"]
    if problem["code"] == "invalid_request":
        assert problem["errors"]
        assert all(set(error) == {"loc", "msg", "type"} for error in problem["errors"])
    return problem


BAD_RESEARCH = [
    b"false",
    b"null",
    b"[]",
    b"17",
    b'"a question"',
    b"",
    b"   ",
    b"{",
    b'{"query": "solar sails"',
    b'{"query": "solar sails"} trailing',
    b'{"query": ""}',
    b'{"query": "ab"}',
    b'{"query": "   ab   "}',
    b'{"query": "' + b"b" * (MAX_QUERY_CHARS + 1) + b'"}',
    b'{"query": "' + b"b" * 100_000 + b'"}',
    b'{"query": true}',
    b'{"query": null}',
    b'{"query": 5}',
    b'{"query": ["solar sails"]}',
    b'{"query": {"a": 1}}',
    b'{"query": -Infinity}',
    b'{"query": NaN}',
    b'{"query": "solar sails", "unknown": NaN}',
    b'{"query": 1e999}',
    b'{"query": "solar sails", "unknown": [{"a": -1e999}]}',
    b'{"query": "solar sails", "unknown": 1' + b"0" * 400 + b".0}",
    b'{"query": 1' + b"0" * 5000 + b"}",
    b'{"query": "solar \\udc00 sails"}',
    b'{"query": "solar \\ud800 sails"}',
    b'{"query": "solar \xc3( sails"}',
    b'{"query": "solar \\u0000 sails"}',
    b'{"query": "\\u200b\\u200b\\u200d"}',
    b'{"query": "\\u200b \\u00a0 \\u200b"}',
    b'{"query": "\\u3164\\u3164\\u3164"}',
    b'{"query": "\\u0001\\u0002\\u0003"}',
    b'{"query": "\xe2\x80\x8b\xe2\x80\x8b\xe2\x80\x8b"}',
    b'\xef\xbb\xbf{"query": "solar sails"}',
    '{"query": "solar sails"}'.encode("utf-16"),
    b'{"a":' * 50_000,
    b"[" * 100_000,
    b'{"query": "solar sails", "a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    b'{"query": "solar sails", "depth": ""}',
    b'{"query": "solar sails", "depth": "Deep"}',
    b'{"query": "solar sails", "depth": null}',
    b'{"query": "solar sails", "depth": ["deep"]}',
    b'{"query": "solar sails", "sources": {"web": true}}',
    b'{"query": "solar sails", "sources": []}',
    b'{"query": "solar sails", "sources": ["web", "gopher"]}',
    b'{"query": "solar sails", "sources": "web"}',
    b'{"query": "solar sails", "language": "english please"}',
    b'{"query": "solar sails", "language": 5}',
    b'{"query": "solar sails", "omit_raw": "true"}',
    b'{"query": "solar sails", "omit_raw": 1}',
    b'{"query": "solar sails", "stream": "yes"}',
    b'{"query": "solar sails", "stream": 0}',
    b'{"query": "solar sails", "time_range": "decade"}',
    b'{"query": "solar sails", "domains": ["ftp://example.org/"]}',
    b"query: solar sails",
]


@pytest.mark.parametrize("body", BAD_RESEARCH, ids=lambda body: repr(body[:40]))
async def test_invalid_research_request_is_refused(
    client: httpx2.AsyncClient, services: FakeServices, body: bytes
) -> None:
    """422 with the invalid fields; no service is called."""
    answer = await client.post("/research", content=body, headers=JSON)
    assert_problem(answer, 422)
    assert services.requests == []


@for_each(
    ("body", "reason"),
    [
        (b'{"query": "solar \\ud83d"}', "one half of a surrogate pair"),
        (b'{"query": "solar \\udc00 sails"}', "one half of a surrogate pair"),
        (b'\xef\xbb\xbf{"query": "solar sails"}', "begins with a byte order mark: send it without one"),
        (b'{"query": 1' + b"0" * 5000 + b"}", "has a number that is too large"),
        (b'{"query": "solar \\u12"}', "is not valid JSON in UTF-8"),
    ],
)
async def test_body_that_looks_like_json_is_refused_with_its_reason(
    client: httpx2.AsyncClient, body: bytes, reason: str
) -> None:
    """The error names the real fault instead of claiming that valid JSON is invalid."""
    assert reason in assert_problem(await client.post("/research", content=body, headers=JSON), 422)["detail"]


async def test_file_without_content_is_refused_in_words_of_json(client: httpx2.AsyncClient) -> None:
    asked = {"query": "solar sails", "files": [{"name": "a.md", "content": None}]}
    problem = assert_problem(await client.post("/research", json=asked), 422)
    assert [error["msg"] for error in problem["errors"]] == ["must be a valid string"]


BAD_SEARCHES = [
    {"query": "solar", "count": 0},
    {"query": "solar", "count": 51},
    {"query": "solar", "count": -1},
    {"query": "solar", "count": 1000},
    {"query": "solar", "count": "10"},
    {"query": "solar", "count": "many"},
    {"query": "solar", "count": 10.0},
    {"query": "solar", "count": True},
    {"query": "solar", "page": 0},
    {"query": "solar", "summary": "false"},
    {"query": "solar", "engines": ["a" * 61]},
    {"query": "solar", "engines": ["!!g"]},
    {"query": "solar", "engines": ["google"] * 51},
    {"query": "solar", "engines": "google"},
    {"query": "solar", "freshness": 7},
    {"query": "solar", "freshness": ""},
    {"query": "solar", "freshness": SENT_TEXT},
    {"query": "solar", "freshness": "2025-13-01..2025-14-01"},
    {"query": None},
    {},
]


@pytest.mark.parametrize("values", BAD_SEARCHES, ids=json.dumps)
async def test_invalid_web_search_is_refused(client: httpx2.AsyncClient, values: dict[str, Any]) -> None:
    """422, whether the model of the request or the provider detects the error."""
    assert_problem(await client.post("/llm-platform/web-search", json=values), 422)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "page=1",
        "q=",
        "q=%00",
        "q=+&page=1",
        "q=asyncio&page=",
        "q=asyncio&page=0x10",
        "q=asyncio&page=0",
        "q=asyncio&page=51",
        "q=asyncio&page=1.0",
        "q=asyncio&page=%EF%BC%91",
        "q=asyncio&page=" + "9" * 400,
        "q=asyncio&pageno=-1",
        "q=asyncio&engines=" + "a" * 61,
        "q=asyncio&language=english",
        "q=asyncio&time_range=decade",
        "q=!!g+asyncio",
        "q=asyncio+!!",
        "q=" + "a" * (MAX_MESSAGE_CHARS + 1),
    ],
)
async def test_invalid_query_string_is_refused(client: httpx2.AsyncClient, services: FakeServices, query: str) -> None:
    """422 that names the parameter under `query`."""
    problem = assert_problem(await client.get(f"/search?{query}"), 422)
    assert all(error["loc"][0] == "query" for error in problem["errors"])
    assert services.requests == []


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        "hello",
        ["hello"],
        [{"role": "user"}],
        [{"role": "tool", "content": SENT_TEXT}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": {"text": SENT_TEXT}}],
        [{"role": "user", "content": "hi"}] * 2001,
    ],
    ids=lambda value: str(value)[:40],
)
async def test_invalid_messages_are_refused(client: httpx2.AsyncClient, messages: Any) -> None:
    """422 with at most 20 errors."""
    problem = assert_problem(await client.post("/llm-platform/chat", json={"messages": messages}), 422)
    assert len(problem["errors"]) <= 20


async def test_number_of_field_errors_is_limited(client: httpx2.AsyncClient) -> None:
    """A body with many invalid fields gets 20 errors."""
    many = [{"role": "tool", "content": 7}] * 200
    problem = assert_problem(await client.post("/llm-platform/chat", json={"messages": many}), 422)
    assert len(problem["errors"]) == 20


async def test_unknown_depth_names_the_valid_ones(client: httpx2.AsyncClient) -> None:
    """The message names the valid values."""
    problem = assert_problem(await client.post("/research", json={"query": "solar sails", "depth": "profound"}), 422)
    [error] = problem["errors"]
    assert error["loc"] == ["body", "depth"]
    assert [name for name in ("shallow", "deep", "report") if name not in error["msg"]] == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "is missing"),
        ({"query": "ab"}, "must have at least 3 characters"),
        ({"query": "b" * (MAX_QUERY_CHARS + 1)}, f"must have at most {MAX_QUERY_CHARS} characters"),
        ({"query": 5}, "must be a valid string"),
        ({"depth": "profound"}, "must be 'shallow', 'deep' or 'report'"),
        ({"sources": "web"}, "must be a list"),
        ({"urls": ["https://example.org/"] * 21}, "must have at most 20 items"),
        ({"max_llm_calls": -1}, "must be greater than or equal to 0"),
        ({"max_llm_calls": 10_001}, "must be less than or equal to 10000"),
        ({"max_llm_calls": "many"}, "must be a valid integer"),
        ({"max_llm_calls": 1.5}, "must be a valid integer"),
        ({"fresh": "perhaps"}, "must be true or false"),
        ({"history": [5]}, "must be a JSON object"),
    ],
    ids=str,
)
async def test_message_says_what_is_allowed(client: httpx2.AsyncClient, values: dict[str, Any], message: str) -> None:
    """The message is plain English that can follow the name of the field."""
    request = {"query": "solar sails", "depth": "report", **values} if values else {}
    problem = assert_problem(await client.post("/research", json=request), 422)
    assert [error["msg"] for error in problem["errors"]] == [message]


@pytest.mark.parametrize("position", ["query", "depth", "language", "sources", "domains", "time_range"])
async def test_input_is_not_repeated_in_errors(client: httpx2.AsyncClient, position: str) -> None:
    """The message and the location of an error do not contain the value."""
    values: dict[str, Any] = {"query": "solar sails", position: f"{SENT_TEXT} {SENT_TEXT}" * 100}
    if position in ("sources", "domains"):
        values[position] = [values[position]]
    assert_problem(await client.post("/research", json=values), 422)


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"content-type": "application/json"}, b'{"query": "solar sails"}', 200),
        ({"content-type": "Application/JSON; charset=utf-8"}, b'{"query": "solar sails"}', 200),
        ({"content-type": "application/x-www-form-urlencoded"}, b' {"query": "solar sails"}', 200),
        ({}, b'{"query": "solar sails"}', 200),
        ({"content-type": "application/json", "content-encoding": "identity"}, b'{"query": "solar sails"}', 200),
        ({"content-type": "application/x-www-form-urlencoded"}, b"query=solar+sails", 415),
        ({"content-type": "application/x-www-form-urlencoded"}, b'{"query": "solar', 422),
        ({"content-type": "application/x-www-form-urlencoded"}, b"", 422),
        ({"content-type": "application/x-www-form-urlencoded"}, b'["solar sails"]', 415),
        ({"content-type": "application/yaml"}, b"query: solar sails", 415),
        ({"content-type": "text/plain"}, b'{"query": "solar sails"}', 415),
        ({"content-type": "text/json"}, b'{"query": "solar sails"}', 415),
        ({"content-type": "application/vnd.api+json"}, b'{"query": "solar sails"}', 415),
        ({"content-type": "multipart/form-data; boundary=x"}, b'{"query": "solar sails"}', 415),
        ({"content-type": "application/json, text/plain"}, b'{"query": "solar sails"}', 415),
        ({}, b"query=solar+sails", 415),
        ({"content-type": "application/json", "content-encoding": "gzip"}, b"\x1f\x8b", 415),
    ],
    ids=str,
)
async def test_media_types_of_a_body(
    client: httpx2.AsyncClient, headers: dict[str, str], body: bytes, status: int
) -> None:
    """JSON, or a JSON object with the media type of a form or none; anything else is 415."""
    answer = await client.post("/research", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert_problem(answer, status)


async def test_unknown_fields_are_ignored(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """An unknown field has no effect; it cannot set an upstream."""
    values = {"query": "solar sails", "base_url": "http://evil.test/v1", "api_key": "x", "steps": 5}
    assert (await client.post("/research", json=values)).status_code == 200
    assert "evil" not in repr(services.requests)


@pytest.mark.parametrize(
    "query",
    [
        "\U0001f680\U0001f680\U0001f680",
        "%(x)s {sources} <b>",
        "solar\u2028sails",
        "你好吗",
        "a" * MAX_QUERY_CHARS,
        "' OR 1=1 --",
    ],
)
async def test_queries_can_be_any_text(client: httpx2.AsyncClient, services: FakeServices, query: str) -> None:
    """Emoji, markup and format strings reach the service unchanged."""
    answer = await client.post("/research", json={"query": query})
    assert answer.status_code == 200
    assert answer.json()["query"] == query
    assert services.requests[0].query == query


async def test_body_over_the_limit_is_refused(client: httpx2.AsyncClient) -> None:
    """One byte over 1 MiB is 413, whether its length is declared or not; exactly 1 MiB is read."""
    body = b'{"query": "' + SENT_TEXT.encode() + b'"'
    fits = body + b" " * (MAX_BODY_BYTES - len(body) - 1) + b"}"

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(fits) + 1, 65_536):
            yield (fits + b" ")[start : start + 65_536]

    assert (await client.post("/research", content=fits, headers=JSON)).status_code == 200
    assert_problem(await client.post("/research", content=fits + b" ", headers=JSON), 413)
    undeclared = await client.post("/research", content=chunks(), headers=JSON)
    assert "content-length" not in undeclared.request.headers
    assert_problem(undeclared, 413)
    assert undeclared.headers["connection"] == "close"


async def test_huge_content_length_is_refused(client: httpx2.AsyncClient) -> None:
    """A declared length of any size is a 413, not a 500."""
    headers = {**JSON, "content-length": "9" * 30}
    assert_problem(await client.post("/research", content=b"{}", headers=headers), 413)


async def test_body_timeout_is_408(client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that stops sending gets 408."""
    monkeypatch.setattr(body_module, "BODY_TIMEOUT_S", 0.05)

    async def stuck() -> AsyncIterator[bytes]:
        import asyncio

        yield b'{"query": '
        await asyncio.sleep(5)

    answer = await client.post("/research", content=stuck(), headers=JSON)
    assert_problem(answer, 408)


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/research/",
        "/docs/",
        "/docs/LICENSE",
        "/docs/%2e%2e",
        "/redoc",
        "/llm-platform",
        "/search/%00",
    ],
)
async def test_unknown_path_is_404(client: httpx2.AsyncClient, path: str) -> None:
    """404 as a problem, without a redirect."""
    assert_problem(await client.get(path), 404)


async def test_a_list_with_an_invalid_item_is_not_called_empty(client: httpx2.AsyncClient) -> None:
    """One error names the item. An empty list is still too short."""

    async def errors(**fields: object) -> list[tuple[list[str | int], str]]:
        answer = await client.post("/research", json={"query": "solar sails", "depth": "report", **fields})
        return [(error["loc"], error["type"]) for error in answer.json()["errors"]]

    assert await errors(sources=["moon"]) == [(["body", "sources", 0], "literal_error")]
    assert await errors(plan=["a\x00b"]) == [(["body", "plan", 0], "value_error")]
    assert await errors(plan=[], sources=["moon"]) == [
        (["body", "sources", 0], "literal_error"),
        (["body", "plan"], "too_short"),
    ]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/research", "GET, HEAD, POST"),
        ("DELETE", "/research", "GET, HEAD, POST"),
        ("DELETE", "/search", "GET, HEAD, POST"),
        ("POST", "/health", "GET, HEAD"),
        ("OPTIONS", "/search", "GET, HEAD, POST"),
        ("GET", "/llm-platform/chat/", "POST"),
        ("POST", "/research/x/sources/1", "GET, HEAD"),
    ],
)
async def test_unsupported_method_is_405(client: httpx2.AsyncClient, method: str, path: str, allowed: str) -> None:
    """405 with all methods of the path in Allow."""
    answer = await client.request(method, path)
    assert_problem(answer, 405)
    assert answer.headers["allow"] == allowed


@given(body=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda text: json.dumps(text).encode())))
async def test_any_bytes_are_422(body: bytes) -> None:
    """Any bytes get 422, never 500."""
    async with app_client() as client:
        assert_problem(await client.post("/research", content=body, headers=JSON), 422)


@given(
    values=st.dictionaries(
        st.sampled_from(["query", "depth", "sources", "language", "omit_raw", "stream", "time_range", "domains"]),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=5,
        ),
    )
)
async def test_any_json_object_is_200_or_422(values: dict[str, Any]) -> None:
    """Any JSON object is accepted or refused, never a 500."""
    async with app_client() as client:
        answer = await client.post("/research", content=json.dumps(values).encode(), headers=JSON)
    assert answer.status_code in (200, 422)


async def test_bodies_that_are_received_share_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that hold back the ends of theirs fill no more; beyond it 503 with Retry-After, and it is free when they end."""
    monkeypatch.setattr(body_module, "MAX_BUFFERED_BYTES", 20)
    held = asyncio.Event()

    async def receive() -> Message:
        if not held.is_set():
            held.set()
            return {"type": "http.request", "body": b"12345678", "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError

    async def receive_at_once() -> Message:
        return {"type": "http.request", "body": b"12345678", "more_body": False}

    holding = asyncio.create_task(body_module.receive_body(receive, {}))
    await held.wait()
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError):
        await body_module.receive_body(receive_at_once, {})
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    assert await body_module.receive_body(receive_at_once, {}) == b"12345678"
    assert body_module.BUFFERED.size == 0


async def test_no_caller_fills_the_room_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that holds back as many bodies as it may leaves as much free: another caller's body is received."""
    monkeypatch.setattr(body_module, "MAX_BUFFERED_BYTES", 100)

    async def hold() -> bytes:
        parts = iter([{"type": "http.request", "body": b"12345678", "more_body": True}])

        async def receive() -> Message:
            return next(parts, None) or await asyncio.get_running_loop().create_future()

        return await body_module.receive_body(receive, {})

    set_current_caller("attacker")
    holding = [asyncio.create_task(hold()) for _ in range(20)]
    await asyncio.sleep(0)  # each has sent its part
    await asyncio.sleep(0)
    assert {type(task.exception()) for task in holding if task.done()} == {OverloadedError}

    async def receive_at_once() -> Message:
        return {"type": "http.request", "body": b"12345678", "more_body": False}

    set_current_caller("another")
    assert await body_module.receive_body(receive_at_once, {}) == b"12345678"
    for task in holding:
        task.cancel()
    await asyncio.gather(*holding, return_exceptions=True)
    assert body_module.BUFFERED.size == 0
