"""Writing stage: write the text of an answer, sanitise it, and check its citations.

If a model leaves out markers, the platform adds them before the citations are checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace

from modules.llm_platform.application.research import events
from modules.llm_platform.application.research.check.judge_task import NOTHING_KNOWN, judge_citations
from modules.llm_platform.application.research.find.found import Found, Writers
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.application.research.write.draft import Draft
from modules.llm_platform.domain.citations.checker import CheckedAnswer
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisReset, SynthesisToken
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.exceptions import DailyBudgetError, LLMException, LLMProviderException, LLMTimeoutError
from modules.llm_platform.domain.extractive.question import read_question_as_written
from modules.llm_platform.domain.extractive.rendering import render_closest
from modules.llm_platform.domain.extractive.selection import choose_by_words
from modules.llm_platform.domain.markdown.markers import render_markers
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.ports.synthesizer import NO_SYNTHESIS, ISynthesizer, SynthesisRequest
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.text.messages import get_messages
from shared.exceptions import AppException

LATE = "timeout: not finished before the deadline of the research run"
CUT_LATE = f"{LATE}: the text is cut off; raise RESEARCH_TIMEOUT_S"
CUT_BROKEN = "timeout: the text is cut off; {message}"
REPEATED = "repetition: the model repeated itself and was stopped; another model may do better"
EMPTY_TEXT = "its text contained nothing that can be shown"
NOTHING_CITED = "uncited: the model cited nothing: {found} of its sentences match a source, {count} were not checked"
UNCITED = "uncited: {count} sentences cite no source and were not checked"
CUT_OFF = "length: the answer was cut off at its maximum length; raise LLM_MAX_TOKENS for a longer one"
# Values of `finish_reason`: the writer was stopped (CUT), or its model repeated itself.
CUT = "timeout"
REPETITION = "repetition"
UNFINISHED = frozenset({CUT, REPETITION})  # the reader is told that such a text is cut off, and it is not stored


async def write_and_check(run: Run, found: Found, writers: Writers) -> Draft:
    """Write the answer from what the run found, check its citations, and return the finished draft."""
    async with Draft(run, found, writers) as draft:
        await write(draft)
        await check(draft)
    return draft


async def write(draft: Draft) -> None:
    """Let the writer write the text. If the writer fails, is late or writes nothing, the fallback writes.

    If the writer is late, its finished sentences are kept. The fallback writes only if there are none.
    """
    draft.synthesis = await _write_in_time(draft)
    draft.spent += draft.synthesis.spent


async def check(draft: Draft) -> None:
    """Check the citations, add messages below the text about what it lacks, and let the judge verify the citations."""
    text, synthesis = draft.text, draft.synthesis
    is_fallback = _is_by_fallback(draft)
    by_model = draft.lacks_markers and not is_fallback
    await draft.comparison.wait_for_pages(text)
    draft.checked = await draft.check_citations()
    if not synthesis.answered:  # the first sentence only says that the sources do not answer
        draft.checked = replace(draft.checked, uncited=draft.checked.uncited[1:])
    if not synthesis.answered and not render_markers(text):
        await _add_closest_passages(draft)
    for message in _list_messages(draft, is_fallback=is_fallback, by_model=by_model):
        draft.add(f"\n\n{message}")
    draft.degraded += tuple(_list_notes(synthesis, draft.checked, by_model=by_model))
    await _judge(draft, text, is_fallback=is_fallback)


def _is_by_fallback(draft: Draft) -> bool:
    """Return whether the text is quotes of the fallback. A writer with a small model may quote rows without a failure."""
    writers = draft.writers
    return writers.writer is not writers.fallback and draft.synthesis.synthesizer == writers.fallback.name


async def _judge(draft: Draft, text: str, *, is_fallback: bool) -> None:
    """Let the judge verify the citations: the only thing a streaming client still waits for.

    A text of the fallback is not judged. Calls about the discarded text of the writer still count.
    """
    if draft.writers.judge_task is None:
        return
    early = draft.comparison.early
    if early is not None:
        await (early.aclose() if is_fallback else early.finish())
        draft.spent, draft.degraded = draft.spent + early.spent, draft.degraded + early.degraded
    if is_fallback:
        return
    run = draft.run

    def emit_checked(citations: tuple[Citation, ...], pending: int) -> None:
        run.emit(events.Verified(request_id=run.request_id, citations=citations, pending=pending))

    known = early.verdicts if early else NOTHING_KNOWN
    verified = await judge_citations(draft.writers.judge_task, text, draft.checked.citations, emit_checked, known)
    # The support model only replaces a judge that failed. If it also completed missing verdicts, each answer would wait 30 ms.
    has_failed = verified.has_failed or bool(early and early.degraded)
    citations = verified.citations
    if has_failed:
        citations = await draft.comparison.read_unjudged(draft.text, draft.added, citations)
        draft.degraded += draft.comparison.degraded
    if citations != verified.citations:
        emit_checked(citations, 0)
    draft.checked = replace(draft.checked, citations=citations)
    draft.spent, draft.degraded = draft.spent + verified.spent, draft.degraded + verified.degraded


def _list_messages(draft: Draft, *, is_fallback: bool, by_model: bool) -> Iterator[str]:
    """Yield the messages that tell the reader what the text lacks."""
    messages = get_messages(draft.run.language)
    synthesis, checked = draft.synthesis, draft.checked
    if is_fallback and draft.has_fallen_back and synthesis.answered:
        is_model_refused = any(entry.component == DailyBudgetError.component for entry in draft.degraded)
        yield messages.quotes_only if is_model_refused else messages.model_failed
    if by_model and checked.uncited_sentences and not checked.is_cited_by_author:
        yield messages.cited_nothing
    if draft.run.request.depth == "shallow" and not (synthesis.answered and checked.cited):
        yield messages.go_deeper
    if synthesis.finish_reason in UNFINISHED:
        yield messages.cut_off
    if draft.found.stop_note and not synthesis.answered:
        yield draft.found.stop_note


def _list_notes(synthesis: Synthesis, checked: CheckedAnswer, *, by_model: bool) -> Iterator[Degraded]:
    """Yield the entries of `degraded` about sentences without citations and texts that end early."""
    count, found = checked.uncited_sentences, len({citation.start for citation in checked.citations})
    reasons = {"length": CUT_OFF, REPETITION: REPEATED}
    if by_model and checked.is_cited_by_author and count:
        yield Degraded(component=synthesis.synthesizer, reason=UNCITED.format(count=count))
    elif by_model and not checked.is_cited_by_author and count + found:
        yield Degraded(component=synthesis.synthesizer, reason=NOTHING_CITED.format(count=count, found=found))
    if reason := reasons.get(synthesis.finish_reason):
        yield Degraded(component=synthesis.synthesizer, reason=reason)


async def _add_closest_passages(draft: Draft) -> None:
    """Add the quotes that are closest to the question, which the sources do not answer, and count their sources as cited."""
    closest = draft.synthesis.closest or await asyncio.to_thread(_render_closest_passages, draft)
    draft.add(closest and f"\n\n{closest}")
    named = {number for _, _, number in render_markers(closest)}
    numbers = frozenset(source.index for source in draft.found.sources)
    draft.checked = replace(draft.checked, cited=numbers & named)


def _render_closest_passages(draft: Draft) -> str:
    found, language = draft.found, draft.run.language
    question = read_question_as_written(found.question, language)
    closest = render_closest(choose_by_words(question, found.sources), get_messages(language))
    return sanitize(closest, found.sources)


@stage("write")
async def _write_in_time(draft: Draft) -> Synthesis:
    """Return the text of the writer, or its finished sentences at the deadline, or the text of the fallback."""
    try:
        async with deadline_at(draft.run.deadline):
            synthesis = await _stream(draft, draft.writers.writer)
    except TimeoutError:
        return await _end_late_text(draft)
    except AppException as error:
        return await _end_failed_text(draft, error)
    if draft.text.strip():
        return synthesis
    draft.degraded += (*synthesis.degraded, Degraded(component=synthesis.synthesizer, reason=EMPTY_TEXT))
    return await _fall_back(draft, "empty", synthesis.spent)


async def _end_late_text(draft: Draft) -> Synthesis:
    """Return the finished sentences of a late writer. If there are none, the fallback writes."""
    writers, name = draft.writers, draft.writers.writer.name
    spent = Spending.of_unfinished_call(is_free=writers.writer.is_free) if writers.counts_late_text else NOTHING_SPENT
    if cut := await _keep_sentences(draft, spent):
        draft.degraded += (Degraded(component=name, reason=CUT_LATE),)
        return cut
    draft.degraded += (Degraded(component=name, reason=LATE),)
    return await _fall_back(draft, "deadline", spent)


async def _end_failed_text(draft: Draft, error: AppException) -> Synthesis:
    """Return the finished sentences of a writer whose service stopped sending. After other errors, the fallback writes.

    Raises the error if the fallback itself failed.
    """
    writers, name = draft.writers, draft.writers.writer.name
    spent = error.spent if isinstance(error, LLMException) else NOTHING_SPENT
    if isinstance(error, LLMTimeoutError) and (cut := await _keep_sentences(draft, spent)):
        draft.degraded += (Degraded(component=name, reason=CUT_BROKEN.format(message=error.message)),)
        return cut
    if writers.writer is writers.fallback:
        raise error
    draft.degraded += (Degraded.of(name, error),)
    return await _fall_back(draft, f"{name}: {error.code}", spent)


async def _keep_sentences(draft: Draft, spent: Spending) -> Synthesis | None:
    """Return the finished sentences of a writer that was stopped; None if there are none."""
    writers = draft.writers
    if writers.writer is writers.fallback:
        return None
    await draft.finish()
    if not draft.has_sentence():
        return None
    return Synthesis(text=draft.text, synthesizer=writers.writer.name, finish_reason=CUT, spent=spent)


async def _fall_back(draft: Draft, reason: str, spent: Spending) -> Synthesis:
    """Return the text of the fallback. `spent` is the cost of the writer before it."""
    draft.has_fallen_back = True
    draft.reset(reason)
    synthesis = await _stream(draft, draft.writers.fallback)
    return synthesis.model_copy(update={"spent": spent + synthesis.spent})


async def _stream(draft: Draft, writer: ISynthesizer) -> Synthesis:
    """Feed the draft with the stream of the writer."""
    synthesis: Synthesis | None = None
    draft.lacks_markers = writer is not draft.writers.fallback or draft.writers.completes_fallback
    async with aclosing(_describe_text(draft).stream_with(writer)) as stream:  # type: ignore[type-var]  # an async generator
        async for part in stream:
            if isinstance(part, SynthesisToken):
                await draft.feed(part.text)
            elif isinstance(part, SynthesisReset):
                draft.reset(part.reason)
            else:
                synthesis = part
    if synthesis is None:
        raise LLMProviderException(NO_SYNTHESIS)
    await draft.finish()
    return synthesis


def _describe_text(draft: Draft) -> SynthesisRequest:
    """Return the request to the writer."""
    run, found = draft.run, draft.found
    return SynthesisRequest(
        question=found.question,
        sources=found.sources if found.excerpts is None else found.excerpts,
        language=run.language,
        max_tokens=draft.writers.max_tokens,
        instructions=(run.request.instructions or "").strip() or None,
        context=run.request.context or None,
        questions=found.questions if run.request.depth == "report" else (),
        evidence=found.evidence,
        is_streamed=run.is_streamed,
    )
