"""The requests of one chat turn of Open WebUI, with the prompts of its package.

The application needs hundreds of packages and a database, so this program sends the requests in the way its functions do:
`generate_chat_completion` of routers/openai.py, the tasks of routers/tasks.py, `search_external` of retrieval/web/external.py,
the loader of retrieval/loaders/external_web.py, and `agenerate_openai_batch_embeddings` of retrieval/utils.py (0.12.4).
"""

from __future__ import annotations

import json
import re
import sysconfig
import urllib.parse
import urllib.request
from pathlib import Path

from checks import ANSWER, EMBEDDER, KEY, OPEN_URL, PAGE_URL, QUESTION, URL, check, main

CONFIG = Path(sysconfig.get_path("purelib"), "open_webui/config.py").read_text()
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
BOT = "Open WebUI (https://github.com/open-webui/open-webui) RAG Bot"
LOADER = "Open WebUI (https://github.com/open-webui/open-webui) External Web Loader"
SEARCH = {
    "type": "function",
    "function": {
        "name": "search_web",
        "description": "Search the public web.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "count": {"type": "integer", "default": 5}},
            "required": ["query"],
        },
    },
}


def send(path, body, **headers):
    request = urllib.request.Request(f"{URL}{path}", json.dumps(body).encode(), {**HEADERS, **headers})
    with urllib.request.urlopen(request, timeout=60) as response:
        text = response.read().decode()
    if not body.get("stream"):
        return json.loads(text)
    parts = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert parts[-1] == "[DONE]"
    return [json.loads(part) for part in parts[:-1]]


def prompt(name, messages):
    """Return a template from its settings, filled in as utils/task.py does."""
    template = re.search(rf'DEFAULT_{name}_TEMPLATE = """(.*?)"""', CONFIG, re.DOTALL)[1]
    said = "\n".join(f"{message['role'].upper()}: {message['content']}" for message in messages)
    template = template.replace("{{CURRENT_DATE}}", "2026-11-22")
    return re.sub(r"\{\{MESSAGES:END:\d\}\}", lambda _: said, template)


def task(name, messages):
    """Return a research model's answer message to a task."""
    asked = {"role": "user", "content": prompt(f"{name}_GENERATION_PROMPT", messages)}
    answer = send("/v1/chat/completions", {"model": "research-deep", "messages": [asked], "stream": False})
    return answer["choices"][0]["message"]


def streamed(messages, **fields):
    body = {
        "model": "research-shallow",
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    chunks = send("/v1/chat/completions", body | fields)
    assert chunks[-1]["usage"]["total_tokens"] > 0
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])


USER = {"role": "user", "content": QUESTION}


@check("its list of models")
def models():
    with urllib.request.urlopen(urllib.request.Request(f"{URL}/v1/models", None, HEADERS), timeout=60) as response:
        assert "research-deep" in [model["id"] for model in json.load(response)["data"]]


@check(
    "a chat turn with its web search: queries, search, pages, vectors, answer", "search", "chat", "stream", "embeddings"
)
def turn():
    asked = task("QUERY", [USER])
    assert "annotations" not in asked, asked  # the answer does not come from a research run
    [found, *_] = send("/open-webui/search", {"query": QUESTION, "count": 3}, **{"User-Agent": BOT})
    assert ANSWER in found["snippet"]
    [page] = send("/open-webui/load", {"urls": [PAGE_URL]}, **{"User-Agent": LOADER})
    assert ANSWER in page["page_content"]
    vectors = send("/v1/embeddings", {"input": [page["page_content"], QUESTION], "model": EMBEDDER})["data"]
    assert len(vectors[0]["embedding"]) == len(vectors[1]["embedding"]) > 0
    context = f'<source id="1" name="asyncio">{page["page_content"]}</source>'
    template = re.search(r'DEFAULT_RAG_TEMPLATE = """(.*?)"""', CONFIG, re.DOTALL)[1].replace("{{CONTEXT}}", context)
    assert ANSWER in streamed([{"role": "system", "content": template}, USER])
    assert ANSWER in streamed([{"role": "user", "content": f"{template}\n{QUESTION}"}])


@check("its engine for SearXNG, without an API key", "search")
def searxng():
    query = {"q": QUESTION, "format": "json", "pageno": 1, "safesearch": "1", "language": "all", "time_range": ""}
    query |= {"categories": "", "theme": "simple", "image_proxy": 0}
    headers = {"User-Agent": BOT, "Accept": "text/html", "Accept-Encoding": "gzip, deflate", "Connection": "keep-alive"}
    address = f"{OPEN_URL}/searxng/search?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(urllib.request.Request(address, None, headers), timeout=60) as response:
        assert ANSWER in json.load(response)["results"][0]["content"]


@check("title, tags and follow-ups")
def tasks():
    said = [USER, {"role": "assistant", "content": streamed([USER])}]
    for name in ("TITLE", "TAGS", "FOLLOW_UP"):
        assert "annotations" not in task(name, said)


@check("a second turn", "second turn")
def second_turn():
    said = [
        USER,
        {"role": "assistant", "content": streamed([USER])},
        {"role": "user", "content": f"{QUESTION} Say it again."},
    ]
    assert ANSWER in streamed(said)


@check("its own tools, which a research model needs not call and a passthrough model calls", "tools")
def tools():
    assert ANSWER in streamed([USER], tools=[SEARCH])
    body = {"model": "openai/fake-1", "messages": [USER], "stream": True, "tools": [SEARCH]}
    deltas = [chunk["choices"][0]["delta"] for chunk in send("/v1/chat/completions", body) if chunk["choices"]]
    called = [call for delta in deltas for call in delta.get("tool_calls") or ()]
    assert called[0]["function"]["name"] == "search_web"
    call = {key: value for key, value in called[0].items() if key != "index"}
    said = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": called[0]["id"], "content": ""}
    assert ANSWER in streamed([USER, said, result], model="openai/fake-1", tools=[SEARCH])


main()
