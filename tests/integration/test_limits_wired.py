"""Limits as the settings set them: who is slowed down, what all chains share, and who serves which stage of a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes.llm_contract import question
from tests.support.cases import for_each
from tests.support.chat_server import ChatServer, answer, error
from tests.support.loopback_upstream import Handler, in_turn, json_reply, serving

from modules.llm_platform import (
    ILLMProvider,
    IWebSearchProvider,
    LLMBlockedError,
    WebSearchBlockedError,
    WebSearchRequest,
)
from modules.llm_platform.container import Container, build_platform
from modules.llm_platform.infrastructure.limits.upstream_guard import MODEL
from modules.llm_platform.testing import FakeLLM, FakeWebSearch
from shared.config import Settings, SettingsError

STAGES = ("plan", "queries", "rank", "summarize", "write", "judge", "output")
PRICED = {"price_in": 1.0, "price_out": 2.0}


def found(title: str = "a") -> Handler:
    row = {"title": title, "url": f"https://docs.test/{title}", "content": "What it says.", "engine": "google"}
    return json_reply({"results": [row], "unresponsive_engines": []})


def search(number: int) -> WebSearchRequest:
    return WebSearchRequest(query=f"question number {number}")


def listed(url: str = "http://127.0.0.1:1/v1", **models: dict[str, Any]) -> str:
    """LLM_PROVIDERS: providers by name, each with a model `<name>-model`."""
    return json.dumps(
        [
            {"name": name, "kind": "openai", "api_key": "k", "base_url": url, "model": f"{name}-model", **more}
            for name, more in models.items()
        ]
    )


class TestSearches:
    async def test_a_limit_that_is_set_holds_for_every_search(self) -> None:
        """Two a minute are two a minute, whether for a report or for anybody else; what is cached takes no turn."""
        async with serving(found()) as upstream:
            container = Container(settings=Settings(SEARXNG_URL=upstream.url, SEARXNG_RPM=2))
            ordinary, reports = container.web_search_provider(), container.report_search_provider()
            await ordinary.search(search(1))
            await reports.search(search(2))
            with pytest.raises(WebSearchBlockedError, match="SEARXNG_RPM"):
                await ordinary.search(search(3))
            assert (await ordinary.search(search(2))).cached
            assert (await reports.search(search(1))).cached
            await container.resources().aclose()
        assert len(upstream.requests) == 2

    async def test_without_one_only_reports_are_slowed_down(self) -> None:
        """Ten a minute for them (the eleventh would wait a minute, which nobody here does), any number for the others."""
        async with serving(found()) as upstream:
            container = Container(settings=Settings(SEARXNG_URL=upstream.url))
            ordinary, reports = container.web_search_provider(), container.report_search_provider()
            for number in range(15):
                await ordinary.search(search(number))
            for number in range(100, 110):
                await reports.search(search(number))
            pace = container.search_policies().limiters["searxng"]
            assert 50 < pace.earliest_wait_s() <= 60
            await container.resources().aclose()
        assert len(upstream.requests) == 25

    async def test_a_retry_after_that_a_report_was_told_holds_for_all(self) -> None:
        """Where the pace is everybody's, so is the closing; the next provider serves meanwhile."""
        blocked = json_reply({}, "Retry-After: 120", status=429)
        async with serving(in_turn(blocked, found())) as upstream:
            settings = Settings(SEARXNG_URL=upstream.url, SEARXNG_RPM=1000)
            container = Container(settings=settings)
            with pytest.raises(WebSearchBlockedError):
                await container.report_search_provider().search(search(1))
            with pytest.raises(WebSearchBlockedError, match="120 s"):
                await container.web_search_provider().search(search(2))
            await container.resources().aclose()
        assert len(upstream.requests) == 1

    async def test_what_stands_in_for_the_port_stands_in_for_reports_too(self) -> None:
        """Policies included: the object itself is asked."""
        fake = FakeWebSearch()
        container = Container(settings=Settings())
        container.web_search_provider.override(fake)
        container.search_adapters.override({fake.name: fake})
        assert container.report_search_provider() is fake


