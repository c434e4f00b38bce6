"""The one outcome of a request, as it went out (rag-core.md §5)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage


class Outcome(NamedTuple):
    """`body` are the bytes of the message; `request_sha256` is the hash of the request's bytes, so that the same id with
    another payload can be told. Nothing else of a request is kept. `tenant` is whose id it is, where each has its own.
    """

    stage: RagStage
    request_id: str
    kind: Literal["result", "failed"]
    body: bytes
    request_sha256: str
    tenant: str = ""
