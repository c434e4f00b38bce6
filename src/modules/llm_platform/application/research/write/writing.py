"""Writing stage: write the text of an answer, sanitise it, and check its citations.

If a model leaves out markers, the platform adds them before the citations are checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace

from modules.llm_platform.application.research import events
from modules.llm_platform.application.research.check.judge_task import NOTHING_KNOWN, JudgedCitations, judge_citations
from modules.llm_platform.application.research.find.found import FoundSources, Writers
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.application.research.write.draft import Draft
from modules.llm_platform.domain.citations.checker import CheckedAnswer
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisReset, SynthesisToken
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import DailyBudgetError, LLMException, LLMProviderException, LLMTimeoutError
from modules.llm_platform.domain.extractive.question import read_question_as_written
from modules.llm_platform.domain.extractive.rendering import render_closest
from modules.llm_platform.domain.extractive.selection import choose_by_words
from modules.llm_platform.domain.markdown.markers import render_markers, renumber_markers
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.ports.synthesizer import NO_SYNTHESIS, ISynthesizer, SynthesisRequest
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.text.unfinished import is_unfinished
from shared.exceptions import AppException

LATE = "timeout: not finished before the deadline of the research run"
CUT_LATE = f"{LATE}: the text is cut off; raise RESEARCH_TIMEOUT_S"
CUT_BROKEN = "timeout: the text is cut off; {message}"
UNSUPPORTED = (
    "unsupported: no passage seems to answer the question, and the cited sources support no sentence of the model, so its text "
    "was replaced"
)
REFUSED = "the model found no answer, so quotes from the sources take its place; a larger model may do better"
REPEATED = "repetition: the model repeated itself and was stopped; another model may do better"
EMPTY_TEXT = "its text contained nothing that can be shown"
CUT_OFF = "length: the answer was cut off at its maximum length; raise LLM_MAX_TOKENS for a longer one"
# Values of `finish_reason`: the writer was stopped (CUT), or its model repeated itself.
CUT = "timeout"
REPETITION = "repetition"
_PUNCTUATION = " \t\r\n.,;:*_#>|-"
UNFINISHED = frozenset({CUT, REPETITION})  # the reader is told that such a text is cut off, and it is not stored


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A text that a writer has finished, before its citations are checked.

    - `synthesis` is the text as its writer returned it, with the costs of the writers so far.
    - `failures` say why the text is cut off, or why the fallback wrote it.
    - `has_fallen_back` is True if the fallback wrote the text. `is_replaced` is True if it did so because no source supports the
      text of the writer, or because the writer found no answer.
    """

    synthesis: Synthesis
    failures: tuple[Degraded, ...] = ()
    has_fallen_back: bool = False
    is_replaced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAnswer:
    """A finished answer.

    - `text` is sanitised, with messages below it about what it lacks.
    - `synthesis` is the text as its writer returned it.
    - `sources` are the sources that the text was checked against, some with pages that were read while it was written.
    - `checked` has the citations with their final verdicts.
    - `spent` counts the writers and the judge.
    - `degraded` says what failed, besides `synthesis.degraded`.
    """

    text: str
    synthesis: Synthesis
    sources: tuple[Source, ...]
    checked: CheckedAnswer
    spent: Spending
    degraded: tuple[Degraded, ...]


async def write_and_check(run: Run, found: FoundSources, writers: Writers) -> WrittenAnswer:
    """Write the answer from what the run found, and check its citations."""
    async with Draft(run, found, writers) as draft:
        return await check(draft, await write(draft))


