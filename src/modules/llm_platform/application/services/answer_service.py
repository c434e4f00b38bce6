"""The answer service: a question with context in, an answer with cited documents out."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from modules.llm_platform.application.rag import answering
from modules.llm_platform.application.rag.retrieval import MAX_TOP_K
from modules.llm_platform.application.research.check.judge_task import JudgeTask
from modules.llm_platform.application.research.find.found import FoundSources, Writers
from modules.llm_platform.application.research.quick import RESERVE_MAX_S, RESERVE_SHARE
from modules.llm_platform.application.research.run import Run
from modules.llm_platform.application.research.write.writing import WrittenAnswer, has_content, write_and_check
from modules.llm_platform.domain.callers.request_id import new_request_id
from modules.llm_platform.domain.concurrency.deadline import current_deadline, deadline_at
from modules.llm_platform.domain.dtos.degraded import Degraded, deduplicate_degraded
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.request_type import require_request
from modules.llm_platform.domain.dtos.retrieval_dtos import RagAnswer, RagHits, RagQuestion, RagSearch
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.exceptions import LLMProviderException, LLMTimeoutError, VectorStoreError
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer
from modules.llm_platform.domain.text.language import choose_language
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.urls.canonical_url import canonical_url
from shared.exceptions import AppException

log = logging.getLogger(__name__)

MAX_QUESTION_CHARS: Final = 8000  # the writer gets this much; the index searches the complete question
CONTEXT_END: Final = 0.4  # share of the time after which the context is complete
RETRIEVAL_END: Final = 0.6
VERIFICATION_END: Final = 0.95  # the written answer must not be lost to a slow judge
QUESTION_CUT: Final = f"too_long: only the first {MAX_QUESTION_CHARS} characters were answered"
EMPTY: Final = "The language model's answer contained nothing that can be shown: use another model"

Search = Callable[[RagSearch], Awaitable[RagHits]]


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """Settings of one answer: its time limit in seconds, the number of documents, and the tokens of its text."""

    timeout_s: float = 120.0
    top_k: int = 5
    max_tokens: int = DEFAULT_MAX_TOKENS


@dataclass(slots=True, kw_only=True)
class _AnswerRun(Run):
    """A run that answers a question of the index. Without `fallback`, errors of the writer are raised."""

    question: RagQuestion
    fallback: ISynthesizer | None

    def get_time(self, share: float) -> float:
        """Return the event loop time at which this share of the time has passed."""
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
        support_model: ISupportModel | None = None,
    ) -> None:
        self._search, self._context = search, context
        self._writer, self._fallback = writer, fallback
        self._options = options or AnswerOptions()
        self._judge = judge
        self._support_model = support_model

    async def answer(
        self, question: RagQuestion, *, use_fallback: bool = False, cites_closest: bool = False
    ) -> RagAnswer:
        """Return the answer, within AnswerOptions.timeout_s and before the deadline of the caller if it has one.

        The sources are the context, filled up to `top_k` with documents of the index. If there are none, the answer says so.
        If there are none because the context or the index failed, raises that error of the embedder, vector store or page.
        If the model fails, raises its error (LLMTimeoutError if it is late). With `use_fallback`, the answer is made of
        quotes instead.

        If the documents do not answer the question, the closest passages follow. With `cites_closest`, `citations` are then
        their documents. Otherwise there are none.
        """
        require_request(question, RagQuestion, "question")
        now = asyncio.get_running_loop().time()
        deadline = min(now + self._options.timeout_s, current_deadline())
        deadline -= min(RESERVE_MAX_S, RESERVE_SHARE * max(0.0, deadline - now))
        language = choose_language(question.question, question.language)
        # `question` has been validated by its own type, which admits longer and shorter ones.
        request = ResearchRequest.model_construct(query=question.question, depth="deep", sources=(DOCUMENTS,))
        run = _AnswerRun(
            request=request,
            original_request=request,
            request_id=new_request_id(),
            question=question,
            detected=language,
            began=now,
            deadline=deadline,
            fallback=self._fallback if use_fallback else None,
        )
        collected = await self._collect(run)
        if not collected.passages:
            return self._make_empty_answer(run, collected)
        answer = self._build_answer(await self._write(run, collected), collected, cites_closest=cites_closest)
        log.info("question answered", extra={"passages": len(collected.passages), "citations": len(answer.citations)})
        return answer

    async def _collect(self, run: _AnswerRun) -> answering.CollectedContext:
        request = run.question
        collected = await self._context.collect(request.context, request.filters, run.get_time(CONTEXT_END))
        missing = min(request.top_k or self._options.top_k, MAX_TOP_K) - len(collected.passages)
        if missing > 0:
            await self._add_from_index(run, collected, missing)
        return collected

    async def _add_from_index(self, run: _AnswerRun, collected: answering.CollectedContext, count: int) -> None:
        """Add up to `count` documents of the index that the context does not contain."""
        known = set(_list_document_keys(collected.passages))
        search = RagSearch(
            query=run.question.question,
            top_k=count + len(collected.passages),
            filters=run.question.filters,
            keyword_fallback=run.fallback is not None,
        )
        try:
            async with deadline_at(run.get_time(RETRIEVAL_END)):
                found = await self._search(search)
                hits = await self._context.complete(_make_passages(found), run.question.question)
        except TimeoutError:
            collected.add_error(answering.INDEX, VectorStoreError(answering.INDEX_LATE))
            return
        except AppException as error:
            collected.add_error(answering.INDEX, error)
            return
        collected.degraded += found.degraded
        new = [hit for hit in hits if known.isdisjoint(_list_document_keys([hit]))]
        collected.passages += new[:count]

    def _make_empty_answer(self, run: _AnswerRun, collected: answering.CollectedContext) -> RagAnswer:
        """Return the answer that nothing was found. Raises the error if something failed: the result is unknown then."""
        if collected.errors:
            raise next((error for error in collected.errors if error.retryable), collected.errors[0])
        return RagAnswer(
            answer=get_messages(run.language).nothing_found,
            answered=False,
            synthesizer=self._fallback.name,
            degraded=deduplicate_degraded(collected.degraded),
        )

    async def _write(self, run: _AnswerRun, collected: answering.CollectedContext) -> WrittenAnswer:
        question = run.question.question[:MAX_QUESTION_CHARS]
        if question != run.question.question:
            collected.degraded.append(Degraded(component="question", reason=QUESTION_CUT))
        found = FoundSources(question=question, sources=answering.number_passages(collected.passages))
        judge_task = None
        if self._judge:
            judge_task = JudgeTask(self._judge, run.get_time(VERIFICATION_END), question, run.language, found.sources)
        has_llm = self._writer is not self._fallback
        writers = Writers(
            writer=self._writer,
            fallback=run.fallback or self._writer,  # the writer itself replaces only a text without content
            max_tokens=self._options.max_tokens,
            counts_late_text=has_llm,
            completes_fallback=has_llm,
            judge_task=judge_task,
            support_model=self._support_model,
        )
        if run.fallback:
            return await write_and_check(run, found, writers)
        # If the run had a deadline, a late writer would return its finished sentences. Here, it must fail instead.
        try:
            async with deadline_at(run.deadline):
                answer = await write_and_check(replace(run, deadline=math.inf), found, writers)
        except TimeoutError as error:
            raise LLMTimeoutError from error
        if not has_content(answer.text):
            raise LLMProviderException(EMPTY, spent=answer.spent)
        return answer

    def _build_answer(
        self, answer: WrittenAnswer, collected: answering.CollectedContext, *, cites_closest: bool
    ) -> RagAnswer:
        cited = answering.cite_documents(answer, collected.passages, cites_closest=cites_closest)
        synthesis = answer.synthesis
        return RagAnswer(
            answer=cited.text,
            citations=cited.citations,
            answered=synthesis.answered,
            synthesizer=synthesis.synthesizer,
            spent=answer.spent,
            degraded=deduplicate_degraded(
                (*collected.degraded, *synthesis.degraded, *answer.degraded, *cited.degraded)
            ),
        )


def _make_passages(found: RagHits) -> list[answering.ContextPassage]:
    return [
        answering.ContextPassage(
            hit.snippet, answering.make_document_citation(hit.doc_id, hit.title, hit.url), hit.pages
        )
        for hit in found.hits
        if hit.snippet
    ]


def _list_document_keys(passages: Iterable[answering.ContextPassage]) -> Iterable[tuple[str, str]]:
    """Yield the keys of the passages' documents: ids and canonical URLs."""
    for passage in passages:
        if passage.document.doc_id:
            yield "id", passage.document.doc_id
        if passage.document.url:
            yield "url", canonical_url(passage.document.url)
