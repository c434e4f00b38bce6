"""Rate limits of the HTTP interface: which caller a request counts for, which routes count, and the response headers."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client, platform_of

from modules.llm_platform.domain.concurrency.page_allowance import FETCHES_PER_REQUEST, LIMIT_REACHED, count_fetch
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.ports.rate_limiter import LimitState, RateLimit, RateLimits
from modules.llm_platform.infrastructure.limits.memory_rate_limiter import MemoryRateLimiter
from modules.llm_platform.presentation.rest.http.problems import QUOTA_EXCEEDED, RateLimitedError
from modules.llm_platform.presentation.rest.http.rate_limits import (
    MAX_SCHEDULED_S,
    UNKNOWN_ADDRESS,
    ClientAddresses,
    LocalPrograms,
    RetrySchedule,
    WrongKeyLimit,
    charge_background_pages,
)
from modules.llm_platform.presentation.rest.http.server_state import ServerState
from shared.config import Settings

HOUR_S = 3600
KEY, OTHER_KEY = "a-long-random-word", "another-random-word"
PROXY = "10.0.0.9"
CLIENT = RateLimit("client", 5, HOUR_S, burst=5)
SERVER = RateLimit("server", 2, HOUR_S, burst=2)
SEARCH = "/search?q=x"
URLS = [f"https://example.org/{number}" for number in range(FETCHES_PER_REQUEST)]


def limiter(client: RateLimit | None = CLIENT, server: RateLimit | None = None) -> MemoryRateLimiter:
    return MemoryRateLimiter(RateLimits(client, server))


async def statuses(client: httpx2.AsyncClient, count: int, **headers: str) -> list[int]:
    return [(await client.get(SEARCH, headers=headers)).status_code for _ in range(count)]


class TestLocalPrograms:
    """A program on the machine of a server that listens on loopback alone is not limited by default."""

    @for_each("peer", ["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1"])
    async def test_local_agent_is_not_limited(self, peer: str) -> None:
        """A local agent is limited neither individually nor by the global limit, and its responses have no rate limit
        headers.
        """
        async with app_client(rate_limiter=limiter(server=SERVER), limits_are_set=False, peer=peer) as client:
            answers = [await client.get(SEARCH) for _ in range(9)]
        assert {answer.status_code for answer in answers} == {200}
        assert not [name for name in answers[0].headers if name.startswith("ratelimit")]

    @for_each("peer, limited", [("127.0.0.1", False), ("192.0.2.7", True)])
    async def test_searxng_names_a_limiter_to_those_that_are_limited(self, peer: str, limited: bool) -> None:
        """A client slows down where `/config` says that there is one."""
        async with app_client(rate_limiter=limiter(), limits_are_set=False, peer=peer) as client:
            config = (await client.get("/searxng/config")).json()
        assert config["limiter"]["enabled"] is limited

    @for_each(
        "values",
        [
            {"RATE_LIMIT_PER_MINUTE": 30},
            {"RATE_LIMIT_BURST": 5},
            {"RATE_LIMIT_GLOBAL_PER_HOUR": 1000},
            {"TRUSTED_PROXIES": PROXY},
            {"ALLOWED_HOSTS": "localhost"},
            {"LLM_PLATFORM_HOST": "0.0.0.0"},
        ],
    )
    async def test_settings_hold_for_it_too(self, values: dict[str, Any]) -> None:
        """A limit that the operator set, also to its default, and a server for others than this machine."""
        async with app_client(rate_limiter=limiter(), limits_are_set=False, **values) as client:
            assert await statuses(client, 6) == [200] * 5 + [429]

    async def test_api_keys_are_limited(self) -> None:
        """Keys are given to clients, whose limits do not depend on where they run."""
        async with app_client(rate_limiter=limiter(), limits_are_set=False, LLM_PLATFORM_API_KEYS=KEY) as client:
            assert await statuses(client, 6, **{"X-API-Key": KEY}) == [200] * 5 + [429]

    @for_each(
        "headers",
        [
            {"X-Forwarded-For": "203.0.113.9"},
            {"Forwarded": "for=203.0.113.9"},
            {"X-Real-IP": "203.0.113.9"},
            {"Via": "1.1 proxy"},
            {"X-Forwarded-Host": "research.example.org"},
            {"X-Forwarded-Proto": "https"},
            {"CF-Connecting-IP": "203.0.113.9"},
            {"Host": "box"},
            {"Host": "192.0.2.7"},
        ],
    )
    async def test_request_through_a_proxy_is_limited(self, headers: dict[str, str]) -> None:
        """A local proxy has a loopback address, but its clients do not."""
        async with app_client(rate_limiter=limiter(), limits_are_set=False) as client:
            assert await statuses(client, 6, **headers) == [200] * 5 + [429]

    async def test_proxy_that_sends_no_headers_is_limited(self) -> None:
        """nginx speaks HTTP/1.0 to its servers unless it is configured otherwise, and names the address of the server."""
        local = LocalPrograms(Settings(_env_file=None))
        scope = {"client": ("127.0.0.1", 5), "headers": [(b"host", b"127.0.0.1:8000")], "http_version": "1.1"}
        assert local.have_sent(scope)
        assert not local.have_sent({**scope, "http_version": "1.0"})
        assert not local.have_sent({**scope, "client": None})  # a Unix socket
        assert not local.have_sent({**scope, "client": ("192.0.2.7", 5)})

    async def test_page_of_another_origin_is_limited(self) -> None:
        """A page of another origin runs on this machine, but is no program of the user.

        Without CORS_ORIGINS it is refused.
        """
        origin = {"Origin": "https://app.example.org"}
        async with app_client(rate_limiter=limiter(), limits_are_set=False, CORS_ORIGINS=origin["Origin"]) as client:
            assert await statuses(client, 6, **origin) == [200] * 5 + [429]
        async with app_client(rate_limiter=limiter(), limits_are_set=False) as client:
            assert await statuses(client, 1, **origin) == [403]

    def test_empty_variable_sets_no_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An empty variable counts as not set."""
        monkeypatch.setenv("RATE_LIMIT_BURST", "")
        scope = {"client": ("127.0.0.1", 5), "headers": [(b"host", b"localhost")], "http_version": "1.1"}
        assert LocalPrograms(Settings(_env_file=None)).have_sent(scope)
        monkeypatch.setenv("RATE_LIMIT_BURST", "5")
        assert not LocalPrograms(Settings(_env_file=None)).have_sent(scope)


