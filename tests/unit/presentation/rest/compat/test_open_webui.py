"""Open WebUI's search and loader."""

from __future__ import annotations

import httpx2
from tests.unit.presentation.rest.fake_platform import HIT, FakeServices

from modules.llm_platform.domain.exceptions import PageError, WebSearchTimeoutError


async def test_open_webui_search_has_its_three_fields(client: httpx2.AsyncClient) -> None:
    """A client that sends only fields that are served gets no header of ignored ones."""
    response = await client.post("/open-webui/search", json={"query": "asyncio", "count": 2})
    assert response.json() == [{"link": HIT.url, "title": HIT.title, "snippet": HIT.snippet}]
    assert "x-ignored-fields" not in response.headers


async def test_open_webui_loads_pages_and_names_those_that_fail(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """A page that cannot be read has no text, and the reason in its metadata."""
    response = await client.post("/open-webui/load", json={"urls": ["https://example.org/a"]})
    [document] = response.json()
    assert document["page_content"] == "An event loop runs tasks."
    assert document["metadata"] == {"source": "https://example.org/a", "title": "asyncio"}
    services.error = PageError("The page has no text.")
    [document] = (await client.post("/open-webui/load", json={"urls": ["https://example.org/a"]})).json()
    assert document == {
        "page_content": "",
        "metadata": {"source": "https://example.org/a", "error": "The page has no text."},
    }


async def test_error_has_its_message_in_detail(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """`detail` names an invalid field. A failed search has its status and message in `detail`."""
    refused = await client.post("/open-webui/search", json={"query": "asyncio", "count": 0})
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith("count: ")
    services.error = WebSearchTimeoutError("Too late.")
    failed = await client.post("/open-webui/search", json={"query": "asyncio"})
    assert (failed.status_code, failed.json()["detail"]) == (WebSearchTimeoutError.status_code, "Too late.")


async def test_field_without_effect_is_named(client: httpx2.AsyncClient) -> None:
    """The header lets the sender see which field changed nothing."""
    answer = await client.post("/open-webui/search", json={"query": "asyncio", "colour": "red"})
    assert answer.headers["x-ignored-fields"] == "colour"
