"""infrastructure/search/ddgs.py, with the real library and engines that ask a server on loopback."""

from __future__ import annotations

import http.server
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import ddgs.engines
import pytest
from ddgs.base import BaseSearchEngine
from ddgs.results import TextResult
from tests.fakes.tracing import tracing

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchBlockedError, WebSearchTimeoutError
from modules.llm_platform.infrastructure.search.ddgs import DdgsSession, DdgsWebSearchAdapter


class Handler(http.server.BaseHTTPRequestHandler):
    """`/<status>` answers with that status and one result; `/200?empty` with none."""

    def do_GET(self) -> None:
        status = int(self.path.strip("/").partition("?")[0])
        rows = [] if "empty" in self.path else [{"title": "Page", "href": "https://example.org/a", "body": "python"}]
        body = json.dumps(rows).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing on stderr."""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy: the engines of these tests are on loopback."""
    monkeypatch.delenv("DDGS_PROXY", raising=False)


class Engine(BaseSearchEngine[TextResult]):
    category = "text"
    search_method = "GET"
    items_xpath = ""
    elements_xpath: ClassVar[dict[str, str]] = {}

    def build_payload(
        self, query: str, region: str, safesearch: str, timelimit: str | None, page: int = 1, **_: Any
    ) -> dict[str, Any]:
        return {}

    def extract_results(self, html_text: str) -> list[TextResult]:
        return [TextResult(**row) for row in json.loads(html_text)]


def use(monkeypatch: pytest.MonkeyPatch, **urls: str) -> None:
    """The library's engines, for one test: name to address."""
    made = {
        name: type(name, (Engine,), {"name": name, "provider": name, "search_url": url}) for name, url in urls.items()
    }
    monkeypatch.setitem(ddgs.engines.ENGINES, "text", made)


async def search(timeout: float = 9.0) -> Any:
    adapter = DdgsWebSearchAdapter(timeout=timeout)
    try:
        return await adapter.search(WebSearchRequest(query="python"))
    finally:
        await adapter.aclose()


async def test_engines_that_refused_are_listed(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library hides refusals."""
    use(monkeypatch, good=f"{base}/200", bad=f"{base}/429")
    answer = await search()
    assert [item.url for item in answer.results] == ["https://example.org/a"]
    assert [(entry.component, entry.reason) for entry in answer.degraded] == [("ddgs/bad", "it answered with HTTP 429")]


async def test_each_request_is_a_span(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines are called in threads. Their spans belong to the search, without its text or address."""
    use(monkeypatch, good=f"{base}/200", bad=f"{base}/429")
    with tracing() as ended:
        await search()
    found = {span.name: span.attributes["llm_platform.result"] for span in ended}
    assert found == {"search_engine good": "ok", "search_engine bad": "429"}
    assert {span.attributes["llm_platform.upstream.name"] for span in ended} == {"ddgs/good", "ddgs/bad"}
    assert base not in str(ended)


async def test_all_engines_refusing_is_an_error(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library reports `No results found` for both."""
    use(monkeypatch, one=f"{base}/429", two=f"{base}/403")
    with pytest.raises(WebSearchBlockedError):
        await search()
    use(monkeypatch, one=f"{base}/200?empty", two=f"{base}/403")
    answer = await search()
    assert answer.results == ()
    assert [entry.component for entry in answer.degraded] == ["ddgs/two"]


def test_a_stopped_session_calls_no_engine(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the library the remaining engines fail."""
    use(monkeypatch, one=f"{base}/200")
    session = DdgsSession(timeout=2)
    session.stop()
    with pytest.raises(Exception, match="timed out"):
        session.text("python", max_results=3)
    assert session.statuses == {}


async def test_a_silent_engine_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a third of the deadline."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        use(monkeypatch, silent=f"http://127.0.0.1:{silent.getsockname()[1]}/")
        with pytest.raises(WebSearchTimeoutError):
            await search(timeout=3.0)


def test_the_library_does_not_log_queries(
    base: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At any level."""
    use(monkeypatch, one=f"{base}/500")
    with caplog.at_level(logging.DEBUG), pytest.raises(Exception, match="No results"):
        DdgsSession(timeout=2).text("a secret wish", backend="no-such")
    assert "secret" not in caplog.text
    assert not [record for record in caplog.records if record.name.startswith(("ddgs", "primp"))]


def test_news_engines_are_observed(monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    """Like those for text."""
    engine = type(
        "E", (Engine,), {"name": "paper", "provider": "paper", "category": "news", "search_url": f"{base}/503"}
    )
    monkeypatch.setitem(ddgs.engines.ENGINES, "news", {"paper": engine})
    session = DdgsSession(timeout=2)
    with pytest.raises(Exception, match="No results"):
        session.news("python")
    assert session.statuses == {"paper": 503}
