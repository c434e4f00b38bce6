"""The files that LiteLLM and Open WebUI load: they call POST /verify, and add what it says. An answer comes in any case.

tests/clients/with_litellm.py runs the guardrail with the real package. Open WebUI's loader executes the file in an empty module,
and its calls have the shapes that its version 0.12.4 has.
"""

from __future__ import annotations

import sys
import types
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tests.support.chat_server import ChatServer, answer, error
from tests.support.growth import is_linear
from tests.unit.presentation.rest.fake_platform import FakeServices, platform_of

from modules.llm_platform.presentation.rest.app import create_app
from shared.config import Settings

DEPLOY = Path(__file__).parents[3] / "deploy"
GIVEN = "[1] Nordwind handbook\nThe Nordwind heat pump weighs 142 kg.\n"
TEXT = "The Nordwind heat pump weighs 152 kg [1]. It is painted green."


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client of the real route, as the guardrail has one."""
    app = create_app(platform_of(FakeServices()), Settings.without_environment())
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost:8000") as client,
    ):
        yield client


@pytest.fixture
def guardrail(monkeypatch: pytest.MonkeyPatch) -> Any:
    class CustomGuardrail:
        def __init__(self, **kwargs: Any) -> None:
            self.kwargs = kwargs

    stub = types.ModuleType("litellm.integrations.custom_guardrail")
    stub.CustomGuardrail = CustomGuardrail  # type: ignore[attr-defined]
    for name in ("litellm", "litellm.integrations"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, stub.__name__, stub)
    monkeypatch.delenv("LLM_PLATFORM_URL", raising=False)
    return _load("litellm/llm_platform_verify.py").VerifyGuardrail


def _load(path: str) -> Any:
    """Execute a file in an empty module, as Open WebUI does."""
    module = types.ModuleType("loaded")
    exec(compile((DEPLOY / path).read_text(), path, "exec"), module.__dict__)
    return module


def completed(text: str) -> SimpleNamespace:
    return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=text))])


class Chunk(SimpleNamespace):
    def model_copy(self, *, deep: bool) -> Chunk:
        return chunk_of(self.choices[0].delta.content, self.choices[0].finish_reason, self.usage)


def chunk_of(text: str | None, finish: str | None = None, usage: object = None) -> Chunk:
    return Chunk(choices=[SimpleNamespace(delta=SimpleNamespace(content=text), finish_reason=finish)], usage=usage)


async def test_the_guardrail_adds_evidence_and_leaves_the_answer(guardrail: Any, client: httpx.AsyncClient) -> None:
    hook = guardrail(client=client, guardrail_name="verify", event_hook="post_call")
    data = {"messages": [{"role": "user", "content": GIVEN}]}
    found = await hook.async_post_call_success_hook(data, None, completed(TEXT))
    assert found.choices[0].message.content == TEXT
    assert found.evidence_counts == {"supported": 0, "contradicts": 1, "absent": 1, "unchecked": 0}
    assert [one["finding"] for one in found.evidence] == ["contradicts"]

    async def chunks() -> AsyncIterator[Chunk]:
        for part in (TEXT[:20], TEXT[20:]):
            yield chunk_of(part)
        yield chunk_of(None, "stop")
        yield chunk_of(None, usage={"total_tokens": 9})

    parts = [part async for part in hook.async_post_call_streaming_iterator_hook(None, chunks(), data)]
    assert "".join(part.choices[0].delta.content or "" for part in parts) == TEXT
    assert parts[-1].evidence_counts == found.evidence_counts
    assert parts[-1].choices[0].finish_reason is None
    # The proxy drops a chunk with usage, and of a chunk without fields of its provider it writes its own fields alone.
    assert (parts[-1].usage, parts[-1].provider_specific_fields) == (None, {})


async def test_the_guardrail_leaves_an_answer_alone_without_material_or_server(guardrail: Any) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as broken:
        hook = guardrail(client=broken)
        for messages in ([], [{"role": "user", "content": "Hi"}], [{"role": "user", "content": GIVEN}]):
            found = await hook.async_post_call_success_hook({"messages": messages}, None, completed(TEXT))
            assert vars(found).keys() == {"choices"}
        called = SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=None))])
        assert await hook.async_post_call_success_hook({}, None, called) is called


WRONG_REPLIES = [b'{"ok": true}', b"[1]", b'"x"', b'{"sentences": [{"citations": null}], "counts": {}}', b"\xff"]


@pytest.mark.parametrize("reply", WRONG_REPLIES)
async def test_an_answer_comes_whatever_the_server_replies(guardrail: Any, reply: bytes) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=reply))
    async with httpx.AsyncClient(transport=transport) as client:
        data = {"messages": [{"role": "user", "content": GIVEN}]}
        found = await guardrail(client=client).async_post_call_success_hook(data, None, completed(TEXT))
    assert vars(found).keys() == {"choices"}
    module, told = _load("open-webui/llm_platform_verify.py"), list[str]()

    async def emit(event: dict[str, Any]) -> None:
        told.append(event["data"]["description"])

    async with ChatServer(answer(reply)).running() as upstream:
        hook = module.Filter()
        hook.valves = hook.Valves(url=upstream.url.removesuffix("/v1"), mark=True)
        message = {"role": "assistant", "content": TEXT, "sources": SOURCES}
        await hook.outlet({"messages": [message]}, emit)
    assert message["content"] == TEXT
    assert [text.partition(":")[0] for text in told] == ["Not verified"]


async def test_an_answer_comes_whatever_the_address_is(guardrail: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("localhost:1", "http://[::1", ""):
        monkeypatch.setenv("LLM_PLATFORM_URL", url)
        data = {"messages": [{"role": "user", "content": GIVEN}]}
        found = await guardrail().async_post_call_success_hook(data, None, completed(TEXT))
        assert vars(found).keys() == {"choices"}


def test_elements_without_an_end_are_read_in_linear_time(guardrail: Any) -> None:
    split = guardrail.async_post_call_success_hook.__globals__["split_passages"]
    for unit in ("<source>", "<source></document>", "<passage></passage>"):
        small, large = unit * 2_000, unit * 20_000
        assert is_linear(lambda small=small: list(split(small)), lambda large=large: list(split(large)), 10)


def test_the_guardrail_collects_results_of_tools_passages_and_long_texts(guardrail: Any) -> None:
    found = guardrail.async_post_call_success_hook.__globals__["collect_sources"](
        [
            {"role": "system", "content": "You are helpful. " * 100},
            {
                "role": "user",
                "content": '<source id="3" name="a.md">Alpha.</source><source id="4" name="b.md">Beta.</source>',
            },
            {"role": "assistant", "content": "Gamma. " * 100},
            {"role": "tool", "name": "read_file", "content": [{"type": "text", "text": "Delta."}]},
            {"role": "user", "content": "Epsilon. " * 60},
            {"role": "user", "content": "[7] Zeta\nEta.\n\x00"},
        ]
    )
    assert [(one["index"], one["title"]) for one in found] == [
        (3, "a.md"),
        (4, "b.md"),
        (2, "read_file"),
        (1, ""),
        (7, "Zeta"),
    ]
    assert "\x00" not in found[-1]["text"]


SOURCES = [
    {
        "source": {"id": "f1", "name": "handbook.md"},
        "document": ["The Nordwind heat pump weighs 142 kg.", "It is loud."],
        "metadata": [{"source": "handbook.md"}, {"source": "handbook.md"}],
    },
    {"source": {"id": "f2", "name": "b.md"}, "document": ["Beta."], "metadata": [{}]},
]


async def test_the_filter_tells_what_the_sources_say_and_marks_it(client: httpx.AsyncClient) -> None:
    module = _load("open-webui/llm_platform_verify.py")
    sources = module.collect_sources([{"sources": SOURCES}])
    assert [(one["index"], one["title"]) for one in sources] == [(1, "handbook.md"), (2, "b.md")]
    verified = (await client.post("/verify", json={"text": TEXT, "sources": sources})).content
    told: list[dict[str, Any]] = []

    async def emit(event: dict[str, Any]) -> None:
        told.append(event)

    upstream = ChatServer(answer(verified))
    async with upstream.running():
        hook = module.Filter()
        hook.valves = hook.Valves(url=upstream.url.removesuffix("/v1"), api_key="key", mark=True)
        body = {
            "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": TEXT, "sources": SOURCES}]
        }
        found = await hook.outlet(body, __event_emitter__=emit)
    assert found["messages"][-1]["content"] == (
        "The Nordwind heat pump weighs 152 kg [1]. **✘ contradicted** It is painted green. **○ not found**"
    )
    assert told == [{"type": "status", "data": {"description": "1 contradicted, 1 not found", "done": True}}]
    assert upstream.asked[0].headers["authorization"] == "Bearer key"
    assert upstream.asked[0].body == {"text": TEXT, "sources": sources}


DETAILS = '<details type="reasoning" done="true">\n<summary>Thought for 3 seconds</summary>\n> It weighs 999 kg.\n</details>\n'


@pytest.mark.parametrize("thought", ["<think>It weighs 999 kg.</think>", DETAILS])
async def test_reasoning_is_neither_checked_nor_marked(guardrail: Any, client: httpx.AsyncClient, thought: str) -> None:
    module = _load("open-webui/llm_platform_verify.py")
    hidden = module.hide_reasoning(f"{thought}{TEXT}")
    assert hidden == "\n" * len(thought) + TEXT
    assert module.hide_reasoning("Said.<think>Not done") == "Said." + "\n" * len("<think>Not done")
    body = {"text": hidden, "sources": module.collect_sources([{"sources": SOURCES}])}
    verified = (await client.post("/verify", json=body)).json()
    marked = module.mark_text(f"{thought}{TEXT}", verified["sentences"])
    assert marked.startswith(f"{thought}{TEXT[:41]} **✘ contradicted**")
    if thought is not DETAILS:
        hook, data = guardrail(client=client), {"messages": [{"role": "user", "content": GIVEN}]}
        found = await hook.async_post_call_success_hook(data, None, completed(f"{thought}{TEXT}"))
        assert found.evidence_counts == {"supported": 0, "contradicts": 1, "absent": 1, "unchecked": 0}
        alone = await hook.async_post_call_success_hook(data, None, completed(thought))
        assert vars(alone).keys() == {"choices"}


async def test_the_filter_leaves_an_answer_alone_without_sources_or_server() -> None:
    module = _load("open-webui/llm_platform_verify.py")
    told: list[str] = []

    async def emit(event: dict[str, Any]) -> None:
        told.append(event["data"]["description"])

    async with ChatServer(error(503, {})).running() as upstream:
        hook = module.Filter()
        hook.valves = hook.Valves(url=upstream.url.removesuffix("/v1"), mark=True)
        message = {"role": "assistant", "content": TEXT}
        for body in ({}, {"messages": [message]}, {"messages": [{"role": "user", "content": GIVEN}]}):
            assert await hook.outlet(dict(body)) == body
        await hook.outlet({"messages": [message | {"sources": SOURCES}]}, emit)
        await hook.outlet({"messages": [message | {"sources": SOURCES}]})
    assert told == ["Not verified: ClientResponseError"]
    assert message["content"] == TEXT
