"""Writes answers without a language model: quotes from the sources, nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from modules.llm_platform.application.research.write.model_choice import choose_with_models, list_misspelled_words
from modules.llm_platform.domain.concurrency.long_work import run_in_thread_if_long
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.evidence.ledger import MAX_ROW_QUOTES, list_evidence_quotes
from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.dated_rows import find_dated_entry, remove_other_days
from modules.llm_platform.domain.extractive.decisions import add_decisions
from modules.llm_platform.domain.extractive.described_rows import drop_rows_that_cannot_answer
from modules.llm_platform.domain.extractive.headed_sections import find_headed_section
from modules.llm_platform.domain.extractive.named_document import find_opening
from modules.llm_platform.domain.extractive.named_rows import (
    NamedRows,
    add_rows_with_same_name,
    find_named_rows,
    group_named_rows,
)
from modules.llm_platform.domain.extractive.question import Question, read_question_as_written
from modules.llm_platform.domain.extractive.question_parts import list_open_parts
from modules.llm_platform.domain.extractive.rendering import (
    render_answer,
    render_closest_sentences,
    render_quotes,
    render_rows,
)
from modules.llm_platform.domain.extractive.report import write_report
from modules.llm_platform.domain.extractive.reranking import RerankedSelection
from modules.llm_platform.domain.extractive.selection import Quote, Selection, choose_by_words, make_quotes
from modules.llm_platform.domain.extractive.spelling import correct_spelling
from modules.llm_platform.domain.markdown.markers import NO_MARKERS
from modules.llm_platform.domain.ports.sentence_encoder import ISentenceEncoder
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.synthesizer import EXTRACTIVE, ISynthesizer, SynthesisRequest
from modules.llm_platform.domain.row_claims.questions import find_answering_rows, may_be_answered_by_rows
from modules.llm_platform.domain.text.messages import Messages, get_messages
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

RULES_VERSION = "36"  # part of the keys of stored reports: raise it when the selection or the rendering changes
NO_FAILURE: Final[tuple[Degraded, ...]] = ()

Result = TypeVar("Result")


class ExtractiveSynthesizer(ISynthesizer):
    """Quotes sentences of the sources verbatim, each with its marker. Headings and lead-ins are in the requested language.

    `encoder` finds the sentences that are close in meaning to the question, and `model` reads whether they answer it, in the
    languages that it knows. Without these models, or if they take longer than `reading_s` seconds, keyword matching decides.

    Needs no configuration and does not fail. `instructions` and `context` have no effect, because no text is generated.
    """

    name = EXTRACTIVE
    version = RULES_VERSION
    writes_reports = True

    def __init__(
        self, encoder: ISentenceEncoder | None = None, model: ISupportModel | None = None, reading_s: float = 5.0
    ) -> None:
        self._encoder = encoder
        self._model = model
        self._reading_s = reading_s

    def begin_loading(self) -> None:
        """Load the weights of the models for English in the background. Others are loaded when they are first needed."""
        if self._encoder is not None:
            self._encoder.begin_loading(is_english=self._model is not None)
            if self._model is not None:
                self._model.begin_loading("answer")

    async def synthesize(self, request: SynthesisRequest) -> Synthesis:
        messages = get_messages(request.language)
        if not request.sources:
            return Synthesis(text=messages.nothing_found, synthesizer=self.name, answered=False)
        if request.questions:
            evidence = list_evidence_quotes(request.evidence, request.sources)
            return self._make_synthesis(await _run(request, lambda: _write_report(request, evidence)), messages)
        question = read_question_as_written(request.question, request.language)
        synthesis = await self._answer(request, question)
        return synthesis if synthesis.answered else await self._answer_corrected(request, question, synthesis)

    async def _answer_corrected(self, request: SynthesisRequest, question: Question, refusal: Synthesis) -> Synthesis:
        """Answer with the spelling of the sources, if that differs. An uncertain correction is only suggested."""
        if self._encoder is None:
            return refusal
        unknown = await list_misspelled_words(question, self._encoder)
        correction = await _run(request, lambda: correct_spelling(question, unknown, request.sources))
        if correction is None:
            return refusal
        synthesis = refusal
        if correction.is_certain:
            synthesis = await self._answer(request, read_question_as_written(correction.text, request.language))
        return (synthesis if synthesis.answered else refusal).model_copy(update={"correction": correction.text})

    async def _answer(self, request: SynthesisRequest, question: Question) -> Synthesis:
        """Return the rows or the sentences that answer a question."""
        messages, evidence = get_messages(request.language), list_evidence_quotes(request.evidence, request.sources)
        is_answered = bool(evidence) and all(row.state == "answered" for row in request.evidence)
        if is_answered and not may_be_answered_by_rows(question):
            return self._quote(evidence, messages)
        selection = await _run(request, lambda: choose_by_words(question, request.sources))
        rows = await _run(request, lambda: find_answering_rows(question, request.sources, selection.candidates))
        if rows is not None:
            return self._make_synthesis(render_rows(rows, messages), messages)
        if is_answered:
            return self._quote(evidence, messages)
        if found := _find_named_passage(question, selection.candidates):
            named = replace(selection, chosen=found)
            return self._make_synthesis(await _run(request, lambda: _write_quotes(request, named, [])), messages)
        return await self._quote_sentences(request, selection, evidence)

    async def _quote_sentences(
        self, request: SynthesisRequest, selection: Selection, evidence: Sequence[Quote]
    ) -> Synthesis:
        """Return the sentences that answer. If none does, return a text that says so, and the closest sentences in `closest`."""
        messages = get_messages(request.language)
        result, degraded = await self._choose_sentences(request, selection)
        if result.ordered and not result.selection.chosen and not _has_later_quote(request):
            evidence = []  # it was chosen by keywords only, and the models found that no sentence answers
        text = await _run(request, lambda: _write_quotes(request, result.selection, evidence))
        if text and (parts := list_open_parts(selection.question, text)):
            text = "\n\n".join([text, _list_parts(parts, messages)])
        synthesis = self._make_synthesis(text, messages).model_copy(update={"degraded": degraded})
        if text or not result.ordered:
            return synthesis
        not_answered = messages.not_certain if result.may_answer else messages.not_answered
        return synthesis.model_copy(
            update={"text": not_answered, "closest": render_closest_sentences(result.ordered, messages)}
        )

    async def _choose_sentences(
        self, request: SynthesisRequest, selection: Selection
    ) -> tuple[RerankedSelection, tuple[Degraded, ...]]:
        """Let the models choose the sentences if there are any, and add the rows that have the name of a chosen row."""
        named = await _run(request, lambda: _group_named_rows(selection))
        result, degraded = RerankedSelection(selection, []), NO_FAILURE
        if self._encoder is not None:
            result, degraded = await choose_with_models(selection, named, self._encoder, self._model, self._reading_s)
        alike = add_rows_with_same_name(result.selection.chosen, named)
        chosen = drop_rows_that_cannot_answer(selection.question, alike)
        may_answer = result.may_answer or len(chosen) < len(alike)
        chosen = add_decisions(chosen, selection.candidates)
        return replace(result, selection=replace(result.selection, chosen=chosen), may_answer=may_answer), degraded

    def _quote(self, evidence: Sequence[Quote], messages: Messages) -> Synthesis:
        return self._make_synthesis("\n\n".join(render_quotes(evidence)), messages)

    def _make_synthesis(self, text: str, messages: Messages) -> Synthesis:
        return Synthesis(text=text or messages.not_answered, synthesizer=self.name, answered=bool(text))


def _find_named_passage(question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return what the question names: the beginning of a document, rows of a table, the entry of a day, or a section."""
    return (
        find_opening(question, candidates)
        or find_named_rows(question, candidates)
        or find_dated_entry(question, candidates)
        or find_headed_section(question, candidates)
    )


