"""Stored runs, lists and counters of the compatible interfaces: their states, pages and edges."""

from __future__ import annotations

import asyncio
import base64
import struct
from typing import Any

import httpx2
from tests.support.cases import for_each
from tests.unit.presentation.rest.compat.test_dialect_answers import (
    CHAT_USAGE,
    METADATA,
    QUESTION,
    TEXT,
    NumberedServices,
    data_of,
    sent,
)
from tests.unit.presentation.rest.fake_platform import REF, FakeServices, app_client

from modules.llm_platform.application.research.events import Reset
from modules.llm_platform.domain.exceptions import WebSearchTimeoutError
from modules.llm_platform.presentation.rest.compat.chat_completions import RESTARTED
from modules.llm_platform.testing.waiting import CLOSE_TIMEOUT_S

ASKED = [{"role": "user", "content": QUESTION}]
KEYS = "alice:a-key-of-alice,bob:a-key-of-bob"
ALICE, BOB = {"Authorization": "Bearer a-key-of-alice"}, {"Authorization": "Bearer a-key-of-bob"}
RUNNING = ("pending", "in_progress", "CREATED", "IN_PROGRESS", "queued")


async def ended(client: httpx2.AsyncClient, path: str) -> httpx2.Response:
    async with asyncio.timeout(CLOSE_TIMEOUT_S):
        while (response := await client.get(path)).json()["status"] in RUNNING:
            await asyncio.sleep(0.02)
    return response


async def test_pages_of_the_input_of_a_response() -> None:
    """A page has the requested number of items, 20 by default.

    `has_more` is false on the last page, also if it is full.
    """
    turns = [{"role": "user", "content": f"Question {at}?"} for at in range(21)]
    async with app_client() as client:
        created = (await client.post("/v1/responses", json={"model": "research-deep", "input": turns})).json()
        path = f"/v1/responses/{created['id']}/input_items"

        async def page(**query: Any) -> tuple[list[int], bool]:
            found = (await client.get(path, params={"order": "asc", **query})).json()
            assert (found["object"], found["first_id"], found["last_id"]) == (
                "list", *((found["data"][position]["id"] if found["data"] else None) for position in (0, -1)))  # fmt: skip
            return [int(item["id"].rpartition("_")[2]) for item in found["data"]], found["has_more"]

        name = f"msg_{created['id']}_"
        assert await page() == (list(range(20)), True)
        assert await page(limit=21) == (list(range(21)), False)
        assert await page(limit=1) == ([0], True)
        assert await page(limit=2, after=f"{name}18") == ([19, 20], False)
        assert await page(limit=2, after=f"{name}17") == ([18, 19], True)
        assert await page(after=f"{name}20") == ([], False)
        assert await page(limit=1, after="unknown") == ([0], True)
        assert await page(limit=2, order="desc") == ([20, 19], True)
        for limit, status in ((100, 200), (101, 400), (0, 400)):
            assert (await client.get(path, params={"limit": limit})).status_code == status


