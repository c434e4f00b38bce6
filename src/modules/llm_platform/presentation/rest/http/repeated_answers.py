"""Answers that are sent again: the bytes of an answer that came from the caches, for the same request of the same caller.

An answer is repeated only while the caches still have every value that it was made from: they are read again each time, so
it lives no longer than they do, and hits are counted as before. The request was validated when it came first; its bytes are
compared. An answer of which anything was made anew, or that is degraded, is not stored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from cachetools import LRUCache
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import Message, Receive, Scope

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.domain.cache_reads import CacheReads
from modules.llm_platform.domain.dtos.research_dtos import HeldSources, ResearchResponse, StoredTurns, Synthesis
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse

log = logging.getLogger(__name__)

MAX_BYTES: Final = 16 << 20  # of all answers of a process
MAX_KEY_BYTES: Final = 4096  # of a request and its headers, which MAX_BYTES does not count; blanks can fill a megabyte
MAX_SHARE: Final = 16  # one answer takes at most this part of them
REPEATED_PATHS: Final = frozenset({"/research", "/llm-platform/web-search"})
KEY: Final = "llm_platform.repeated_key"  # key in the ASGI scope: what identifies the request

Answer = ResearchResponse | WebSearchResponse
RequestKey = tuple[str, str, bytes | None, bytes | None, bytes | None, bytes]
_LATENCY: Final = 987_654_321_987_654_321  # stands for the latency in a template


@dataclass(frozen=True, slots=True)
class RepeatedAnswer:
    """One answer. Of a research, the latency and the request id go between the three parts of the body."""

    answer: Answer
    reads: CacheReads
    body: tuple[bytes, ...]
    sources: HeldSources | None = None  # of a research
    turns: StoredTurns | None = None  # of a research

    async def body_for(
        self, platform: LLMPlatform, request_id: str, owner: str, began: float
    ) -> tuple[bytes, bytes] | None:
        """Return the body for a new request, whose sources and turns are then stored; None if the caches have changed.

        The first part of the body is redacted, the second one is not.
        """
        if not await self.reads.are_current():
            return None
        if self.sources is None or isinstance(self.answer, WebSearchResponse):
            return self.body[0], b""
        latency_s = time.perf_counter() - began
        await platform.research.repeat(
            self.answer.depth, request_id, self.sources, self.turns, owner=owner, duration_s=latency_s
        )
        head, middle, tail = self.body
        return head, b"".join((b"%d" % round(latency_s * 1000), middle, to_json(request_id), tail))


class RepeatedAnswers:
    """The answers of one server; the least recently used ones are forgotten first."""

    def __init__(self, max_bytes: int = MAX_BYTES, redact: Callable[[bytes], bytes] | None = None) -> None:
        self._redact = redact
        self._max_bytes = max_bytes
        self._answers: LRUCache[RequestKey, RepeatedAnswer] = LRUCache(max_bytes, _size)

    def clear(self) -> None:
        """Forget all answers."""
        self._answers.clear()

    def find(self, scope: Scope, key: RequestKey, platform: LLMPlatform) -> RepeatedAnswer | None:
        """Return the answer to this request, and note its key, so that the route can store a newer one.

        None with traces, and at LOG_LEVEL=DEBUG: these show the steps of a request.
        """
        if platform.tracer.is_enabled or log.isEnabledFor(logging.DEBUG):
            return None
        scope[KEY] = key
        try:
            return self._answers[key]
        except KeyError:
            return None

    async def add_research(
        self, scope: Scope, reads: CacheReads, response: ResearchResponse, platform: LLMPlatform, owner: str
    ) -> None:
        """Store the answer if all of it came from the caches."""
        metadata = response.metadata
        is_cached = metadata.cache_hit and not metadata.searches and not metadata.llm_calls and not response.degraded
        if KEY not in scope or not is_cached or not reads.has(WebSearchResponse, Synthesis):
            return
        sources = await platform.research.held_sources(metadata.request_id, owner=owner)
        body = _template(response)
        if sources is not None and body is not None:
            turns = await platform.research.held_turns(metadata.request_id, owner=owner)
            self._add(scope[KEY], RepeatedAnswer(response, reads, self._redacted(body), sources, turns))

    def add_search(self, scope: Scope, reads: CacheReads, response: WebSearchResponse, body: bytes) -> None:
        """Store the answer if all of it came from the caches."""
        if KEY in scope and response.cached and not response.degraded and reads.has(WebSearchResponse):
            self._add(scope[KEY], RepeatedAnswer(response, reads, self._redacted((body,))))

    def _redacted(self, body: tuple[bytes, ...]) -> tuple[bytes, ...]:
        return body if self._redact is None else tuple(map(self._redact, body))

    def _add(self, key: RequestKey, answer: RepeatedAnswer) -> None:
        if sum(len(part or b"") for part in key) > MAX_KEY_BYTES:
            return
        if _size(answer) <= self._max_bytes // MAX_SHARE:
            self._answers[key] = answer


def request_key(path: str, owner: str, headers: Any, body: bytes) -> RequestKey:
    """Return what identifies a request: what the routes read of it, and who sent it."""
    get = headers.get
    return (path, owner, get(b"content-type"), get(b"content-encoding"), get(b"accept"), body)


def received_again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns the body, which was read already, and then what follows."""
    message: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def receive_again() -> Message:
        nonlocal message
        first, message = message, None
        return first if first is not None else await receive()

    return receive_again


def _size(answer: RepeatedAnswer) -> int:
    return sum(map(len, answer.body))


def _template(response: ResearchResponse) -> tuple[bytes, ...] | None:
    """Return the JSON of the response in three parts, around its latency and its request id."""
    mark = uuid4().hex
    marked = {"latency_ms": _LATENCY, "request_id": mark}
    template: BaseModel = response.model_copy(update={"metadata": response.metadata.model_copy(update=marked)})
    data = template.__pydantic_serializer__.to_json(template)
    head, _, rest = data.rpartition(b"%d" % _LATENCY)
    middle, _, tail = rest.partition(to_json(mark))
    return (head, middle, tail) if head and tail else None
