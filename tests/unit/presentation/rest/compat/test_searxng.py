"""The API of SearXNG below its prefix."""

from __future__ import annotations

import re

import httpx2
import pytest
from tests.unit.presentation.rest.fake_platform import HIT, FakeServices, app_client


@pytest.mark.parametrize("path", ["/searxng", "/searxng/", "/searxng/search"])
async def test_search_is_the_same_as_without_the_prefix(client: httpx2.AsyncClient, path: str) -> None:
    answer = await client.get(path, params={"q": "asyncio", "format": "json", "pageno": 2})
    plain = await client.get("/search", params={"q": "asyncio", "page": 2})
    assert answer.json() == plain.json()
    assert answer.json()["results"][0]["url"] == HIT.url


@pytest.mark.parametrize("query", ["", "?q=", "?format=html"])
@pytest.mark.parametrize("path", ["/searxng", "/searxng/"])
async def test_instance_without_a_query_answers_with_its_page(
    client: httpx2.AsyncClient, path: str, query: str
) -> None:
    """local-deep-research opens the address at its start, and takes anything but 200 for an instance that is down."""
    answer = await client.get(f"{path}{query}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_no_query_is_an_error_where_json_is_asked_for(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/searxng", params={"format": "json"})
    assert (answer.status_code, answer.json()["error"]) == (422, "q: is missing")


async def test_health_of_the_instance_is_that_of_searxng(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/searxng/healthz")
    assert (answer.status_code, answer.text, answer.headers["content-type"]) == (200, "OK", "text/plain; charset=utf-8")


async def test_results_as_html_are_escaped(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """local-deep-research reads `.result`, its `h3`, the first link and `.content` of the page."""
    texts = {"title": "<script>alert(1)</script>", "url": 'https://example.org/?a="><b>', "snippet": "<i>"}
    hostile = HIT.model_copy(update=texts)
    services.found = services.found.model_copy(update={"results": (HIT, hostile)})
    answer = await client.get("/searxng/search", params={"q": "asyncio", "format": "html"})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    first, second = re.findall(r'<article class="result .*</article>', answer.text)
    assert f'<h3><a href="{HIT.url}" rel="noreferrer">{HIT.title}</a></h3><p class="content">{HIT.snippet}</p>' in first
    assert not {"<script", "<b>", "<i>"}.intersection(re.findall(r"<\w+>?", second))


async def test_form_is_accepted(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/searxng/search", data={"q": "asyncio", "format": "json"})
    assert answer.json()["results"][0]["url"] == HIT.url


async def test_other_format_is_refused(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/searxng/search", params={"q": "asyncio", "format": "rss"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"] == ["query", "format"]


async def test_config_lists_what_can_be_searched(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """The fields are those of SearXNG's `/config`, with a provider as an engine.

    Documents are an engine if they are the only provider of web results.
    """
    config = (await client.get("/searxng/config")).json()
    assert config["categories"] == ["general", "news", "science"]
    [engine] = config["engines"]
    assert (engine["name"], engine["categories"], engine["enabled"]) == (
        "searxng",
        ["general", "news", "science"],
        True,
    )
    assert set(config) >= {
        "categories",
        "engines",
        "plugins",
        "instance_name",
        "locales",
        "default_locale",
        "autocomplete",
        "safe_search",
        "default_theme",
        "version",
        "brand",
        "limiter",
        "doi_resolvers",
        "default_doi_resolver",
        "public_instance",
    }
    assert config["brand"].keys() == {"PRIVACYPOLICY_URL", "CONTACT_URL", "GIT_URL", "GIT_BRANCH", "DOCS_URL"}
    assert config["limiter"].keys() == {
        "enabled",
        "botdetection.ip_limit.link_token",
        "botdetection.ip_lists.pass_searxng_org",
    }
    assert set(engine) == {
        "name",
        "categories",
        "shortcut",
        "enabled",
        "paging",
        "language_support",
        "languages",
        "regions",
        "safesearch",
        "time_range_support",
        "timeout",
    }
    services.source_kinds.pop("searxng")
    config = (await client.get("/searxng/config")).json()
    assert [(engine["name"], engine["categories"]) for engine in config["engines"]] == [("documents", ["general"])]


async def test_autocompleter_returns_the_query_and_no_suggestions(client: httpx2.AsyncClient) -> None:
    """The shape that browsers read; any text is sent back as JSON, not as HTML."""
    for query in ("asyn", "", "</script>é"):
        answer = await client.get("/searxng/autocompleter", params={"q": query})
        assert answer.json() == [query, []]
        assert answer.headers["content-type"] == "application/x-suggestions+json"


async def test_key_is_accepted_as_the_password() -> None:
    async with app_client(LLM_PLATFORM_API_KEYS="long-enough-key") as client:
        for auth, status in ((("user", "long-enough-key"), 200), (("long-enough-key", "x"), 401)):
            answer = await client.get("/searxng", params={"q": "asyncio"}, auth=auth)
            assert answer.status_code == status
        elsewhere = await client.get("/search", params={"q": "asyncio"}, auth=("user", "long-enough-key"))
        assert elsewhere.status_code == 401
