"""The requests of LibreChat's web search when its three addresses point to this server. The package contains a whole
application, so librechat_requests.json records the requests and their origin.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from pathlib import Path

from checks import ANSWER, KEY, PAGE_URL, URL, check, main

REQUESTS = json.loads(Path(__file__).with_name("librechat_requests.json").read_text(encoding="utf-8"))


def send(setting):
    """Send the recorded request of a setting. The setting's value is an address of this server."""
    recorded = REQUESTS[setting]
    url = f"{URL}{recorded['value']}{recorded['path']}"
    if "query" in recorded:
        url = f"{url}?{urllib.parse.urlencode(recorded['query'])}"
    body = json.dumps(recorded["body"]).replace('"PAGE"', json.dumps(PAGE_URL)).encode() if "body" in recorded else None
    headers = {name: value.replace("KEY", KEY) for name, value in recorded["headers"].items()}
    request = urllib.request.Request(url, body, headers, method=recorded["method"])
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())


@check("searxngInstanceUrl", "search")
def search():
    [first, *_] = send("searxngInstanceUrl")["results"]
    assert ANSWER in first["content"]
    assert first["title"]
    assert first["url"]


@check("firecrawlApiUrl")
def scrape():
    """LibreChat uses the Markdown if the answer has no HTML."""
    answer = send("firecrawlApiUrl")
    assert answer["success"] is True
    assert ANSWER in answer["data"]["markdown"]
    assert not {"html", "rawHtml"}.intersection(answer["data"])
    assert answer["data"]["metadata"]["sourceURL"] == PAGE_URL


@check("jinaApiUrl")
def rerank():
    [first, second] = send("jinaApiUrl")["results"]
    assert (first["index"], first["document"]["text"]) == (1, ANSWER)
    assert first["relevance_score"] > second["relevance_score"]


main()
