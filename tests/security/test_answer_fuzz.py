"""Repaired and damaged answers of models and of SearXNG are parsed as intended, or raise a documented error."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import fuzz

from modules.llm_platform.application.research.model_output.lenient_json import read_values
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import WebSearchConnectionError, WebSearchError
from modules.llm_platform.domain.urls.canonical_url import is_web_url
from modules.llm_platform.infrastructure.http.untrusted_json import UNTRUSTED_TEXT_CHARS
from modules.llm_platform.infrastructure.search.searxng.answer import SearXNGConfig
from modules.llm_platform.infrastructure.search.searxng.web_search import SearXNGWebSearchAdapter

RECORDINGS = Path(__file__).parent.parent / "recordings" / "searxng"
REQUEST = WebSearchRequest(query="tcp", count=50)

# Characters with a meaning in JSON, and those that careless parsers lose: line ends, control characters, separators.
TEXTS = st.text(st.sampled_from("\r\n\t\\\"'`ab ,:[]{}()#/é\x00\x0b\x1f\x85\xa0\u2028\ufeff😀"), max_size=8)
SCALARS = TEXTS | st.integers(-9, 10**6) | st.booleans() | st.none()
ROWS = st.lists(
    st.lists(SCALARS, min_size=1, max_size=4) | st.dictionaries(TEXTS, SCALARS, min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)
DAMAGES: dict[str, Callable[[str], str]] = {
    "an extra comma": lambda text: text[:-1] + ",]",
    "a comment": lambda text: "[ // as asked\n" + text[1:],
    "a long comment": lambda text: "[ /* [ as asked */" + text[1:],
    "no end": lambda text: text[:-1],
    "text around it": lambda text: f"Here you are:\n\n{text[:-1]},]\n\nThat is all.",
    "full-width brackets": lambda text: "［" + text[1:-1] + "］",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
@settings(max_examples=fuzz.chosen(60, 5_000))
@given(rows=ROWS, is_ascii=st.booleans(), indent=st.sampled_from([None, 1]))
def test_repair_changes_no_value(
    damage: Callable[[str], str], rows: list[Any], is_ascii: bool, indent: int | None
) -> None:
    """Repair keeps every string, number and key as strict JSON reads it."""
    text = damage(json.dumps(rows, ensure_ascii=is_ascii, indent=indent))
    assert read_values(text, incomplete=True) == [rows]


@settings(max_examples=fuzz.chosen(60, 5_000))
@given(rows=st.lists(st.lists(TEXTS | st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=3))
def test_literals_of_python_are_read(rows: list[Any]) -> None:
    """A list in Python syntax, with Python's escapes, is read as the same list."""
    assert read_values(repr(rows)) == [rows]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("http://[::1"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _recorded() -> Iterator[Any]:
    for path in sorted(RECORDINGS.glob("*.json")):
        body = json.loads(path.read_text(encoding="utf-8"))["response"].get("body")
        if isinstance(body, dict) and "results" in body:
            yield {key: value[:3] if isinstance(value, list) else value for key, value in body.items()}


SEARCHES = list(_recorded())
CONFIGS = [
    {
        "categories": ["general", "web"],
        "engines": [
            {"name": name, "categories": ["general", "web"], "enabled": name != "bing", "shortcut": name[:2]}
            for name in ("google", "bing", "a b")
        ],
    }
]
TIMINGS = st.none() | st.text(st.sampled_from("total;_0dur=,. google"), max_size=40)


def _positions(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each nested value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in inner:
        yield (*path, key)
        yield from _positions(member, (*path, key))


@st.composite
def damaged(draw: st.DrawFn, bodies: list[Any]) -> Any:
    """A recorded body in which some values are replaced with values of any type."""
    body = copy.deepcopy(draw(st.sampled_from(bodies)))
    for _ in range(draw(st.integers(1, 4))):
        *path, last = draw(st.sampled_from(list(_positions(body))))
        holder = body
        for key in path:
            holder = holder[key]
        holder[last] = draw(JSON)
    return body


async def _search(body: bytes, timing: str | None) -> None:
    """Check that a search fails with its documented errors, or returns bounded results that can be serialised."""
    headers = {"content-type": "application/json", **({"server-timing": timing} if timing else {})}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=body))
    async with httpx2.AsyncClient(transport=transport) as client:
        adapter = SearXNGWebSearchAdapter("http://127.0.0.1:9", client=client)
        try:
            found = await adapter.search(REQUEST)
        except (WebSearchError, WebSearchConnectionError):
            return
    assert len(found.results) <= REQUEST.count
    assert all(is_web_url(item.url) and len(item.snippet) <= UNTRUSTED_TEXT_CHARS for item in found.results)
    assert found.model_dump_json().encode()


@settings(max_examples=fuzz.chosen(150, 5_000))
@given(damaged(SEARCHES), TIMINGS)
async def test_damaged_search_is_read_or_an_error(body: Any, timing: str | None) -> None:
    """A field of a wrong type is dropped, or fails the search with a documented error."""
    await _search(json.dumps(body).encode(), timing)


@settings(max_examples=fuzz.chosen(60, 5_000))
@given(st.sampled_from(SEARCHES), st.data())
async def test_spoilt_bytes_are_read_or_an_error(body: Any, data: st.DataObject) -> None:
    """Changed, missing or extra bytes never raise an undocumented error."""
    good = json.dumps(body, ensure_ascii=False).encode()
    at = data.draw(st.integers(0, len(good)))
    await _search(good[:at] + data.draw(st.binary(max_size=3)) + good[at + data.draw(st.integers(0, 40)) :], None)


@settings(max_examples=fuzz.chosen(60, 5_000))
@given(damaged(CONFIGS))
def test_damaged_list_of_engines_is_read(body: dict[str, Any]) -> None:
    """A wrongly described engine in /config is left out."""
    config = SearXNGConfig(json.loads(json.dumps(body), parse_constant=lambda _: None))
    assert all(isinstance(name, str) for name in config.engines())
    assert config.check("web", ["google"]).kind == "web"
