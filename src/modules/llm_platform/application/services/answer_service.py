"""The answer service: a question with context in, an answer with cited documents out."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.application.rag import answering
from modules.llm_platform.application.rag.retrieval import MAX_TOP_K
from modules.llm_platform.application.research.quick import RESERVE_MAX_S, RESERVE_SHARE
from modules.llm_platform.application.research.verification import Verification
from modules.llm_platform.application.research.writing import WritingRequest, WrittenAnswer, write
from modules.llm_platform.domain.concurrency.deadline import current_deadline, deadline_at
from modules.llm_platform.domain.dtos.degraded import Degraded, distinct_degraded
from modules.llm_platform.domain.dtos.retrieval_dtos import RagAnswer, RagHits, RagQuestion, RagSearch
from modules.llm_platform.domain.exceptions import LLMProviderException, LLMTimeoutError, VectorStoreError
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer
from modules.llm_platform.domain.text.language import language_of
from modules.llm_platform.domain.text.messages import messages_for
from modules.llm_platform.domain.urls.canonical_url import canonical_url
from shared.exceptions import AppException

log = logging.getLogger(__name__)

MAX_QUESTION_CHARS: Final = 8000  # the writer gets this much; the index searches the complete question
CONTEXT_END: Final = 0.4  # share of the time after which the context is complete
RETRIEVAL_END: Final = 0.6
VERIFICATION_END: Final = 0.95  # the written answer must not be lost to a slow judge
NEVER_S: Final = 3600.0  # later than every deadline
QUESTION_CUT: Final = f"too_long: only the first {MAX_QUESTION_CHARS} characters were answered"
EMPTY: Final = "The language model's answer contained nothing that can be shown: use another model"

Search = Callable[[RagSearch], Awaitable[RagHits]]


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """Settings of one answer: seconds, documents, tokens of its text."""

    timeout_s: float = 120.0
    top_k: int = 5
    max_tokens: int = DEFAULT_MAX_TOKENS


@dataclass(frozen=True, slots=True)
class _AnswerRun:
    """One running answer. `began` and `deadline` are event loop times. Without `fallback`, errors of the writer are raised."""

    request: RagQuestion
    language: str
    began: float
    deadline: float
    fallback: ISynthesizer | None

    def at(self, share: float) -> float:
        """Return the time when this share has passed."""
        return self.began + share * (self.deadline - self.began)


class AnswerService:
    """Answers questions from their context and from the index."""

    def __init__(
        self,
        search: Search,
        context: answering.ContextResolver,
        writer: ISynthesizer,
        fallback: ISynthesizer,
        options: AnswerOptions | None = None,
        judge: ICitationJudge | None = None,
    ) -> None:
        self._search, self._context = search, context
        self._writer, self._fallback = writer, fallback
        self._options = options or AnswerOptions()
        self._judge = judge

    async def answer(self, question: RagQuestion, *, use_fallback: bool = False) -> RagAnswer:
        """Return the answer, within AnswerOptions.timeout_s and before the deadline of the caller if it has one.

        The context comes first, the index adds documents up to `top_k`. If both are empty, the answer says so; if one of
        them failed, its error is raised: an error of embedders, vector stores or pages. If the model fails, its error is
        raised (LLMTimeoutError if it is late); with `use_fallback` the answer consists of quotes instead.
        """
        now = asyncio.get_running_loop().time()
        deadline = min(now + self._options.timeout_s, current_deadline())
        deadline -= min(RESERVE_MAX_S, RESERVE_SHARE * max(0.0, deadline - now))
        language = language_of(question.question, question.language)
        run = _AnswerRun(question, language, now, deadline, self._fallback if use_fallback else None)
        collected = await self._collect(run)
        if not collected.passages:
            return self._nothing_found(run, collected)
        written = await self._write(run, collected)
        answer = self._build_answer(written, collected)
        log.info("question answered", extra={"passages": len(collected.passages), "citations": len(answer.citations)})
        return answer

    async def _collect(self, run: _AnswerRun) -> answering.CollectedContext:
        request = run.request
        collected = await self._context.collect(request.context, request.filters, run.at(CONTEXT_END))
        missing = min(request.top_k or self._options.top_k, MAX_TOP_K) - len(collected.passages)
        if missing > 0:
            await self._add_from_index(run, collected, missing)
        return collected

    async def _add_from_index(self, run: _AnswerRun, collected: answering.CollectedContext, count: int) -> None:
        """Add up to `count` documents of the index that the context does not contain."""
        known = set(_document_keys(collected.passages))
        search = RagSearch(
            query=run.request.question,
            top_k=count + len(collected.passages),
            filters=run.request.filters,
            keyword_fallback=run.fallback is not None,
        )
        try:
            async with deadline_at(run.at(RETRIEVAL_END)):
                found = await self._search(search)
        except TimeoutError:
            collected.add_error(answering.INDEX, VectorStoreError(answering.INDEX_LATE))
            return
        except AppException as error:
            collected.add_error(answering.INDEX, error)
            return
        collected.degraded += found.degraded
        hits = [
            answering.ContextPassage(
                hit.snippet, answering.document_citation(hit.doc_id, hit.title, hit.url), hit.pages
            )
            for hit in found.hits
            if hit.snippet
        ]
        new = [hit for hit in hits if known.isdisjoint(_document_keys([hit]))]
        collected.passages += new[:count]

    def _nothing_found(self, run: _AnswerRun, collected: answering.CollectedContext) -> RagAnswer:
        """Return the answer that nothing was found. Raises the error if something failed: the result is unknown then."""
        if collected.errors:
            raise next((error for error in collected.errors if error.retryable), collected.errors[0])
        return RagAnswer(
            answer=messages_for(run.language).nothing_found,
            answered=False,
            synthesizer=self._fallback.name,
            degraded=distinct_degraded(collected.degraded),
        )

    async def _write(self, run: _AnswerRun, collected: answering.CollectedContext) -> WrittenAnswer:
        question = run.request.question[:MAX_QUESTION_CHARS]
        if question != run.request.question:
            collected.degraded.append(Degraded(component="question", reason=QUESTION_CUT))
        request = WritingRequest(
            question=question,
            sources=answering.number_passages(collected.passages),
            language=run.language,
            max_tokens=self._options.max_tokens,
            writer=self._writer,
            fallback=run.fallback or self._writer,  # the writer itself replaces only an empty text
            deadline=run.deadline if run.fallback else run.deadline + NEVER_S,
            offer_deep=False,
            by_model=self._writer is not self._fallback,
            verification=Verification(self._judge, run.at(VERIFICATION_END)) if self._judge else None,
        )
        if run.fallback:
            return await write(request, streamed=False, on_text=_ignore, on_reset=_ignore)
        try:
            async with deadline_at(run.deadline):
                written = await write(request, streamed=False, on_text=_ignore, on_reset=_ignore)
        except TimeoutError as error:
            raise LLMTimeoutError from error
        if not written.text.strip():
            raise LLMProviderException(EMPTY, spent=written.spent)
        return written

    def _build_answer(self, written: WrittenAnswer, collected: answering.CollectedContext) -> RagAnswer:
        cited, synthesis = answering.cited_documents(written, collected.passages), written.synthesis
        return RagAnswer(
            answer=cited.text,
            citations=cited.citations,
            answered=synthesis.answered,
            synthesizer=synthesis.synthesizer,
            spent=written.spent,
            degraded=distinct_degraded((*collected.degraded, *synthesis.degraded, *written.degraded, *cited.degraded)),
        )


def _document_keys(passages: Iterable[answering.ContextPassage]) -> Iterable[tuple[str, str]]:
    """Yield the keys that two passages of one document share."""
    for passage in passages:
        if passage.document.doc_id:
            yield "id", passage.document.doc_id
        if passage.document.url:
            yield "url", canonical_url(passage.document.url)


def _ignore(text: str) -> None:
    """Ignore a part of the answer: it is not shown, because its numbers change at the end."""