async def check(draft: Draft, written: WrittenText) -> WrittenAnswer:
    """Check the citations, add messages below the text about what it lacks, and let the judge verify the citations."""
    text, synthesis = draft.text, written.synthesis
    has_quotes_only = _has_quotes_only(draft.writers, synthesis)
    by_model = draft.lacks_markers and not has_quotes_only
    await draft.comparison.wait_for_pages(text)
    checked = await draft.check_citations()
    unread = draft.comparison.degraded
    if not synthesis.answered:  # the first sentence only says that the sources do not answer
        checked = replace(checked, uncited=checked.uncited[1:])
    if not synthesis.answered and not render_markers(text):
        checked = replace(checked, cited=await _add_closest_passages(draft, synthesis))
    for message in _list_messages(draft, written, checked, has_quotes_only=has_quotes_only, by_model=by_model):
        draft.add(f"\n\n{message}")
    if has_quotes_only:
        judged = await _end_early_judging(draft, checked.citations)
    else:
        judged = await _judge(draft, text, checked.citations)
    notes = _list_notes(synthesis, checked, by_model=by_model)
    return WrittenAnswer(
        text=draft.text,
        synthesis=synthesis,
        sources=draft.sources,
        checked=replace(checked, citations=judged.citations),
        spent=synthesis.spent + judged.spent,
        degraded=(*written.failures, *unread, *notes, *judged.degraded),
    )


def _has_quotes_only(writers: Writers, synthesis: Synthesis) -> bool:
    """Return whether the text is quotes of the fallback. A writer with a small model may quote rows without a failure."""
    return writers.writer is not writers.fallback and synthesis.synthesizer == writers.fallback.name


async def _end_early_judging(draft: Draft, citations: tuple[Citation, ...]) -> JudgedCitations:
    """Return the citations of quotes, which are not judged. Calls about the discarded text of the writer still count."""
    early = draft.comparison.early
    if early is None:
        return JudgedCitations(citations)
    await early.aclose()
    return JudgedCitations(citations, early.spent, early.degraded)


async def _judge(draft: Draft, text: str, citations: tuple[Citation, ...]) -> JudgedCitations:
    """Let the judge verify the citations: the only thing a streaming client still waits for."""
    if draft.writers.judge_task is None:
        return JudgedCitations(citations)
    run, early = draft.run, draft.comparison.early
    if early is not None:
        await early.finish()

    def emit_checked(citations: tuple[Citation, ...], pending: int) -> None:
        run.emit(events.Verified(request_id=run.request_id, citations=citations, pending=pending))

    known = early.verdicts if early else NOTHING_KNOWN
    judged = await judge_citations(draft.writers.judge_task, text, citations, emit_checked, known)
    if early is not None:
        judged = replace(judged, spent=early.spent + judged.spent, degraded=early.degraded + judged.degraded)
    # The support model only replaces a judge that failed. If it also completed missing verdicts, each answer would wait 30 ms.
    if not (judged.has_failed or (early is not None and early.degraded)):
        return judged
    read = await draft.comparison.read_unjudged(draft.text, draft.added, judged.citations)
    if read != judged.citations:
        emit_checked(read, 0)
    return replace(judged, citations=read, degraded=draft.comparison.degraded + judged.degraded)


def _list_messages(
    draft: Draft, written: WrittenText, checked: CheckedAnswer, *, has_quotes_only: bool, by_model: bool
) -> Iterator[str]:
    """Yield the messages that tell the reader what the text lacks."""
    messages = get_messages(draft.run.language)
    synthesis = written.synthesis
    if has_quotes_only and written.has_fallen_back and synthesis.answered:
        is_model_refused = any(entry.component == DailyBudgetError.component for entry in written.failures)
        yield messages.quotes_only if is_model_refused or written.is_replaced else messages.model_failed
    if by_model and checked.uncited_sentences and not checked.is_cited_by_author:
        yield messages.cited_nothing
    if draft.run.request.depth == "shallow" and not (synthesis.answered and checked.cited):
        yield messages.go_deeper
    if synthesis.finish_reason in UNFINISHED:
        yield messages.cut_off
    if draft.found.stop_note and not synthesis.answered:
        yield draft.found.stop_note


def describe_uncited(count: int) -> str:
    """Return the note on sentences that cite nothing, in an answer that cites something elsewhere."""
    sentences = format_count(count, "sentence cites no source and was", "sentences cite no source and were")
    return f"uncited: {sentences} not checked"


