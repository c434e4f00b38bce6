"""What the adapters note in the ledger: each request that leaves, to whom, what kind of data, how many bytes."""

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
from tests.chat_server import ChatServer, answer, error, spoken
from tests.loopback_upstream import Handler, hang_up, in_turn, json_reply, reply, serving, silence
from tests.reading_pages import InProcess, Names, html

from modules.llm_platform.application.services.llm_service import LLMRegistry
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.sent import Sent, SentKind
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.egress_log import open_egress_log
from modules.llm_platform.infrastructure.adapters.bocha_web_search import BochaWebSearchAdapter
from modules.llm_platform.infrastructure.adapters.ddgs_web_search import DdgsSession, DdgsWebSearchAdapter
from modules.llm_platform.infrastructure.adapters.direct_page_reader import DirectPageReader
from modules.llm_platform.infrastructure.adapters.jina_page_reader import JinaPageReader
from modules.llm_platform.infrastructure.adapters.memory_cache import MemoryCache
from modules.llm_platform.infrastructure.adapters.openai import OpenAIProvider
from modules.llm_platform.infrastructure.adapters.searxng_web_search import SearXNGWebSearchAdapter
from modules.llm_platform.infrastructure.http.client import make_client
from modules.llm_platform.infrastructure.llm.kinds import LLMConnection
from modules.llm_platform.infrastructure.policies.caching import CachedWebSearch
from modules.llm_platform.infrastructure.policies.failover import FailoverWebSearch
from modules.llm_platform.infrastructure.policies.llm_router import LLMRouter
from modules.llm_platform.infrastructure.policies.retries import RetriedLLM, RetriedWebSearch
from modules.llm_platform.infrastructure.safe_reader.connection import PinnedConnections
from modules.llm_platform.infrastructure.safe_reader.fetch import SafeFetcher
from modules.llm_platform.infrastructure.safe_reader.guard import AllowedHosts, Guard
from modules.llm_platform.infrastructure.safe_reader.robots import Robots
from modules.llm_platform.testing.llm import collect, question
from modules.llm_platform.testing.served_connections import Respond, ServedConnections
from shared.exceptions import AppException

HERE = "127.0.0.1"
FOUND = json_reply({"results": [{"url": "https://a.example/", "title": "A", "content": "text", "engine": "bing"}]})
BOCHA = json_reply({"code": 200, "data": {"webPages": {"value": []}}})
JINA = reply(200, b"Title: A\n\nURL Source: https://docs.example/final\n\nMarkdown Content:\nA text.")
PYTHON = WebSearchRequest(query="python asyncio")


async def noted(call: Callable[[], Awaitable[Any]]) -> tuple[Sent, ...]:
    """The ledger of one call, whether it fails or not."""
    with open_egress_log() as ledger:
        with suppress(AppException):
            await call()
        return ledger.sent()


def sent(kind: SentKind, *sizes: int, host: str = HERE) -> Sent:
    return Sent(host=host, kind=kind, requests=len(sizes), bytes=sum(sizes))


async def no_pause(_: float) -> None:
    """Tests do not wait."""


@asynccontextmanager
async def nobody() -> AsyncIterator[str]:
    """An address where nothing listens."""
    with socket.create_server((HERE, 0)) as held:
        address = f"http://{HERE}:{held.getsockname()[1]}"
    yield address


