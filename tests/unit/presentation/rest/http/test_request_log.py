"""The log line and the metrics of each request: their content, and what they never contain."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.application.services import research_job_worker, store_service, webhook_service
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.exceptions import WebSearchConnectionError
from modules.llm_platform.presentation.rest.http import request_log

QUERY = "a private question"
KEY = "a-long-random-word"
CHAT = {"messages": [{"role": "user", "content": QUERY}]}


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """Returns the fields of the lines at or above INFO."""
    caplog.set_level(logging.INFO)
    standard = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
    return lambda: [
        {name: value for name, value in vars(record).items() if name not in standard}
        for record in caplog.records
        if record.name == request_log.__name__
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        (
            "POST",
            "/research",
            {"query": QUERY},
            {"route": "/research", "depth": "shallow", "cache": "miss", "tokens": 0, "cost_usd": 0.0, "provider": ""},
        ),
        ("POST", "/llm-platform/web-search", {"query": QUERY}, {"provider": "fake", "cache": "miss"}),
        ("GET", f"/search?q={QUERY}", None, {"route": "/search", "provider": "fake", "cache": "miss"}),
        ("POST", "/llm-platform/chat", CHAT, {"provider": "fake", "model": "fake-1", "tokens": 7, "cost_usd": 0.0}),
        (
            "POST",
            "/research",
            {"query": QUERY, "stream": True},
            {"route": "/research", "depth": "shallow", "tokens": 0},
        ),
        ("POST", "/llm-platform/chat", {**CHAT, "stream": True}, {"provider": "fake", "tokens": 7}),
    ],
)
async def test_a_request_is_one_line(lines: Any, method: str, path: str, body: Any, expected: dict[str, Any]) -> None:
    """Route, status, duration, provider, cache, tokens and cost; not the question."""
    async with app_client() as client:
        await client.request(method, path, json=body)
    [line] = lines()
    assert (line["method"], line["status"]) == (method, 200)
    assert line["duration_ms"] >= 0
    assert expected.items() <= line.items()
    assert QUERY not in str(line)


async def test_the_label_of_the_key_is_logged(lines: Any) -> None:
    """The line names the client by the label of its key, or by the position of a key without one; never the key."""
    keys = {"alice-1": "first-secret-key", "key-2": "second-secret-key"}
    async with app_client(LLM_PLATFORM_API_KEYS=f"alice-1:{keys['alice-1']},{keys['key-2']}") as client:
        for key in keys.values():
            await client.post("/research", json={"query": QUERY}, headers={"X-API-Key": key})
        await client.post("/research", json={"query": QUERY}, headers={"X-API-Key": "wrong"})
    assert [line.get("client") for line in lines()] == ["alice-1", "key-2", None]
    assert not [key for key in keys.values() if key in str(lines())]


async def test_log_queries_adds_the_query(lines: Any) -> None:
    """LOG_QUERIES decides whether the text of a query is logged."""
    async with app_client(LOG_QUERIES=True) as client:
        await client.post("/research", json={"query": QUERY})
    assert lines()[0]["query"] == QUERY


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_is_logged_by_its_code(lines: Any, stream: bool) -> None:
    """The code of the error is in the line, of a stream that failed too."""
    services = FakeServices()
    services.error = WebSearchConnectionError("refused")
    async with app_client(services) as client:
        await client.post("/research", json={"query": QUERY, "stream": stream})
    [line] = lines()
    assert line["error"] == "web_search_connection"
    assert line["status"] == (200 if stream else 503)


async def test_unknown_and_refused_requests_have_bounded_labels(lines: Any) -> None:
    """Paths and methods that a client invents become one label each; a path with parameters is its template."""
    services = FakeServices()
    async with app_client(services, LLM_PLATFORM_API_KEYS=KEY) as client:
        for path in ("/invented/1", "/invented/2"):
            await client.get(path, headers={"X-API-Key": KEY})
        await client.request("INVENTED", "/research", headers={"X-API-Key": KEY})
        await client.get("/research/some-id/sources/1", headers={"X-API-Key": KEY})
        await client.get("/search?q=x")
    requests = {key[1:]: count for key, count in services.metrics.values.items() if key[0].endswith("requests_total")}
    assert requests == {
        ("unmatched", "GET", "4xx"): 2,
        ("/research", "other", "4xx"): 1,
        ("/research/{request_id}/sources/{index}", "GET", "4xx"): 1,
        ("/search", "GET", "4xx"): 1,
    }
    assert "invented" not in str(lines()).lower()
    assert "some-id" not in str(lines())


async def test_probes_are_quiet_and_counted(lines: Any) -> None:
    """/ready, /health and /metrics are polled: their successes are logged at debug only."""
    services = FakeServices()
    async with app_client(services) as client:
        await client.get("/ready")
        text = (await client.get("/metrics")).text
    assert lines() == []
    assert "llm_platform_http_requests_total /ready GET 2xx 1.0" in text


async def test_degraded_components_are_counted(lines: Any) -> None:
    """The line names the components in `degraded`, and the metric counts them."""
    services = FakeServices()
    services.found = services.found.with_degraded([Degraded(component="searxng/google", reason="captcha")])
    async with app_client(services) as client:
        await client.get("/search?q=x")
    assert lines()[0]["degraded"] == ["searxng/google"]
    assert services.metrics.values["llm_platform_degraded_answers_total", "searxng/google"] == 1


async def test_metrics_of_a_server_without_metrics_is_an_error() -> None:
    """An empty page would look like a server without requests."""
    services = FakeServices()
    services.metrics.exposition = lambda: ""  # type: ignore[method-assign]
    async with app_client(services) as client:
        answer = await client.get("/metrics")
    assert (answer.status_code, answer.json()["code"]) == (503, "no_metrics")


def test_steps_are_quiet_unless_debugging() -> None:
    """A server logs one line a request: the steps' lines need LOG_LEVEL=DEBUG, their errors do not."""
    root = logging.getLogger()
    before = root.level
    loggers = [logging.getLogger(name) for name in request_log.STEP_LOGGERS]
    try:
        for level, expected in ((logging.INFO, logging.ERROR), (logging.DEBUG, logging.DEBUG)):
            root.setLevel(level)
            request_log.mute_steps()
            assert {logger.level for logger in loggers} == {expected}
            background = (research_job_worker.log, webhook_service.log, store_service.log)  # not part of a request
            assert all(logger.getEffectiveLevel() == level for logger in background)
    finally:
        root.setLevel(before)
        for logger in loggers:
            logger.setLevel(logging.NOTSET)