def describe_nothing_cited(count: int, found: int) -> str:
    """Return the note on an answer that cites nothing: `found` sentences match a source, and `count` were not checked."""
    matching = format_count(found, "of its sentences matches", "of its sentences match")
    return f"uncited: the model cited nothing: {matching} a source, {format_count(count, 'was', 'were')} not checked"


def _list_notes(synthesis: Synthesis, checked: CheckedAnswer, *, by_model: bool) -> Iterator[Degraded]:
    """Yield the entries of `degraded` about sentences without citations and texts that end early."""
    count, found = checked.uncited_sentences, len({citation.start for citation in checked.citations})
    reasons = {"length": CUT_OFF, REPETITION: REPEATED}
    if by_model and checked.is_cited_by_author and count:
        yield Degraded(component=synthesis.synthesizer, reason=describe_uncited(count))
    elif by_model and not checked.is_cited_by_author and count + found:
        yield Degraded(component=synthesis.synthesizer, reason=describe_nothing_cited(count, found))
    if reason := reasons.get(synthesis.finish_reason):
        yield Degraded(component=synthesis.synthesizer, reason=reason)


async def _add_closest_passages(draft: Draft, synthesis: Synthesis) -> frozenset[int]:
    """Add the quotes that are closest to a question without an answer, and return the numbers of the sources they cite."""
    closest = synthesis.closest or await asyncio.to_thread(_render_closest_passages, draft)
    draft.add(closest and f"\n\n{closest}")
    named = {number for _, _, number in render_markers(closest)}
    return frozenset(source.index for source in draft.found.sources) & named


def _render_closest_passages(draft: Draft) -> str:
    found, language = draft.found, draft.run.language
    question = read_question_as_written(found.question, language)
    closest = render_closest(choose_by_words(question, found.sources), get_messages(language))
    return sanitize(closest, found.sources)


@stage("write")
async def write(draft: Draft) -> WrittenText:
    """Let the writer write the text. If the writer fails, is late or writes nothing, the fallback writes.

    If the writer is late, its finished sentences are kept. The fallback writes only if there are none. It also writes if a
    complete text is doubtful and no source supports it: a small model that finds no answer in its passages invents one. And it
    writes if a small model finds no answer, because quotes may have one.
    """
    written = await _write(draft)
    synthesis = written.synthesis
    if not synthesis.answered and _can_ask_fallback(draft, written):
        return await _answer_with_quotes(draft, written)
    if not draft.is_held:
        return written
    if not synthesis.answered or synthesis.finish_reason in UNFINISHED or await draft.is_supported():
        draft.release()
        return written
    failures = (*written.failures, *synthesis.degraded, Degraded(component=synthesis.synthesizer, reason=UNSUPPORTED))
    return replace(await _fall_back(draft, "unsupported", failures, synthesis.spent), is_replaced=True)


def _can_ask_fallback(draft: Draft, written: WrittenText) -> bool:
    """Return whether the fallback may replace a refusal: it was a short answer of a small model, without wishes of the reader."""
    writer, request = draft.writers.writer, draft.run.request
    is_plain = request.depth != "report" and not (request.instructions or request.context)
    return is_plain and writer.is_small and not written.has_fallen_back and _may_be_replaced(draft, writer)


async def _answer_with_quotes(draft: Draft, written: WrittenText) -> WrittenText:
    """Return the text of the fallback in place of a refusal. If it has no answer either, nothing has failed."""
    refusal = written.synthesis
    failures = (*written.failures, *refusal.degraded)
    quoted = await _fall_back(draft, "refused", failures, refusal.spent)
    if not quoted.synthesis.answered:
        return quoted
    return replace(
        quoted, failures=(*failures, Degraded(component=refusal.synthesizer, reason=REFUSED)), is_replaced=True
    )


