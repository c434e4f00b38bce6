"""Verify one text in stages. Each stage ends when its share of the time has passed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from modules.llm_platform.application.research.check.judge_task import (
    JudgedCitations,
    JudgeTask,
    count_changed,
    judge_citations,
)
from modules.llm_platform.application.research.check.thread_support import ThreadSupport
from modules.llm_platform.application.research.events import Read, Started
from modules.llm_platform.application.verification import events
from modules.llm_platform.application.verification.claim_search import ClaimSearch, number_new_sources
from modules.llm_platform.application.verification.sentence_check import SentenceCheck
from modules.llm_platform.application.verification.source_reading import ReadSource, mark_found, read_sources
from modules.llm_platform.application.verification.text_comparison import TextComparison
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource, CitedText
from modules.llm_platform.domain.concurrency.deadline import current_deadline
from modules.llm_platform.domain.concurrency.stoppable import StopSignal, run_stoppable
from modules.llm_platform.domain.dtos import verification_dtos as dtos
from modules.llm_platform.domain.dtos.degraded import Degraded, deduplicate_degraded
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, SourceKind
from modules.llm_platform.domain.exceptions import VerificationError
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.privacy.egress_log import EgressLog
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.domain.text.language import choose_language

# The shares of `timeout_s` after which each stage ends.
READING_SHARE: Final = 0.7
FINDING_SHARE: Final = 0.85
COMPARING_SHARE: Final = 0.9
JUDGING_SHARE: Final = 0.95
TOO_MANY_SOURCES: Final = "The text names {count} sources; the limit is {most}. Split the text."
NOT_COMPARED: Final = "timeout: {sentences} not compared with the sources in time: split the text"

ReadCitations = Callable[[str, Sequence[CitedSource]], Awaitable[CitedText]]


@dataclass(frozen=True, slots=True)
class VerificationOptions:
    """Settings of a verification.

    - `timeout_s` is the time of one verification, in seconds.
    - `judges_supported` is True if the judge also verifies what the word comparison supports.
    - `searches_documents` is True if the operator has documents. A text without sources is then compared with these.
    """

    timeout_s: float = 120.0
    judges_supported: bool = False
    searches_documents: bool = False


@dataclass(frozen=True, slots=True)
class VerificationTools:
    """What all verifications work with. `VerificationService` describes each part."""

    reader: IPageReader
    search: IWebSearchProvider
    judge: ICitationJudge | None
    options: VerificationOptions
    read_text: ReadCitations
    support_model: ISupportModel | None


class TextVerification:
    """One verification. Its time begins when it is created."""

    def __init__(
        self, request: dtos.VerificationRequest, request_id: str, tools: VerificationTools, emit: events.EmitEvent
    ) -> None:
        self._request, self._request_id, self._tools, self._emit = request, request_id, tools, emit
        self._began = asyncio.get_running_loop().time()
        self._seconds = min(tools.options.timeout_s, max(1.0, current_deadline() - self._began))
        self._signal = StopSignal(self._seconds * COMPARING_SHARE)
        model = tools.support_model
        self._support = ThreadSupport(model, self._signal) if model is not None else None
        self._language = choose_language(request.text, request.language)

    async def run(
        self, given: Sequence[CitedSource], egress_log: EgressLog
    ) -> tuple[dtos.VerifiedText, list[ReadSource]]:
        """Return the verified text, and its sources in the order of their numbers.

        `given` are further sources, which the request does not name. Raises VerificationError before the first event.
        """
        cited = await self._read_citations(given)
        text = await self._read_sentences(cited)
        self._announce(cited, text)
        async with aclosing(self._read_sources(cited.sources, READING_SHARE)) as reads:
            async for read in reads:
                await text.send(await text.add(read))
        uncited = text.check.list_uncited()
        await text.run(lambda: text.check.find_sources(uncited))
        search = await self._find_sources(text)
        verified = await self._ask_judge(cited, text)
        await text.send_all()
        return self._make_response(text, len(uncited), search, verified, egress_log), text.sources

    async def _read_citations(self, given: Sequence[CitedSource]) -> CitedText:
        sources = [
            CitedSource(source.index, source.url or "", source.title, source.text or "", is_whole=True)
            for source in self._request.sources
        ]
        cited = await self._tools.read_text(self._request.text, [*sources, *given])
        if (count := len(cited.sources)) > dtos.MAX_VERIFIED_SOURCES:
            raise VerificationError(TOO_MANY_SOURCES.format(count=count, most=dtos.MAX_VERIFIED_SOURCES))
        return cited

    async def _read_sentences(self, cited: CitedText) -> TextComparison:
        support = None if self._tools.judge else self._support  # a judge decides the same claims with more certainty
        check = await run_stoppable(self._signal, lambda: SentenceCheck(cited, self._language, self._signal, support))
        check.require_bounded()
        return TextComparison(check, self._signal, self._request_id, self._emit)

    def _announce(self, cited: CitedText, text: TextComparison) -> None:
        named = tuple(SourceRef(index=source.index, title=source.title, url=source.url) for source in cited.sources)
        count = len(text.check.answer.sentences)
        self._emit(Started(request_id=self._request_id))
        self._emit(events.SourcesNamed(request_id=self._request_id, sources=named, sentences=count))

    def _read_sources(self, sources: Sequence[CitedSource], share: float) -> AsyncGenerator[list[ReadSource], None]:
        def on_read(url: str, status: str, chars: int) -> None:
            self._emit(Read(request_id=self._request_id, url=url, status=status, chars=chars))

        return read_sources(sources, self._tools.reader, self._get_time(share), on_read)

    async def _find_sources(self, text: TextComparison) -> ClaimSearch:
        """Search for the statements that no source supports, and compare them with the pages and documents found."""
        kinds = self._list_searched_kinds(has_sources=bool(text.sources))
        search = ClaimSearch(self._tools.search, kinds, self._language, self._get_time(FINDING_SHARE))
        if not kinds:
            return search
        doubted = text.check.list_unsupported_statements()[: search.max_claims]
        results = await search.find_results(text.check.answer.sentences[position].claim for position in doubted)
        found = number_new_sources(results, text.sources)
        async with aclosing(self._read_sources(found, FINDING_SHARE)) as reads:
            async for read in reads:
                await text.add([*map(mark_found, read)])
        numbers = [source.index for source in found]
        of_operator = kinds == (DOCUMENTS,)
        await text.run(lambda: text.check.find_sources(doubted, numbers, may_contradict=of_operator))
        return search

    def _list_searched_kinds(self, *, has_sources: bool) -> tuple[SourceKind, ...]:
        """Return the source kinds to search. The operator's documents are searched only for a text without sources."""
        searches_documents = self._tools.options.searches_documents and not has_sources
        return (*(("web",) if self._request.find_sources else ()), *((DOCUMENTS,) if searches_documents else ()))

    async def _ask_judge(self, cited: CitedText, text: TextComparison) -> JudgedCitations:
        """Let the judge, if there is one, verify the citations after the word comparison."""
        citations = text.check.list_citations()
        if self._tools.judge is None:
            return JudgedCitations(citations)
        task = JudgeTask(
            self._tools.judge,
            self._get_time(JUDGING_SHARE),
            question=self._request.text.strip().splitlines()[0],
            language=self._language,
            sources=[source.make_source() for source in text.sources],
            skips_supported=not self._tools.options.judges_supported,
        )
        verified = await judge_citations(task, cited.markdown, citations, lambda citations, pending: None)
        text.check.replace(verified.citations)
        if verified.has_failed and (support := self._support) is not None:
            await text.run(lambda: text.check.read_unjudged(support))
        return verified

    def _make_response(
        self, text: TextComparison, uncited: int, search: ClaimSearch, verified: JudgedCitations, egress_log: EgressLog
    ) -> dtos.VerifiedText:
        degraded = [*search.degraded, *verified.degraded, *(self._support.degraded if self._support else ())]
        late_sentences = text.check.late_sentences
        if late_sentences:
            sentences = format_count(late_sentences, "sentence was", "sentences were")
            degraded.append(Degraded(component="citations", reason=NOT_COMPARED.format(sentences=sentences)))
        sources = tuple(source.shown for source in text.sources)
        return dtos.VerifiedText(
            sentences=text.sentences,
            sources=sources,
            counts=dtos.VerificationCounts.of(text.sentences, sources, uncited),
            degraded=deduplicate_degraded(degraded),
            metadata=dtos.VerificationMetadata(
                latency_ms=round((asyncio.get_running_loop().time() - self._began) * 1000),
                language=self._language,
                request_id=self._request_id,
                **verified.spent.metadata(),
                searches=search.requests,
                verdicts_changed=count_changed(verified.citations),
                sent_to=egress_log.sent(),
                cached_sent_to=egress_log.cached(),
            ),
            late_sentences=late_sentences,
        )

    def _get_time(self, share: float) -> float:
        """Return the event loop time when this share of the time has passed."""
        return self._began + share * self._seconds
