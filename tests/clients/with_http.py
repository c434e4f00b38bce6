"""What Open WebUI and a browser send. Open WebUI's own package is its whole application, so its requests are made by hand."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request

from checks import ANSWER, KEY, OPEN_URL, PAGE_URL, QUESTION, URL, check, main

BOT = "Open WebUI (https://github.com/open-webui/open-webui) RAG Bot"
LOADER = "Open WebUI (https://github.com/open-webui/open-webui) External Web Loader"
BROWSER = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Sec-Fetch-Site": "none",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
}


def send(url, headers, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    if data:
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())


@check("Open WebUI: external web search")
def search():
    headers = {"User-Agent": BOT, "Authorization": f"Bearer {KEY}"}
    [first, *_] = send(f"{URL}/open-webui/search", headers, {"query": QUESTION, "count": 3})
    assert ANSWER in first["snippet"]
    assert first["link"]
    assert first["title"]


@check("Open WebUI: external web loader")
def load():
    headers = {"User-Agent": LOADER, "Authorization": f"Bearer {KEY}"}
    [page] = send(f"{URL}/open-webui/load", headers, {"urls": [PAGE_URL]})
    assert ANSWER in page["page_content"]
    assert page["metadata"]["source"] == PAGE_URL


@check("Open WebUI: SearXNG")
def searxng():
    query = {"q": QUESTION, "format": "json", "pageno": 1, "safesearch": "1", "language": "all", "time_range": ""}
    query |= {"categories": "", "theme": "simple", "image_proxy": 0}
    address = f"{OPEN_URL}/searxng/search?{urllib.parse.urlencode(query)}"
    headers = {"User-Agent": BOT, "Accept": "text/html", "Accept-Encoding": "gzip, deflate", "Connection": "keep-alive"}
    assert ANSWER in send(address, headers)["results"][0]["content"]


@check("local-deep-research: SearXNG")
def local_deep_research():
    """It opens the address, then reads `.result` of a page. Its package brings a whole application."""
    with urllib.request.urlopen(f"{OPEN_URL}/searxng", timeout=60) as response:
        assert response.status == 200
    query = {"q": QUESTION, "categories": "general", "language": "en", "format": "html", "pageno": 1, "safesearch": 0}
    address = f"{OPEN_URL}/searxng/search?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(urllib.request.Request(address, None, BROWSER), timeout=60) as response:
        text = response.read().decode()
    assert '<article class="result ' in text
    assert ANSWER in text.partition('<p class="content">')[2]


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


@check("curl: Jina's search")
def jina_search():
    found = json.loads(fetch("/jina/search?q=asyncio&count=2", Accept="application/json", **{"X-Respond-With": "no-content"}))
    assert ANSWER in found["data"][0]["description"]


@check("a browser: format=json")
def browser():
    query = urllib.parse.urlencode({"q": QUESTION, "format": "json"})
    assert ANSWER in send(f"{OPEN_URL}/searxng/search?{query}", BROWSER)["results"][0]["content"]


main()
