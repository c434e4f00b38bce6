"""
title: Verify answers with llm-platform
description: Checks each answer against the sources that Open WebUI gave the model, with POST /verify of an llm-platform server.
requirements: aiohttp
version: 0.1.0
license: MIT
"""

# Paste this file at Admin Panel > Functions, enable it, and set its valves. A status below the answer says how many sentences the
# sources support and contradict. With the valve `mark`, a mark stands behind each sentence that a source contradicts or that none
# has. If the server fails, the answer stays as it is and the status says so.

import re

import aiohttp
from pydantic import BaseModel, Field

TIMEOUT_S = 10
MAX_SOURCES = 100
MAX_SOURCE_CHARS = 20_000
MAX_TEXT_CHARS = 100_000
REASONING = re.compile(r"<think>.*?(?:</think>|\Z)|<details type=\"reasoning\".*?(?:</details>|\Z)", re.S)
MARKS = {"contradicts": " **✘ contradicted**", "absent": " **○ not found**"}


class Filter:
    class Valves(BaseModel):
        url: str = Field(default="http://localhost:8000", description="Address of the llm-platform server")
        api_key: str = Field(default="", description="API key, if the server has any")
        mark: bool = Field(default=False, description="Mark the sentences that the sources do not support")

    def __init__(self):
        self.valves = self.Valves()

    async def outlet(self, body: dict, __event_emitter__=None) -> dict:
        """Check the last message of a conversation against its sources and the results of its tools."""
        try:
            await self._check(body.get("messages") or [], __event_emitter__)
        except Exception as error:  # noqa: BLE001  # the answer stays as it is, whatever is wrong here
            await tell(__event_emitter__, f"Not verified: {type(error).__name__}")
        return body

    async def _check(self, messages, emit):
        message = messages[-1] if messages and messages[-1].get("role") == "assistant" else None
        answer = message.get("content") if message else None
        text = hide_reasoning(answer) if isinstance(answer, str) else ""
        sources = collect_sources(messages)
        if not sources or not any(map(str.isalnum, text)):
            return
        verified = await self._verify(text[:MAX_TEXT_CHARS], sources)
        counts = verified["counts"]
        found = {
            "supported": counts["supported"] + counts["partial"],
            "contradicted": counts["contradicted"],
            "not found": counts["absent"],
            "not checked": counts["unchecked"],
        }
        marked = mark_text(answer, verified["sentences"])
        await tell(emit, ", ".join(f"{count} {name}" for name, count in found.items() if count))
        if self.valves.mark:
            message["content"] = marked

    async def _verify(self, text, sources):
        headers = {"Authorization": f"Bearer {self.valves.api_key}"} if self.valves.api_key else {}
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
            url = f"{self.valves.url.rstrip('/')}/verify"
            async with session.post(url, json={"text": text, "sources": sources}) as reply:
                reply.raise_for_status()
                return await reply.json()


async def tell(emit, text):
    if emit is not None and text:
        await emit({"type": "status", "data": {"description": text, "done": True}})


def collect_sources(messages):
    """Return the `sources` of the last message as POST /verify takes them.

    Open WebUI numbers the sources of an answer in the order in which their names first appear, and the model cites these numbers.
    """
    numbers, texts = {}, {}
    for source in (messages[-1].get("sources") or []) if messages else []:
        known = source.get("source") or {}
        for document, about in zip(source.get("document") or [], source.get("metadata") or [], strict=False):
            name = (about or {}).get("source") or known.get("id") or "N/A"
            number = numbers.setdefault(name, len(numbers) + 1)
            texts.setdefault(number, (str(known.get("name") or name), []))[1].append(str(document))
    found = [
        {"index": number, "title": title[:300], "text": "\n\n".join(parts).replace("\x00", "")[:MAX_SOURCE_CHARS]}
        for number, (title, parts) in list(texts.items())[:MAX_SOURCES]
    ]
    return [source for source in found if any(map(str.isalnum, source["text"]))]


def hide_reasoning(text):
    """Return the text with empty lines in place of its reasoning, which is no answer. Offsets stay."""
    return REASONING.sub(lambda found: "\n" * len(found[0]), text)


def mark_text(text, sentences):
    """Return the text with a mark behind each sentence with a finding, behind its markers. Offsets are code points."""
    parts, done = [], 0
    for number, sentence in enumerate(sentences):
        mark = MARKS.get(sentence["finding"])
        if mark is None:
            continue
        following = sentences[number + 1]["start"] if number + 1 < len(sentences) else len(text)
        behind = text[sentence["end"] : following].partition("\n")[0].rstrip(" |")
        end = sentence["end"] + (len(behind) if len(behind) <= 200 else 0)
        parts += [text[done:end], mark]
        done = end
    return "".join([*parts, text[done:]])
