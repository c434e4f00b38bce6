"""The writing stage: a writer makes the text, the sanitiser filters it, and each statement gets its source.

The completer adds the markers that a model left out, the checker verifies all citations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import lru_cache

from modules.llm_platform.application.research.read_pages import SourcesBeingRead
from modules.llm_platform.application.research.verification import OnChecked, Verification, Verified, verify
from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.citations.completion import MarkerCompleter
from modules.llm_platform.domain.deadline import deadline_at
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.research_dtos import Citation, Source, Synthesis, SynthesisReset, SynthesisToken
from modules.llm_platform.domain.exceptions import DailyBudgetError, LLMException, LLMProviderException, LLMTimeoutError
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.rendering import render_closest
from modules.llm_platform.domain.extractive.selection import select_quotes
from modules.llm_platform.domain.markdown.markers import render_markers
from modules.llm_platform.domain.markdown.sanitizer import AnswerSanitizer, sanitize
from modules.llm_platform.domain.ports.synthesizer import NO_SYNTHESIS, ISynthesizer, SynthesisRequest
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.domain.text.messages import messages_for
from modules.llm_platform.domain.text.sentences import ends_sentence, sentence_spans
from shared.exceptions import AppException

LATE = "timeout: not finished before the deadline of the research"
CUT_LATE = f"{LATE}: the text is cut off; raise RESEARCH_TIMEOUT_S"
CUT_BROKEN = "timeout: the text is cut off; {message}"
REPEATED = "repetition: the model repeated itself and was stopped; another model may do better"
EMPTY_TEXT = "its text contained nothing that can be shown"
NOTHING_CITED = "uncited: the model cited nothing: {found} of its sentences match a source, {count} were not checked"
UNCITED = "uncited: {count} sentences cite no source and were not checked"
CUT_OFF = "length: the answer was cut off at its maximum length; raise LLM_MAX_TOKENS for a longer one"
CUT = "timeout"  # finish_reason of a text whose writer was stopped
REPETITION = "repetition"  # of a text whose model repeated itself
UNFINISHED = frozenset({CUT, REPETITION})  # no text to keep for the next request
PREPARED_IN_THREAD_CHARS = 150_000  # of all sources together; preparing fewer takes the checker about 15 ms
REMEMBERED_ANSWERS = 64  # complete texts with their sources, at most about 20 MB; usually less than 1 MB


@dataclass(frozen=True, slots=True)
class WritingRequest:
    """What to write and with which writers. At `deadline` (event loop time) a writer is stopped: the finished sentences of its
    text stay, the fallback replaces a text without any.

    `by_model`: the writer calls a language model, so a late one has cost a call. `questions` are the sub-questions of a
    report. `offer_deep`: an answer without citations suggests a deep research run. `verification` judges the citations after
    the comparison of words; None skips it. `excerpts` is what the writer reads of the sources, where that is less than what
    its citations are checked against. `reading` has the sources whose pages are read while the text is written.
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

    @property
    def synthesis(self) -> SynthesisRequest:
        return SynthesisRequest(
            question=self.question,
            sources=self.sources if self.excerpts is None else self.excerpts,
            language=self.language,
            max_tokens=self.max_tokens,
            instructions=(self.instructions or "").strip() or None,
            context=self.context or None,
            questions=self.questions,
        )


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """The text as shown, the writer's synthesis, and the checked citations. `spent` counts writers and judge.

    `sources` have the texts that the citations were checked against.
    """

    text: str
    synthesis: Synthesis
    checked: CheckedAnswer
    degraded: tuple[Degraded, ...]
    spent: Spending
    sources: tuple[Source, ...]


class _Output:
    """The text that the reader sees: sanitised and completed parts, which a reset takes back all together.

    `added` are the offsets of the markers that the platform added.
    """

    def __init__(
        self,
        request: WritingRequest,
        checker: _Checker,
        streamed: bool,
        on_text: Callable[[str], None],
        on_reset: Callable[[str], None],
    ) -> None:
        self._sources = request.sources
        self._language = request.language
        self._is_streamed = streamed
        self._checker, self._on_text, self._on_reset = checker, on_text, on_reset
        self.lacks_markers = True
        self._begin()

    def _begin(self) -> None:
        self._sanitizer = AnswerSanitizer(self._sources)
        self._completer = self._checker.completer()
        self._parts: list[str] = []
        self._unshown: list[str] = []
        self.added: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        return "".join(self._parts)

    async def feed(self, text: str) -> None:
        """Add the next part of the text. Where the reader sees a stream, its citations are checked while the model writes."""
        if not self._is_streamed:
            self._unshown.append(text)
        elif not self.lacks_markers:
            self.add(self._sanitizer.feed(text))
        elif units := list(self._sanitizer.units(text)):
            await self._checker.prepared()
            self.add("".join(map(self._completer.feed, units)))

    async def finish(self) -> None:
        if not self._is_streamed:
            await self._add_all("".join(self._unshown))
            self._unshown.clear()
        elif not self.lacks_markers:
            self.add(self._sanitizer.finish())
        else:
            await self._checker.prepared()
            self.add(self._completer.finish(self._sanitizer.finish()))
            self.added = tuple(self._completer.added)

    def has_sentence(self) -> bool:
        """Whether the text has a finished sentence."""
        text = self.text.strip()
        return ends_sentence(text) or len(sentence_spans(text, self._language)) > 1

    async def _add_all(self, text: str) -> None:
        if self.lacks_markers:
            text, self.added = await self._checker.complete(text)
            self.add(text)
        else:
            self.add(_sanitized(text, self._sources))

    def add(self, safe: str) -> None:
        """Add a text that needs no sanitising."""
        if safe:
            self._parts.append(safe)
            self._on_text(safe)

    def reset(self, reason: str) -> None:
        """Void the text so far."""
        has_text = bool(self._parts)
        self._begin()
        if has_text:
            self._on_reset(reason)