class TestHeaders:
    async def test_allowed_response(self) -> None:
        """RateLimit-Policy contains the limits and RateLimit what is left, in the syntax of the IETF draft 11."""
        async with app_client(rate_limiter=limiter(server=SERVER)) as client:
            answer = await client.get(SEARCH)
        assert answer.headers["ratelimit-policy"] == (
            '"client";q=5;w=3600;llm-platform-burst=5, "server";q=2;w=3600;llm-platform-burst=2'
        )
        assert answer.headers["ratelimit"] == '"client";r=4;t=720'

    async def test_refusal(self) -> None:
        """429 with Retry-After as problem+json; the service is not called."""
        services = FakeServices()
        async with app_client(services, rate_limiter=limiter()) as client:
            assert await statuses(client, 5) == [200] * 5
            answer = await client.get(SEARCH, headers={"X-Request-ID": "mine"})
        assert answer.status_code == 429
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["ratelimit"] == f'"client";r=0;t={answer.headers["retry-after"]}'
        assert 0 < int(answer.headers["retry-after"]) <= HOUR_S / 5
        problem = answer.json()
        assert (problem["code"], problem["status"], problem["retryable"]) == ("rate_limited", 429, True)
        assert (problem["type"], problem["violated-policies"]) == (QUOTA_EXCEEDED, ["client"])
        assert problem["request_id"] == "mine"
        assert len(services.requests) == 5

    async def test_limit_of_the_server_is_shown_only_when_it_refuses(self) -> None:
        """What other clients use is not visible before it matters."""
        async with app_client(rate_limiter=limiter(None, SERVER)) as client:
            allowed = [await client.get(SEARCH) for _ in range(2)]
            refused = await client.get(SEARCH)
        assert all("ratelimit" not in answer.headers for answer in allowed)
        assert re.fullmatch(r'"server";r=0;t=\d+', refused.headers["ratelimit"])
        assert (refused.status_code, refused.json()["violated-policies"]) == (429, ["server"])

    async def test_no_limits_no_headers(self) -> None:
        """Without limits nothing is counted or said."""
        async with app_client() as client:
            answer = await client.get(SEARCH)
        assert not [name for name in answer.headers if name.startswith("ratelimit")]

    async def test_allowed_origin_may_read_the_headers(self) -> None:
        """A page of an allowed origin can read the limits."""
        async with app_client(rate_limiter=limiter(), CORS_ORIGINS="https://app.example.org") as client:
            answer = await client.get(SEARCH, headers={"Origin": "https://app.example.org"})
        assert {"RateLimit", "RateLimit-Policy"} <= set(answer.headers["access-control-expose-headers"].split(", "))


