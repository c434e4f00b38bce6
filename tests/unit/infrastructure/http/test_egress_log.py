"""The egress log of the adapters: each request that leaves, its host, kind of data and bytes."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

import ddgs.engines
import pytest
from ddgs.base import BaseSearchEngine
from ddgs.results import TextResult
from tests.fakes.llm_contract import collect, question
from tests.support.cases import for_each
from tests.support.chat_server import ChatServer, answer, error, spoken
from tests.support.guards import cached_search, guarded_search, retried_model, router, search_chain
from tests.support.loopback_upstream import Handler, hang_up, in_turn, json_reply, reply, serving, silence
from tests.support.reading_pages import InProcess, Names, html

from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.sent import Sent, SentKind
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.privacy.egress_log import open_egress_log
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.infrastructure.http.guarded.connection import PinnedConnections
from modules.llm_platform.infrastructure.http.guarded.guard import AllowedHosts, Guard
from modules.llm_platform.infrastructure.limits.upstream_limits import RetryBudget
from modules.llm_platform.infrastructure.models.kinds import LLMConnection
from modules.llm_platform.infrastructure.models.openai.chat import OpenAIProvider
from modules.llm_platform.infrastructure.pages.direct import DirectPageReader
from modules.llm_platform.infrastructure.pages.fetch import SafeFetcher
from modules.llm_platform.infrastructure.pages.jina import JinaPageReader
from modules.llm_platform.infrastructure.pages.robots import Robots
from modules.llm_platform.infrastructure.search.bocha import BochaWebSearchAdapter
from modules.llm_platform.infrastructure.search.ddgs import DdgsSession, DdgsWebSearchAdapter
from modules.llm_platform.infrastructure.search.searxng.web_search import SearXNGWebSearchAdapter
from modules.llm_platform.testing.reader_probe import FakeNetwork, Respond
from shared.exceptions import AppException

HERE = "127.0.0.1"
FOUND = json_reply({"results": [{"url": "https://a.example/", "title": "A", "content": "text", "engine": "bing"}]})
BOCHA = json_reply({"code": 200, "data": {"webPages": {"value": []}}})
JINA = reply(200, b"Title: A\n\nURL Source: https://docs.example/final\n\nMarkdown Content:\nA text.")
PYTHON = WebSearchRequest(query="python asyncio")


async def logged(call: Callable[[], Awaitable[Any]]) -> tuple[Sent, ...]:
    """Return the egress_log of one call, whether it fails or not."""
    with open_egress_log() as egress_log:
        with suppress(AppException):
            await call()
        return egress_log.sent()


def sent(kind: SentKind, *sizes: int, host: str = HERE) -> Sent:
    return Sent(host=host, kind=kind, requests=len(sizes), bytes=sum(sizes))


async def no_pause(_: float) -> None:
    """Tests do not wait."""


@asynccontextmanager
async def unused_address() -> AsyncIterator[str]:
    """An address where nothing listens."""
    with socket.create_server((HERE, 0)) as reserved:
        address = f"http://{HERE}:{reserved.getsockname()[1]}"
    yield address


class TestSearch:
    async def test_a_search_with_searxng_is_logged(self) -> None:
        """The size of the form, without port and path of the address."""
        async with serving(FOUND) as server:
            egress_log = await logged(lambda: SearXNGWebSearchAdapter(server.url).search(PYTHON))
        assert egress_log == (sent("query", len(server.requests[0].body)),)

    async def test_each_page_and_second_try_of_searxng_is_logged(self) -> None:
        """A second search without engine names is a second request."""
        blocked = json_reply({"results": [], "unresponsive_engines": [["bing", "CAPTCHA"]]})
        async with serving(in_turn(blocked, FOUND)) as server:
            egress_log = await logged(lambda: SearXNGWebSearchAdapter(server.url).search(PYTHON))
        assert egress_log == (sent("query", *(len(request.body) for request in server.requests)),)
        assert len(server.requests) == 2

    async def test_a_search_with_bocha_is_logged(self) -> None:
        """The size of the JSON body; nothing without a key."""
        async with serving(BOCHA) as server:
            egress_log = await logged(lambda: BochaWebSearchAdapter("sk-0123456789", server.url).search(PYTHON))
            keyless = await logged(lambda: BochaWebSearchAdapter("", server.url).search(PYTHON))
        assert egress_log == (sent("query", len(server.requests[0].body)),)
        assert keyless == ()

    async def test_a_ping_is_not_logged(self) -> None:
        """A ping has no query."""
        async with serving(reply(200, b"OK")) as server:
            assert await logged(SearXNGWebSearchAdapter(server.url).ping) == ()

    @for_each("handler", [reply(500), reply(429), reply(200, b"<html>"), hang_up])
    async def test_a_failed_search_is_logged(self, handler: Handler) -> None:
        """Whatever the answer is."""
        async with serving(handler) as server:
            egress_log = await logged(lambda: SearXNGWebSearchAdapter(server.url).search(PYTHON))
        assert egress_log == (sent("query", len(server.requests[0].body)),)

    async def test_a_search_without_an_answer_is_logged(self) -> None:
        """The query was sent."""
        async with serving(silence) as server:
            egress_log = await logged(lambda: SearXNGWebSearchAdapter(server.url, timeout=0.1).search(PYTHON))
        assert egress_log == (sent("query", len(server.requests[0].body)),)

    async def test_a_cancelled_search_is_logged(self) -> None:
        """The query was sent."""
        async with serving(silence) as server:
            with open_egress_log() as egress_log:
                search = asyncio.create_task(SearXNGWebSearchAdapter(server.url).search(PYTHON))
                while not server.requests:
                    await asyncio.sleep(0.005)
                search.cancel()
                await asyncio.wait([search])
        assert egress_log.sent() == (sent("query", len(server.requests[0].body)),)

    async def test_a_refused_connection_is_not_logged(self) -> None:
        """Nothing was sent."""
        async with unused_address() as address:
            assert await logged(lambda: SearXNGWebSearchAdapter(address).search(PYTHON)) == ()

    async def test_each_try_is_logged(self) -> None:
        """A lost connection, then an answer: the query went out twice."""
        async with serving(in_turn(hang_up, FOUND)) as server:
            retried = guarded_search(SearXNGWebSearchAdapter(server.url), retries=RetryBudget(), sleep=no_pause)
            egress_log = await logged(lambda: retried.search(PYTHON))
        assert egress_log == (sent("query", *(len(request.body) for request in server.requests)),)
        assert len(server.requests) == 2

    async def test_failover_logs_each_called_provider(self) -> None:
        """Not the ones that were not called."""
        async with serving(reply(500)) as first, serving(BOCHA) as second, serving(FOUND) as third:
            providers = (
                SearXNGWebSearchAdapter(first.url),
                BochaWebSearchAdapter("sk-0123456789", second.url.replace(HERE, "localhost")),
                SearXNGWebSearchAdapter(third.url),
            )
            egress_log = await logged(lambda: search_chain(*providers).search(PYTHON))
        assert egress_log == (
            sent("query", len(first.requests[0].body)),
            sent("query", len(second.requests[0].body), host="localhost"),
        )

    async def test_a_cached_answer_is_not_logged(self) -> None:
        """Nothing was sent."""
        async with serving(FOUND) as server:
            cached = cached_search(SearXNGWebSearchAdapter(server.url), MemoryCache(10), 60)
            first = await logged(lambda: cached.search(PYTHON))
            second = await logged(lambda: cached.search(PYTHON))
        assert (len(first), second) == (1, ())

    async def test_each_research_has_its_own_log(self) -> None:
        """Also with concurrent searches over one adapter and pool."""
        async with serving(FOUND) as server:
            service = WebSearchService(SearXNGWebSearchAdapter(server.url))
            requests = [WebSearchRequest(query="q" * length) for length in range(1, 21)]
            ledgers = await asyncio.gather(
                *(logged(lambda request=request: service.search_multi([request, request])) for request in requests)
            )
        sizes = {len(exchange.form["q"]): len(exchange.body) for exchange in server.requests}
        assert list(ledgers) == [(sent("query", sizes[n], sizes[n]),) for n in range(1, 21)]

    async def test_the_log_contains_no_secret(self) -> None:
        """No credentials, paths or words of the query."""
        async with serving(FOUND) as server:
            address = server.url.replace("http://", "http://user:secret-word@") + "/hidden/path"
            egress_log = await logged(lambda: SearXNGWebSearchAdapter(address).search(PYTHON))
        assert server.requests[0].path == "/hidden/path/search"
        assert egress_log[0].model_dump() == {
            "host": HERE,
            "kind": "query",
            "requests": 1,
            "bytes": egress_log[0].bytes,
            "via": None,
        }


class TestDdgs:
    async def ask(self, adapter: DdgsWebSearchAdapter) -> tuple[Sent, ...]:
        try:
            return await logged(lambda: adapter.search(PYTHON))
        finally:
            await adapter.aclose()

    async def test_each_engine_of_ddgs_is_logged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each engine has its host, although the library uses its own threads."""
        monkeypatch.delenv("DDGS_PROXY", raising=False)

        class Engine(BaseSearchEngine[TextResult]):
            name = provider = "one"
            category = "text"
            search_method = "GET"
            items_xpath = ""
            elements_xpath: ClassVar[dict[str, str]] = {}

            def build_payload(self, query: str, *_: Any, **__: Any) -> dict[str, Any]:
                return {"q": query}

            def extract_results(self, html_text: str) -> list[TextResult]:
                return [TextResult(**row) for row in json.loads(html_text)]

        monkeypatch.setitem(ddgs.engines.ENGINES, "text", {"one": Engine})
        row = {"title": "T", "href": "https://a.example/", "body": "python"}
        async with serving(json_reply([row])) as server:
            monkeypatch.setattr(Engine, "search_url", f"{server.url}/search?lang=en", raising=False)
            egress_log = await self.ask(DdgsWebSearchAdapter(timeout=9))
        assert egress_log == (sent("query", len("/search?lang=en" + PYTHON.query)),)
        assert len(server.requests) == 1

    async def test_an_unobservable_library_is_logged_itself(self) -> None:
        """Its hosts are unknown."""

        class Library:
            def text(self, query: str, **_: Any) -> list[dict[str, str]]:
                return [{"title": "T", "href": "https://a.example/", "body": query}]

        egress_log = await self.ask(DdgsWebSearchAdapter(engine=Library))
        assert egress_log == (sent("query", len(PYTHON.query), host="ddgs"),)


