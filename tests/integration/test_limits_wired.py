"""Limits as set in the settings: which calls are delayed, which limits the chains share, and which model serves each
stage of a report.
"""

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
    """Return LLM_PROVIDERS with these names, each with a model `<name>-model`."""
    return json.dumps(
        [
            {"name": name, "kind": "openai", "api_key": "k", "base_url": url, "model": f"{name}-model", **more}
            for name, more in models.items()
        ]
    )


class TestSearches:
    async def test_a_limit_that_is_set_holds_for_every_search(self) -> None:
        """A limit of two requests a minute counts reports and other searches together. Cached responses do not count."""
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
        """By default reports are limited to ten searches a minute, and other searches are not limited.

        An eleventh would wait a minute.
        """
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

    async def test_a_retry_after_of_a_report_applies_to_all_searches(self) -> None:
        """With a shared limit, a Retry-After that a report receives also blocks other searches."""
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

    async def test_an_override_of_the_port_is_used_in_reports_too(self) -> None:
        """An override of the port is used for reports as it is, including its policies."""
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
        """LLM_STAGES lets a cheap model rank and a strong one write, by the name of the provider or of its model.

        Other stages use the default order.
        """
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

    async def test_other_models_replace_a_failed_stage_model(self) -> None:
        """If a stage's model fails, the other models are tried in order."""
        async with ChatServer(error(500, {}), answer()).running() as server:
            providers = listed(server.url, main={}, cheap={}, strong={})
            wired = Container(settings=Settings(LLM_PROVIDERS=providers, LLM_STAGES={"rank": "strong"}, LLM_RPS=1000))
            told = await wired.models().build_stage_llms()["rank"].generate(question())
            await wired.resources().aclose()
        assert [request.body["model"] for request in server.asked] == ["strong-model", "main-model"]
        assert [entry.component for entry in told.degraded] == ["strong"]

    @for_each("wanted", ["gpt-9", "", "Cheap"])
    def test_a_model_that_is_not_configured_stops_the_start(self, wanted: str) -> None:
        """The error is one line with the setting, the fault and the configured models."""
        settings = Settings(LLM_PROVIDERS=listed(cheap={}, strong={}), LLM_STAGES={"rank": wanted})
        with pytest.raises(SettingsError) as caught:
            build_platform(settings)
        line = str(caught.value)
        assert line.startswith("LLM_STAGES")
        assert repr(wanted) in line
        assert "cheap, cheap-model, strong, strong-model" in line
        assert "\n" not in line

    def test_without_any_model(self) -> None:
        """Without any model, a stage cannot have one. The message says what to set."""
        with pytest.raises(SettingsError, match=r"LLM_STAGES.*LLM_API_KEY"):
            build_platform(Settings(LLM_STAGES={"write": "gpt-4o"}))

    def test_an_unknown_stage_stops_the_start(self) -> None:
        """The error appears when the settings are read, and lists the stages."""
        with pytest.raises(SettingsError, match=r"LLM_STAGES \(ranking\) must be 'plan', 'queries', 'rank'"):
            Settings.load(LLM_STAGES='{"ranking": "cheap"}')

    async def test_offline_a_remote_stage_model_is_no_error(self) -> None:
        """A remote model in LLM_STAGES is not an error in offline mode. The other models serve its stage."""
        providers = json.loads(listed(local={})) + json.loads(listed("https://api.example.org/v1", remote={}))
        settings = Settings(LLM_PROVIDERS=providers, LLM_STAGES={"write": "remote"}, LLM_PLATFORM_OFFLINE=True)
        async with build_platform(settings):
            wired = Container(settings=settings)
            assert set(wired.models().build_stage_llms()) == set(STAGES) - {"summarize"}
            await wired.resources().aclose()

    def test_without_a_model_there_are_no_stages(self, container: Callable[..., Container]) -> None:
        """Without a model the stages are an empty mapping."""
        assert container().models().build_stage_llms() == {}

    async def test_an_override_of_the_model_serves_every_stage(self) -> None:
        """An override of the model serves every stage, regardless of LLM_STAGES."""
        fake = FakeLLM()
        settings = Settings(LLM_STAGES={"write": "nobody-configured-me"})
        async with build_platform(settings, overrides={ILLMProvider: fake, IWebSearchProvider: FakeWebSearch()}):
            wired = Container(settings=Settings())
            wired.llm_provider.override(fake)
            wired.llm_adapters.override({fake.name: fake})
            assert wired.models().build_stage_llms() == dict.fromkeys(set(STAGES) - {"summarize"}, fake)


class TestModels:
    async def test_a_limit_that_is_set_holds_for_every_call(self) -> None:
        """With one call in a hundred seconds, the second call is refused for any caller, because the wait exceeds the
        limit.
        """
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
        """By default reports are limited to two calls a second, and other calls are not limited.

        Each model is limited separately.
        """
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
    async def test_the_price_is_the_highest_of_all_models_that_may_serve(
        self, container: Callable[..., Container]
    ) -> None:
        """A cost limit uses the highest price of all models, because any of them may be used after a failure."""
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
            ({}, True),  # no model is configured, so nothing is paid
            ({"LLM_API_KEY": "k", "LLM_MODEL": "m"}, False),
            ({"LLM_PROVIDERS": listed(a=PRICED)}, True),
            ({"KIMI_API_KEY": "k"}, True),  # a subscription
            ({"LLM_KIND": "ollama", "LLM_MODEL": "qwen3"}, True),
            ({"LLM_PROVIDERS": listed(a=PRICED, b={})}, False),
        ],
    )
    def test_one_unknown_price_makes_the_price_unknown(
        self, container: Callable[..., Container], settings: dict[str, Any], known: bool
    ) -> None:
        """A limit in dollars cannot be kept if one of the models has no price."""
        assert (container(**settings).models().build_price() is not None) is known

    @pytest.mark.parametrize(
        ("listed", "known"),
        [("[]", False), ('[{"name": "fake", "model": "fake-1", "price_in": 1, "price_out": 2}]', True)],
    )
    def test_the_price_of_an_override(self, listed: str, known: bool) -> None:
        """The price of an override is found by its name in LLM_PROVIDERS, and is otherwise unknown."""
        fake, wired = FakeLLM(), Container(settings=Settings(LLM_PROVIDERS=listed))
        wired.llm_provider.override(fake)
        wired.llm_adapters.override({fake.name: fake})
        assert (wired.models().build_price() is not None) is known