class TestSearch:
    async def test_a_query_to_searxng(self) -> None:
        """The form that was sent, once, without the port or the path of the address."""
        async with serving(FOUND) as server:
            ledger = await noted(lambda: SearXNGWebSearchAdapter(server.url).search(PYTHON))
        assert ledger == (sent("query", len(server.requests[0].body)),)

    async def test_each_page_and_second_try_of_searxng_counts(self) -> None:
        """All engines blocked: the instance's own choice is asked too, and that is a second request."""
        blocked = json_reply({"results": [], "unresponsive_engines": [["bing", "CAPTCHA"]]})
        async with serving(in_turn(blocked, FOUND)) as server:
            ledger = await noted(lambda: SearXNGWebSearchAdapter(server.url).search(PYTHON))
        assert ledger == (sent("query", *(len(request.body) for request in server.requests)),)
        assert len(server.requests) == 2

    async def test_a_query_to_bocha(self) -> None:
        """The object that was sent; nothing where the key is missing, because nothing is sent."""
        async with serving(BOCHA) as server:
            ledger = await noted(lambda: BochaWebSearchAdapter("sk-0123456789", server.url).search(PYTHON))
            keyless = await noted(lambda: BochaWebSearchAdapter("", server.url).search(PYTHON))
        assert ledger == (sent("query", len(server.requests[0].body)),)
        assert keyless == ()

    async def test_a_ping_holds_nothing_of_ours(self) -> None:
        """Whether an instance is there is asked without a query."""
        async with serving(reply(200, b"OK")) as server:
            assert await noted(SearXNGWebSearchAdapter(server.url).ping) == ()

    @pytest.mark.parametrize("handler", [reply(500), reply(429), reply(200, b"<html>"), hang_up])
    async def test_a_query_that_was_answered_badly_was_sent(self, handler: Handler) -> None:
        """What came back changes nothing about what left."""
        async with serving(handler) as server:
            ledger = await noted(lambda: SearXNGWebSearchAdapter(server.url).search(PYTHON))
        assert ledger == (sent("query", len(server.requests[0].body)),)

    async def test_a_query_that_was_never_answered_was_sent(self) -> None:
        """The deadline takes nothing back."""
        async with serving(silence) as server:
            ledger = await noted(lambda: SearXNGWebSearchAdapter(server.url, timeout=0.1).search(PYTHON))
        assert ledger == (sent("query", len(server.requests[0].body)),)

    async def test_a_search_that_was_cancelled_was_sent(self) -> None:
        """Who gives up waiting has sent the query all the same."""
        async with serving(silence) as server:
            with open_egress_log() as ledger:
                search = asyncio.create_task(SearXNGWebSearchAdapter(server.url).search(PYTHON))
                while not server.requests:
                    await asyncio.sleep(0.005)
                search.cancel()
                await asyncio.wait([search])
        assert ledger.sent() == (sent("query", len(server.requests[0].body)),)

    async def test_where_nobody_listens_nothing_was_sent(self) -> None:
        """Without a connection no byte of the query leaves."""
        async with nobody() as address:
            assert await noted(lambda: SearXNGWebSearchAdapter(address).search(PYTHON)) == ()

    async def test_each_try_counts(self) -> None:
        """A lost connection, then an answer: the query went out twice."""
        async with serving(in_turn(hang_up, FOUND)) as server:
            retried = RetriedWebSearch(SearXNGWebSearchAdapter(server.url), sleep=no_pause)
            ledger = await noted(lambda: retried.search(PYTHON))
        assert ledger == (sent("query", *(len(request.body) for request in server.requests)),)
        assert len(server.requests) == 2

    async def test_failover_tells_both_providers_the_query(self) -> None:
        """Who failed was asked too; who was not needed heard nothing."""
        async with serving(reply(500)) as first, serving(BOCHA) as second, serving(FOUND) as third:
            providers = (
                SearXNGWebSearchAdapter(first.url),
                BochaWebSearchAdapter("sk-0123456789", second.url.replace(HERE, "localhost")),
                SearXNGWebSearchAdapter(third.url),
            )
            ledger = await noted(lambda: FailoverWebSearch(providers).search(PYTHON))
        assert ledger == (
            sent("query", len(first.requests[0].body)),
            sent("query", len(second.requests[0].body), host="localhost"),
        )

    async def test_a_cached_answer_sends_nothing(self) -> None:
        """The second research with the same query finds it in the cache."""
        async with serving(FOUND) as server:
            cached = CachedWebSearch(SearXNGWebSearchAdapter(server.url), MemoryCache(10), 60)
            first = await noted(lambda: cached.search(PYTHON))
            second = await noted(lambda: cached.search(PYTHON))
        assert (len(first), second) == (1, ())

    async def test_searches_of_several_researches_do_not_mix(self) -> None:
        """Side by side over one adapter and one pool, each ledger has the bytes of its own query."""
        async with serving(FOUND) as server:
            service = WebSearchService(SearXNGWebSearchAdapter(server.url))
            requests = [WebSearchRequest(query="q" * length) for length in range(1, 21)]
            ledgers = await asyncio.gather(
                *(noted(lambda request=request: service.search_multi([request, request])) for request in requests)
            )
        sizes = {len(exchange.form["q"]): len(exchange.body) for exchange in server.requests}
        assert list(ledgers) == [(sent("query", sizes[n], sizes[n]),) for n in range(1, 21)]

    async def test_the_ledger_holds_no_secret(self) -> None:
        """Credentials, paths and words of the query stand nowhere in it."""
        async with serving(FOUND) as server:
            address = server.url.replace("http://", "http://user:secret-word@") + "/hidden/path"
            ledger = await noted(lambda: SearXNGWebSearchAdapter(address).search(PYTHON))
        assert server.requests[0].path == "/hidden/path/search"
        assert ledger[0].model_dump() == {"host": HERE, "kind": "query", "requests": 1, "bytes": ledger[0].bytes, "via": None}


