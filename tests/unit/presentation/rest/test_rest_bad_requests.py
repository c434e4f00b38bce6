"""Whatever is sent, the answer is a small problem object that says what is wrong, and never what was sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.presentation.rest.fake_platform import Scripted, door

from modules.llm_platform.presentation.rest import body as body_module
from modules.llm_platform.presentation.rest.body import MAX_BODY_BYTES

MARK = "Zq7mark"
LARGEST_PROBLEM_BYTES = 16_384
JSON = {"content-type": "application/json"}


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


@pytest.fixture
async def client(scripted: Scripted) -> AsyncIterator[httpx2.AsyncClient]:
    async with door(scripted) as client:
        yield client


def assert_problem(answer: httpx2.Response, *statuses: int) -> dict[str, Any]:
    assert answer.status_code in statuses, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) <= LARGEST_PROBLEM_BYTES
    assert MARK not in answer.text
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
    b'{"query": "' + b"b" * 501 + b'"}',
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
    b'{"query": "solar sails", "domains": ["http://example.org/"]}',
    b"query: solar sails",
]


@pytest.mark.parametrize("body", BAD_RESEARCH, ids=lambda body: repr(body[:40]))
async def test_a_wrong_question_is_refused(client: httpx2.AsyncClient, scripted: Scripted, body: bytes) -> None:
    """422 as a problem with the wrong fields; no service is asked."""
    answer = await client.post("/research", content=body, headers=JSON)
    assert_problem(answer, 422)
    assert scripted.asked == []


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
    {"query": "solar", "freshness": MARK},
    {"query": "solar", "freshness": "2025-13-01..2025-14-01"},
    {"query": None},
    {},
]


@pytest.mark.parametrize("values", BAD_SEARCHES, ids=json.dumps)
async def test_a_wrong_search_is_refused(client: httpx2.AsyncClient, values: dict[str, Any]) -> None:
    """422, whether the request's model sees the mistake or only the provider."""
    assert_problem(await client.post("/llm-platform/web-search", json=values), 422)


@pytest.mark.parametrize(
    "query",
    ["", "page=1", "q=", "q=%00", "q=+&page=1", "q=asyncio&page=", "q=asyncio&page=0x10", "q=asyncio&page=0",
     "q=asyncio&page=51", "q=asyncio&page=1.0", "q=asyncio&page=%EF%BC%91", "q=asyncio&page=" + "9" * 400,
     "q=asyncio&pageno=-1", "q=asyncio&engines=" + "a" * 61, "q=asyncio&language=english", "q=asyncio&time_range=decade",
     "q=!!g+asyncio", "q=asyncio+!!", "q=" + "a" * 501],
)  # fmt: skip
async def test_a_wrong_query_string_is_refused(client: httpx2.AsyncClient, scripted: Scripted, query: str) -> None:
    """422 that names the parameter under `query`."""
    problem = assert_problem(await client.get(f"/search?{query}"), 422)
    assert all(error["loc"][0] == "query" for error in problem["errors"])
    assert scripted.asked == []


