"""Answers with checked citations, and the service that seals them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from modules.llm_platform.application.research.check.support_reader import SupportReader
from modules.llm_platform.application.services.seal_service import SealService, SealTools
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import TextSpan
from modules.llm_platform.domain.dtos.sealed_dtos import Signature
from modules.llm_platform.domain.dtos.source_dtos import RawResult, Source, SourceRef
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.infrastructure import ed25519
from modules.llm_platform.infrastructure.files import sealed_archive
from modules.llm_platform.infrastructure.files.checker_stamp import describe_checker
from modules.llm_platform.presentation.cli.render.sealed_page import render_sealed_page
from modules.llm_platform.wiring.services import list_page_modules

ANSWERED_AT = datetime(2026, 11, 26, 12, tzinfo=UTC)
SEAL_KEY = "0318e8a4d59b8a787b48686c0d9a86ae7b7ae870cc7752a99746fa8ddc350882"
PUBLIC_KEY = "8d26b68503bf2e8edce3d03a0af7ea9d8f35e7ffae3f8db4b48dcf40bc4f717a"
TOWER = Source(
    index=1,
    title="Tower",
    url="https://a.example/tower",
    text="The Eiffel Tower is 330 metres tall. It was completed in 1889.",
    read_at=ANSWERED_AT,
    media_type="text/html",
    extraction=0.5,
)
BRIDGE = Source(index=2, title="Bridge", url="https://b.example/bridge", text="Its main span is 1280 metres long.")
UNUSED = Source(index=3, title="Salaries of others", url="doc:hr/salaries.md", text="Nobody may read this.")
SOURCES = (TOWER, BRIDGE, UNUSED)
TEXT = (
    "The Eiffel Tower is 330 metres tall [1]. It was completed in 1899 [1]. "
    "The main span of the bridge is 1280 metres long [2]. This sentence names no source at all."
)


async def check_answer(
    text: str = TEXT,
    sources: Sequence[Source] = SOURCES,
    model: ISupportModel | None = None,
    language: str = "en",
    added: Sequence[int] = (),
) -> ResearchResponse:
    """Return the answer with the verdicts that a run gives it: of words, and of the model for what they leave in doubt.

    `added` has the offsets of the markers that the platform added.
    """
    checker = CitationChecker(sources, language)
    checked = checker.check(text, added)
    if model is not None and await SupportReader(model, checker).finish(math.inf):
        checked = checker.check(text, added)
    return ResearchResponse(
        query="How tall is the tower?",
        depth="shallow",
        synthesis=text,
        sources=tuple(SourceRef.of(source) for source in sources if source.index in checked.cited),
        raw_results=tuple(RawResult(title=one.title, url=one.url, content=one.text) for one in sources),
        citations=checked.citations,
        metadata=ResearchMetadata(
            latency_ms=1,
            language=language,
            request_id="r",
            topic="a-topic-of-the-store",
            uncited=tuple(TextSpan(start=start, end=end) for start, end in checked.uncited),
        ),
    )


def make_seals(
    model: ISupportModel | None = None,
    *,
    sign: Callable[[str], Signature] | None = None,
    secrets: Sequence[str] = (),
    jobs: Any = None,
    research: Any = None,
) -> SealService:
    check_signer = sign.check if isinstance(sign, ed25519.Ed25519Signer) else lambda: None
    tools = SealTools(
        render_sealed_page, sealed_archive.pack, sealed_archive.unpack, sign, ed25519.is_signed, check_signer
    )
    checker = describe_checker(model, {"CITATION_ENCODER": "auto"}, list_page_modules())
    return SealService(research, jobs, tools, lambda: checker, model, secrets, lambda: ANSWERED_AT)


async def seal_answer(**options: Any) -> bytes:
    """Return the sealed file of the usual answer."""
    return make_seals(**options).seal(await check_answer(), SOURCES)