class TestCounting:
    async def test_200_parallel_requests(self) -> None:
        """Exactly the burst of 200 parallel requests is answered."""
        async with app_client(rate_limiter=limiter()) as client:
            answers = await asyncio.gather(*(client.get(SEARCH) for _ in range(200)))
        assert sorted(answer.status_code for answer in answers) == [200] * 5 + [429] * 195

    @for_each("path", ["/health", "/ready", "/metrics", "/", "/docs", "/docs/swagger-ui.css", "/openapi.json"])
    async def test_free_routes(self, path: str) -> None:
        """Probes, metrics and the pages are not counted, and a client at its limit still gets them."""
        async with app_client(rate_limiter=limiter(RateLimit("client", 1, HOUR_S, burst=1))) as client:
            for _ in range(3):
                assert (await client.get(path)).status_code != 429
            assert await statuses(client, 2) == [200, 429]
            assert (await client.get(path)).status_code != 429

    async def test_wrong_keys_are_counted_apart(self) -> None:
        """A request without a valid key counts neither for a key nor for the global limit."""
        few = RateLimit("server", 6, HOUR_S, burst=6)
        async with app_client(rate_limiter=limiter(server=few), LLM_PLATFORM_API_KEYS=KEY) as client:
            assert await statuses(client, 1, **{"X-API-Key": KEY}) == [200]
            assert await statuses(client, 10, **{"X-API-Key": "wrong"}) == [401] * 5 + [429] * 5
            assert await statuses(client, 5, **{"X-API-Key": KEY}) == [200] * 4 + [429]

    async def test_keys_cannot_be_guessed_at_full_speed(self) -> None:
        """Above the limit even a right guess is refused.

        A key that the address has used before and other addresses are not affected.
        """
        keys = f"{KEY},{OTHER_KEY}"
        settings = {"LLM_PLATFORM_API_KEYS": keys, "TRUSTED_PROXIES": "10.0.0.0/8"}
        async with app_client(rate_limiter=limiter(), peer=PROXY, **settings) as client:
            one, other = {"X-Forwarded-For": "203.0.113.1"}, {"X-Forwarded-For": "203.0.113.2"}
            assert await statuses(client, 1, **{"X-API-Key": KEY}, **one) == [200]
            assert await statuses(client, 6, **{"X-API-Key": "wrong"}, **one) == [401] * 5 + [429]
            refused = await client.get(SEARCH, headers={"X-API-Key": OTHER_KEY, **one})
            assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
            assert await statuses(client, 1, **{"X-API-Key": KEY}, **one) == [200]
            assert await statuses(client, 1, **{"X-API-Key": OTHER_KEY}, **other) == [200]

    async def test_refused_address_may_use_a_new_key_later(self) -> None:
        """After the time of Retry-After."""
        now = [0.0]
        wrong_keys = WrongKeyLimit(lambda: now[0])
        error = wrong_keys.refuse("203.0.113.1", LimitState(CLIENT, True, 0, 720.0))
        assert error.retry_after_s == 720.0
        with pytest.raises(RateLimitedError):
            wrong_keys.check("203.0.113.1", KEY)
        now[0] = 721.0
        wrong_keys.check("203.0.113.1", KEY)

    async def test_texts_behind_quotes_are_not_counted(self) -> None:
        """A page that shows an answer gets all of them at once, and has the whole limit for questions."""
        async with app_client(rate_limiter=limiter()) as client:
            for number in range(1, 20):
                assert (await client.get(f"/research/any/sources/{number}")).status_code != 429
            assert await statuses(client, 6) == [200] * 5 + [429]

    async def test_each_key_has_its_own_limit(self) -> None:
        """Clients with one address are counted by their keys, however the key is sent."""
        async with app_client(rate_limiter=limiter(), LLM_PLATFORM_API_KEYS=f"{KEY},{OTHER_KEY}") as client:
            assert await statuses(client, 4, **{"X-API-Key": KEY}) == [200] * 4
            assert await statuses(client, 2, Authorization=f"Bearer {KEY}") == [200, 429]
            assert await statuses(client, 1, **{"X-API-Key": OTHER_KEY}) == [200]

    async def test_keys_with_one_label_are_one_client(self) -> None:
        """A new key of a client does not double its limit during a rotation."""
        async with app_client(rate_limiter=limiter(), LLM_PLATFORM_API_KEYS=f"team:{KEY},team:{OTHER_KEY}") as client:
            assert await statuses(client, 3, **{"X-API-Key": KEY}) == [200] * 3
            assert await statuses(client, 3, **{"X-API-Key": OTHER_KEY}) == [200, 200, 429]

    async def test_forwarded_address_is_ignored_by_default(self) -> None:
        """A client cannot choose the address that it is counted as."""
        async with app_client(rate_limiter=limiter()) as client:
            found = [(await statuses(client, 1, **{"X-Forwarded-For": f"203.0.113.{n}"}))[0] for n in range(6)]
        assert found == [200] * 5 + [429]

    async def test_clients_behind_a_trusted_proxy(self) -> None:
        """Behind a trusted proxy each forwarded address is a client; repeated headers are one list."""
        async with app_client(rate_limiter=limiter(), peer=PROXY, TRUSTED_PROXIES="10.0.0.0/8") as client:
            assert await statuses(client, 6, **{"X-Forwarded-For": "203.0.113.1"}) == [200] * 5 + [429]
            assert await statuses(client, 1, **{"X-Forwarded-For": "203.0.113.2"}) == [200]
            spoofed = [("X-Forwarded-For", "198.51.100.7"), ("X-Forwarded-For", "203.0.113.1")]
            assert (await client.get(SEARCH, headers=spoofed)).status_code == 429


