"""Verify a text against the sources that it cites, and say which of its sentences they support."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

from modules.llm_platform.application.research.failed_event import end_with_failed
from modules.llm_platform.application.research.follow_up import make_owner_key
from modules.llm_platform.application.research.run import StoreSources
from modules.llm_platform.application.verification import events
from modules.llm_platform.application.verification.source_reading import ReadSource
from modules.llm_platform.application.verification.text_verification import (
    ReadCitations,
    TextVerification,
    VerificationOptions,
    VerificationTools,
)
from modules.llm_platform.domain.callers.request_id import new_request_id
from modules.llm_platform.domain.citations.forms.citation_forms import TooManyCitationsError, read_citations
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource, CitedText
from modules.llm_platform.domain.concurrency.emitted_events import emitted_events
from modules.llm_platform.domain.concurrency.page_allowance import page_allowance
from modules.llm_platform.domain.dtos import verification_dtos as dtos
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation, TextSpan
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchJobDetail
from modules.llm_platform.domain.dtos.source_dtos import StoredSources
from modules.llm_platform.domain.exceptions import UNREADABLE_CITATIONS, VerificationError
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.privacy.egress_log import open_egress_log

UNREAD_STATES: Final = ("late", "refused", "no_text")  # nothing is known about what the page says now
MAX_STORED_CHARS: Final = 500_000  # all sources of one verified text together
STORED_S: Final = 3600.0
NO_ANSWER: Final = "The research run has no answer to verify: wait until it is done"


class VerificationService:
    """Verifies texts against the pages that they cite.

    - `reader` reads the pages. The addresses in a text are untrusted.
    - `search` finds further sources if a request asks for them.
    - `judge` is a model that verifies the citations that the word comparison rated partial or unsupported; None without
      a model.
    - `support_model` decides what the word comparison leaves in doubt, if there is no `judge` or the judge fails.
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
        read_text: ReadCitations | None = None,
        support_model: ISupportModel | None = None,
    ) -> None:
        options, read_text = options or VerificationOptions(), read_text or _read_in_thread
        self._tools = VerificationTools(reader, search, judge, options, read_text, support_model)
        self._stored_sources = stored_sources

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
        on_event: events.EmitEvent | None = None,
        given: Sequence[CitedSource] = (),
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
        on_event: events.EmitEvent | None = None,
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
        on_event: events.EmitEvent | None = None,
    ) -> dtos.VerifiedAgain:
        """Compare an answer with what its sources say now."""
        request = dtos.VerificationRequest.model_construct(
            text=answer.synthesis, sources=(), find_sources=False, language=answer.metadata.language
        )
        given = [CitedSource(source.index, source.url, source.title) for source in answer.sources]
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
            verified_at=datetime.now(UTC),
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
        given: Sequence[CitedSource] = (),
        store_sources: StoreSources | None = None,
    ) -> AsyncGenerator[events.VerificationEvent, None]:
        async def run(emit: events.EmitEvent) -> None:
            with open_egress_log() as egress_log, page_allowance():
                verification = TextVerification(request, request_id, self._tools, emit)
                response, sources = await verification.run(given, egress_log)
                await self._store_texts(owner, request_id, sources, store_sources)
                emit(events.TextVerified(request_id=request_id, response=response))

        return emitted_events(run)

    async def _store_texts(
        self, owner: str, request_id: str, sources: Sequence[ReadSource], store_sources: StoreSources | None
    ) -> None:
        """Store the texts that quotes point into, up to MAX_STORED_CHARS."""
        stored, size = [], 0
        for source in sources:
            if source.text and size + len(source.text) <= MAX_STORED_CHARS:
                stored.append(source.make_source())
                size += len(source.text)
        if store_sources is not None:
            await store_sources(tuple(stored))
        if self._stored_sources is not None:
            await self._stored_sources.set(
                make_owner_key(owner, request_id), StoredSources(sources=tuple(stored)), STORED_S
            )


def list_changes(
    before: Sequence[Citation], sentences: Sequence[dtos.VerifiedSentence]
) -> tuple[dtos.VerificationChange, ...]:
    """Return the citations whose verdict has changed or that are gone (`now` is None), in the order of the text."""
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


async def _read_in_thread(text: str, given: Sequence[CitedSource]) -> CitedText:
    try:
        return await asyncio.to_thread(read_citations, text, given)
    except TooManyCitationsError as error:
        raise VerificationError(UNREADABLE_CITATIONS.format(reason=error)) from error
