"""The answer stage: context and index in, an answer with its documents out (requirements RC5 and RC6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.application.rag.answering import (
    INDEX,
    INDEX_LATE,
    CollectedContext,
    ContextPassage,
    ContextResolver,
    cited_documents,
    document,
    numbered,
)
from modules.llm_platform.application.research.verification import Verification
from modules.llm_platform.application.research.writing import WritingRequest, WrittenAnswer, write
from modules.llm_platform.domain.canonical_url import canonical_url
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.retrieval_dtos import RagAnswer, RagHits, RagQuestion, RagSearch
from modules.llm_platform.domain.exceptions import LLMProviderException, LLMTimeoutError, VectorStoreError
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.domain.text.messages import messages_for
from shared.exceptions import AppException

log = logging.getLogger(__name__)

OWN_LANGUAGE: Final = "en"  # where the question's language is not known
MAX_QUESTION_CHARS: Final = 8000  # that a writer is asked; the index is asked the whole question
MAX_TOP_K: Final = 100
CONTEXT_SHARE: Final = 0.4  # of the time allowed, until which pages are waited for
RETRIEVAL_SHARE: Final = 0.6
JUDGING_SHARE: Final = 0.95  # until which a judge is waited for: an answer that is written must not be lost to it
RESERVE_SHARE: Final = 0.1  # kept for what comes after the writer, and for quotes where a model is late
RESERVE_MAX_S: Final = 3.0
NEVER_S: Final = 3600.0  # behind every deadline
QUESTION_CUT: Final = f"too_long: only the first {MAX_QUESTION_CHARS} characters were answered"
EMPTY: Final = "The language model's answer held nothing that may be shown: ask another model"

Search = Callable[[RagSearch], Awaitable[RagHits]]


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """The operator's settings: seconds for one answer, documents of one answer, tokens of its text."""

    timeout_s: float = 120.0
    top_k: int = 5
    max_tokens: int = DEFAULT_MAX_TOKENS


@dataclass(frozen=True, slots=True)
class _Run:
    """One answer under way. `begun` and `deadline` are event loop time; `stand_in` is the writer of last resort."""

    asked: RagQuestion
    language: str
    begun: float
    deadline: float
    stand_in: ISynthesizer | None

    def at(self, share: float) -> float:
        """The moment when this share of the time has passed."""
        return self.begun + share * (self.deadline - self.begun)


