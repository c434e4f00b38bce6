"""Stages that do what the request's text tells them, so that one worker can show every outcome.

`@sleep=0.2` takes so many seconds, `@fail=embedding` fails in that way, `@bytes=600000` answers so much. Each result holds
a number that was never drawn before: an outcome that was computed twice cannot be the same bytes.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Mapping

from modules.llm_platform.domain.dtos.retrieval_dtos import Hit, RagAnswer, RagCitation, RagHits, RagQuestion, RagSearch
from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    EmbeddingError,
    LLMConfigError,
    LLMConnectionError,
    VectorStoreConfigError,
    VectorStoreError,
)

SECRET = "sk-do-not-tell-0123456789"
FOR_EVER_S = 3600.0
USUAL_HITS, MOST_HITS = 2, 50
_WISH = re.compile(r"@(\w+)=(\S+)")

FAILURES: Mapping[str, Callable[[], Exception]] = {
    "embedding": EmbeddingError,
    "embedding_config": EmbeddingConfigError,
    "retrieval": VectorStoreError,
    "retrieval_config": VectorStoreConfigError,
    "llm": LLMConnectionError,
    "llm_config": LLMConfigError,
    "bug": lambda: KeyError(f"the key {SECRET} is wrong"),
}


class ToldStages:
    """`name` stands in each result as the source: the outcome says which worker computed it."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def search(self, asked: RagSearch) -> RagHits:
        padding = await _obey(asked.query)
        number = uuid.uuid4().hex
        hits = tuple(
            Hit(
                doc_id=f"doc-{place}", score=1 / (place + 1), title=asked.query[:40], snippet=number + padding,
                source=self._name, url=f"https://example.org/{place}",
            )
            for place in range(min(asked.top_k or USUAL_HITS, MOST_HITS))
        )  # fmt: skip
        return RagHits(hits=hits)

    async def answer(self, asked: RagQuestion) -> RagAnswer:
        padding = await _obey(asked.question)
        cited = tuple(RagCitation(doc_id=item.doc_id, title=self._name, url=item.url) for item in asked.context if item.doc_id)
        return RagAnswer(answer=f"{uuid.uuid4().hex} {self._name}{padding}", citations=cited, synthesizer="told")


async def _obey(text: str) -> str:
    wishes = dict(_WISH.findall(text))
    if "sleep" in wishes:
        await asyncio.sleep(min(float(wishes["sleep"]), FOR_EVER_S))
    if "fail" in wishes:
        raise FAILURES[wishes["fail"]]()
    return "x" * int(wishes.get("bytes", 0))