async def test_items_of_the_input_have_their_kind() -> None:
    """Text of a user, text of an answer, and calls of tools; each with an id of its place."""
    turns = [
        {"role": "user", "content": "Who wrote it?"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Guido."}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, *ASKED,
    ]  # fmt: skip
    async with app_client() as client:
        created = (await client.post("/v1/responses", json={"model": "research-deep", "input": turns})).json()["id"]
        plain = (await client.post("/v1/responses", json={"model": "research-deep", "input": QUESTION})).json()["id"]
        found = (await client.get(f"/v1/responses/{created}/input_items", params={"order": "asc"})).json()["data"]
        [only] = (await client.get(f"/v1/responses/{plain}/input_items")).json()["data"]

    def message(position: int, role: str, kind: str, text: str, **more: Any) -> dict[str, Any]:
        part = {"type": kind, "text": text, **more}
        return {
            "id": f"msg_{created}_{position}",
            "type": "message",
            "role": role,
            "status": "completed",
            "content": [part],
        }

    assert found == [
        message(0, "user", "input_text", "Who wrote it?"), message(1, "assistant", "output_text", "Guido.", annotations=[]),
        {"id": f"fc_{created}_2", "status": "completed", **turns[2]},
        message(3, "user", "input_text", QUESTION),
    ]  # fmt: skip
    assert only == {**message(0, "user", "input_text", QUESTION), "id": f"msg_{plain}_0"}


@for_each(
    ("style", "content"),
    [("numbered", TEXT), ("mla", None), ("apa", None), ("chicago", None)],
)
async def test_states_of_a_research_of_tavily(style: str, content: str | None) -> None:
    """Queued and running is a 202, the end a 200: the text in the style that was asked for, its sources, and the usage."""
    services = NumberedServices()
    services.gate.clear()
    async with app_client(services) as client:
        body = {"input": QUESTION, "model": "mini", "citation_format": style}
        task = (await client.post("/tavily/research", json=body)).json()
        assert task["request_id"].endswith(f"-{style}")
        assert (task["status"], task["input"], task["model"]) == ("pending", QUESTION, "mini")
        path = f"/tavily/research/{task['request_id']}"
        waiting = await client.get(path)
        assert (waiting.status_code, waiting.json()["status"] in ("pending", "in_progress")) == (202, True)
        assert set(waiting.json()) == {"request_id", "status", "response_time"}
        services.gate.set()
        done = await ended(client, path)
        counted = (await client.get(path, params={"include_usage": True})).json()
        bare = await client.get(f"/tavily/research/{task['request_id'].removesuffix(f'-{style}')}")
    state = done.json()
    assert (done.status_code, state["status"], state["request_id"]) == (200, "completed", task["request_id"])
    assert state["sources"] == [{"title": REF.title, "url": REF.url, "index": 1}]
    assert state["created_at"] == task["created_at"]
    assert state["response_time"] >= 0
    assert state["content"].startswith("An event loop runs tasks.")
    assert ("[1]" in state["content"]) is (style == "numbered")
    assert REF.url in state["content"]
    assert bare.json()["content"].startswith(TEXT)
    assert set(counted) == {*state, "usage"}
    fields = ("searches", "llm_calls", "prompt_tokens", "completion_tokens", "cost_usd")
    assert counted["usage"] == {name: METADATA[name] for name in fields}


async def test_a_research_of_tavily_that_failed_says_why() -> None:
    """With a status and a reason; a stream ends with them too."""
    services = NumberedServices()
    services.error = WebSearchTimeoutError("Too late.")
    async with app_client(services) as client:
        task = (await client.post("/tavily/research", json={"input": QUESTION})).json()
        state = (await ended(client, f"/tavily/research/{task['request_id']}")).json()
    assert set(state) == {"request_id", "status", "response_time", "error"}
    assert (state["status"], state["error"]) == ("failed", "Too late.")
    services = NumberedServices()
    services.error_after_first_event = WebSearchTimeoutError("Too late.")
    response = await sent("/tavily/research", {"input": QUESTION, "stream": True}, services)
    last = data_of(response)[-1]
    assert (last["object"], last["error"], last["id"]) == ("error", "Too late.", "ID")
    assert response.text.endswith("event: done\n\n")


async def test_calls_of_tavily_are_counted_by_key() -> None:
    """Each call is counted once by endpoint and key. The sum is the usage, and there are no limits or credits."""
    async with app_client(NumberedServices(), LLM_PLATFORM_API_KEYS=KEYS) as client:
        for path, body, count in (
            ("search", {"query": "x"}, 2), ("extract", {"urls": "https://a.example/"}, 1),
            ("map", {"url": "https://example.org/"}, 1), ("crawl", {"url": "https://example.org/"}, 1),
            ("research", {"input": QUESTION, "stream": True}, 1),
        ):  # fmt: skip
            for _ in range(count):
                assert (await client.post(f"/tavily/{path}", json=body, headers=ALICE)).status_code == 200
        alice = (await client.get("/tavily/usage", headers=ALICE)).json()
        bob = (await client.get("/tavily/usage", headers=BOB)).json()
    by_endpoint = {"search_usage": 2, "extract_usage": 1, "crawl_usage": 1, "map_usage": 1, "research_usage": 1}
    account = {
        "current_plan": "llm-platform",
        "plan_usage": 6,
        "plan_limit": None,
        "paygo_usage": 0,
        "paygo_limit": None,
    }
    assert alice == {"key": {"usage": 6, "limit": None, **by_endpoint}, "account": {**account, **by_endpoint}}
    assert set(bob["key"].values()) == {0, None}


async def test_states_of_an_asynchronous_chat() -> None:
    """Times belong to the states; the answer has the fields of a chat completion, and a list the usual model of the depth."""
    services = NumberedServices()
    services.gate.clear()
    async with app_client(services) as client:
        path = "/perplexity/async/chat/completions"
        body = {"request": {"model": "sonar-reasoning", "messages": ASKED, "stream": True, "colour": 1}}
        created = await client.post(path, json=body)
        task = created.json()
        assert created.headers["x-ignored-fields"] == "stream, colour"
        assert (task["status"], task["model"], task["completed_at"], task["failed_at"]) == (
            "CREATED", "sonar-reasoning", None, None)  # fmt: skip
        services.gate.set()
        done = (await ended(client, f"{path}/{task['id']}")).json()
        listed = (await client.get(path)).json()
        services.error = WebSearchTimeoutError("Too late.")
        other = (await client.post(path, json={"request": {"model": "sonar", "messages": ASKED}})).json()
        failed = (await ended(client, f"{path}/{other['id']}")).json()
        first = (await client.get(path, params={"limit": 1})).json()
        second = (await client.get(path, params={"limit": 1, "next_token": first["next_token"]})).json()
    assert (done["status"], done["model"], done["failed_at"], done["error_message"]) == (
        "COMPLETED", "sonar-reasoning", None, None)  # fmt: skip
    assert done["created_at"] <= done["started_at"] <= done["completed_at"]
    answer = done["response"]
    assert (answer["id"], answer["model"], answer["created"]) == (task["id"], "sonar-reasoning", done["created_at"])
    assert (answer["citations"], answer["choices"][0]["message"]["content"]) == ([REF.url], TEXT)
    assert {name: answer["usage"][name] for name in CHAT_USAGE} == CHAT_USAGE
    [summary] = listed["requests"]
    assert (summary["id"], summary["model"], summary["status"]) == (task["id"], "sonar-pro", "COMPLETED")
    assert (failed["status"], failed["error_message"], failed["response"], failed["completed_at"]) == (
        "FAILED", "Too late.", None, None)  # fmt: skip
    assert failed["failed_at"] >= failed["created_at"]
    assert [[request["id"] for request in page["requests"]] for page in (first, second)] == [
        [other["id"]],
        [task["id"]],
    ]
    assert second["next_token"] is None


class ResettingServices(NumberedServices):
    """The first model fails after half a sentence, and a second one writes the answer."""

    async def stream_research(self, *arguments: Any, **fields: Any) -> Any:
        async for event in super().stream_research(*arguments, **fields):
            if event.type == "token":
                yield event.model_copy(update={"text": "Half of"})
                yield Reset(request_id=event.request_id, reason="llm_timeout")
            yield event


@for_each(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "research-shallow", "messages": ASKED}),
        ("/perplexity/chat/completions", {"model": "sonar", "messages": ASKED}),
        ("/v1/responses", {"model": "research-shallow", "input": QUESTION, "store": False}),
        ("/perplexity/v1/responses", {"effort": "low", "input": QUESTION, "store": False}),
        ("/tavily/research", {"input": QUESTION}),
    ],
)
async def test_text_that_was_sent_is_declared_void(path: str, body: dict[str, Any]) -> None:
    """A notice follows it, then the answer; the places of its citations count from the beginning of all that was sent."""
    response = await sent(path, {**body, "stream": True}, ResettingServices())
    events = [event for event in data_of(response) if event != "[DONE]"]
    whole = f"Half of{RESTARTED}{TEXT}"
    if "choices" in events[0]:
        deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
        text = "".join(delta.get("content") or "" for delta in deltas)
        positions = [annotation["url_citation"] for delta in deltas for annotation in delta.get("annotations", ())]
    else:
        text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
        content = events[-1]["response"]["output"][-1]["content"][0]
        assert content["text"] == text
        positions = content["annotations"]
    assert text.startswith(whole)
    assert {whole[position["start_index"] : position["end_index"]] for position in positions} <= {
        "An event loop runs tasks."
    }
    assert bool(positions) is (path not in ("/perplexity/chat/completions", "/tavily/research"))