class _Checker:
    """The citation checker; it prepares long sources in a thread while the writer starts, and takes the pages that are read
    while it writes.
    """

    def __init__(self, request: WritingRequest) -> None:
        self._checker = CitationChecker(request.sources, request.language)
        self.sources = request.sources
        self._reading = request.reading
        self._language = request.language
        self._is_streamed = False
        loop = asyncio.get_running_loop()
        self._prepared = loop.run_in_executor(None, self._checker.prepare) if self._is_long else None

    @property
    def _is_long(self) -> bool:
        return sum(len(source.text) for source in self.sources) > PREPARED_IN_THREAD_CHARS

    async def prepared(self) -> None:
        """Wait until long sources are prepared, and take new pages. What is checked afterwards is remembered."""
        self._is_streamed = True
        await self._take_pages()

    async def _take_pages(self) -> None:
        if self._prepared is not None:
            await self._prepared  # the thread reads the sources
        before, self.sources = self.sources, self._reading.take_pages() if self._reading else self.sources
        if before is not self.sources:
            for old, new in zip(before, self.sources, strict=True):
                if old is not new:
                    self._checker.replace(new)

    def completer(self) -> MarkerCompleter:
        return MarkerCompleter(self._checker, self._language)

    async def complete(self, text: str) -> tuple[str, tuple[int, ...]]:
        """A complete text, sanitised and with the markers that it lacks, and their offsets."""
        await self._take_pages()
        if not self._is_long:
            return _completed(text, self.sources, self._language)
        return await asyncio.to_thread(_complete, text, self.sources, self.completer())

    async def wait_for_pages(self, text: str) -> None:
        """Wait a bounded time for the pages that the complete answer cites."""
        if self._reading is not None:
            await self._reading.finish({number for _, _, number in render_markers(text)})
            await self._take_pages()

    @stage("verify")
    async def check(self, text: str, added: Sequence[int]) -> CheckedAnswer:
        if self._prepared is not None:
            await self._prepared
        if self._is_long:
            return await asyncio.to_thread(self._checker.check, text, added)
        if self._is_streamed:
            return self._checker.check(text, added)
        return _checked(text, tuple(added), self.sources, self._language)


@lru_cache(REMEMBERED_ANSWERS)
def _checked(text: str, added: tuple[int, ...], sources: tuple[Source, ...], language: str) -> CheckedAnswer:
    """Check a complete answer. A text from the cache is often the same: checking it took two thirds of a request's CPU."""
    return CitationChecker(sources, language).check(text, added)


@lru_cache(REMEMBERED_ANSWERS)
def _completed(text: str, sources: tuple[Source, ...], language: str) -> tuple[str, tuple[int, ...]]:
    return _complete(text, sources, MarkerCompleter(CitationChecker(sources, language), language))


def _complete(text: str, sources: Sequence[Source], completer: MarkerCompleter) -> tuple[str, tuple[int, ...]]:
    sanitizer = AnswerSanitizer(sources)
    parts = [completer.feed(unit) for unit in sanitizer.units(text)]
    parts.append(completer.finish(sanitizer.finish()))
    return "".join(parts), tuple(completer.added)


_sanitized = lru_cache(REMEMBERED_ANSWERS)(sanitize)


def _ignore(citations: tuple[Citation, ...], pending: int) -> None:
    """For readers who wait for the whole answer."""


