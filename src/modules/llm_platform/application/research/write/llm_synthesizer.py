"""Writes answers with a language model."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from modules.llm_platform.application.research.model_output.cleaning import TemplateTokenRemover
from modules.llm_platform.application.research.write.answer_prompt import (
    ANSWER_VERSION,
    REPORT_VERSION,
    NoAnswerReader,
    Prompt,
    build_prompt,
)
from modules.llm_platform.application.research.write.passage_choice import (
    PassageChooser,
    choose_rows,
    keep_rows,
    remove_rows_of_other_days,
)
from modules.llm_platform.domain.concurrency.long_work import run_in_thread_if_long
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisPart, SynthesisReset, SynthesisToken
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import READER_STEP_S, LLMRequest, LLMReset, LLMResponse, LLMToken
from modules.llm_platform.domain.exceptions import LLMProviderException
from modules.llm_platform.domain.extractive.rendering import render_rows
from modules.llm_platform.domain.extractive.tables import RowsFound
from modules.llm_platform.domain.llm.context_budget import SMALL_BUDGET_TOKENS, SOURCES_BUDGET_TOKENS
from modules.llm_platform.domain.ports.llm import ContextTokens, ILLMProvider, resolve_context
from modules.llm_platform.domain.ports.synthesizer import EXTRACTIVE, StreamingSynthesizer, SynthesisRequest
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.text.tokens import count_tokens
from shared.exceptions import AppException

DEFAULT_CONTEXT_TOKENS = 32_000
CONTEXT_CUT = Degraded(
    component="context",
    reason=(
        "length: the model read only the beginning and the end of `context`: "
        "shorten it, or use a model with a larger context window"
    ),
)
NO_FAILURE: Final[tuple[Degraded, ...]] = ()
WRITING_TEMPERATURE = 0.2  # allows some variety in the text; other stages use 0
WHOLE_TEXT_STEP_S = 0.2  # larger parts, because checking several sentences at once costs less


class LLMSynthesizer(StreamingSynthesizer):
    """Asks a language model for the answer in one call, with the rules and the numbered sources in the prompt.

    - `llm` may be a router. Its resets and its spending are passed on.
    - `context_tokens` is the context length of the smallest model behind `llm`, for prompt and answer together.
    - `sources_tokens` limits the sources of a short answer. The context limits the sources of a report.
    - `passages` chooses what a small model reads of the sources of a short answer. Without it, words choose.

    If no sentence that a small model reads seems to answer, the parts of the answer are marked as doubtful. A request that does
    not ask in doubt then gets a text that says that the sources do not answer.

    If rows of a table answer a question, the answer quotes the rows, and a small model is not called, because small models often
    misread tables. If the reader has wishes for the text, the model gets the rows and nothing else.

    Raises the errors of the LLM port.
    """

    version = ANSWER_VERSION
    report_version = REPORT_VERSION
    writes_reports = True
    writes_sections = True

    def __init__(
        self,
        llm: ILLMProvider,
        *,
        context_tokens: int | ContextTokens = DEFAULT_CONTEXT_TOKENS,
        sources_tokens: int = SOURCES_BUDGET_TOKENS,
        passages: PassageChooser | None = None,
        name: str = "llm",
    ) -> None:
        self.name, self.is_free = name, llm.is_free
        self.is_small = sources_tokens <= SMALL_BUDGET_TOKENS
        self._llm = llm
        self._context_tokens = context_tokens
        self._sources_tokens = sources_tokens
        self._passages = passages if sources_tokens <= SMALL_BUDGET_TOKENS else None

    def begin_loading(self) -> None:
        if self._passages is not None:
            self._passages.begin_loading()

    async def stream(self, request: SynthesisRequest) -> AsyncIterator[SynthesisPart]:
        rows = await run_in_thread_if_long(_count_chars(request), self._find_rows, request)
        if (synthesis := self._answer_without_model(request, rows)) is not None:
            yield SynthesisToken(text=synthesis.text)
            yield synthesis
            return
        prompt, is_doubtful, degraded = await self._make_prompt(request, rows)
        if is_doubtful and not request.asks_in_doubt:
            text = get_messages(request.language).not_answered
            yield SynthesisToken(text=text, is_doubtful=True)
            yield Synthesis(text=text, synthesizer=EXTRACTIVE, answered=False, is_doubtful=True, degraded=degraded)
            return
        asked = _make_request(prompt, is_streamed=request.is_streamed)
        reader = _AnswerReader()
        response: LLMResponse | None = None
        async with aclosing(self._llm.stream(asked)) as parts:  # type: ignore[type-var]  # an async generator
            async for part in parts:
                if isinstance(part, LLMToken):
                    if text := reader.feed(part.text):
                        yield SynthesisToken(text=text, is_doubtful=is_doubtful)
                elif isinstance(part, LLMReset):
                    reader = _AnswerReader()
                    yield SynthesisReset(reason=_explain_error(part.error))
                else:
                    response = part
        if response is None:
            raise LLMProviderException("The language model's stream ended without an answer: use another model")
        if rest := reader.finish():
            yield SynthesisToken(text=rest, is_doubtful=is_doubtful)
        written = reader.text
        if not written:
            written = get_messages(request.language).not_answered
            yield SynthesisToken(text=written, is_doubtful=is_doubtful)
        synthesis = _make_synthesis(response, written, reader.has_answered, prompt)
        yield synthesis.model_copy(update={"is_doubtful": is_doubtful, "degraded": (*degraded, *synthesis.degraded)})

    def _answer_without_model(self, request: SynthesisRequest, rows: RowsFound | None) -> Synthesis | None:
        """Return the answer if there are no sources, or if rows answer and the model is small; None if the model must answer."""
        messages = get_messages(request.language)
        if not request.sources:
            return Synthesis(text=messages.nothing_found, synthesizer=self.name, answered=False)
        if rows is not None and self.is_small and not request.has_wishes:
            return Synthesis(text=render_rows(rows, messages), synthesizer=EXTRACTIVE)
        return None

    def _find_rows(self, request: SynthesisRequest) -> RowsFound | None:
        """Return the rows that answer; None for a report. A larger model compares rows itself if it can read them all."""
        if request.questions or not any(source.is_whole for source in request.sources):
            return None
        if not self.is_small and sum(count_tokens(one.text) for one in request.sources) <= self._sources_tokens:
            return None
        return choose_rows(request.sources, request.question, request.language)

    async def _make_prompt(
        self, request: SynthesisRequest, rows: RowsFound | None
    ) -> tuple[Prompt, bool, tuple[Degraded, ...]]:
        """Return the prompt, whether its passages seem to have no answer, and what failed while they were chosen."""
        context_tokens = await resolve_context(self._context_tokens)
        chars = _count_chars(request)
        if request.questions:
            return await run_in_thread_if_long(chars, build_prompt, request, context_tokens, None), False, ()
        limit, is_doubtful, degraded = self._sources_tokens, False, NO_FAILURE
        if self.is_small:
            sources = await run_in_thread_if_long(
                chars, remove_rows_of_other_days, request.sources, request.question, request.language
            )
            request = replace(request, sources=sources)
        chosen = keep_rows(rows, request.sources, request.language) if rows is not None else None
        if chosen is None and self._passages is not None:
            passages = await self._passages.choose(request.sources, request.question, request.language)
            chosen, degraded = passages.text, passages.degraded
            is_doubtful = passages.is_doubtful and not request.has_wishes
        prompt = await run_in_thread_if_long(chars, build_prompt, request, context_tokens, limit, chosen)
        return prompt, is_doubtful, degraded


class _AnswerReader:
    """Extracts the answer from the stream of a model, without template tokens, the NO_ANSWER mark and echoes.

    `text` is the answer so far.
    """

    def __init__(self) -> None:
        self._tokens, self._mark = TemplateTokenRemover(), NoAnswerReader()
        self.text = ""

    @property
    def has_answered(self) -> bool:
        return self._mark.answered and bool(self.text)

    def feed(self, text: str) -> str:
        """Return what the answer gains."""
        return self._add(self._mark.feed(self._tokens.feed(text)))

    def finish(self) -> str:
        """Return the rest of the answer."""
        return self._add(self._mark.feed(self._tokens.finish()) + self._mark.finish())

    def _add(self, text: str) -> str:
        self.text += text
        return text


def _count_chars(request: SynthesisRequest) -> int:
    return sum(len(source.text) for source in request.sources)


def _make_request(prompt: Prompt, *, is_streamed: bool) -> LLMRequest:
    return LLMRequest(
        messages=prompt.messages,
        max_tokens=prompt.max_tokens,
        temperature=WRITING_TEMPERATURE,
        data_kind="page text",
        step_s=READER_STEP_S if is_streamed else WHOLE_TEXT_STEP_S,
    )


def _make_synthesis(response: LLMResponse, text: str, answered: bool, prompt: Prompt) -> Synthesis:
    return Synthesis(
        text=text,
        synthesizer=f"{response.provider}/{response.model}",
        answered=answered,
        truncated_tokens=prompt.truncated_tokens,
        finish_reason=response.finish_reason,
        spent=response.spent,
        degraded=(*response.degraded, CONTEXT_CUT) if prompt.is_context_cut else response.degraded,
    )


def _explain_error(error: Exception) -> str:
    """Return the code and message of our own errors; of any other error the type only, because its text is untrusted."""
    return f"{error.code}: {error.message}" if isinstance(error, AppException) else type(error).__name__
