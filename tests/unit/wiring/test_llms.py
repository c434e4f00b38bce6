"""Language models from settings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.fakes.llm_contract import question
from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.cases import for_each
from tests.support.loopback_upstream import Exchange, json_reply, serving

from modules.llm_platform.container import Container, build_platform
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import LLMConfigError, LLMConnectionError
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.infrastructure.limits.upstream_states import make_upstream_states
from modules.llm_platform.infrastructure.models.from_settings import chat_models as llms
from modules.llm_platform.infrastructure.models.kinds import find_configuration_error
from modules.llm_platform.infrastructure.models.openai.chat import OpenAIProvider
from modules.llm_platform.testing import FakeLLM
from modules.llm_platform.testing.waiting import CLOSE_TIMEOUT_S, becomes_true
from modules.llm_platform.wiring import writers
from shared.config import Settings

LOCAL = "http://127.0.0.1:9/v1"
_PROVIDERS = {
    "cloud": {"kind": "openai", "model": "m", "api_key": "k" * 20},
    "local": {"kind": "ollama", "model": "m"},
}
QUESTION = LLMRequest(messages=(ChatMessage(role="user", content="Hi"),))


def _settings(**values: Any) -> Settings:
    return Settings(_env_file=None, **values)


def _models(settings: Settings, adapters: llms.LLMAdapters) -> llms.LanguageModels:
    policies = llms.build_model_policies(settings, adapters, make_upstream_states(adapters), {})
    llm = llms.build_llm_provider(settings, adapters, policies)
    return llms.LanguageModels(settings, adapters, policies, llm)


def test_an_address_and_a_model_need_no_key() -> None:
    """llama.cpp, LM Studio and vLLM have none."""
    (model,) = llms.list_connections(_settings(LLM_BASE_URL=LOCAL, LLM_MODEL="local"))
    assert find_configuration_error(model) is None
    assert (model.is_local, model.cost_usd(5, 5), model.max_tokens_field) == (True, 0.0, "max_tokens")


@pytest.mark.parametrize(
    ("values", "missing"), [({"LLM_BASE_URL": LOCAL}, "LLM_MODEL"), ({"LLM_MODEL": "local"}, "LLM_BASE_URL")]
)
def test_one_without_the_other_is_an_error(values: dict[str, str], missing: str) -> None:
    """It names what to set, instead of quotes without a word."""
    (model,) = llms.list_connections(_settings(**values))
    assert missing in (find_configuration_error(model) or "")


def test_missing_settings_read_as_a_sentence() -> None:
    """Also where one setting can stand for another one."""
    (model,) = llms.list_connections(_settings(LLM_MODEL="m", LLM_KIND="openai"))
    assert find_configuration_error(model) == (
        "openai needs a key (or the address of a service that takes none): set LLM_API_KEY (or LLM_BASE_URL)"
    )


def test_a_local_model_has_more_time() -> None:
    """Until its first token, to understand a follow-up question, for the research and for `ask`; a value that is set wins."""
    local, cloud = {"LLM_KIND": "ollama", "LLM_MODEL": "m"}, {"LLM_API_KEY": "k" * 20, "LLM_MODEL": "m"}
    for values, first_token_s, follow_up_s, research_s in [
        (local, 600.0, 600.0, 600.0),
        (cloud, 60.0, 20.0, 120.0),
        ({**local, "LLM_TIMEOUT_S": 7, "RESEARCH_TIMEOUT_S": 8}, 7.0, 7.0, 8.0),
    ]:
        settings = _settings(**values)
        assert llms.list_connections(settings)[0].timeout == first_token_s
        assert Container(settings=settings).research_pipelines().follow_ups._timeout_s == follow_up_s
        assert llms.compute_research_timeout_s(settings) == research_s


async def test_a_local_model_reads_fewer_tokens_of_sources() -> None:
    """A CPU reads 20 to 100 tokens a second; sources_tokens in LLM_PROVIDERS wins."""
    local, cloud = {"LLM_KIND": "ollama", "LLM_MODEL": "m"}, {"LLM_API_KEY": "k" * 20, "LLM_MODEL": "m"}
    sources = [Source(index=1, title="", url="https://example.org/", text="Pumps move much water every day. " * 2000)]
    for values, least, most in [
        (local, 500, 800),
        (cloud, 1900, 2600),
        ({"LLM_PROVIDERS": [{"name": "a", "kind": "ollama", "model": "m", "sources_tokens": 3000}]}, 1400, 2000),
        ({"LLM_PROVIDERS": [{"name": name, **fields} for name, fields in _PROVIDERS.items()]}, 500, 800),
    ]:
        llm = FakeLLM(["Pumps move water [1]."])
        settings = _settings(**values)
        names = [connection.name for connection in llms.list_connections(settings)]
        models = _models(settings, {name: FakeLLM(name=name) for name in names})
        writer = writers.build_writer(FakeSynthesizer(), None, llm, 32_000, models.sources_tokens())
        await writer.synthesize(SynthesisRequest("What moves water?", sources, "en"))
        prompt = " ".join(message.content for message in llm.requests[-1].messages)
        assert least < count_tokens(prompt) < most


_BOTH = {"LLM_PROVIDERS": [{"name": name, **fields} for name, fields in _PROVIDERS.items()]}
_SLOW = {"LLM_KIND": "ollama", "LLM_MODEL": "m"}


@for_each(
    "values, by_model, section_tokens",
    [
        (_SLOW, set(), 1500),
        (_SLOW | {"REPORT_PAGES": 9}, set(), 1500),
        (_SLOW | {"LLM_STAGES": {"rank": "m", "summarize": "m"}}, {"rank", "summarize"}, 1500),
        (_SLOW | {"LLM_STAGES": {"queries": "m"}}, {"queries"}, 1500),
        ({"LLM_KIND": "vllm", "LLM_MODEL": "m"}, {"queries", "rank"}, 0),
        ({"LLM_API_KEY": "k" * 20, "LLM_MODEL": "m"}, {"queries", "rank"}, 0),
        (
            {"LLM_API_KEY": "k" * 20, "LLM_MODEL": "m", "REPORT_PAGES": 9},
            {"queries", "rank", "summarize"},
            0,
        ),
        (_BOTH, {"queries", "rank"}, 0),
        (_BOTH | {"LLM_STAGES": {"write": "local"}}, {"queries", "rank"}, 1500),
    ],
)
def test_a_report_asks_a_model_for_what_decides(
    values: dict[str, Any], by_model: set[str], section_tokens: int
) -> None:
    """A slow model writes no queries, rates nothing, and writes in sections. No model summarizes pages if the report is written
    from all of them. LLM_STAGES turns the stages on.
    """
    settings = _settings(**values)
    names = [connection.name for connection in llms.list_connections(settings)]
    models = _models(settings, {name: FakeLLM(name=name) for name in names})
    stages = set(models.build_stage_llms())
    assert stages == set(llms.STAGES) - {"queries", "rank", "summarize"} | by_model
    assert models.section_tokens() == section_tokens


_LOCAL_FIRST = {"LLM_PROVIDERS": list(reversed(_BOTH["LLM_PROVIDERS"]))}


@for_each(
    "values, asked",
    [
        (_SLOW, None),
        (_SLOW | {"LLM_STAGES": {"plan": "m"}}, "ollama"),
        ({"LLM_KIND": "vllm", "LLM_MODEL": "m"}, "vllm"),
        (_LOCAL_FIRST, None),
        (_LOCAL_FIRST | {"LLM_STAGES": {"plan": "cloud"}}, "cloud"),
        (_BOTH, "cloud"),
        (_BOTH | {"LLM_STAGES": {"plan": "local"}}, "local"),
    ],
)
async def test_a_slow_model_plans_the_searches_only_if_it_is_named(values: dict[str, Any], asked: str | None) -> None:
    """Rules plan the searches of its deep runs."""
    settings = _settings(**values)
    adapters = {one.name: FakeLLM(name=one.name) for one in llms.list_connections(settings)}
    planner = _models(settings, adapters).plan_llm()
    if planner is not None:
        await planner.generate(QUESTION)
    assert [name for name, adapter in adapters.items() if adapter.requests] == [asked] * (asked is not None)


class _SlowModel:
    """Answers when it is opened, and lists itself with a context window."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.path.endswith("/models"):
            await json_reply({"data": [{"id": "m", "meta": {"n_ctx": 2048}}]})(exchange)
            return
        await self.opened.wait()
        await json_reply({"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]})(exchange)


@pytest.mark.parametrize(("concurrency", "running"), [(None, 1), (2, 2)])
async def test_a_local_model_gets_one_call_at_a_time(concurrency: int | None, running: int) -> None:
    """Unless LLM_PROVIDERS says otherwise; the others wait for their turn."""
    model = _SlowModel()
    async with serving(model) as server:
        listed = {"name": "a", "base_url": f"{server.url}/v1", "model": "m", "concurrency": concurrency}
        settings = _settings(LLM_PROVIDERS=[listed])
        async with build_platform(settings) as platform:
            calls = [asyncio.create_task(platform.llm.generate(QUESTION)) for _ in range(4)]
            assert await becomes_true(lambda: server.busy == running, CLOSE_TIMEOUT_S)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(server.requests) == running
            model.opened.set()
            assert [response.content for response in await asyncio.gather(*calls)] == ["Hello."] * 4


async def test_the_context_of_a_local_model_is_read_once() -> None:
    """From its list of models; LLM_CONTEXT_TOKENS wins, and a service that is away has the default for now."""
    async with serving(_SlowModel()) as server:
        values = {"LLM_BASE_URL": f"{server.url}/v1", "LLM_MODEL": "m"}
        for more, expected, requests in [({}, 2048, 1), ({"LLM_CONTEXT_TOKENS": 5000}, 5000, 0)]:
            settings = _settings(**values, **more)
            server.requests.clear()
            provider = OpenAIProvider(llms.list_connections(settings)[0])
            context = _models(settings, {"m": provider}).context_tokens
            assert [await context(), await context()] == [expected, expected]
            assert len(server.requests) == requests
            await provider.aclose()
    settings = _settings(LLM_BASE_URL=LOCAL, LLM_MODEL="m")
    away = OpenAIProvider(llms.list_connections(settings)[0])
    assert await _models(settings, {"m": away}).context_tokens() == 32_000
    await away.aclose()


async def test_llama_cpp_serves_its_model_under_any_name() -> None:
    """Its list has the path of a file."""
    listed = json_reply({"data": [{"id": "/models/qwen.gguf", "owned_by": "llamacpp"}]})
    async with serving(listed) as server:
        settings = _settings(LLM_BASE_URL=f"{server.url}/v1", LLM_MODEL="local")
        provider = OpenAIProvider(llms.list_connections(settings)[0])
        assert "under any name" in await provider.ping()
        await provider.aclose()


async def test_a_model_that_the_service_does_not_list_is_an_error() -> None:
    """The check of doctor and of the worker names those that it has."""
    async with serving(_SlowModel()) as server:
        provider = OpenAIProvider(
            llms.list_connections(_settings(LLM_BASE_URL=f"{server.url}/v1", LLM_MODEL="another"))[0]
        )
        with pytest.raises(LLMConfigError, match=r"no model 'another': set LLM_MODEL to one of m"):
            await provider.ping()
        await provider.aclose()


def test_each_model_has_a_name_of_its_own() -> None:
    """Models of one name are numbered: limits, circuits and the choice of a request must not mix them up."""
    listed = [{"name": name, "model": f"m{number}"} for number, name in enumerate(("a", "a", "b", "a"))]
    settings = Settings(_env_file=None, LLM_PROVIDERS=listed)
    assert [(connection.name, connection.model) for connection in llms.list_all_connections(settings)] == [
        ("a", "m0"),
        ("a-2", "m1"),
        ("b", "m2"),
        ("a-3", "m3"),
    ]


@for_each(("count", "calls"), [(1, [2]), (2, [1, 1]), (3, [1, 1, 0])])
async def test_a_single_model_is_tried_again_and_several_replace_each_other(count: int, calls: list[int]) -> None:
    """After a lost connection the next model answers sooner than a second try; without another one, a second try does."""
    down, works = [LLMConnectionError("down"), "answer"], ["answer"]
    models = {f"m{number}": FakeLLM(works if number else down, name=f"m{number}") for number in range(count)}
    settings = _settings()
    llm = _models(settings, models).llm
    assert llm is not None
    assert (await llm.generate(question())).content == "answer"
    assert [len(llm.requests) for llm in models.values()] == calls
