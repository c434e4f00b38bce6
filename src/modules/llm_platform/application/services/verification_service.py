"""Verify a text against the sources that it cites, and say which of its sentences they support."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar

from modules.llm_platform.application.research.check.thread_support import ThreadSupport
from modules.llm_platform.application.research.check.verification import Verification, verify
from modules.llm_platform.application.research.events import Read, Started
from modules.llm_platform.application.research.failed_event import end_with_failed
from modules.llm_platform.application.research.follow_up import make_owner_key
from modules.llm_platform.application.verification import events
from modules.llm_platform.application.verification.sentence_check import MAX_SENTENCES, SentenceCheck
from modules.llm_platform.application.verification.source_reading import ReadSource, mark_found, read_sources
from modules.llm_platform.domain.callers.request_id import new_request_id
from modules.llm_platform.domain.citations.forms.citation_forms import TooManyCitationsError, read_citations
from modules.llm_platform.domain.citations.forms.cited_text import CitedText, GivenSource, NamedSource
from modules.llm_platform.domain.concurrency.deadline import current_deadline, deadline_at
from modules.llm_platform.domain.concurrency.emitted_events import emitted_events
from modules.llm_platform.domain.concurrency.page_allowance import count_fetch, page_allowance
from modules.llm_platform.domain.concurrency.stoppable import StopSignal, run_stoppable
from modules.llm_platform.domain.dtos import verification_dtos as dtos
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation, TextSpan
from modules.llm_platform.domain.dtos.degraded import Degraded, deduplicate_degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchJobDetail
from modules.llm_platform.domain.dtos.source_dtos import Source, SourceRef, StoredSources
from modules.llm_platform.domain.dtos.web_search_dtos import (
    DOCUMENTS,
    MAX_QUERY_CHARS,
    SourceKind,
    WebSearchRequest,
    WebSearchResponse,
)
from modules.llm_platform.domain.exceptions import UNREADABLE_CITATIONS, VerificationError
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.privacy.egress_log import EgressLog, open_egress_log
from modules.llm_platform.domain.search.request_count import RequestCount
from modules.llm_platform.domain.text.language import choose_language
from modules.llm_platform.domain.urls.canonical_url import canonical_url, is_openable
from shared.exceptions import AppException

# The shares of `timeout_s` after which each stage ends.
READING_SHARE: Final = 0.7
FINDING_SHARE: Final = 0.85
COMPARING_SHARE: Final = 0.9
JUDGING_SHARE: Final = 0.95
MAX_SEARCHES: Final = 10  # of the web, one for each sentence without support
MAX_DOCUMENT_SEARCHES: Final = 40
RESULTS_PER_SEARCH: Final = 3  # the pages to read of one search
MAX_CONCURRENT_SEARCHES: Final = 3
SENTENCES_AT_ONCE: Final = 50  # the sentences sent before other tasks have their turn
UNREAD_STATES: Final = ("late", "refused", "no_text")  # nothing is known about what the page says now
MAX_STORED_CHARS: Final = 500_000  # all sources of one verified text together
STORED_S: Final = 3600.0
NO_ANSWER: Final = "The research run has no answer to verify: wait until it is done"
TOO_MANY_SOURCES: Final = "The text names {count} sources, and at most {most} are read: divide it"
MAX_CITATIONS: Final = 3000  # comparisons of a sentence with a source
MAX_CITED_SOURCES: Final = 50  # sources of one sentence
TOO_MANY_CITATIONS: Final = "The text asks for {count} comparisons with sources, and at most {most} are made: divide it"
TOO_MANY_CITED: Final = (
    "A sentence of the text cites {count} sources, and at most {most} are compared with one: cite fewer"
)
NOT_SEARCHED: Final = "timeout: {count} sentences were not searched for in time: divide the text, or try again"
NOT_COMPARED: Final = "timeout: {count} sentences were not compared with their sources in time: divide the text"
TOO_MANY_SENTENCES: Final = "The text has {count} sentences, and at most {most} are checked: divide it"

Result = TypeVar("Result")
EmitEvent = Callable[[events.VerificationEvent], None]
ReadCitations = Callable[[str, Sequence[GivenSource]], Awaitable[CitedText]]
StoreSources = Callable[[tuple[Source, ...]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class VerificationOptions:
    """Settings of a verification.

    - `timeout_s` is the time of one verification, in seconds.
    - `judges_supported` is True if the judge also verifies what the comparison of words supports.
    - `searches_documents` is True if the operator has documents, with which a text without sources is compared.
    """

    timeout_s: float = 120.0
    judges_supported: bool = False
    searches_documents: bool = False


class VerificationService:
    """Verifies texts against the pages that they cite.

    - `reader` reads the pages. The addresses in a text are untrusted.
    - `search` finds further sources if a request asks for them.
    - `judge` is a model that verifies the citations that the comparison of words rated partial or unsupported; None without
      a model.
    - `support_model` decides what the comparison of words leaves in doubt where there is no `judge`, or it fails.
    - `stored_sources` stores the texts that quotes point into.
    - `read_text` reads the citations of a text. The default reads them in a thread, which cannot be ended.
    """

    def __init__(
        self,
        reader: IPageReader,
        search: IWebSearchProvider,
        judge: ICitationJudge | None = None,
        options: VerificationOptions | None = None,
        stored_sources: ICache[StoredSources] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        read_text: ReadCitations | None = None,
        support_model: ISupportModel | None = None,
    ) -> None:
        self._reader = reader
        self._support_model = support_model
        self._read_text = read_text or _read_in_thread
        self._search = search
        self._judge = judge
        self._options = options or VerificationOptions()
        self._stored_sources = stored_sources
        self._now = now

    async def verify(
        self,
        text: str,
        *,
        sources: Sequence[dtos.VerificationSource] = (),
        find_sources: bool = False,
        language: str | None = None,
    ) -> dtos.VerifiedText:
        """Return the sentences of a text, Markdown or plain, with the verdicts on their citations.

        A page that cannot be read is not an error: the state of its source is not `read`. Raises pydantic's ValidationError for
        a text that is empty or too long, and VerificationError for one with too many sentences or sources.
        """
        request = dtos.VerificationRequest(
            text=text, sources=tuple(sources), find_sources=find_sources, language=language
        )
        return await self.run(request)

    async def run(
        self,
        request: dtos.VerificationRequest,
        *,
        request_id: str | None = None,
        owner: str = "",
        on_event: EmitEvent | None = None,
        given: Sequence[GivenSource] = (),
    ) -> dtos.VerifiedText:
        """Return the verified text.

        `on_event` is called with each event before the last. `given` are further sources, which may be documents of the
        operator. Raises VerificationError.
        """
        async with aclosing(self._stream_events(request, request_id or new_request_id(), owner, given)) as steps:
            async for event in steps:
                if isinstance(event, events.TextVerified):
                    return event.response
                if on_event is not None:
                    on_event(event)
        raise AssertionError("a verification ends with TextVerified or an error")

    async def verify_again(
        self,
        research: ResearchJobDetail,
        *,
        request_id: str | None = None,
        owner: str = "",
        on_event: EmitEvent | None = None,
    ) -> dtos.VerifiedAgain:
        """Compare a stored answer with what its sources say now. Raises VerificationError for a run without an answer."""
        if research.response is None:
            raise VerificationError(NO_ANSWER)
        return await self.verify_answer_again(
            research.response,
            research.finished_at,
            research_id=research.id,
            request_id=request_id,
            owner=owner,
            on_event=on_event,
        )

    async def verify_answer_again(
        self,
        answer: ResearchResponse,
        answered_at: datetime | None,
        *,
        research_id: str,
        request_id: str | None = None,
        owner: str = "",
        on_event: EmitEvent | None = None,
    ) -> dtos.VerifiedAgain:
        """Compare an answer with what its sources say now."""
        request = dtos.VerificationRequest.model_construct(
            text=answer.synthesis, sources=(), find_sources=False, language=answer.metadata.language
        )
        given = [GivenSource(source.index, source.url, source.title) for source in answer.sources]
        verified = await self.run(request, request_id=request_id, owner=owner, on_event=on_event, given=given)
        unread = {source.index for source in verified.sources if source.state in UNREAD_STATES}
        before = [citation for citation in answer.citations if citation.source_index not in unread]
        changed = list_changes(before, verified.sentences)
        lost = {change.sentence for change in changed if change.is_lost}
        return dtos.VerifiedAgain(
            **dict(verified),
            research_id=research_id,
            query=answer.query,
            changed=changed,
            no_longer_hold=len(lost),
            answered_at=answered_at,
            verified_at=self._now(),
        )

    def stream(
        self,
        request: dtos.VerificationRequest,
        *,
        request_id: str | None = None,
        owner: str = "",
        store_sources: StoreSources | None = None,
    ) -> AsyncGenerator[events.VerificationEvent, None]:
        """Return the events of a verification: Started first, TextVerified or Failed last.

        Closing the iterator stops the verification. `store_sources` is called with the sources and their texts. Raises
        VerificationError before the first event.
        """
        request_id = request_id or new_request_id()
        steps = self._stream_events(request, request_id, owner, store_sources=store_sources)
        return end_with_failed(steps, request_id, instance=f"/verify/{request_id}")

    def _stream_events(
        self,
        request: dtos.VerificationRequest,
        request_id: str,
        owner: str,
        given: Sequence[GivenSource] = (),
        store_sources: StoreSources | None = None,
    ) -> AsyncGenerator[events.VerificationEvent, None]:
        async def run(emit: EmitEvent) -> None:
            with open_egress_log() as egress_log, page_allowance():
                verification = _TextVerification(
                    request,
                    request_id,
                    self._reader,
                    self._search,
                    self._judge,
                    self._options,
                    emit,
                    given,
                    self._read_text,
                    self._support_model,
                )
                response = await verification.run(egress_log)
                await self._store_texts(owner, request_id, verification.read, store_sources)
                emit(events.TextVerified(request_id=request_id, response=response))

        return emitted_events(run)

    async def _store_texts(
        self, owner: str, request_id: str, read: Sequence[ReadSource], store_sources: StoreSources | None
    ) -> None:
        """Store the texts that quotes point into, up to MAX_STORED_CHARS."""
        stored, size = [], 0
        for source in read:
            if source.text and size + len(source.text) <= MAX_STORED_CHARS:
                stored.append(source.make_source())
                size += len(source.text)
        if store_sources is not None:
            await store_sources(tuple(stored))
        if self._stored_sources is not None:
            await self._stored_sources.set(
                make_owner_key(owner, request_id), StoredSources(sources=tuple(stored)), STORED_S
            )


class _TextVerification:
    """One verification. When it is done, `read` has its sources in the order of their numbers."""

    def __init__(
        self,
        request: dtos.VerificationRequest,
        request_id: str,
        reader: IPageReader,
        search: IWebSearchProvider,
        judge: ICitationJudge | None,
        options: VerificationOptions,
        emit: EmitEvent,
        given: Sequence[GivenSource],
        read_text: ReadCitations,
        support_model: ISupportModel | None,
    ) -> None:
        self._given = given
        self._read_text = read_text
        self._request, self._request_id = request, request_id
        self._reader, self._search, self._judge, self._options = reader, search, judge, options
        self._emit = emit
        self._began = asyncio.get_running_loop().time()
        self._seconds = min(options.timeout_s, max(1.0, current_deadline() - self._began))
        self._signal = StopSignal(self._seconds * COMPARING_SHARE)
        self._support = ThreadSupport(support_model, self._signal) if support_model is not None else None
        self._language = choose_language(request.text, request.language)
        self._sources: dict[int, ReadSource] = {}
        self._searches = RequestCount()
        self._late_searches = 0
        self._degraded: list[Degraded] = []
        self._spent: Spending = NOTHING_SPENT
        self._verdicts_changed = 0
        self._shown: dict[int, dtos.VerifiedSentence] = {}  # the last version sent of each sentence, by its position

    @property
    def read(self) -> list[ReadSource]:
        return [self._sources[index] for index in sorted(self._sources)]

    async def run(self, egress_log: EgressLog) -> dtos.VerifiedText:
        """Return the verified text. Raises VerificationError before the first event.

        Comparisons run in threads, because a long text takes seconds and would delay other requests.
        """
        cited = await self._read_text(
            self._request.text, [*map(_make_given_source, self._request.sources), *self._given]
        )
        if len(cited.sources) > dtos.MAX_VERIFIED_SOURCES:
            raise VerificationError(TOO_MANY_SOURCES.format(count=len(cited.sources), most=dtos.MAX_VERIFIED_SOURCES))
        support = None if self._judge else self._support  # a judge reads the same doubts, and more surely
        check = await self._run_in_thread(lambda: SentenceCheck(cited, self._language, self._signal, support))
        _require_bounded(check)
        self._emit(Started(request_id=self._request_id))
        named = tuple(SourceRef(index=source.index, title=source.title, url=source.url) for source in cited.sources)
        self._emit(
            events.SourcesNamed(request_id=self._request_id, sources=named, sentences=len(check.answer.sentences))
        )
        # A sentence is checked as soon as all sources that it cites are read.
        async with aclosing(self._read_sources(cited.sources, READING_SHARE)) as reads:
            async for read in reads:
                self._sources |= {source.index: source for source in read}
                checked = await self._settle(check, read)
                await self._show(check, checked)
        uncited = check.list_uncited()
        await self._run_in_thread(lambda: check.find_sources(uncited))
        await self._find_sources(check)
        await self._ask_judge(cited, check)
        await self._show(check, range(len(check.answer.sentences)))
        if self._support is not None:
            self._degraded += self._support.degraded
        if count := check.late_sentences:
            self._degraded.append(Degraded(component="citations", reason=NOT_COMPARED.format(count=count)))
        return self._make_response(check, uncited, egress_log)

    async def _settle(self, check: SentenceCheck, read: Sequence[ReadSource]) -> list[int]:
        return await self._run_in_thread(lambda: check.settle([source.make_source() for source in read]))

    async def _run_in_thread(self, work: Callable[[], Result]) -> Result:
        return await run_stoppable(self._signal, work)

    def _read_sources(self, sources: Sequence[NamedSource], share: float) -> AsyncGenerator[list[ReadSource], None]:
        def on_read(url: str, status: str, chars: int) -> None:
            self._emit(Read(request_id=self._request_id, url=url, status=status, chars=chars))

        return read_sources(sources, self._reader, self._get_time(share), on_read)

    async def _find_sources(self, check: SentenceCheck) -> None:
        """Search for the statements that no source supports, and compare them with the pages and documents found."""
        kinds = self._list_searched_kinds()
        if not kinds:
            return
        positions = check.list_doubted()[: MAX_SEARCHES if "web" in kinds else MAX_DOCUMENT_SEARCHES]
        turns = asyncio.Semaphore(MAX_CONCURRENT_SEARCHES)
        claims = [check.answer.sentences[position].claim for position in positions]
        answers = await asyncio.gather(*(self._search_claim(claim, kinds, turns) for claim in claims))
        if self._late_searches:
            reason = NOT_SEARCHED.format(count=self._late_searches)
            self._degraded.append(Degraded(component=self._search.name, reason=reason))
        known = {canonical_url(source.shown.url or "") for source in self.read}
        found: list[NamedSource] = []
        number = max(self._sources, default=0)
        for answer in answers:
            results = [result for result in answer.results if is_openable(result.url)] if answer else []
            for result in results[:RESULTS_PER_SEARCH]:
                if (key := canonical_url(result.url)) not in known:
                    known.add(key)
                    number += 1
                    found.append(NamedSource(number, result.url, result.title))
        async with aclosing(self._read_sources(found, FINDING_SHARE)) as reads:
            async for read in reads:
                self._sources |= {source.index: mark_found(source) for source in read}
                await self._settle(check, read)
        numbers = [source.index for source in found]
        await self._run_in_thread(lambda: check.find_sources(positions, numbers))

    def _list_searched_kinds(self) -> tuple[SourceKind, ...]:
        """Return what is searched for further sources: the documents of the operator for a text that has none of its own."""
        searches_documents = self._options.searches_documents and not self._sources
        return (*(("web",) if self._request.find_sources else ()), *((DOCUMENTS,) if searches_documents else ()))

    async def _search_claim(
        self, claim: str, kinds: tuple[SourceKind, ...], turns: asyncio.Semaphore
    ) -> WebSearchResponse | None:
        query = " ".join(claim.split())[:MAX_QUERY_CHARS]
        async with turns:
            try:
                async with deadline_at(self._get_time(FINDING_SHARE)):
                    await asyncio.sleep(0)  # past the deadline, nothing is sent
                    await count_fetch(self._search.name, is_same_page=True)  # no host has all searches
                    request = WebSearchRequest(query=query, sources=kinds, language=self._language)
                    return await self._searches.search(self._search, request)
            except TimeoutError:
                self._late_searches += 1
                return None
            except AppException as error:
                self._degraded.append(Degraded.of(self._search.name, error))
                return None

    async def _ask_judge(self, cited: CitedText, check: SentenceCheck) -> None:
        """Let the judge, if there is one, verify the citations after the comparison of words."""
        if self._judge is None:
            return
        before = check.checked().citations
        verification = Verification(
            self._judge,
            self._get_time(JUDGING_SHARE),
            question=self._request.text.strip().splitlines()[0],
            language=self._language,
            sources=[source.make_source() for source in self.read],
            doubted_only=not self._options.judges_supported,
        )
        verified = await verify(verification, cited.markdown, before, lambda citations, pending: None)
        after = verified.citations
        self._verdicts_changed = sum(new.verdict != old.verdict for new, old in zip(after, before, strict=True))
        self._spent, self._degraded = self._spent + verified.spent, [*self._degraded, *verified.degraded]
        check.replace(after)
        if verified.has_failed and (support := self._support) is not None:
            await self._run_in_thread(lambda: check.read_unjudged(support))

    async def _show(self, check: SentenceCheck, positions: Sequence[int]) -> None:
        """Send the sentences that are new or have changed, and let other tasks run in between."""
        is_open = not any(source.text for source in self._sources.values())
        for count, position in enumerate(positions):
            if count and count % SENTENCES_AT_ONCE == 0:
                await asyncio.sleep(0)
            sentence = check.verified(position, is_open=is_open)
            if self._shown.get(position) != sentence:
                self._shown[position] = sentence
                self._emit(events.SentenceVerified(request_id=self._request_id, sentence=sentence))

    def _make_response(self, check: SentenceCheck, uncited: Sequence[int], egress_log: EgressLog) -> dtos.VerifiedText:
        sentences = tuple(self._shown[position] for position in range(len(check.answer.sentences)))
        sources = tuple(source.shown for source in self.read)
        return dtos.VerifiedText(
            sentences=sentences,
            sources=sources,
            counts=dtos.VerificationCounts.of(sentences, sources, len(uncited)),
            degraded=deduplicate_degraded(self._degraded),
            metadata=dtos.VerificationMetadata(
                latency_ms=round((asyncio.get_running_loop().time() - self._began) * 1000),
                language=self._language,
                request_id=self._request_id,
                **self._spent.metadata(),
                searches=self._searches.requests,
                verdicts_changed=self._verdicts_changed,
                sent_to=egress_log.sent(),
                cached_sent_to=egress_log.cached(),
            ),
        )

    def _get_time(self, share: float) -> float:
        """Return the event loop time when this share of the time has passed."""
        return self._began + share * self._seconds


def has_late_sentences(verified: dtos.VerifiedText) -> bool:
    """Return whether sentences were not compared in time. Such a sentence without citations is `unchecked`."""
    ending = NOT_COMPARED.rpartition("}")[2]
    return any(part.component == "citations" and part.reason.endswith(ending) for part in verified.degraded)


def list_changes(
    before: Sequence[Citation], sentences: Sequence[dtos.VerifiedSentence]
) -> tuple[dtos.VerificationChange, ...]:
    """Return the citations of a stored answer whose verdict has changed, in the order of the text."""
    now_of = {(found.start, found.end): found for found in sentences}
    changes = []
    for was in before:
        sentence = now_of.get((was.start, was.end))
        citations = sentence.citations if sentence else ()
        now = next((citation for citation in citations if citation.source_index == was.source_index), None)
        if now is None or now.verdict != was.verdict:
            span = TextSpan(start=was.start, end=was.end)
            changes.append(dtos.VerificationChange(sentence=span, was=was, now=now))
    return tuple(changes)


async def _read_in_thread(text: str, given: Sequence[GivenSource]) -> CitedText:
    try:
        return await asyncio.to_thread(read_citations, text, given)
    except TooManyCitationsError as error:
        raise VerificationError(UNREADABLE_CITATIONS.format(reason=error)) from error


def _make_given_source(source: dtos.VerificationSource) -> GivenSource:
    return GivenSource(source.index, source.url or "", source.title, source.text or "")


def _require_bounded(check: SentenceCheck) -> None:
    """Raise VerificationError for a text that asks for more comparisons than its length lets expect."""
    sentences = check.answer.sentences
    most_cited = max((len(sentence.cited) for sentence in sentences), default=0)
    for count, most, message in (
        (len(sentences), MAX_SENTENCES, TOO_MANY_SENTENCES),
        (most_cited, MAX_CITED_SOURCES, TOO_MANY_CITED),
        (check.citations, MAX_CITATIONS, TOO_MANY_CITATIONS),
    ):
        if count > most:
            raise VerificationError(message.format(count=count, most=most))