class TestDdgs:
    async def ask(self, adapter: DdgsWebSearchAdapter) -> tuple[Sent, ...]:
        try:
            return await noted(lambda: adapter.search(PYTHON))
        finally:
            await adapter.aclose()

    async def test_the_engines_that_were_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The library asks in threads of its own: each request stands under the host it went to, with its values."""
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
            ledger = await self.ask(DdgsWebSearchAdapter(timeout=9))
        assert ledger == (sent("query", len("/search?lang=en" + PYTHON.query)),)
        assert len(server.requests) == 1

    async def test_a_library_that_cannot_be_watched_stands_there_itself(self) -> None:
        """Which hosts it asks is not known then; that it was told the query is."""

        class Library:
            def text(self, query: str, **_: Any) -> list[dict[str, str]]:
                return [{"title": "T", "href": "https://a.example/", "body": query}]

        ledger = await self.ask(DdgsWebSearchAdapter(engine=Library))
        assert ledger == (sent("query", len(PYTHON.query), host="ddgs"),)


class TestModels:
    @pytest.fixture
    def at(self) -> Iterator[Callable[..., OpenAIProvider]]:
        made: list[OpenAIProvider] = []

        def _at(url: str, **config: Any) -> OpenAIProvider:
            defaults = {"name": "n", "kind": "openai", "model": "m", "api_key": "sk-0123456789"}
            made.append(OpenAIProvider(LLMConnection(**{**defaults, "base_url": url, **config})))
            return made[-1]

        return _at

    @pytest.mark.parametrize("holds", ["query", "page text"])
    @pytest.mark.parametrize("streamed", [False, True])
    async def test_a_prompt_is_what_its_request_says(self, at: Any, holds: SentKind, streamed: bool) -> None:
        """A question alone or words of pages: all bytes of the body, whether it is streamed or not."""
        request = question("What is an event loop? é").model_copy(update={"holds": holds})
        async with ChatServer(spoken() if streamed else answer()).running() as server:
            provider = at(server.url)
            ask = (lambda: collect(provider, request)) if streamed else (lambda: provider.generate(request))
            ledger = await noted(ask)
            await provider.aclose()
        assert ledger == (sent(holds, int(server.asked[0].headers["content-length"])),)

    async def test_a_ping_holds_nothing_of_ours(self, at: Any) -> None:
        """The list of models is asked for without a word."""
        async with ChatServer(answer(b'{"data": []}')).running() as server:
            provider = at(server.url)
            assert await noted(provider.ping) == ()
            await provider.aclose()
        assert server.asked[0].method == "GET"

    async def test_each_try_counts(self, at: Any) -> None:
        """A service that was busy got the prompt as well."""
        async with ChatServer(error(503, {}), answer()).running() as server:
            provider = at(server.url)
            ledger = await noted(lambda: RetriedLLM(provider, sleep=no_pause).generate(question()))
            await provider.aclose()
        assert ledger[0].requests == len(server.asked) == 2

    async def test_failover_counts_for_both_and_not_for_who_is_not_there(self, at: Any) -> None:
        """The first cannot be reached, the second fails, the third answers: two have the prompt."""
        async with nobody() as gone, ChatServer(error(500, {})).running() as failing, ChatServer().running() as good:
            models = [at(f"{gone}/v1", name="gone"), at(failing.url, name="failing")]
            models.append(at(good.url.replace(HERE, "localhost"), name="good"))
            ledger = await noted(lambda: LLMRouter(LLMRegistry(models)).generate(question()))
            for provider in models:
                await provider.aclose()
        assert [(entry.host, entry.requests) for entry in ledger] == [(HERE, 1), ("localhost", 1)]

    async def test_kinds_do_not_mix_side_by_side(self, at: Any) -> None:
        """Prompts of several kinds and researches at once, over one provider: each stands where it belongs."""
        async with ChatServer().running() as server:
            provider = at(server.url)

            async def research(pages: int) -> tuple[Sent, ...]:
                asked = [question()] + [question().model_copy(update={"holds": "page text"})] * pages
                return await noted(lambda: asyncio.gather(*map(provider.generate, asked)))

            ledgers = await asyncio.gather(*map(research, range(1, 6)))
            await provider.aclose()
        counts = [{entry.kind: entry.requests for entry in ledger} for ledger in ledgers]
        assert counts == [{"query": 1, "page text": pages} for pages in range(1, 6)]


class TestReaders:
    async def test_jina_is_told_the_address(self) -> None:
        """Its host gets a URL; the page's own host hears nothing from us."""
        async with serving(JINA) as server:
            reader = JinaPageReader(base_url=server.url)
            ledger = await noted(lambda: reader.read("https://docs.example/a?b=c"))
        assert ledger == (sent("url", len("/https://docs.example/a?b=c")),)

    def direct(self, respond: Respond, ips: Sequence[str] = ("93.184.215.14",), **options: Any) -> DirectPageReader:
        guard = Guard(Names(ips), AllowedHosts())
        fetcher = SafeFetcher(guard, PinnedConnections(ServedConnections(respond)))
        robots = Robots(fetcher) if options.pop("robots", False) else None
        return DirectPageReader(fetcher, InProcess(), robots=robots, **options)

    async def test_the_direct_reader_tells_each_host_on_the_way(self) -> None:
        """A redirect leads to a second host, which is asked for its own address."""

        def respond(ip: str, port: int, host: str, target: str) -> Any:
            if host == "a.example.net":
                return 302, {"Location": "http://b.example.net/next"}, b""
            return 200, {"Content-Type": "text/html"}, html("<p>" + "Words of a page. " * 40 + "</p>")

        ledger = await noted(lambda: self.direct(respond).read("http://a.example.net/x"))
        assert ledger == (
            sent("url", len("http://a.example.net/x"), host="a.example.net"),
            sent("url", len("http://b.example.net/next"), host="b.example.net"),
        )

    async def test_robots_txt_is_a_request_as_well(self) -> None:
        """Where it is heeded, its host is asked twice."""

        def respond(ip: str, port: int, host: str, target: str) -> Any:
            if target == "/robots.txt":
                return 404, {}, b""
            return 200, {"Content-Type": "text/html"}, html("<p>" + "Words of a page. " * 40 + "</p>")

        ledger = await noted(lambda: self.direct(respond, robots=True).read("http://a.example.net/x"))
        assert [(entry.host, entry.requests) for entry in ledger] == [("a.example.net", 2)]

    async def test_what_the_guard_refuses_is_not_sent(self) -> None:
        """No connection is made to a private address, so nothing stands in the ledger."""
        ledger = await noted(
            lambda: self.direct(lambda *_: (200, {}, b""), ips=["10.0.0.1"]).read("http://a.example.net/")
        )
        assert ledger == ()

    async def test_an_address_that_does_not_answer_counts_once(self) -> None:
        """Two addresses, the first refuses the connection: one request was sent."""

        def respond(ip: str, port: int, host: str, target: str) -> Any:
            return 200, {"Content-Type": "text/html"}, html("<p>" + "Words of a page. " * 40 + "</p>")

        backend = ServedConnections(respond)
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
        ledger = await noted(lambda: DirectPageReader(fetcher, InProcess()).read("http://a.example.net/x"))
        assert ledger == (sent("url", len("http://a.example.net/x"), host="a.example.net"),)