def _group_named_rows(selection: Selection) -> list[NamedRows]:
    """Return the rows that the question names, without rows of other days."""
    return group_named_rows(selection.question, remove_other_days(selection.question, selection.candidates))


def _list_parts(parts: Sequence[str], messages: Messages) -> str:
    """Return the block that lists the parts of a question without an answer. They cite nothing."""
    lines = (f"- {one_line(part).translate(NO_MARKERS)}?" for part in parts)
    return "\n".join([messages.unanswered, "", *lines])


async def _run(request: SynthesisRequest, work: Callable[[], Result]) -> Result:
    """Run work on the sources: in a thread if they are long."""
    return await run_in_thread_if_long(sum(len(source.text) for source in request.sources), work)


def _has_later_quote(request: SynthesisRequest) -> bool:
    """Return whether a further round found a part of the evidence, which may then answer in two steps."""
    return any(one.round for row in request.evidence for one in row.quotes)


def _write_report(request: SynthesisRequest, evidence: Sequence[Quote]) -> str:
    return write_report(
        request.question,
        request.questions,
        request.sources,
        request.language,
        get_messages(request.language),
        request.max_tokens,
        evidence,
    )


def _write_quotes(request: SynthesisRequest, selection: Selection, evidence: Sequence[Quote]) -> str:
    """Return the chosen quotes. If there is evidence, return one chosen quote from another source, then the evidence.

    That is at most MAX_ROW_QUOTES quotes, so the last quote of the evidence may be left out.
    """
    if not evidence:
        return render_answer(selection, get_messages(request.language), request.max_tokens)
    quoted = {one.source.url for one in evidence}
    first = [one for one in make_quotes(selection) if one.source.url not in quoted][:1]
    return "\n\n".join(render_quotes([*first, *evidence][: max(len(evidence), MAX_ROW_QUOTES)]))
