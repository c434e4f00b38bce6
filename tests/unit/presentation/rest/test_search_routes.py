"""The search routes, in the format of the platform and in SearXNG's format."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.unit.presentation.rest.fake_platform import HIT, FakeServices

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import (
    VerbatimWebSearchRequest,
    WebSearchRequest,
    WebSearchResponse,
)

BLOCKED = Degraded(component="searxng/google", reason="captcha")
SEARXNG_JSON: dict[str, Any] = {
    "query": "q",
    "results": [{"url": "https://example.org", "title": "Grüße", "engines": ["bing"], "score": 1.5, "img_src": None}],
    "answers": [{"answer": "42"}],
    "corrections": [],
    "infoboxes": [],
    "suggestions": ["more"],
    "unresponsive_engines": [["qwant", "timeout"]],
    "something_new": {"a": [1, 2]},
}


async def test_web_search_has_the_documented_fields(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """The response has exactly the documented fields, and the request has its documented defaults."""
    services.found = services.found.with_degraded([BLOCKED])
    answer = await client.post("/llm-platform/web-search", json={"query": " solar "})
    assert answer.json() == {
        "query": "q",
        "total_matches": 7,
        "results": [
            {
                "title": HIT.title,
                "url": HIT.url,
                "snippet": HIT.snippet,
                "summary": None,
                "site_name": None,
                "published_date": None,
            }
        ],
        "provider": "fake",
        "degraded": [{"component": "searxng/google", "reason": "captcha", "until": None}],
    }
    assert answer.headers["content-type"] == "application/json"
    [asked] = services.requests
    assert isinstance(asked, WebSearchRequest)
    assert not isinstance(asked, VerbatimWebSearchRequest)
    assert asked.model_dump() == WebSearchRequest(query="solar").model_dump()


async def test_request_fields_reach_the_service(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """Every field reaches the service."""
    values = {
        "query": "solar",
        "freshness": "oneWeek",
        "summary": False,
        "count": 50,
        "page": 2,
        "engines": ["google news"],
        "sources": ["news", "academic"],
        "language": "en_us",
        "time_range": "month",
        "domains": ["python.org"],
    }
    assert (await client.post("/llm-platform/web-search", json=values)).status_code == 200
    assert services.requests[0].model_dump() == WebSearchRequest(**values).model_dump()


async def test_searxng_json_is_passed_on(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """The JSON of SearXNG is unchanged; a missing `number_of_results` is added for older clients."""
    services.found = WebSearchResponse(query="q", provider="searxng", results=(HIT,), raw=SEARXNG_JSON)
    answer = await client.post("/search", json={"q": "python asyncio", "engines": ["google"]})
    assert answer.json() == {**SEARXNG_JSON, "number_of_results": 1}
    services.found = WebSearchResponse(query="q", provider="searxng", raw={**SEARXNG_JSON, "number_of_results": 990})
    assert (await client.get("/search?q=x")).json()["number_of_results"] == 990


async def test_unsafe_addresses_are_not_passed_on(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """An address with another scheme than http, https or doc is left out, with the result or link that is nothing without it.

    Addresses lose their credentials and texts their control characters.
    """
    bad, good = " java\tscript:alert(1)", "https://example.org/a"
    row = {"url": "https://user:pw@example.org/a", "title": "A \x1b[31mred\x9b \u202etitle", "engine": "e"}
    row |= {
        "parsed_url": ["https", "user:pw@example.org", "/a", "", "", ""],
        "img_src": bad,
        "thumbnail": "data:image/png,x",
    }
    row |= {
        "iframe_src": "file:///etc/passwd",
        "content": "javascript:alert(2)",
        "magnetlink": "magnet:?xt=1",
        "pubdate": None,
    }
    services.found = WebSearchResponse(
        query="q",
        provider="searxng",
        raw={
            "query": "q",
            "results": [{"url": bad, "title": "bad"}, row, {"template": "key-value.html", "key": "Note: a value"}],
            "answers": [{"answer": "42", "url": "vbscript:x"}, {"answer": "Note: 43", "url": good}],
            "infoboxes": [
                {"infobox": "A", "id": bad, "urls": [{"title": "t", "url": bad}, {"title": "u", "url": good}]}
            ],
            "suggestions": ["more\x1b"],
            "nested": {"a": [{"link": bad, "image": {"src": bad, "alt": "b"}}]},
        },
    )
    answer = (await client.get("/search", params={"q": "q"})).json()
    assert answer["results"] == [
        {
            "url": good,
            "title": "A [31mred title",
            "engine": "e",
            "parsed_url": ["https", "example.org", "/a", "", "", ""],
            "magnetlink": "magnet:?xt=1",
            "pubdate": None,
        },
        {"template": "key-value.html", "key": "Note: a value"},
    ]
    assert answer["answers"] == [{"answer": "42"}, {"answer": "Note: 43", "url": good}]
    assert answer["infoboxes"] == [{"infobox": "A", "urls": [{"title": "u", "url": good}]}]
    assert (answer["suggestions"], answer["nested"]) == (["more"], {"a": [{"image": {"alt": "b"}}]})


async def test_a_title_that_begins_with_the_name_of_a_language_is_passed_on(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """Words before a colon and a blank are no scheme: the result keeps its title, and the list its suggestion."""
    row = {"url": "https://example.org/a", "title": "JavaScript: The Good Parts", "content": "VBScript: a language"}
    services.found = WebSearchResponse(
        query="q", provider="searxng", raw={"results": [row], "suggestions": ["javascript: the weird parts"]}
    )
    answer = (await client.get("/search", params={"q": "q"})).json()
    assert answer["results"] == [row]
    assert answer["suggestions"] == ["javascript: the weird parts"]


async def test_a_page_is_listed_once(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """Spellings of one address are one result, of every provider; the images of a page and results without address stay."""
    first = "https://example.org/a"
    same = ["http://example.org/a/", "https://www.example.org/a#part", "https://example.org/a?utm_source=x"]
    images = [{"url": first, "img_src": f"https://example.org/{name}.png"} for name in ("one", "two")]
    rows = [{"url": first}, *({"url": url} for url in same), *images, {"key": "a"}, {"key": "b"}, {"url": f"{first}b"}]
    services.found = WebSearchResponse(query="q", provider="searxng", raw={"results": rows})
    answer = (await client.get("/search?q=x")).json()
    assert answer["results"] == [{"url": first}, *images, {"key": "a"}, {"key": "b"}, {"url": f"{first}b"}]
    assert answer["number_of_results"] == len(answer["results"])
    found = tuple(HIT.model_copy(update={"url": url}) for url in (first, *same))
    services.found = WebSearchResponse(query="q", provider="bocha", results=found)
    assert [row["url"] for row in (await client.get("/search?q=x")).json()["results"]] == [first]


async def test_lone_surrogate_is_passed_on(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """A lone surrogate from upstream is escaped in JSON, not a 500."""
    services.found = WebSearchResponse(query="q", raw={"results": [{"title": "a\ud800b"}]})
    answer = await client.get("/search?q=x")
    assert answer.status_code == 200
    assert b'"a\\ud800b"' in answer.content


async def test_other_provider_has_the_format_of_searxng(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """The response of another provider has the same keys, with engines and category in each result."""
    other = HIT.model_copy(update={"source": None, "score": None, "url": "http://[bad", "published_date": "2026-01-01"})
    services.found = WebSearchResponse(
        query="q",
        provider="bocha",
        results=(HIT, other),
        degraded=(BLOCKED,),
        correction="asyncio",
        suggestions=("more",),
        raw={"code": 200, "data": {}},
    )
    answer = (await client.get("/search?q=x")).json()
    first, second = answer.pop("results")
    assert answer == {
        "query": "q",
        "number_of_results": 2,
        "answers": [],
        "corrections": ["asyncio"],
        "infoboxes": [],
        "suggestions": ["more"],
        "unresponsive_engines": [["searxng/google", "captcha"]],
    }
    assert first["engines"] == [first["engine"]] == ["wiki"]
    assert (first["category"], first["score"], first["positions"], first["content"]) == (
        "general",
        0.5,
        [1],
        HIT.snippet,
    )
    assert first["parsed_url"] == ["https", "docs.example.org", "/asyncio", "", "", ""]
    assert (second["engines"], second["score"], second["publishedDate"]) == (["bocha"], 0.5, "2026-01-01")
    assert len(second["parsed_url"]) == 6


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q=!gon+asyncio", {"query": "!gon asyncio"}),
        ("q=:en+what%20now!!", {"query": ":en what now!!"}),
        ("q=x&engines=google,bing%20news", {"engines": ("google", "bing news")}),
        ("q=x&engines=google&engines=bing", {"engines": ("google", "bing")}),
        ("q=x&engines=", {"engines": ()}),
        ("q=x&page=3", {"page": 3}),
        ("q=x&pageno=4", {"page": 4}),
        ("q=x&page=3&pageno=4", {"page": 3}),
        ("q=x&language=de_de&time_range=week", {"language": "de-DE", "time_range": "week"}),
        ("q=x&language=all&time_range=", {"language": None, "time_range": None}),
        ("q=x&language=auto", {"language": None}),
        ("q=x&categories=news,science", {"sources": ("news", "academic"), "categories": ("news", "science")}),
        ("q=x&categories=general&categories=it", {"sources": ("web",), "categories": ("general", "it")}),
        ("q=x&categories=social+media", {"sources": ("web",), "categories": ("social media",)}),
        ("q=x", {"sources": ("web",), "categories": ()}),
        ("q=x&format=json&safesearch=2&theme=simple", {"query": "x", "safesearch": 2}),
        ("q=x&safesearch=", {"safesearch": None}),
        (
            "q=x&categories=it&category_news=1&category_images=on&category_science=off",
            {"categories": ("it", "news", "images")},
        ),
        ("q=%c0%af%c0%af", {"query": "\ufffd\ufffd\ufffd\ufffd"}),
    ],
)
async def test_query_parameters_of_searxng(
    client: httpx2.AsyncClient, services: FakeServices, query: str, expected: dict[str, Any]
) -> None:
    """The query is passed on unchanged; parameters have the meaning that they have in SearXNG."""
    answer = await client.get(f"/search?{query}")
    assert answer.status_code == 200, answer.text
    [asked] = services.requests
    assert isinstance(asked, VerbatimWebSearchRequest)
    assert {name: getattr(asked, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"q": "x", "engines": "google, bing", "pageno": 2}, {"engines": ("google", "bing"), "page": 2}),
        ({"q": "x", "engines": ["google news"], "page": 1}, {"engines": ("google news",), "page": 1}),
        ({"q": "x", "categories": ["news"], "language": "all"}, {"sources": ("news",), "language": None}),
        ({"q": "x", "time_range": ""}, {"time_range": None}),
        ({"q": "x", "safesearch": 0}, {"safesearch": 0}),
    ],
    ids=str,
)
async def test_json_body_of_searxng(
    client: httpx2.AsyncClient, services: FakeServices, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    """The same parameters by POST; lists can be comma-separated lists."""
    assert (await client.post("/search", json=body)).status_code == 200
    assert {name: getattr(services.requests[0], name) for name in expected} == expected


@pytest.mark.parametrize(
    "body",
    [
        {"query": "x"},
        {"q": "!!g x"},
        {"q": "x", "engines": 5},
        {"q": "x", "engines": ["google", 5]},
        {"q": "x", "page": "2"},
        {"q": "x", "categories": {"a": 1}},
        {"q": "x", "page": 0},
        {"q": "x", "safesearch": 3},
        {"q": "x", "safesearch": True},
    ],
    ids=str,
)
async def test_invalid_body_is_refused(
    client: httpx2.AsyncClient, services: FakeServices, body: dict[str, Any]
) -> None:
    """422 that uses the field names of the request."""
    answer = await client.post("/search", json=body)
    assert answer.status_code == 422
    assert {error["loc"][1] for error in answer.json()["errors"]} <= {
        "q",
        "engines",
        "page",
        "categories",
        "safesearch",
    }
    assert services.requests == []


async def test_form_of_searxng(client: httpx2.AsyncClient, services: FakeServices) -> None:
    """A form has the same parameters as the query string."""
    form = {
        "q": "!gon Käse & Brot",
        "engines": "google,bing news",
        "pageno": "2",
        "category_news": "1",
        "safesearch": "1",
    }
    assert (await client.post("/search", data={**form, "format": "json"})).status_code == 200
    [asked] = services.requests
    assert isinstance(asked, VerbatimWebSearchRequest)
    assert (asked.query, asked.engines, asked.page) == ("!gon Käse & Brot", ("google", "bing news"), 2)
    assert (asked.categories, asked.safesearch, asked.sources) == (("news",), 1, ("news",))


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        (b"q=%00", ["body", "q"]),
        (b"engines=google", ["body", "q"]),
        (b"", ["body", "q"]),
        (b"q=x&pageno=two", ["body", "pageno"]),
        (b"q=x&safesearch=9", ["body", "safesearch"]),
        (b"&".join([b"a=1"] * 600), ["body"]),
    ],
)
async def test_invalid_form_is_refused(
    client: httpx2.AsyncClient, services: FakeServices, body: bytes, loc: list[str]
) -> None:
    """422 that names the field."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await client.post("/search", content=body, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"] == loc
    assert services.requests == []


async def test_json_with_media_type_of_a_form_is_read_as_json(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """`curl -d '{…}'` sends this media type."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await client.post("/search", content=b' {"q": "x", "page": 3}', headers=headers)).status_code == 200
    assert services.requests[0].page == 3


@pytest.mark.parametrize(("own", "expected"), [(None, 30), (0, 30), (7, 30), (990, 990), ("many", 30)])
async def test_number_of_results_is_at_least_the_sent_results(
    client: httpx2.AsyncClient, services: FakeServices, own: Any, expected: int
) -> None:
    """All results of SearXNG are sent, and counted."""
    rows = [{**SEARXNG_JSON["results"][0], "url": f"https://example.org/{number}"} for number in range(30)]
    raw = {**SEARXNG_JSON, "results": rows}
    raw |= {} if own is None else {"number_of_results": own}
    services.found = WebSearchResponse(query="q", provider="searxng", results=(HIT,) * 10, raw=raw)
    assert (await client.get("/search?q=x")).json()["number_of_results"] == expected