async def _write(draft: Draft) -> WrittenText:
    try:
        async with deadline_at(draft.run.deadline):
            synthesis = await _stream(draft, draft.writers.writer)
    except TimeoutError:
        return await _end_late_text(draft)
    except AppException as error:
        return await _end_failed_text(draft, error)
    if has_content(draft.text):
        return WrittenText(synthesis)
    failures = (*synthesis.degraded, Degraded(component=synthesis.synthesizer, reason=EMPTY_TEXT))
    return await _fall_back(draft, "empty", failures, synthesis.spent)


def has_content(text: str) -> bool:
    """Return whether a sanitised text says something.

    A small model may write nothing but `[1]`, or end before it has said anything: `The password is [3][1]`.
    """
    return bool(renumber_markers(text, {}).strip(_PUNCTUATION)) and not is_unfinished(text)


async def _end_late_text(draft: Draft) -> WrittenText:
    """Return the finished sentences of a late writer. If there are none, the fallback writes."""
    writers, name = draft.writers, draft.writers.writer.name
    spent = Spending.of_unfinished_call(is_free=writers.writer.is_free) if writers.counts_late_text else NOTHING_SPENT
    if cut := await _keep_sentences(draft, spent):
        return WrittenText(cut, (Degraded(component=name, reason=CUT_LATE),))
    return await _fall_back(draft, "deadline", (Degraded(component=name, reason=LATE),), spent)


async def _end_failed_text(draft: Draft, error: AppException) -> WrittenText:
    """Return the finished sentences of a writer whose service stopped sending. After other errors, the fallback writes.

    Raises the error if the fallback itself failed.
    """
    writers, name = draft.writers, draft.writers.writer.name
    spent = error.spent if isinstance(error, LLMException) else NOTHING_SPENT
    if isinstance(error, LLMTimeoutError) and (cut := await _keep_sentences(draft, spent)):
        return WrittenText(cut, (Degraded(component=name, reason=CUT_BROKEN.format(message=error.message)),))
    if writers.writer is writers.fallback:
        raise error
    return await _fall_back(draft, f"{name}: {error.code}", (Degraded.of(name, error),), spent)


async def _keep_sentences(draft: Draft, spent: Spending) -> Synthesis | None:
    """Return the finished sentences of a writer that was stopped; None if there are none."""
    writers = draft.writers
    if writers.writer is writers.fallback:
        return None
    await draft.finish()
    if not (has_content(draft.text) and draft.has_sentence()):
        return None
    return Synthesis(text=draft.text, synthesizer=writers.writer.name, finish_reason=CUT, spent=spent)


async def _fall_back(draft: Draft, reason: str, failures: tuple[Degraded, ...], spent: Spending) -> WrittenText:
    """Return the text of the fallback. `failures` and `spent` belong to the writer before it."""
    draft.reset(reason)
    synthesis = await _stream(draft, draft.writers.fallback)
    whole = synthesis.model_copy(update={"spent": spent + synthesis.spent})
    return WrittenText(whole, failures, has_fallen_back=True)


async def _stream(draft: Draft, writer: ISynthesizer) -> Synthesis:
    """Feed the draft with the stream of the writer."""
    synthesis: Synthesis | None = None
    draft.set_writer(writer)
    async with aclosing(_describe_text(draft).stream_with(writer)) as stream:  # type: ignore[type-var]  # an async generator
        async for part in stream:
            if isinstance(part, SynthesisToken):
                if part.is_doubtful and _may_be_replaced(draft, writer):
                    draft.hold()
                await draft.feed(part.text)
            elif isinstance(part, SynthesisReset):
                draft.reset(part.reason)
            else:
                synthesis = part
    if synthesis is None:
        raise LLMProviderException(NO_SYNTHESIS)
    await draft.finish()
    return synthesis


def _may_be_replaced(draft: Draft, writer: ISynthesizer) -> bool:
    """Return whether the fallback may replace a doubtful text of this writer. If there is a judge, its verdicts come too late."""
    return writer is not draft.writers.fallback and draft.writers.judge_task is None


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