@pytest.fixture
def container() -> Callable[..., Container]:
    return lambda **settings: Container(settings=Settings(**settings))


class TestStages:
    async def test_each_stage_asks_its_model_first(self) -> None:
        """A cheap one ranks, a strong one writes, by the name of the provider or of its model; the others ask as ever."""
        async with ChatServer(answer()).running() as server:
            providers = listed(server.url, main={}, cheap={}, strong={})
            stages = {"rank": "cheap", "write": "strong-model"}
            settings = Settings(LLM_PROVIDERS=providers, LLM_STAGES=stages, LLM_RPS=1000, REPORT_PAGES=9)
            wired = Container(settings=settings)
            for stage in STAGES:
                await wired.models().build_stage_llms()[stage].generate(question())
            await wired.resources().aclose()
        asked = dict(zip(STAGES, (request.body["model"] for request in server.asked), strict=True))
        assert asked == {
            "plan": "main-model",
            "queries": "main-model",
            "rank": "cheap-model",
            "summarize": "main-model",
            "write": "strong-model",
            "judge": "main-model",
            "output": "main-model",
        }

    async def test_the_others_step_in(self) -> None:
        """A stage's model that fails is followed by the rest in their order."""
        async with ChatServer(error(500, {}), answer()).running() as server:
            providers = listed(server.url, main={}, cheap={}, strong={})
            wired = Container(settings=Settings(LLM_PROVIDERS=providers, LLM_STAGES={"rank": "strong"}, LLM_RPS=1000))
            told = await wired.models().build_stage_llms()["rank"].generate(question())
            await wired.resources().aclose()
        assert [request.body["model"] for request in server.asked] == ["strong-model", "main-model"]
        assert [entry.component for entry in told.degraded] == ["strong"]

    @for_each("wanted", ["gpt-9", "", "Cheap"])
    def test_a_model_that_is_not_configured_stops_the_start(self, wanted: str) -> None:
        """With one line that names the setting, what is wrong and what there is."""
        settings = Settings(LLM_PROVIDERS=listed(cheap={}, strong={}), LLM_STAGES={"rank": wanted})
        with pytest.raises(SettingsError) as caught:
            build_platform(settings)
        line = str(caught.value)
        assert line.startswith("LLM_STAGES")
        assert repr(wanted) in line
        assert "cheap, cheap-model, strong, strong-model" in line
        assert "\n" not in line

    def test_without_any_model(self) -> None:
        """A stage cannot have one: the line says what to set."""
        with pytest.raises(SettingsError, match=r"LLM_STAGES.*LLM_API_KEY"):
            build_platform(Settings(LLM_STAGES={"write": "gpt-4o"}))

    def test_an_unknown_stage_stops_the_start(self) -> None:
        """When the settings are read: the line names the stages that there are."""
        with pytest.raises(SettingsError, match=r"LLM_STAGES \(ranking\) must be 'plan', 'queries', 'rank'"):
            Settings.load(LLM_STAGES='{"ranking": "cheap"}')

    async def test_offline_a_model_elsewhere_is_no_mistake(self) -> None:
        """It is configured: it only cannot be asked now, and the others serve its stage."""
        providers = json.loads(listed(local={})) + json.loads(listed("https://api.example.org/v1", remote={}))
        settings = Settings(LLM_PROVIDERS=providers, LLM_STAGES={"write": "remote"}, LLM_PLATFORM_OFFLINE=True)
        async with build_platform(settings):
            wired = Container(settings=settings)
            assert set(wired.models().build_stage_llms()) == set(STAGES) - {"summarize"}
            await wired.resources().aclose()

    def test_without_a_model_there_are_no_stages(self, container: Callable[..., Container]) -> None:
        """Nobody to ask: empty, not five times nobody."""
        assert container().models().build_stage_llms() == {}

    async def test_what_stands_in_for_the_model_serves_every_stage(self) -> None:
        """Itself, whatever LLM_STAGES wants."""
        fake = FakeLLM()
        settings = Settings(LLM_STAGES={"write": "nobody-configured-me"})
        async with build_platform(settings, overrides={ILLMProvider: fake, IWebSearchProvider: FakeWebSearch()}):
            wired = Container(settings=Settings())
            wired.llm_provider.override(fake)
            wired.llm_adapters.override({fake.name: fake})
            assert wired.models().build_stage_llms() == dict.fromkeys(set(STAGES) - {"summarize"}, fake)