READS = RateLimit("reads", 9, HOUR_S, burst=9)
ASK = {"query": "What is asyncio?"}


class TestReads:
    """Searches and reads of an API key have a separate limit that suits an agent."""

    @for_each(
        ("method", "path", "body"),
        [
            ("GET", "/search?q=x", None),
            ("POST", "/search", {"q": "x"}),
            ("POST", "/llm-platform/web-search", {"query": "x"}),
            ("POST", "/tavily/search", {"query": "x"}),
            ("POST", "/tavily/extract", {"urls": "https://a.example/"}),
            ("POST", "/perplexity/search", {"query": "x"}),
            ("POST", "/open-webui/search", {"query": "x"}),
            ("GET", "/searxng/search?q=x", None),
            ("GET", "/research/unknown", None),
            ("GET", "/v1/responses/resp_unknown", None),
        ],
    )
    async def test_reads_of_a_key_have_a_separate_limit(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> None:
        """Reads are allowed even if the global limit is reached, and research runs are counted separately."""
        limits = MemoryRateLimiter(RateLimits(CLIENT, SERVER, READS))
        async with app_client(rate_limiter=limits, LLM_PLATFORM_API_KEYS=KEY) as client:
            client.headers["X-API-Key"] = KEY
            found = [(await client.request(method, path, json=body)).status_code for _ in range(10)]
            refused = await client.request(method, path, json=body)
            runs = [(await client.post("/research", json=ASK)).status_code for _ in range(3)]
        assert 429 not in found[:9]
        assert found[9] == 429
        assert refused.headers["ratelimit"].startswith('"reads";r=0;t=')
        assert "searches and reads of this API key" in refused.text
        assert runs == [200, 200, 429]

    @for_each(
        ("path", "body"),
        [
            ("/research", ASK),
            ("/tavily/search", {"query": "What is asyncio?", "include_answer": True}),
            ("/v1/chat/completions", {"model": "research-deep", "messages": [{"role": "user", "content": "Why tea?"}]}),
            ("/v1/chat/completions", {"model": "fake/fake-1", "messages": [{"role": "user", "content": "Hello"}]}),
        ],
    )
    async def test_runs_and_models_keep_the_limit_of_a_client(self, path: str, body: dict[str, Any]) -> None:
        """Whatever the address looks like: a search with an answer is a research run."""
        limits = MemoryRateLimiter(RateLimits(CLIENT, None, RateLimit("reads", 99, HOUR_S, burst=99)))
        async with app_client(rate_limiter=limits, LLM_PLATFORM_API_KEYS=KEY) as client:
            found = [(await client.post(path, json=body, headers={"X-API-Key": KEY})).status_code for _ in range(6)]
        assert found == [200] * 5 + [429]

    async def test_callers_without_a_key_have_one_limit(self) -> None:
        """Their searches and their runs count together, and a search with an answer once."""
        limits = MemoryRateLimiter(RateLimits(CLIENT, None, READS))
        answered = {"query": "What is asyncio?", "include_answer": True}
        async with app_client(rate_limiter=limits) as client:
            assert await statuses(client, 3) == [200] * 3
            found = [(await client.post("/tavily/search", json=answered)).status_code for _ in range(3)]
        assert found == [200, 200, 429]

    async def test_lists_of_models_are_free(self) -> None:
        """Clients ask for them before each call; they still need the key."""
        paths = ("/v1/models", "/v1/models/research-deep", "/anthropic/v1/models", "/perplexity/v1/models")
        limits = MemoryRateLimiter(
            RateLimits(RateLimit("client", 1, HOUR_S, 1), None, RateLimit("reads", 1, HOUR_S, 1))
        )
        async with app_client(rate_limiter=limits, LLM_PLATFORM_API_KEYS=KEY) as client:
            for path in paths * 3:
                assert (await client.get(path, headers={"X-API-Key": KEY})).status_code == 200
            assert {(await client.get(path)).status_code for path in paths} <= {401, 429}


class TestRetrySchedule:
    """Refused requests of a client get different retry times."""

    def test_each_refused_request_has_a_different_retry_time(self) -> None:
        """The times are one interval of the limit apart, so that one retry of a burst succeeds at a time.

        Other clients have their own times.
        """
        limit = RateLimit("client", 30, 60, burst=5)
        schedule = RetrySchedule(lambda: 100.0)
        assert [schedule.wait_s("a", LimitState(limit, True, 0, 1.5)) for _ in range(4)] == [1.5, 3.5, 5.5, 7.5]
        assert schedule.wait_s("b", LimitState(limit, True, 0, 1.5)) == 1.5

    async def test_a_burst_succeeds_with_one_retry_of_each(self) -> None:
        """Twenty requests at once by the limiter itself: each refused one is allowed at the time that it was given."""
        limit = RateLimit("client", 1200, 60, burst=5)
        limits, schedule = MemoryRateLimiter(RateLimits(limit)), RetrySchedule()

        async def ask() -> int:
            for tries in range(1, 4):
                exceeded = (await limits.take("a")).exceeded
                if exceeded is None:
                    return tries
                await asyncio.sleep(schedule.wait_s("a", exceeded) + 0.01)
            return 0

        tries = await asyncio.gather(*(ask() for _ in range(20)))
        assert 0 not in tries
        assert sum(number == 1 for number in tries) >= 5

    def test_no_wait_is_longer_than_an_sdk_waits(self) -> None:
        """Repeated requests do not lengthen the wait. A limit of one request in several minutes gives the exact time."""
        schedule = RetrySchedule(lambda: 100.0)
        many = [schedule.wait_s("a", LimitState(RateLimit("client", 30, 60, 5), True, 0, 2.0)) for _ in range(1000)]
        assert max(many) == MAX_SCHEDULED_S
        assert schedule.wait_s("b", LimitState(RateLimit("client", 1, HOUR_S, 1), True, 0, 1800.0)) == 1800.0

    def test_memory_is_bounded(self) -> None:
        """The client that was refused longest ago is forgotten first."""
        schedule = RetrySchedule(lambda: 100.0)
        for number in range(20_000):
            schedule.wait_s(str(number), LimitState(CLIENT, True, 0, 1.0))
        assert len(schedule._last) <= 10_000


class TestAddresses:
    @for_each(
        ("peer", "forwarded", "expected"),
        [
            ("203.0.113.1", "", "203.0.113.1"),
            ("203.0.113.1", "198.51.100.7", "203.0.113.1"),  # not a trusted proxy
            (PROXY, "203.0.113.1", "203.0.113.1"),
            (PROXY, "198.51.100.7, 203.0.113.1", "203.0.113.1"),  # the left one is the client's claim
            (PROXY, "203.0.113.1, 10.0.0.7", "203.0.113.1"),  # two proxies
            (PROXY, "10.0.0.3, 10.0.0.7", "10.0.0.3"),  # all trusted
            (PROXY, "203.0.113.1, nonsense", PROXY),
            (PROXY, "", PROXY),
            (PROXY, ",", PROXY),
            (PROXY, "203.0.113.1:5050", "203.0.113.1"),
            (PROXY, "[2001:db8::1]:443", "20010db800000000/64"),
            (PROXY, "::ffff:203.0.113.1", "203.0.113.1"),
            ("::ffff:10.0.0.9", "203.0.113.1", "203.0.113.1"),
            ("2001:db8:1:2::5", "", "20010db800010002/64"),
            ("2001:db8:1:2:ffff::5", "", "20010db800010002/64"),
            ("fe80::1%eth0", "", "fe80000000000000/64"),
            ("::1", "", "0/64"),
            ("", "203.0.113.1", UNKNOWN_ADDRESS),
            ("/run/app.sock", "", UNKNOWN_ADDRESS),
        ],
    )
    def test_counted_address(self, peer: str, forwarded: str, expected: str) -> None:
        """The first address from the right that is no trusted proxy; IPv6 by /64, IPv4-mapped as IPv4."""
        assert ClientAddresses(["10.0.0.0/8"]).identify(peer, forwarded.encode()) == expected

    @given(claims=st.lists(st.text(st.characters(codec="latin-1"), max_size=20), max_size=50))
    def test_claims_change_nothing(self, claims: list[str]) -> None:
        """Whatever a client sends, the address that the proxy appended decides."""
        forwarded = ",".join([*claims, " 203.0.113.1"]).encode("latin-1")
        assert ClientAddresses(["10.0.0.0/8"]).identify(PROXY, forwarded) == "203.0.113.1"


class CountedReads(FakeServices):
    """Each page takes `fetches` requests to other servers."""

    fetches = 6

    async def read(self, url: str) -> Page:
        for _ in range(self.fetches):
            await count_fetch(url)
        return await super().read(url)


class TestPagesOfARequest:
    """A request that reads many pages counts as several: each FETCHES_PER_REQUEST requests to other servers count as one."""

    @for_each("fetches, remaining", [(1, 4), (2, 3), (4, 1)])
    async def test_pages_beyond_the_first_are_charged(self, fetches: int, remaining: int) -> None:
        """The pages of an ordinary request are paid with it; redirects of the pages are not."""
        services = CountedReads()
        services.fetches = fetches
        async with app_client(
            services, rate_limiter=limiter(server=RateLimit("server", 99, HOUR_S, burst=99))
        ) as client:
            answer = await client.post("/tavily/extract", json={"urls": URLS})
            assert len(answer.json()["results"]) == FETCHES_PER_REQUEST
            headers = (await client.get(SEARCH)).headers
        assert f'"client";r={remaining - 1};' in headers["ratelimit"]

    async def test_pages_that_the_limit_refuses_say_so(self) -> None:
        """The pages before them are read, and the caller learns why the others are not."""
        async with app_client(CountedReads(), rate_limiter=limiter()) as client:
            answer = await client.post("/tavily/extract", json={"urls": URLS})
            assert (await client.get(SEARCH)).status_code == 429
        found = answer.json()
        assert answer.status_code == 200
        assert 0 < len(found["results"]) < FETCHES_PER_REQUEST
        assert len(found["results"]) + len(found["failed_results"]) == FETCHES_PER_REQUEST
        assert {failed["error"] for failed in found["failed_results"]} == {LIMIT_REACHED}

    async def test_own_programs_are_not_charged(self) -> None:
        """As their requests are not counted."""
        async with app_client(CountedReads(), rate_limiter=limiter(), limits_are_set=False) as client:
            answer = await client.post("/tavily/extract", json={"urls": URLS})
        assert len(answer.json()["results"]) == FETCHES_PER_REQUEST

    async def test_reads_of_a_key_are_charged_to_its_reads(self) -> None:
        """What a key extracts takes nothing of its research runs."""
        limits = RateLimits(CLIENT, None, RateLimit("reads", 9, HOUR_S, burst=9))
        async with app_client(
            CountedReads(), rate_limiter=MemoryRateLimiter(limits), LLM_PLATFORM_API_KEYS=KEY
        ) as client:
            client.headers["X-API-Key"] = KEY
            answer = await client.post("/tavily/extract", json={"urls": URLS})
            assert len(answer.json()["results"]) == FETCHES_PER_REQUEST
            assert '"reads";r=2;' in (await client.get(SEARCH)).headers["ratelimit"]

    async def test_background_pages_are_charged_to_their_key(self) -> None:
        """Runs of callers without a key share a limit, since no address is stored. Without limits nothing is charged."""
        counting = limiter()
        server = ServerState(platform_of(FakeServices(), rate_limiter=counting))
        own, other = charge_background_pages(server, "key-id"), charge_background_pages(server, "")
        assert [await own() for _ in range(CLIENT.burst)] == [0.0] * CLIENT.burst
        assert await own() > 0
        assert await other() == 0
        assert await charge_background_pages(ServerState(platform_of(FakeServices())), "")() == 0
