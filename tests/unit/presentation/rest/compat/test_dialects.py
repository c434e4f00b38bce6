"""What holds for every compatible interface."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import httpx2
import pytest
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import HIT, FakeServices, app_client, hits

from modules.llm_platform.domain.telemetry.metrics import HTTP_REQUESTS
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.presentation.rest import compat
from modules.llm_platform.presentation.rest.compat.dialect import MAX_CONCURRENT_READS, SNIPPET_TOKENS, Dialect
from modules.llm_platform.presentation.rest.compat.table import DIALECTS
from modules.llm_platform.presentation.rest.http.route_example import Example

CHAT = {"model": "sonar", "messages": [{"role": "user", "content": "How warm is the water?"}]}


def examples_of(dialect: Dialect) -> list[tuple[str, str, Example]]:
    assert dialect.examples, f"{dialect.prefix} needs an example of each route in `examples` of its DIALECT"
    return [(*route.split(" "), example) for route, example in dialect.examples.items()]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.prefix)
async def test_unknown_path_below_a_prefix_has_the_error_of_its_clients(dialect, client: httpx2.AsyncClient) -> None:
    response = await client.get(f"{dialect.prefix}/nothing/here")
    assert response.status_code in (400, 404)
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.prefix)
async def test_body_that_is_no_json_is_named_as_the_reason(dialect, client: httpx2.AsyncClient) -> None:
    for method, path, example in examples_of(dialect):
        if method == "post" and example.request:
            response = await client.post(path, content=b"{", headers={"Content-Type": "application/json"})
            assert response.status_code in (400, 422), path
            assert "(body: is not valid JSON in UTF-8)" in response.text, path


@for_each("dialect", DIALECTS)
async def test_compatible_interface_needs_the_api_key(dialect) -> None:
    async with app_client(LLM_PLATFORM_API_KEYS="long-enough-key") as client:
        for method, path, example in examples_of(dialect):
            response = await client.request(method, path, json=example.request, params=example.parameters)
            assert response.status_code == 401, path
            assert response.headers["content-type"] == "application/json"


@for_each("dialect", DIALECTS)
def test_paths_with_the_limit_of_reads_are_routes(dialect: Dialect) -> None:
    """A misspelt path would count as a research run."""
    assert dialect.read_paths <= {
        route.path for router in dialect.routers for route in router.routes if "POST" in route.methods
    }


def test_every_router_of_the_compatible_interfaces_is_listed() -> None:
    """Otherwise its routes are not served."""
    listed = {id(router) for dialect in DIALECTS for router in dialect.routers}
    names = [module.name for module in walk_packages(compat.__path__, f"{compat.__name__}.")]
    assert [
        name for name in names if (router := vars(import_module(name)).get("router")) and id(router) not in listed
    ] == []


@pytest.mark.parametrize(
    ("method", "path", "sent"),
    [
        ("POST", "/open-webui/search", {"query": "asyncio", "count": 2}),
        ("POST", "/tavily/search", {"query": "asyncio", "max_results": 2}),
        ("POST", "/tavily/search", {"query": "asyncio", "max_results": 0}),
        ("POST", "/perplexity/search", {"query": "asyncio", "max_results": 2}),
        ("POST", "/perplexity/search", {"query": ["asyncio", "tasks"], "max_results": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(map(str, value.values())),
)
async def test_no_more_results_than_asked_for(
    client: httpx2.AsyncClient, services: FakeServices, method: str, path: str, sent: dict[str, Any]
) -> None:
    """The limit also holds for a provider that returns more.

    It applies to each of several queries, and the best results come first.
    """
    services.found = services.found.model_copy(update={"results": hits(30)})
    response = await client.request(method, path, **{"params" if method == "GET" else "json": sent})
    answer = response.json()
    results = answer if isinstance(answer, list) else answer["results"]
    queries = len(sent["query"]) if isinstance(sent["query"], list) else 1
    most = sent.get("count", sent.get("max_results", 0)) * queries
    assert [result.get("url") or result["link"] for result in results] == [hit.url for hit in hits(most)]


async def test_a_page_is_read_once_and_no_more_than_a_few_at_once(services: FakeServices) -> None:
    """A request with many addresses reads each page once, and only a few at the same time."""
    urls = [f"https://example.org/{number}" for number in range(12)]
    services.gate.clear()
    async with app_client(services) as client:
        loading = asyncio.create_task(client.post("/open-webui/load", json={"urls": [*urls, *urls[:3]]}))
        async with asyncio.timeout(30):
            while len(services.requests) < MAX_CONCURRENT_READS:
                await asyncio.sleep(0)
        for _ in range(100):  # enough steps of the event loop for every runnable task to start
            await asyncio.sleep(0)
        assert len(services.requests) == MAX_CONCURRENT_READS
        services.gate.set()
        documents = (await loading).json()
    assert services.requests == urls
    assert [document["metadata"]["source"] for document in documents] == urls


async def test_ignored_fields_are_named(client: httpx2.AsyncClient) -> None:
    response = await client.post("/open-webui/search", json={"query": "asyncio", "colour": "red", "ä\n": 1})
    assert response.headers["x-ignored-fields"] == "colour"


async def test_a_header_stays_short_whatever_fields_are_sent(client: httpx2.AsyncClient) -> None:
    """Nothing of the sender splits it, and a proxy does not refuse it for its length."""
    names = ["x" * 9000, "a\r\nSet-Cookie: b=c", "a: b", "ä", *(f"{'y' * 55}{number}" for number in range(500))]
    response = await client.post("/open-webui/search", json={"query": "asyncio", **dict.fromkeys(names, 1)})
    assert response.status_code == 200
    assert len(response.headers["x-ignored-fields"]) < 2000
    assert "set-cookie" not in response.headers


async def test_metrics_tell_the_compatible_interfaces_apart(services: FakeServices) -> None:
    """The label is the template of the route: names of models and unknown paths add no series."""
    async with app_client(services) as client:
        await client.get("/searxng/search", params={"q": "asyncio"})
        await client.get("/v1/models/fake/fake-1")
        for path in ("/v1/models/x", "/v1/models/y", "/v1/files/1", "/tavily/feedback"):
            await client.get(path)
    routes = {key[1] for key in services.metrics.values if key[0] == HTTP_REQUESTS.name}
    assert routes == {"/searxng/search", "/v1/models/{model}", "unmatched"}


@pytest.mark.parametrize(
    ("path", "body", "results", "field"),
    [
        ("/tavily/search", {"query": "How warm is the water?", "include_answer": True}, "results", "content"),
        ("/perplexity/chat/completions", CHAT, "search_results", "snippet"),
    ],
)
async def test_a_result_has_only_the_relevant_part_of_its_page(
    client: httpx2.AsyncClient, services: FakeServices, path: str, body: dict[str, object], results: str, field: str
) -> None:
    """Clients copy results into their own prompts, which have no room for whole pages."""
    filler = "\n\n".join(f"Paragraph {at} tells of sheds, fences and lawns, and what they cost." for at in range(400))
    page = HIT.model_copy(update={"snippet": f"{filler}\n\nThe water is 48 degrees warm.\n\n{filler}"})
    services.found = services.found.model_copy(update={"results": (page,)})
    [result] = (await client.post(path, json=body)).json()[results]
    assert "48 degrees" in result[field]
    assert count_tokens(result[field]) <= SNIPPET_TOKENS


async def test_models_have_a_date(client: httpx2.AsyncClient) -> None:
    """Clients show the date, so it must not be 1970."""
    for path in ("/v1/models", "/perplexity/v1/models"):
        assert {model["created"] for model in (await client.get(path)).json()["data"]} == {1795305600}
    listed = (await client.get("/anthropic/v1/models")).json()["data"]
    assert {model["created_at"] for model in listed} == {"2026-11-22T00:00:00Z"}