class TestModels:
    @pytest.fixture
    def at(self) -> Iterator[Callable[..., OpenAIProvider]]:
        made: list[OpenAIProvider] = []

        def _at(url: str, **config: Any) -> OpenAIProvider:
            defaults = {"name": "n", "kind": "openai", "model": "m", "api_key": "sk-0123456789"}
            made.append(OpenAIProvider(LLMConnection(**{**defaults, "base_url": url, **config})))
            return made[-1]

        return _at

    @pytest.mark.parametrize("data_kind", ["query", "page text"])
    @pytest.mark.parametrize("streamed", [False, True])
    async def test_a_prompt_is_logged_with_its_kind(self, at: Any, data_kind: SentKind, streamed: bool) -> None:
        """All bytes of the body, streamed or not."""
        request = question("What is an event loop? é").model_copy(update={"data_kind": data_kind})
        async with ChatServer(spoken() if streamed else answer()).running() as server:
            provider = at(server.url)
            ask = (lambda: collect(provider, request)) if streamed else (lambda: provider.generate(request))
            egress_log = await logged(ask)
            await provider.aclose()
        assert egress_log == (sent(data_kind, int(server.asked[0].headers["content-length"])),)

    async def test_a_ping_is_not_logged(self, at: Any) -> None:
        """A request for the list of models has no text."""
        async with ChatServer(answer(b'{"data": []}')).running() as server:
            provider = at(server.url)
            assert await logged(provider.ping) == ()
            await provider.aclose()
        assert server.asked[0].method == "GET"

    async def test_each_try_is_logged(self, at: Any) -> None:
        """A service that was busy got the prompt as well."""
        async with ChatServer(error(503, {}), answer()).running() as server:
            provider = at(server.url)
            egress_log = await logged(lambda: retried_model(provider, sleep=no_pause).generate(question()))
            await provider.aclose()
        assert egress_log[0].requests == len(server.asked) == 2

    async def test_failover_logs_each_reached_model(self, at: Any) -> None:
        """One that cannot be reached is not logged."""
        async with (
            unused_address() as absent,
            ChatServer(error(500, {})).running() as failing,
            ChatServer().running() as good,
        ):
            models = [at(f"{absent}/v1", name="absent"), at(failing.url, name="failing")]
            models.append(at(good.url.replace(HERE, "localhost"), name="good"))
            egress_log = await logged(lambda: router(*models).generate(question()))
            for provider in models:
                await provider.aclose()
        assert [(entry.host, entry.requests) for entry in egress_log] == [(HERE, 1), ("localhost", 1)]

    async def test_concurrent_prompts_keep_their_kinds(self, at: Any) -> None:
        """Of several research runs over one provider."""
        async with ChatServer().running() as server:
            provider = at(server.url)

            async def research(pages: int) -> tuple[Sent, ...]:
                requests = [question()] + [question().model_copy(update={"data_kind": "page text"})] * pages
                return await logged(lambda: asyncio.gather(*map(provider.generate, requests)))

            ledgers = await asyncio.gather(*map(research, range(1, 6)))
            await provider.aclose()
        counts = [{entry.kind: entry.requests for entry in egress_log} for egress_log in ledgers]
        assert counts == [{"query": 1, "page text": pages} for pages in range(1, 6)]