class TestModels:
    async def test_a_limit_that_is_set_holds_for_every_call(self) -> None:
        """One in any hundred seconds: the second is sent away by whoever asks, since nobody waits so long."""
        async with ChatServer(answer()).running() as server:
            providers = listed(server.url, only={})
            wired = Container(settings=Settings(LLM_PROVIDERS=providers, LLM_RPS=0.01))
            ordinary = wired.llm_provider()
            assert ordinary is not None
            await wired.models().build_stage_llms()["plan"].generate(question())
            with pytest.raises(LLMBlockedError, match="LLM_RPS") as caught:
                await ordinary.generate(question())
            await wired.resources().aclose()
        assert caught.value.retry_after_s is not None
        assert caught.value.retry_after_s > MODEL.max_wait_s
        assert len(server.asked) == 1

    async def test_without_one_only_reports_are_slowed_down(self) -> None:
        """Two a second for them, any number for the others; each model has a pace of its own."""
        async with ChatServer(answer()).running() as server:
            wired = Container(settings=Settings(LLM_PROVIDERS=listed(server.url, only={}, other={})))
            ordinary = wired.llm_provider()
            assert ordinary is not None
            for _ in range(6):
                await ordinary.generate(question())
            report = wired.models().build_stage_llms()["rank"]
            await report.generate(question())
            await report.generate(question())
            pace, others = (wired.llm_policies().limiters[name] for name in ("only", "other"))
            assert 0 < pace.earliest_wait_s() <= 1
            assert others.earliest_wait_s() <= 0
            await wired.resources().aclose()
        assert len(server.asked) == 8


class TestPrices:
    async def test_the_dearest_of_those_that_may_serve(self, container: Callable[..., Container]) -> None:
        """Each may be asked when another fails: the limit must hold for it too."""
        dear_to_ask, dear_to_write = {"price_in": 10.0, "price_out": 1.0}, {"price_in": 1.0, "price_out": 50.0}
        wired = container(LLM_PROVIDERS=listed(asking=dear_to_ask, writing=dear_to_write))
        price = wired.models().build_price()
        assert price is not None
        assert price(1_000_000, 0) == 10.0
        assert price(0, 1_000_000) == 50.0
        assert price(1_000_000, 1_000_000) == 51.0

    @pytest.mark.parametrize(
        ("settings", "known"),
        [
            ({}, True),  # nobody is asked: nothing is paid
            ({"LLM_API_KEY": "k", "LLM_MODEL": "m"}, False),
            ({"LLM_PROVIDERS": listed(a=PRICED)}, True),
            ({"KIMI_API_KEY": "k"}, True),  # a subscription
            ({"LLM_KIND": "ollama", "LLM_MODEL": "qwen3"}, True),
            ({"LLM_PROVIDERS": listed(a=PRICED, b={})}, False),
        ],
    )
    def test_one_unknown_price_makes_it_unknown(
        self, container: Callable[..., Container], settings: dict[str, Any], known: bool
    ) -> None:
        """A limit in dollars cannot be kept where one of those who may serve has no price."""
        assert (container(**settings).models().build_price() is not None) is known

    @pytest.mark.parametrize(
        ("listed", "known"),
        [("[]", False), ('[{"name": "fake", "model": "fake-1", "price_in": 1, "price_out": 2}]', True)],
    )
    def test_the_price_of_a_stand_in(self, listed: str, known: bool) -> None:
        """By its name in LLM_PROVIDERS; otherwise it is unknown."""
        fake, wired = FakeLLM(), Container(settings=Settings(LLM_PROVIDERS=listed))
        wired.llm_provider.override(fake)
        wired.llm_adapters.override({fake.name: fake})
        assert (wired.models().build_price() is not None) is known
