"""Requests as a browser and curl send them."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request

from checks import ANSWER, KEY, OPEN_URL, PAGE_URL, QUESTION, URL, check, main

BROWSER = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Sec-Fetch-Site": "none",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
}


def fetch(path, **headers):
    request = urllib.request.Request(f"{URL}{path}", None, {"Authorization": f"Bearer {KEY}", **headers})
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read().decode()


@check("curl: Jina's reader")
def jina_reader():
    text = fetch(f"/jina/{PAGE_URL}?a=b")
    assert text.startswith(f"Title: asyncio\n\nURL Source: {PAGE_URL}?a=b\n")
    assert ANSWER in text.partition("Markdown Content:")[2]
    assert json.loads(fetch(f"/jina/{PAGE_URL}", Accept="application/json"))["data"]["url"] == PAGE_URL
    assert fetch(f"/jina/{PAGE_URL}", **{"X-Return-Format": "markdown"}).startswith("# asyncio")


@check("curl: Jina's search", "search")
def jina_search():
    found = json.loads(
        fetch("/jina/search?q=asyncio&count=2", Accept="application/json", **{"X-Respond-With": "no-content"})
    )
    assert ANSWER in found["data"][0]["description"]


@check("a browser: format=json", "search")
def browser():
    query = urllib.parse.urlencode({"q": QUESTION, "format": "json"})
    request = urllib.request.Request(f"{OPEN_URL}/searxng/search?{query}", None, BROWSER)
    with urllib.request.urlopen(request, timeout=60) as response:
        assert ANSWER in json.load(response)["results"][0]["content"]


main()