class TestReaders:
    async def test_a_page_read_by_jina_is_logged_for_jina(self) -> None:
        """The host of the page gets no request from us."""
        async with serving(JINA) as server:
            reader = JinaPageReader(base_url=server.url)
            egress_log = await logged(lambda: reader.read("https://docs.example/a?b=c"))
        assert egress_log == (sent("url", len("/https://docs.example/a?b=c")),)

    def direct(self, respond: Respond, ips: Sequence[str] = ("93.184.215.14",), **options: Any) -> DirectPageReader:
        guard = Guard(Names(ips), AllowedHosts())
        fetcher = SafeFetcher(guard, PinnedConnections(FakeNetwork(respond)))
        robots = Robots(fetcher) if options.pop("robots", False) else None
        return DirectPageReader(fetcher, InProcess(), robots=robots, **options)

    async def test_the_direct_reader_logs_each_host(self) -> None:
        """A redirect leads to a second host."""

        def respond(ip: str, port: int, host: str, target: str) -> Any:
            if host == "a.example.net":
                return 302, {"Location": "http://b.example.net/next"}, b""
            return 200, {"Content-Type": "text/html"}, html("<p>" + "Words of a page. " * 40 + "</p>")

        egress_log = await logged(lambda: self.direct(respond).read("http://a.example.net/x"))
        assert egress_log == (
            sent("url", len("http://a.example.net/x"), host="a.example.net"),
            sent("url", len("http://b.example.net/next"), host="b.example.net"),
        )

    async def test_robots_txt_is_logged(self) -> None:
        """It is a second request to the host."""

        def respond(ip: str, port: int, host: str, target: str) -> Any:
            if target == "/robots.txt":
                return 404, {}, b""
            return 200, {"Content-Type": "text/html"}, html("<p>" + "Words of a page. " * 40 + "</p>")

        egress_log = await logged(lambda: self.direct(respond, robots=True).read("http://a.example.net/x"))
        assert [(entry.host, entry.requests) for entry in egress_log] == [("a.example.net", 2)]

    async def test_a_refused_address_is_not_logged(self) -> None:
        """No connection is made."""
        egress_log = await logged(
            lambda: self.direct(lambda *_: (200, {}, b""), ips=["10.0.0.1"]).read("http://a.example.net/")
        )
        assert egress_log == ()

    async def test_a_host_with_two_addresses_is_logged_once(self) -> None:
        """The first one refuses the connection."""

        def respond(ip: str, port: int, host: str, target: str) -> Any:
            return 200, {"Content-Type": "text/html"}, html("<p>" + "Words of a page. " * 40 + "</p>")

        backend = FakeNetwork(respond)
        connect = backend.connect_tcp

        async def refusing(host: str, *args: Any, **options: Any) -> Any:
            if host == "93.184.215.14":
                import httpcore2

                raise httpcore2.ConnectError
            return await connect(host, *args, **options)

        backend.connect_tcp = refusing  # type: ignore[method-assign]
        fetcher = SafeFetcher(
            Guard(Names(["93.184.215.14", "93.184.215.15"]), AllowedHosts()), PinnedConnections(backend)
        )
        egress_log = await logged(lambda: DirectPageReader(fetcher, InProcess()).read("http://a.example.net/x"))
        assert egress_log == (sent("url", len("http://a.example.net/x"), host="a.example.net"),)


