"""A plain loop: search, let the model answer or search again, at most three times. What a careful person writes in an hour."""

from __future__ import annotations

import html
import json
import re
import urllib.parse
import urllib.request
from typing import Any, Final

from exchange import play

ROUNDS: Final = 3
RESULTS: Final = 4  # pages that are opened in each round
WINDOW_CHARS: Final = 700  # of a page
TIMEOUT_S: Final = 10
PROMPT: Final = """Notes:

{notes}

Question: {question}

Answer the question in one to three full sentences, from the notes only. If notes contradict each other, give both.
End each sentence with the number of its note in brackets. """
SEARCH_AGAIN: Final = "If the notes do not answer the question, write one line instead: SEARCH: and other search words."
STOP: Final = "If the notes do not answer the question, write that they do not answer it."


def open_json(url: str, body: dict[str, Any] | None = None, timeout: float = TIMEOUT_S) -> Any:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


def best_window(url: str, words: set[str], snippet: str) -> str:
    """Return the part of a page that has most of the words, or the engine's excerpt if the page cannot be read."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            markup = answer.read(3_000_000).decode("utf-8")
    except (OSError, ValueError):
        return snippet
    text = re.sub(r"(?is)<(script|style|head)\b.*?</\1>|<[^>]+>", " ", markup)
    text = " ".join(html.unescape(text).split())
    starts = range(0, max(1, len(text) - WINDOW_CHARS // 2), WINDOW_CHARS // 2)
    return max((text[n : n + WINDOW_CHARS] for n in starts), key=lambda part: len(words & set(part.lower().split())))


def answer(given: dict[str, Any]) -> dict[str, Any]:
    question, notes, urls = given["question"], [], []
    query, text = question, ""
    for left in reversed(range(ROUNDS)):
        found = open_json(f"{given['searxng_url']}/search?format=json&q={urllib.parse.quote(query)}")["results"]
        for result in [result for result in found if result["url"] not in urls][:RESULTS]:
            urls.append(result["url"])
            window = best_window(result["url"], set(query.lower().split()), result["content"])
            notes.append(f"[{len(urls)}] {result['title']} {result.get('publishedDate', '')[:10]}\n{window}")
        prompt = PROMPT.format(notes="\n\n".join(notes), question=question) + (SEARCH_AGAIN if left else STOP)
        body = {"model": given["model"], "messages": [{"role": "user", "content": prompt}]}
        text = open_json(f"{given['model_url']}/chat/completions", body, 900)["choices"][0]["message"][
            "content"
        ].strip()
        again = re.match(r"SEARCH:\s*(.+)", text)
        if again is None:
            break
        query = again[1].strip()[:200]
    return {"answer": text, "sources": [{"index": number, "url": url} for number, url in enumerate(urls, 1)]}


if __name__ == "__main__":
    play(answer)