async def test_addresses_and_sites_are_cleaned() -> None:
    """White space around an address or a site changes nothing; letters of a site are small."""
    services = FakeServices()
    async with app_client(services) as client:
        for path in ("/open-webui/load", "/tavily/extract"):
            await client.post(path, json={"urls": [" https://a.example/ "]})
        await client.post("/tavily/extract", json={"urls": " https://a.example/ "})
        tools = [{"type": "web_search", "filters": {"allowed_domains": [" Python.ORG "]}}]
        await client.post(
            "/v1/responses", json={"model": "research-deep", "input": QUESTION, "store": False, "tools": tools}
        )
    assert services.requests[:3] == ["https://a.example/"] * 3
    assert services.requests[3].domains == ("python.org",)


async def test_vectors_are_in_the_form_of_the_client() -> None:
    """Numbers or base64 of the same vector, in the order of the texts; other dimensions and tokens are refused by name."""
    async with app_client() as client:

        async def embed(**fields: Any) -> httpx2.Response:
            return await client.post("/v1/embeddings", json={"model": "wordllama/l2_supercat_256", **fields})

        both = (await embed(input=["An event loop", "runs tasks"])).json()
        [one] = (await embed(input="runs tasks", encoding_format="base64")).json()["data"]
        size = len(both["data"][0]["embedding"])
        for fields, name in (
            ({"input": "x", "dimensions": size + 1}, "dimensions"), ({"input": "x", "dimensions": 0}, "dimensions"),
            ({"input": []}, "input"), ({"input": ""}, "input"), ({"input": [1, 2]}, "input"),
        ):  # fmt: skip
            refused = await embed(**fields)
            assert (refused.status_code, refused.json()["error"]["param"].partition(".")[0]) == (400, name)
        assert (await embed(input="x", dimensions=size)).status_code == 200
        other = await client.post("/v1/embeddings", json={"model": "other", "input": "x"})
    assert [(embedding["object"], embedding["index"]) for embedding in both["data"]] == [
        ("embedding", 0),
        ("embedding", 1),
    ]
    assert (both["object"], both["model"]) == ("list", "wordllama/l2_supercat_256")
    assert both["usage"]["prompt_tokens"] == both["usage"]["total_tokens"] > 2
    decoded = struct.unpack(f"<{size}f", base64.b64decode(one["embedding"]))
    assert all(abs(a - b) < 1e-6 for a, b in zip(decoded, both["data"][1]["embedding"], strict=True))
    assert (other.status_code, other.json()["error"]["param"]) == (404, "model")


async def test_an_unreadable_page_is_replaced_by_its_reason() -> None:
    """The other pages are returned. A repeated address is read once."""
    services = FakeServices()
    services.error = WebSearchTimeoutError("Too late.")
    async with app_client(services) as client:
        extracted = (
            await client.post("/tavily/extract", json={"urls": ["https://a.example/", "https://a.example/"]})
        ).json()
        found = (await client.post("/open-webui/load", json={"urls": ["https://a.example/"]})).json()
    assert (extracted["results"], extracted["failed_results"]) == (
        [],
        [{"url": "https://a.example/", "error": "Too late."}],
    )
    assert found == [{"page_content": "", "metadata": {"source": "https://a.example/", "error": "Too late."}}]
