"""Writing stage: write the text of an answer, sanitise it, and check its citations.

If a model leaves out markers, the platform adds them before the citations are checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace

from modules.llm_platform.application.research import events
from modules.llm_platform.application.research.draft import Draft
from modules.llm_platform.application.research.early_verification import EarlyVerification
from modules.llm_platform.application.research.read_pages import SourcesBeingRead
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.application.research.verification import (
    NOTHING_KNOWN,
    OnChecked,
    Verification,
    Verified,
    verify,
)
from modules.llm_platform.domain.citations.checker import CheckedAnswer
from modules.llm_platform.domain.concurrency.deadline import deadline_at
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.research_dtos import Citation, Source, Synthesis, SynthesisReset, SynthesisToken
from modules.llm_platform.domain.exceptions import DailyBudgetError, LLMException, LLMProviderException, LLMTimeoutError
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.rendering import render_closest
from modules.llm_platform.domain.extractive.selection import select_quotes
from modules.llm_platform.domain.markdown.markers import render_markers
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.ports.synthesizer import NO_SYNTHESIS, ISynthesizer, SynthesisRequest
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.domain.text.messages import messages_for
from shared.exceptions import AppException

LATE = "timeout: not finished before the deadline of the research run"
CUT_LATE = f"{LATE}: the text is cut off; raise RESEARCH_TIMEOUT_S"
CUT_BROKEN = "timeout: the text is cut off; {message}"
REPEATED = "repetition: the model repeated itself and was stopped; another model may do better"
EMPTY_TEXT = "its text contained nothing that can be shown"
NOTHING_CITED = "uncited: the model cited nothing: {found} of its sentences match a source, {count} were not checked"
UNCITED = "uncited: {count} sentences cite no source and were not checked"
CUT_OFF = "length: the answer was cut off at its maximum length; raise LLM_MAX_TOKENS for a longer one"
# Values of `finish_reason`: the writer was stopped, or its model repeated itself.
CUT = "timeout"
REPETITION = "repetition"
UNFINISHED = frozenset({CUT, REPETITION})  # texts that are not reused for the next request


@dataclass(frozen=True, slots=True)
class WritingRequest:
    """A text to write, and its writers.

    - `sources` are the texts that citations are checked against.
    - `language` is the BCP 47 tag of the text, and `max_tokens` its longest length.
    - `writer` writes the text, and `fallback` replaces it if it fails or writes nothing.
    - `deadline` (event loop time) is when the writer is stopped. The finished sentences of its text stay; if there are none,
      the fallback writes.
    - `offer_deep` is True if an answer without citations suggests a deep run.
    - `by_model` is True if the writer calls a language model, so that a late text has cost a call.
    - `questions` are the sub-questions of a report.
    - `instructions` are wishes of the caller for the text, and `context` is text of the caller beyond the question.
    - `verification` judges the citations after the comparison of words; None skips it.
    - `excerpts` are the parts of the sources that the writer reads; None if it reads them whole.
    - `reading` has the sources whose pages are still being read while the text is written.
    - `evidence` are the rows of the ledger whose answer takes sentences of several sources.
    - `stop_note` says why the search ended. It is shown below a text that does not answer.
    """

    question: str
    sources: tuple[Source, ...]
    language: str
    max_tokens: int
    writer: ISynthesizer
    fallback: ISynthesizer
    deadline: float
    offer_deep: bool
    by_model: bool = False
    questions: tuple[str, ...] = ()
    instructions: str | None = None
    context: str | None = None
    verification: Verification | None = None
    excerpts: tuple[Source, ...] | None = None
    reading: SourcesBeingRead | None = None
    evidence: tuple[EvidenceRow, ...] = ()
    stop_note: str = ""

    def synthesis(self, *, is_streamed: bool) -> SynthesisRequest:
        return SynthesisRequest(
            question=self.question,
            sources=self.sources if self.excerpts is None else self.excerpts,
            language=self.language,
            max_tokens=self.max_tokens,
            instructions=(self.instructions or "").strip() or None,
            context=self.context or None,
            questions=self.questions,
            evidence=self.evidence,
            is_streamed=is_streamed,
        )


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """A written and checked answer.

    - `text` is the text as shown, and `synthesis` the text of the writer.
    - `checked` has the citations with their verdicts.
    - `spent` counts the writers and the judge.
    - `sources` have the texts that the citations were checked against.
    """

    text: str
    synthesis: Synthesis
    checked: CheckedAnswer
    degraded: tuple[Degraded, ...]
    spent: Spending
    sources: tuple[Source, ...]


def _ignore(citations: tuple[Citation, ...], pending: int) -> None:
    """Ignore the citations, for callers that wait for the whole answer."""


async def write(
    request: WritingRequest,
    streamed: bool,
    on_text: Callable[[str], None],
    on_reset: Callable[[str], None],
    on_checked: OnChecked = _ignore,
) -> WrittenAnswer:
    """Write and check an answer.

    - `streamed` is True if `on_text` gets the text as it is written; otherwise it gets the whole text at once.
    - `on_text` is called with each piece of the text, and `on_reset` with the reason why the text so far is discarded.
    - `on_checked` is called with the verdicts of the comparison of words before a judge is asked, and again with the verdicts
      of the judge after it.
    """
    verification = request.verification
    early: EarlyVerification | None = None
    if verification is not None and verification.max_wait_share is not None and request.writer is not request.fallback:
        # The judge is asked while the model writes, because the reader does not wait for it afterwards.
        early = EarlyVerification(verification, request.question, request.sources)
    output = Draft(request.sources, request.language, streamed, on_text, on_reset, request.reading, early)
    try:
        synthesis, degraded = await _synthesize(request, output)
        return await _check(request, early, output, synthesis, degraded, on_checked)
    finally:
        if early is not None:
            await early.aclose()


async def write_events(run: Run, request: WritingRequest) -> WrittenAnswer:
    """Write and check an answer, and emit the text and the verdicts as events of the research run."""
    emit, request_id = run.emit, run.request_id
    return await write(
        request,
        run.is_streamed,
        on_text=lambda text: emit(events.Token(request_id=request_id, text=text)),
        on_reset=lambda reason: emit(events.Reset(request_id=request_id, reason=reason)),
        on_checked=lambda citations, pending: emit(
            events.Verified(request_id=request_id, citations=citations, pending=pending)
        ),
    )


async def _check(
    request: WritingRequest,
    early: EarlyVerification | None,
    output: Draft,
    synthesis: Synthesis,
    degraded: tuple[Degraded, ...],
    on_checked: OnChecked,
) -> WrittenAnswer:
    """Check the citations of the written text, and add below the text what it lacks."""
    text = output.text
    checked = await output.check()
    if not synthesis.answered:  # the first uncited sentence says so, and needs no source
        checked = replace(checked, uncited=checked.uncited[1:])
    if not synthesis.answered and not render_markers(text):
        closest = await asyncio.to_thread(_closest_passages, request)
        output.add(closest and f"\n\n{closest}")
        # The passages are quotes, so there is nothing to check, but their sources are listed.
        named = {number for _, _, number in render_markers(closest)}
        checked = replace(checked, cited=frozenset(named.intersection(source.index for source in request.sources)))
    is_fallback = request.writer is not request.fallback and synthesis.synthesizer == request.fallback.name
    by_model = output.lacks_markers and not is_fallback
    if is_fallback and synthesis.answered:
        noted = (*degraded, *synthesis.degraded)  # the latter may come from the writer's own fallback
        is_model_refused = any(degradation.component == DailyBudgetError.component for degradation in noted)
        messages = messages_for(request.language)
        output.add(f"\n\n{messages.quotes_only if is_model_refused else messages.model_failed}")
    for message in _messages_below(request, synthesis, checked, by_model=by_model):
        output.add(f"\n\n{message}")
    degraded = (*degraded, *_notes(synthesis, checked, by_model=by_model))
    verified = await _verified(request, early, text, checked, on_checked, is_fallback=is_fallback)
    spent = synthesis.spent + verified.spent
    return WrittenAnswer(
        output.text, synthesis, verified.checked, (*degraded, *verified.degraded), spent, output.sources
    )


async def _verified(
    request: WritingRequest,
    early: EarlyVerification | None,
    text: str,
    checked: CheckedAnswer,
    on_checked: OnChecked,
    *,
    is_fallback: bool,
) -> Verified:
    """Return the answer with the verdicts of the judge, for which alone the reader of a stream still waits.

    A text of the fallback is not judged. Calls that were made about the writer's text before it are still paid for.
    """
    if request.verification is None:
        return Verified(checked)
    verified, known = Verified(checked), NOTHING_KNOWN
    if early is not None:
        await (early.aclose() if is_fallback else early.finish())
        known = early.verdicts
    if not is_fallback:
        verified = await verify(
            request.verification, request.question, text, request.language, request.sources, checked, on_checked, known
        )
    if early is None:
        return verified
    return replace(verified, spent=verified.spent + early.spent, degraded=(*early.degraded, *verified.degraded))


def _messages_below(
    request: WritingRequest, synthesis: Synthesis, checked: CheckedAnswer, *, by_model: bool
) -> Iterator[str]:
    """Yield the messages that tell the reader what the text lacks."""
    messages = messages_for(request.language)
    if by_model and checked.uncited_sentences and not checked.is_cited_by_author:
        yield messages.cited_nothing
    if request.offer_deep and not (synthesis.answered and checked.cited):
        yield messages.go_deeper
    if synthesis.finish_reason in UNFINISHED:
        yield messages.cut_off
    if request.stop_note and not synthesis.answered:
        yield request.stop_note


def _notes(synthesis: Synthesis, checked: CheckedAnswer, *, by_model: bool) -> Iterator[Degraded]:
    """Yield the entries of `degraded` about sentences without citations and texts that end early."""
    count, found = checked.uncited_sentences, len({citation.start for citation in checked.citations})
    reasons = {"length": CUT_OFF, REPETITION: REPEATED}
    if by_model and checked.is_cited_by_author and count:
        yield Degraded(component=synthesis.synthesizer, reason=UNCITED.format(count=count))
    elif by_model and not checked.is_cited_by_author and count + found:
        yield Degraded(component=synthesis.synthesizer, reason=NOTHING_CITED.format(count=count, found=found))
    if reason := reasons.get(synthesis.finish_reason):
        yield Degraded(component=synthesis.synthesizer, reason=reason)


def _closest_passages(request: WritingRequest) -> str:
    """Return quotes for a question that the sources do not answer. The quotes are close to it, and may not answer it."""
    question = read_question(request.question, detect(request.question) or request.language)
    closest = render_closest(select_quotes(question, request.sources), messages_for(request.language))
    return sanitize(closest, request.sources)


@stage("write")
async def _synthesize(request: WritingRequest, output: Draft) -> tuple[Synthesis, tuple[Degraded, ...]]:
    """Return the text of the writer, or what it wrote until the deadline, and what failed.

    If the writer fails or wrote nothing, the fallback writes the text.
    """
    name = request.writer.name
    try:
        async with deadline_at(request.deadline):
            synthesis = await _stream(request, request.writer, output)
    except TimeoutError:
        spent = Spending(calls=int(request.by_model))
        if cut := await _cut(request, output, spent):
            return cut, (Degraded(component=name, reason=CUT_LATE),)
        return await _fall_back(request, output, "deadline", spent), (Degraded(component=name, reason=LATE),)
    except AppException as error:
        spent = error.spent if isinstance(error, LLMException) else NOTHING_SPENT
        if isinstance(error, LLMTimeoutError) and (cut := await _cut(request, output, spent)):
            return cut, (Degraded(component=name, reason=CUT_BROKEN.format(message=error.message)),)
        if request.writer is request.fallback:
            raise
        return await _fall_back(request, output, error.code, spent), (Degraded.of(name, error),)
    if output.text.strip():
        return synthesis, ()
    empty = Degraded(component=synthesis.synthesizer, reason=EMPTY_TEXT)
    return await _fall_back(request, output, "empty", synthesis.spent), (*synthesis.degraded, empty)


async def _cut(request: WritingRequest, output: Draft, spent: Spending) -> Synthesis | None:
    """Return the text of a writer that was stopped; None if it has no finished sentence."""
    if request.writer is request.fallback:
        return None
    await output.finish()
    if not output.has_sentence():
        return None
    return Synthesis(text=output.text, synthesizer=request.writer.name, finish_reason=CUT, spent=spent)


async def _stream(request: WritingRequest, writer: ISynthesizer, output: Draft) -> Synthesis:
    synthesis: Synthesis | None = None
    output.lacks_markers = writer is not request.fallback or request.by_model  # texts of quotes have all their markers
    parts = request.synthesis(is_streamed=output.is_streamed).stream_with(writer)
    async with aclosing(parts) as stream:  # type: ignore[type-var]  # every implementation is an async generator
        async for part in stream:
            if isinstance(part, SynthesisToken):
                await output.feed(part.text)
            elif isinstance(part, SynthesisReset):
                output.reset(part.reason)
            else:
                synthesis = part
    if synthesis is None:
        raise LLMProviderException(NO_SYNTHESIS)
    await output.finish()
    return synthesis


async def _fall_back(request: WritingRequest, output: Draft, reason: str, spent: Spending) -> Synthesis:
    """Return the text of the fallback. `spent` is the cost of the writer before it."""
    output.reset(reason)
    synthesis = await _stream(request, request.fallback, output)
    return synthesis.model_copy(update={"spent": spent + synthesis.spent})
