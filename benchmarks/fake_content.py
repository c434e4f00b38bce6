"""What the fake upstreams know: results, pages and prose, the same for the same request in every process."""

from __future__ import annotations

import functools
import html
import json
import random
import zlib
from typing import Any

RESULTS = 10
SHARED_RANKS = (0, 2, 4)  # the same pages for all queries that share their first two words: duplicates to be found
PAGE_SECTIONS, PARAGRAPHS, SENTENCES_EACH = 4, 5, 5  # about 13 kB
MENU_ENTRIES = 30
PAGE_BYTES = (
    40_000,
    70_000,
    100_000,
    100_000,
    160_000,
    300_000,
)  # as 91 pages of a public benchmark, whose median is 109 kB
TEASER_SHARE = 0.25  # share of a page's bytes; most of the others are scripts
TEASER = '<div class="card"><a href="/page/more/{number}"><h3>More, part {number}</h3><p>A short teaser.</p></a></div>'
DATA = '{"key":"value","flags":[1,2,3]},'  # piece of a script
HOST_GROUPS = 40  # the pages of a query are on hosts of one of them, so that few hosts have two pages of a research run

KINDS = (
    "a practical review",
    "open questions",
    "field results",
    "costs and benefits",
    "what changed recently",
    "a primer",
)
SENTENCES = (
    "A survey of {n} sites found that {topic} improved the median result by {p} percent over {y} years.",
    "Most of the cost of {topic} is spent before the first prototype is switched on.",
    "Reviewers compared {n} approaches to {topic} and ranked them by how well they could be repeated.",
    "Early figures for {topic} were taken under favourable conditions and seldom confirmed elsewhere.",
    "The budget for {topic} rose to {n} million in 20{y}, roughly {p} percent more than before.",
    "Unlike older methods, {topic} needs no central coordinator, which removes a frequent cause of failure.",
    "Operators report an availability of {p} percent for {topic} during the last winter.",
    "It is still open what {topic} costs over its whole life; a study with {n} partners is under way.",
)


def prose(topic: str, seed: str, sentences: int, cited: int = 0, first: int = 0) -> str:
    """Return the same text for the same arguments, in every process. `cited`: the sources that its sentences cite in turn."""
    chance = random.Random(f"{topic}|{seed}")
    out = []
    for number in range(sentences):
        text = chance.choice(SENTENCES).format(
            topic=topic, n=chance.randint(3, 90), p=chance.randint(4, 97), y=chance.randint(10, 25)
        )
        out.append(f"{text[:-1]} [{(first + number) % cited + 1}]." if cited else text)
    return " ".join(out)


@functools.lru_cache(4096)
def hits(query: str, origin: str) -> tuple[dict[str, Any], ...]:
    """Ten results on `origin`, in which the first `{}` stands for a group of hosts and the second for the rank, from 1."""
    out = []
    for rank in range(RESULTS):
        topic = " ".join(query.split()[:2]) if rank in SHARED_RANKS else query
        name = "-".join(topic.lower().split())
        url, text = f"{origin.format(_host_group(topic), rank + 1)}/page/{name}/{rank}", prose(topic, str(rank), 2)
        out.append({"title": f"{topic}: {KINDS[rank % len(KINDS)]}, part {rank}", "url": url, "text": text})
    return tuple(out)


def _host_group(topic: str) -> int:
    return 1 + zlib.crc32(topic.encode()) % HOST_GROUPS


@functools.lru_cache(4096)
def searxng(query: str, origin: str) -> bytes:
    results = [
        {
            "title": hit["title"],
            "url": hit["url"],
            "content": hit["text"],
            "publishedDate": "2026-03-04T00:00:00",
            "engine": "google",
            "engines": ["google", "bing"],
            "category": "general",
            "positions": [rank + 1],
            "score": 3.0 / (rank + 1),
            "template": "default.html",
            "thumbnail": "",
            "img_src": "",
            "priority": "",
        }
        for rank, hit in enumerate(hits(query, origin))
    ]
    answer = {"query": query, "results": results, "answers": [], "corrections": [], "infoboxes": [], "suggestions": []}
    return json.dumps({**answer, "unresponsive_engines": []}).encode()


@functools.lru_cache(4096)
def bocha(query: str, origin: str) -> bytes:
    pages = [
        {"name": h["title"], "url": h["url"], "snippet": h["text"], "summary": h["text"]} for h in hits(query, origin)
    ]
    data = {"queryContext": {"originalQuery": query}, "webPages": {"totalEstimatedMatches": len(pages), "value": pages}}
    return json.dumps({"code": 200, "log_id": "fake", "msg": None, "data": data}).encode()


@functools.lru_cache(1024)
def read_page(url: str) -> bytes:
    """Return a page of about 13 kB as r.jina.ai gives it."""
    topic, _, rank = url.partition("/page/")[2].rpartition("/")
    topic = topic.replace("-", " ") or "page"
    sections = [
        "\n\n".join([f"## Section {section}", *(_paragraph(topic, rank, section, n) for n in range(PARAGRAPHS))])
        for section in range(1, PAGE_SECTIONS + 1)
    ]
    body = "\n\n".join([f"# {topic}, part {rank}", *sections])
    return f"Title: {topic}, part {rank}\n\nURL Source: {url}\n\nMarkdown Content:\n{body}\n".encode()


@functools.lru_cache(512)
def html_page(path: str) -> bytes:
    """Return the same page as HTML, of a real page's size: a menu, teasers, scripts and styles around the article."""
    lines = read_page(path).decode().split("Markdown Content:\n")[1].splitlines()
    menu = "".join(f'<li><a href="/page/menu/{n}">Menu entry {n}</a></li>' for n in range(MENU_ENTRIES))
    body = "\n".join(_html_line(line) for line in lines if line)
    head = f"<title>{html.escape(lines[0].removeprefix('# '))}</title>"
    main = f"<nav><ul>{menu}</ul></nav><main><article>{body}</article></main>"
    size = PAGE_BYTES[zlib.crc32(path.encode()) % len(PAGE_BYTES)]
    teasers = "".join(TEASER.format(number=n) for n in range(int(size * TEASER_SHARE / len(TEASER))))
    used = len(head) + len(main) + len(teasers)
    script = f"<script>window.data=[{DATA * (max(0, size - used) // len(DATA))}0]</script>"
    end = f"<aside>{teasers}</aside><footer>All rights reserved.</footer>{script}"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{main}{end}</body></html>".encode()


def _html_line(line: str) -> str:
    level = len(line) - len(line.lstrip("#"))
    tag = f"h{level}" if level else "p"
    return f"<{tag}>{html.escape(line.lstrip('# '))}</{tag}>"


def _paragraph(topic: str, rank: str, section: int, number: int) -> str:
    return prose(topic, f"{rank}|{section}|{number}", SENTENCES_EACH)
