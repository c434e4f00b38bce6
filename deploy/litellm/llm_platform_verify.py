"""LiteLLM guardrail: check each answer against what the model was given, with POST /verify of an llm-platform server.

Put this file beside the proxy's config.yaml, set LLM_PLATFORM_URL (and LLM_PLATFORM_KEY if the server has keys), and add:

    guardrails:
      - guardrail_name: llm-platform-verify
        litellm_params:
          guardrail: llm_platform_verify.VerifyGuardrail
          mode: post_call
          default_on: true

The answer is never changed or stopped. It gets `evidence` (the citations) and `evidence_counts` as further fields, a stream in a
last chunk. If the server fails, the answer comes without evidence, and the proxy logs a warning.
"""

import logging
import os
import re

import httpx
from litellm.integrations.custom_guardrail import CustomGuardrail

TIMEOUT_S = 5.0
PASTED_CHARS = 400  # A text of the user with so many characters is material.
MAX_SOURCES = 100
MAX_SOURCE_CHARS = 20_000
MAX_TEXT_CHARS = 100_000

OPENING = re.compile(r"<(document|source|passage)\b([^<>]{0,500})>")
ATTRIBUTE = re.compile(r"(\w+)=[\"']([^\"'<>]{0,300})[\"']")
BLOCK = re.compile(r"^\[(\d{1,3})\] *([^\n]{0,300})\n", re.M)
REASONING = re.compile(r"<think>.*?(?:</think>|\Z)", re.S)

logger = logging.getLogger("llm_platform_verify")


class VerifyGuardrail(CustomGuardrail):
    """Adds evidence to answers. `client` replaces the HTTP client, for tests."""

    def __init__(self, client=None, **kwargs):
        super().__init__(**kwargs)
        self._url = os.environ.get("LLM_PLATFORM_URL", "http://localhost:8000").rstrip("/")
        key = os.environ.get("LLM_PLATFORM_KEY", "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = client or httpx.AsyncClient(timeout=TIMEOUT_S, headers=headers)

    async def async_post_call_success_hook(self, data, user_api_key_dict, response):
        choices = getattr(response, "choices", None) or []
        message = getattr(choices[0], "message", None) if choices else None
        text = getattr(message, "content", None)
        if isinstance(text, str):
            for name, value in (await self._verify(text, data)).items():
                setattr(response, name, value)
        return response

    async def async_post_call_streaming_iterator_hook(self, user_api_key_dict, response, request_data):
        said, last = [], None
        async for chunk in response:
            choices = getattr(chunk, "choices", None)
            if choices and isinstance(text := getattr(choices[0].delta, "content", None), str):
                said.append(text)
            if choices and getattr(chunk, "usage", None) is None:
                last = chunk  # The proxy drops a chunk with usage if the client did not ask for usage.
            yield chunk
        if last is not None and said and (evidence := await self._verify("".join(said), request_data)):
            end = last.model_copy(deep=True)
            end.choices[0].delta.content = None
            end.choices[0].finish_reason = None
            end.provider_specific_fields = {}  # Of a chunk without them the proxy writes its own fields alone.
            for name, value in evidence.items():
                setattr(end, name, value)
            yield end

    async def _verify(self, text, data):
        """Return what POST /verify says, as fields of the answer; empty without material, or if anything fails."""
        try:
            text = hide_reasoning(text)
            sources = collect_sources(data.get("messages") or [])
            if not sources or not any(map(str.isalnum, text)):
                return {}
            body = {"text": text[:MAX_TEXT_CHARS], "sources": sources}
            reply = await self._client.post(f"{self._url}/verify", json=body)
            reply.raise_for_status()
            return describe_evidence(reply.json())
        except Exception as error:  # noqa: BLE001  # the answer of the model must come, whatever is wrong here
            logger.warning("an answer was not verified: %s", type(error).__name__)
            return {}


def hide_reasoning(text):
    """Return the text with empty lines in place of its reasoning, which is no answer. Offsets stay."""
    return REASONING.sub(lambda found: "\n" * len(found[0]), text)


def describe_evidence(verified):
    citations = [citation for sentence in verified["sentences"] for citation in sentence["citations"]]
    counts = verified["counts"]
    return {
        "evidence": citations,
        "evidence_counts": {
            "supported": counts["supported"] + counts["partial"],
            "contradicts": counts["contradicted"],
            "absent": counts["absent"],
            "unchecked": counts["unchecked"],
        },
    }


def collect_sources(messages):
    """Return what the model was given as `sources` of POST /verify: results of tools, marked passages, long texts of the user."""
    found = []
    for message in messages:
        text, role = read_text(message.get("content")), message.get("role")
        passages = list(split_passages(text))
        if passages:
            found += passages
        elif role in ("tool", "function") or (role == "user" and len(text) >= PASTED_CHARS):
            found.append((None, message.get("name") or "", text))
    taken, sources = set(), []
    for number, title, text in reversed(found[-MAX_SOURCES:]):
        if not any(map(str.isalnum, text)):
            continue
        if number is None or number in taken or not 0 < number <= 999:
            number = next(
                free for free in range(1, 1000) if free not in taken and free not in {one[0] for one in found}
            )
        taken.add(number)
        sources.append({"index": number, "title": title[:300], "text": text.replace("\x00", "")[:MAX_SOURCE_CHARS]})
    return sources[::-1]


def read_text(content):
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def split_passages(text):
    """Yield number, title and text of `<source id="1" name="…">`, of `<document index="1">` and of blocks below `[1] Title`."""
    end, closed = 0, {name: text.rfind(f"</{name}>") for name in ("document", "source", "passage")}
    for opening in OPENING.finditer(text):
        if not end <= opening.start() < closed[opening[1]]:  # inside the last element, or without an end
            continue
        values, begin = dict(ATTRIBUTE.findall(opening[2])), opening.end()
        end = text.find(f"</{opening[1]}>", begin)
        number = values.get("id") or values.get("index") or ""
        number = int(number) if number.isdecimal() and len(number) <= 3 else None
        yield number, values.get("name") or values.get("title") or "", text[begin:end]
    blocks = [] if end else list(BLOCK.finditer(text))
    for block, following in zip(blocks, [*blocks[1:], None], strict=False):
        yield (
            int(block[1]),
            block[2],
            f"{block[2]}\n{text[block.end() : following.start() if following else len(text)]}",
        )
