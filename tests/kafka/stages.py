"""Scripted stages: the text of a request selects its outcome.

`@sleep=0.2` waits for that many seconds, `@until=/some/file` waits until the file exists, `@fail=embedding` raises that error,
and `@bytes=600000` returns that much text. Every result contains a random number, so two computed outcomes never have the
same bytes.
"""

from __future__ import annotations

import asyncio
import os
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
MAX_SLEEP_S = 3600.0
POLL_S = 0.02
DEFAULT_HITS, MAX_HITS = 2, 50
_COMMAND = re.compile(r"@(\w+)=(\S+)")

FAILURES: Mapping[str, Callable[[], Exception]] = {
    "embedding": EmbeddingError,
    "embedding_config": EmbeddingConfigError,
    "retrieval": VectorStoreError,
    "retrieval_config": VectorStoreConfigError,
    "llm": LLMConnectionError,
    "llm_config": LLMConfigError,
    "bug": lambda: KeyError(f"the key {SECRET} is wrong"),
}


class ScriptedStages:
    """Each result contains `name` as its source, so the outcome tells which worker computed it."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def search(self, request: RagSearch) -> RagHits:
        padding = await _run_script(request.query)
        number = uuid.uuid4().hex
        hits = tuple(
            Hit(
                doc_id=f"doc-{position}",
                score=1 / (position + 1),
                title=request.query[:40],
                snippet=number + padding,
                source=self._name,
                url=f"https://example.org/{position}",
            )
            for position in range(min(request.top_k or DEFAULT_HITS, MAX_HITS))
        )
        return RagHits(hits=hits)

    async def answer(self, request: RagQuestion) -> RagAnswer:
        padding = await _run_script(request.question)
        cited = tuple(
            RagCitation(doc_id=item.doc_id, title=self._name, url=item.url) for item in request.context if item.doc_id
        )
        return RagAnswer(answer=f"{uuid.uuid4().hex} {self._name}{padding}", citations=cited, synthesizer="scripted")


async def _run_script(text: str) -> str:
    commands = dict(_COMMAND.findall(text))
    if "sleep" in commands:
        await asyncio.sleep(min(float(commands["sleep"]), MAX_SLEEP_S))
    if "until" in commands:
        while not os.path.exists(commands["until"]):  # noqa: PTH110  a test in another process creates it
            await asyncio.sleep(POLL_S)
    if "fail" in commands:
        raise FAILURES[commands["fail"]]()
    return "x" * int(commands.get("bytes", 0))