class TestThroughAProxy:
    async def test_the_proxy_is_named_without_its_password(self) -> None:
        """Whoever searches through UPSTREAM_PROXY reads that it heard of the query too."""
        async with serving(FOUND) as proxy:
            address = proxy.url.replace("http://", "http://user:hidden@")
            async with make_client("http://search.invalid", proxy=address) as client:
                adapter = SearXNGWebSearchAdapter("http://search.invalid", client=client)
                (sent,) = await noted(lambda: adapter.search(PYTHON))
        assert (sent.host, sent.kind, sent.via) == ("search.invalid", "query", HERE)

    async def test_a_model_is_asked_through_it_too(self) -> None:
        """The text of the pages passes it."""
        body = {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}
        connection = LLMConnection(name="n", kind="openai", base_url="http://model.invalid/v1", model="m", api_key="k" * 12)
        async with serving(json_reply(body)) as proxy, make_client("http://model.invalid", proxy=proxy.url) as client:
            provider = OpenAIProvider(connection, client=client)
            (sent,) = await noted(lambda: provider.generate(question()))
        assert (sent.host, sent.via) == ("model.invalid", HERE)

    def test_of_ddgs_it_is_known_too(self) -> None:
        """The library is handed the proxy as it is."""
        assert DdgsSession(1, "http://user:hidden@proxy.example:3128").via == "proxy.example"
        assert DdgsSession(1).via is None