async def write(
    request: WritingRequest,
    streamed: bool,
    on_text: Callable[[str], None],
    on_reset: Callable[[str], None],
    on_checked: OnChecked = _ignore,
) -> WrittenAnswer:
    """Write, show and check the answer. With `streamed` the text is shown as it is written, else at once.

    `on_checked` gets the verdicts of the words before a judge is asked, and its verdicts after it.
    """
    checker = _Checker(request)
    output = _Output(request, checker, streamed, on_text, on_reset)
    synthesis, degraded = await _synthesize(request, output)
    text = output.text
    await checker.wait_for_pages(text)
    checked = await checker.check(text, output.added)
    if not synthesis.answered:  # one sentence, or none, says so: it needs no source
        checked = replace(checked, uncited=checked.uncited[1:])
    if not synthesis.answered and not render_markers(text):
        closest = await asyncio.to_thread(_closest_passages, request)
        output.add(closest and f"\n\n{closest}")
        # They state nothing, so nothing is checked; their sources are listed.
        named = {number for _, _, number in render_markers(closest)}
        checked = replace(checked, cited=frozenset(named.intersection(each.index for each in request.sources)))
    is_fallback = request.writer is not request.fallback and synthesis.synthesizer == request.fallback.name
    by_model = output.lacks_markers and not is_fallback
    if is_fallback and synthesis.answered:
        output.add(f"\n\n{_why_quotes(request, (*degraded, *synthesis.degraded))}")
    for message in _messages_below(request, synthesis, checked, by_model=by_model):
        output.add(f"\n\n{message}")
    degraded = (*degraded, *_notes(synthesis, checked, by_model=by_model))
    # The reader has the whole text by now: the judge delays only the verdicts.
    verified = Verified(checked)
    if request.verification is not None and not is_fallback:
        verified = await verify(
            request.verification, request.question, text, request.language, request.sources, checked, on_checked
        )
    spent = synthesis.spent + verified.spent
    return WrittenAnswer(
        output.text, synthesis, verified.checked, (*degraded, *verified.degraded), spent, checker.sources
    )


def _why_quotes(request: WritingRequest, noted: Iterable[Degraded]) -> str:
    """Why the fallback wrote the text. `noted` may be of the writer's own fallback."""
    messages = messages_for(request.language)
    is_unpaid = any(each.component == DailyBudgetError.component for each in noted)  # the model was not called
    return messages.quotes_only if is_unpaid else messages.model_failed


def _messages_below(
    request: WritingRequest, synthesis: Synthesis, checked: CheckedAnswer, *, by_model: bool
) -> Iterator[str]:
    """What the text lacks, for the reader."""
    messages = messages_for(request.language)
    if by_model and checked.uncited_sentences and not checked.is_cited_by_author:
        yield messages.cited_nothing
    if request.offer_deep and not (synthesis.answered and checked.cited):
        yield messages.go_deeper
    if synthesis.finish_reason in UNFINISHED:
        yield messages.cut_off


def _notes(synthesis: Synthesis, checked: CheckedAnswer, *, by_model: bool) -> Iterator[Degraded]:
    """The same, for `degraded`."""
    count, found = checked.uncited_sentences, len({each.start for each in checked.citations})
    reasons = {"length": CUT_OFF, REPETITION: REPEATED}
    if by_model and checked.is_cited_by_author and count:
        yield Degraded(component=synthesis.synthesizer, reason=UNCITED.format(count=count))
    elif by_model and not checked.is_cited_by_author and count + found:
        yield Degraded(component=synthesis.synthesizer, reason=NOTHING_CITED.format(count=count, found=found))
    if reason := reasons.get(synthesis.finish_reason):
        yield Degraded(component=synthesis.synthesizer, reason=reason)


def _closest_passages(request: WritingRequest) -> str:
    """Quotes below an answer that the sources do not answer; they need not answer it either."""
    question = read_question(request.question, detect(request.question) or request.language)
    closest = render_closest(select_quotes(question, request.sources), messages_for(request.language))
    return _sanitized(closest, request.sources)


@stage("write")
async def _synthesize(request: WritingRequest, output: _Output) -> tuple[Synthesis, tuple[Degraded, ...]]:
    """The writer's text, or what it wrote until its time was over; the fallback's if the writer fails or wrote nothing."""
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


async def _cut(request: WritingRequest, output: _Output, spent: Spending) -> Synthesis | None:
    """The synthesis of a writer that was stopped; None if its text has no finished sentence."""
    if request.writer is request.fallback:
        return None
    await output.finish()
    if not output.has_sentence():
        return None
    return Synthesis(text=output.text, synthesizer=request.writer.name, finish_reason=CUT, spent=spent)


async def _stream(request: WritingRequest, writer: ISynthesizer, output: _Output) -> Synthesis:
    synthesis: Synthesis | None = None
    output.lacks_markers = writer is not request.fallback or request.by_model  # quotes have theirs
    parts = request.synthesis.stream_with(writer)
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


async def _fall_back(request: WritingRequest, output: _Output, reason: str, spent: Spending) -> Synthesis:
    """The fallback's text; `spent` is the cost of the writer before it."""
    output.reset(reason)
    synthesis = await _stream(request, request.fallback, output)
    return synthesis.model_copy(update={"spent": spent + synthesis.spent})


class StoredTextWriter(ISynthesizer):
    """Returns a stored synthesis instead of a new one: the same question from the same sources, at no cost."""

    writes_reports = True

    def __init__(self, synthesis: Synthesis) -> None:
        self.name = synthesis.synthesizer
        self._synthesis = synthesis

    async def synthesize(self, request: SynthesisRequest) -> Synthesis:
        return self._synthesis