class AnswerService:
    """Answers questions from given context and from the index."""

    def __init__(
        self,
        search: Search,
        context: ContextResolver,
        writer: ISynthesizer,
        last_resort: ISynthesizer,
        options: AnswerOptions | None = None,
        judge: ICitationJudge | None = None,
    ) -> None:
        self._search, self._context = search, context
        self._writer, self._last_resort = writer, last_resort
        self._options = options or AnswerOptions()
        self._judge = judge

    async def answer(
        self, question: RagQuestion, *, deadline: float | None = None, stand_in: bool = False
    ) -> RagAnswer:
        """The answer, before `deadline` (event loop time; None: that of the settings).

        Context comes first; the index fills up, and need not answer where there is context. Without either, the answer
        says so. Where nothing is there because something failed, that error is raised: the errors of embedders, vector
        stores and pages. When the model fails its error is raised (LLMTimeoutError when it is late), or with `stand_in`
        the answer is made of quotes.
        """
        now = asyncio.get_running_loop().time()
        deadline = now + self._options.timeout_s if deadline is None else deadline
        deadline -= min(RESERVE_MAX_S, RESERVE_SHARE * max(0.0, deadline - now))
        language = question.language or detect(question.question) or OWN_LANGUAGE
        run = _Run(question, language, now, deadline, self._last_resort if stand_in else None)
        collected = await self._collect(run)
        if not collected.pieces:
            return self._nothing(run, collected)
        written = await self._write(run, collected)
        answer = self._answered(written, collected)
        log.info("question answered", extra={"pieces": len(collected.pieces), "citations": len(answer.citations)})
        return answer

    async def _collect(self, run: _Run) -> CollectedContext:
        asked = run.asked
        collected = await self._context.collect(asked.context, asked.filters, run.at(CONTEXT_SHARE))
        room = min(asked.top_k or self._options.top_k, MAX_TOP_K) - len(collected.pieces)
        if room > 0:
            await self._fill(run, collected, room)
        return collected

    async def _fill(self, run: _Run, collected: CollectedContext, room: int) -> None:
        """Add what the index finds, up to `room` documents that the context does not have."""
        there = set(_names(collected.pieces))
        search = RagSearch(
            query=run.asked.question,
            top_k=room + len(collected.pieces),
            filters=run.asked.filters,
            by_words_alone=run.stand_in is not None,
        )
        try:
            async with asyncio.timeout_at(run.at(RETRIEVAL_SHARE)):
                found = await self._search(search)
        except TimeoutError:
            collected.failed(INDEX, VectorStoreError(INDEX_LATE))
            return
        except AppException as error:
            collected.failed(INDEX, error)
            return
        collected.degraded += found.degraded
        hits = [
            ContextPassage(hit.snippet, document(hit.doc_id, hit.title, hit.url)) for hit in found.hits if hit.snippet
        ]
        new = [piece for piece in hits if there.isdisjoint(_names([piece]))]
        collected.pieces += new[:room]

    def _nothing(self, run: _Run, collected: CollectedContext) -> RagAnswer:
        """The plain word that there is nothing; an error where something failed, since then nobody knows."""
        if collected.failures:
            raise next((error for error in collected.failures if error.retryable), collected.failures[0])
        return RagAnswer(
            answer=messages_for(run.language).nothing_found,
            answered=False,
            synthesizer=self._last_resort.name,
            degraded=_once(collected.degraded),
        )

    async def _write(self, run: _Run, collected: CollectedContext) -> WrittenAnswer:
        question = run.asked.question[:MAX_QUESTION_CHARS]
        if question != run.asked.question:
            collected.degraded.append(Degraded(component="question", reason=QUESTION_CUT))
        order = WritingRequest(
            question=question,
            sources=numbered(collected.pieces),
            language=run.language,
            max_tokens=self._options.max_tokens,
            writer=self._writer,
            last_resort=run.stand_in or self._writer,  # nobody steps in for itself, but for an empty text
            deadline=run.deadline if run.stand_in else run.deadline + NEVER_S,
            offer_deep=False,
            by_model=self._writer is not self._last_resort,
            verification=Verification(self._judge, run.at(JUDGING_SHARE)) if self._judge else None,
        )
        if run.stand_in:
            return await write(order, streamed=False, show=_unseen, take_back=_unseen)
        try:
            async with asyncio.timeout_at(run.deadline):
                written = await write(order, streamed=False, show=_unseen, take_back=_unseen)
        except TimeoutError as error:
            raise LLMTimeoutError from error
        if not written.text.strip():
            raise LLMProviderException(EMPTY, spent=written.spent)
        return written

    def _answered(self, written: WrittenAnswer, collected: CollectedContext) -> RagAnswer:
        said, synthesis = cited_documents(written, collected.pieces), written.synthesis
        return RagAnswer(
            answer=said.text,
            citations=said.citations,
            answered=synthesis.answered,
            synthesizer=synthesis.synthesizer,
            spent=written.spent,
            degraded=_once((*collected.degraded, *synthesis.degraded, *written.degraded, *said.degraded)),
        )


def _names(pieces: Iterable[ContextPassage]) -> Iterable[tuple[str, str]]:
    """By what it can be told that two pieces are of the same document."""
    for piece in pieces:
        if piece.document.doc_id:
            yield "id", piece.document.doc_id
        if piece.document.url:
            yield "url", canonical_url(piece.document.url)


def _once(degraded: Iterable[Degraded]) -> tuple[Degraded, ...]:
    """Each trouble once: an index that is away is asked for names and for passages."""
    return tuple({(entry.component, entry.reason): entry for entry in degraded}.values())


def _unseen(text: str) -> None:
    """Nobody watches while it is written: its numbers change at the end."""