@pytest.mark.parametrize(
    "messages",
    [None, [], "hello", ["hello"], [{"role": "user"}], [{"role": "tool", "content": MARK}], [{"role": "user", "content": ""}],
     [{"role": "user", "content": {"text": MARK}}], [{"role": "user", "content": "hi"}] * 201],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
async def test_a_wrong_conversation_is_refused(client: httpx2.AsyncClient, messages: Any) -> None:
    """422 with few errors, however many messages are wrong."""
    problem = assert_problem(await client.post("/llm-platform/chat", json={"messages": messages}), 422)
    assert len(problem["errors"]) <= 20


async def test_a_thousand_wrong_fields_give_a_small_answer(client: httpx2.AsyncClient) -> None:
    """The answer to a body full of mistakes stays small."""
    many = [{"role": "tool", "content": 7}] * 200
    problem = assert_problem(await client.post("/llm-platform/chat", json={"messages": many}), 422)
    assert len(problem["errors"]) == 20


async def test_an_unknown_depth_names_those_there_are(client: httpx2.AsyncClient) -> None:
    """What does not exist is refused with the names of what there is."""
    problem = assert_problem(await client.post("/research", json={"query": "solar sails", "depth": "profound"}), 422)
    [error] = problem["errors"]
    assert error["loc"] == ["body", "depth"]
    assert [name for name in ("shallow", "deep", "report") if name not in error["msg"]] == []


@pytest.mark.parametrize("place", ["query", "depth", "language", "sources", "domains", "time_range"])
async def test_what_was_sent_is_not_sent_back(client: httpx2.AsyncClient, place: str) -> None:
    """No part of an error repeats a value: neither its message nor its place."""
    values: dict[str, Any] = {"query": "solar sails", place: f"{MARK} {MARK}" * 100}
    if place in ("sources", "domains"):
        values[place] = [values[place]]
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
async def test_the_type_of_a_body(client: httpx2.AsyncClient, headers: dict[str, str], body: bytes, status: int) -> None:
    """JSON under its own name; under curl's default, or none, when it is an object; anything else is 415."""
    answer = await client.post("/research", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert_problem(answer, status)


async def test_unknown_fields_are_ignored(client: httpx2.AsyncClient, scripted: Scripted) -> None:
    """A field that we do not know changes nothing; it cannot name an upstream either."""
    values = {"query": "solar sails", "base_url": "http://evil.test/v1", "api_key": "x", "steps": 5}
    assert (await client.post("/research", json=values)).status_code == 200
    assert "evil" not in repr(scripted.asked)


@pytest.mark.parametrize(
    "query", ["\U0001f680\U0001f680\U0001f680", "%(x)s {sources} <b>", "solar\u2028sails", "你好吗", "a" * 500, "' OR 1=1 --"]
)
async def test_odd_questions_are_questions(client: httpx2.AsyncClient, scripted: Scripted, query: str) -> None:
    """Emoji, markup and format strings are text like any other and reach the service unchanged."""
    answer = await client.post("/research", json={"query": query})
    assert answer.status_code == 200
    assert answer.json()["query"] == query
    assert scripted.asked[0].query == query


async def test_a_large_body_is_refused(client: httpx2.AsyncClient) -> None:
    """One byte over 1 MiB is 413, whether its length is declared or not; exactly 1 MiB is read."""
    body = b'{"query": "' + MARK.encode() + b'"'
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


async def test_an_absurd_length_is_refused(client: httpx2.AsyncClient) -> None:
    """A declared length of any size is too large, not an error of ours."""
    headers = {**JSON, "content-length": "9" * 30}
    assert_problem(await client.post("/research", content=b"{}", headers=headers), 413)


async def test_a_body_that_does_not_come(client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that stops half-way gets 408."""
    monkeypatch.setattr(body_module, "BODY_TIMEOUT_S", 0.05)

    async def stuck() -> AsyncIterator[bytes]:
        import asyncio

        yield b'{"query": '
        await asyncio.sleep(5)

    answer = await client.post("/research", content=stuck(), headers=JSON)
    assert_problem(answer, 408)


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/research/", "/metrics", "/docs/", "/docs/LICENSE", "/docs/%2e%2e", "/redoc", "/llm-platform", "/search/%00"],
)
async def test_an_unknown_address(client: httpx2.AsyncClient, path: str) -> None:
    """404 as a problem, no redirect, no page with scripts of others."""
    assert_problem(await client.get(path), 404)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/research", "POST"),
        ("GET", "/research", "POST"),
        ("DELETE", "/search", "GET, POST"),
        ("POST", "/health", "GET"),
        ("OPTIONS", "/search", "GET, POST"),
        ("GET", "/llm-platform/chat/", "POST"),
        ("POST", "/research/x/sources/1", "GET"),
    ],
)
async def test_another_method(client: httpx2.AsyncClient, method: str, path: str, allowed: str) -> None:
    """405 with every method of the address in Allow."""
    answer = await client.request(method, path)
    assert_problem(answer, 405)
    assert answer.headers["allow"] == allowed


@given(body=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda text: json.dumps(text).encode())))
async def test_no_bytes_break_the_reader(body: bytes) -> None:
    """Any bytes at all give 422, never 500."""
    async with door() as client:
        assert_problem(await client.post("/research", content=body, headers=JSON), 422)


@given(
    values=st.dictionaries(
        st.sampled_from(["query", "depth", "sources", "language", "omit_raw", "stream", "time_range", "domains"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=5,
        ),
    )
)
async def test_no_values_break_the_model(values: dict[str, Any]) -> None:
    """Any JSON object is answered or refused."""
    async with door() as client:
        answer = await client.post("/research", content=json.dumps(values).encode(), headers=JSON)
    assert answer.status_code in (200, 422)
