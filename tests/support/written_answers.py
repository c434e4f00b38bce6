"""Writes and checks an answer from given sources as a research run does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from modules.llm_platform.application.research.check.judge_task import JudgeTask
from modules.llm_platform.application.research.events import ResearchEvent, Reset, Token
from modules.llm_platform.application.research.find.found import FoundSources, Writers
from modules.llm_platform.application.research.find.read_pages import SourcesBeingRead
from modules.llm_platform.application.research.run import Run, ignore_event
from modules.llm_platform.application.research.write.draft import Draft
from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.application.research.write.writing import WrittenAnswer, check, write
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer

FOREVER_S = 3600.0


def make_draft(
    writer: ISynthesizer,
    sources: Sequence[Source],
    *,
    question: str = "How do pumps work?",
    language: str = "en",
    questions: Sequence[str] = (),
    seconds: float = 60.0,
    streamed: bool = False,
    fallback: ISynthesizer | None = None,
    reading: SourcesBeingRead | None = None,
    emit: Callable[[ResearchEvent], None] = ignore_event,
    judge_task: JudgeTask | None = None,
    support_model: ISupportModel | None = None,
    has_llm: bool = False,
    excerpts: Sequence[Source] | None = None,
    **fields: Any,
) -> Draft:
    """Return the draft of a deep answer; of a report with `questions`. `fields` are fields of the request."""
    request = ResearchRequest(query=question, depth="report" if questions else "deep", **fields)
    run = Run(
        request=request,
        original_request=request,
        request_id="r",
        detected=language,
        is_streamed=streamed,
        deadline=asyncio.get_running_loop().time() + seconds,
        emit=emit,
    )
    found = FoundSources(
        question=question,
        sources=tuple(sources),
        questions=tuple(questions),
        pages_being_read=reading,
        excerpts=None if excerpts is None else tuple(excerpts),
    )
    writers = Writers(
        writer=writer,
        fallback=fallback or ExtractiveSynthesizer(),
        max_tokens=500,
        counts_late_text=has_llm,
        completes_fallback=has_llm,
        judge_task=judge_task,
        support_model=support_model,
    )
    return Draft(run, found, writers)


async def write_answer(writer: ISynthesizer, sources: Sequence[Source], **fields: Any) -> WrittenAnswer:
    """Return the finished answer; `fields` are arguments of `make_draft`."""
    async with make_draft(writer, sources, **fields) as draft:
        return await check(draft, await write(draft))


def shown_text(shown: list[str]) -> Callable[[ResearchEvent], None]:
    """Return a receiver of events that keeps the tokens since the last reset in `shown`."""

    def receive(event: ResearchEvent) -> None:
        if isinstance(event, Token):
            shown.append(event.text)
        elif isinstance(event, Reset):
            shown.clear()

    return receive


def judge_of(
    judge: ICitationJudge, question: str, sources: Sequence[Source], *, seconds: float = FOREVER_S, **fields: Any
) -> JudgeTask:
    """Return the judge task of an English answer that must end within `seconds`."""
    until = asyncio.get_running_loop().time() + seconds
    return replace(JudgeTask(judge, until, question, "en", sources), **fields)
