"""Domains at all doors of the server: one form for all of them."""

from __future__ import annotations

from typing import Any

from tests.support.cases import for_each
from tests.support.limits import most
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.urls.site_names import MAX_SITES

MOST = min(most(ResearchRequest, "domains"), most(WebSearchRequest, "domains"))
QUESTION = "What is asyncio?"
ASKED = [{"role": "user", "content": QUESTION}]
SEARCH_TOOL = {"type": "web_search_20250305", "name": "web_search"}


def with_filter(domains: Any) -> dict[str, Any]:
    tool = {"type": "web_search", "filters": {"allowed_domains": domains}}
    return {"model": "research-deep", "input": QUESTION, "tools": [tool]}


DOORS = [
    ("/research", lambda domains: {"query": QUESTION, "domains": domains}),
    ("/llm-platform/web-search", lambda domains: {"query": QUESTION, "domains": domains}),
    ("/tavily/search", lambda domains: {"query": QUESTION, "include_domains": domains}),
    ("/tavily/research", lambda domains: {"input": QUESTION, "stream": True, "include_domains": domains}),
    ("/perplexity/search", lambda domains: {"query": QUESTION, "search_domain_filter": domains}),
    ("/perplexity/chat/completions", lambda domains: {"model": "sonar", "messages": ASKED, "search_domain_filter": domains}),
    ("/perplexity/v1/responses", lambda domains: {
        "input": QUESTION, "effort": "low", "store": False,
        "tools": [{"type": "web_search", "filters": {"search_domain_filter": domains}}]}),
    ("/v1/responses", with_filter),
    ("/anthropic/v1/messages", lambda domains: {
        "model": "research-deep", "max_tokens": 9, "messages": ASKED, "tools": [{**SEARCH_TOOL, "allowed_domains": domains}]}),
]  # fmt: skip
FORMS = [
    ["NASA.gov", "*.edu", "https://www.bücher.de/x"],
    '["nasa.gov", ".edu", "bücher.de"]',
    "nasa.gov, edu bücher.de",
]
NAMES = ("nasa.gov", "edu", "xn--bcher-kva.de")


@for_each(("path", "body"), DOORS)
async def test_domains_in_any_syntax_are_accepted(path: str, body: Any) -> None:
    """Every syntax gives the same sites. Many sites are accepted, and blank entries are dropped."""
    services = FakeServices()
    async with app_client(services) as client:
        for form in FORMS:
            response = await client.post(path, json=body(form))
            assert response.status_code == 200, response.text
            assert services.requests[-1].domains == NAMES
        assert (await client.post(path, json=body(["a.org"] * MOST))).status_code == 200
        assert (await client.post(path, json=body([""]))).status_code == 200
    assert services.requests[-1].domains == ()


@for_each(("path", "body"), DOORS)
async def test_an_invalid_site_is_refused(path: str, body: Any) -> None:
    """The error names the field and the valid syntax, and does not repeat the value."""
    services = FakeServices()
    many = ["a.org"] * (MAX_SITES + 1)
    async with app_client(services) as client:
        for wrong in (["a.org", "secret b"], ["secret.*"], "secret..b", many, ["ftp://secret"], {"secret": 1}):
            response = await client.post(path, json=body(wrong))
            assert response.status_code in (400, 422), response.text
            assert "domain" in response.text
            assert "secret" not in response.text
    assert not services.requests


async def test_both_lists_of_tavily_have_one_limit() -> None:
    """It holds for all sites together: more were an internal error."""
    half = MAX_SITES // 2
    async with app_client(FakeServices()) as client:
        for number, status in ((MAX_SITES - half, 200), (MAX_SITES - half + 1, 400)):
            body = {"query": "q", "include_domains": ["a.org"] * half, "exclude_domains": ["b.org"] * number}
            response = await client.post("/tavily/search", json=body)
            assert response.status_code == status, response.text
    assert f"exclude_domains: must have at most {MAX_SITES} sites together with include_domains" in response.text