class TestThroughAProxy:
    async def test_the_proxy_is_logged_without_its_password(self) -> None:
        """It also gets the query."""
        async with serving(FOUND) as proxy:
            address = proxy.url.replace("http://", "http://user:hidden@")
            async with make_client("http://search.invalid", proxy=address) as client:
                adapter = SearXNGWebSearchAdapter("http://search.invalid", client=client)
                (sent,) = await logged(lambda: adapter.search(PYTHON))
        assert (sent.host, sent.kind, sent.via) == ("search.invalid", "query", HERE)

    async def test_the_proxy_of_a_model_is_logged(self) -> None:
        """It also gets the text of pages."""
        body = {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}
        connection = LLMConnection(
            name="n", kind="openai", base_url="http://model.invalid/v1", model="m", api_key="k" * 12
        )
        async with serving(json_reply(body)) as proxy, make_client("http://model.invalid", proxy=proxy.url) as client:
            provider = OpenAIProvider(connection, client=client)
            (sent,) = await logged(lambda: provider.generate(question()))
        assert (sent.host, sent.via) == ("model.invalid", HERE)

    def test_the_proxy_of_ddgs_is_logged(self) -> None:
        """The library uses the configured proxy."""
        assert DdgsSession(1, "http://user:hidden@proxy.example:3128").via == "proxy.example"
        assert DdgsSession(1).via is None
