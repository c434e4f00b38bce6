"""Store finished reports, and find them again (docs/reference/http.md)."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

from pydantic import BaseModel, ValidationError, field_validator

from modules.llm_platform.application.research import events as research_events
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.research.report.replay import replay_events
from modules.llm_platform.application.research.report.report_key import make_request_key
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.sent import merge_sent
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.store_dtos import EndsTopic
from modules.llm_platform.domain.research.store_key import store_key


class StoredReport(EndsTopic, frozen=True):
    """A finished report: all its events, and the texts that its quotes refer to.

    `asked` is the key of the request (`make_request_key`), by which it is found offline.
    """

    asked: str
    finished_at: datetime
    events: tuple[research_events.AnyEvent, ...]
    sources: tuple[Source, ...]

    @field_validator("events")
    @classmethod
    def _ends(cls, events: tuple[research_events.ResearchEvent, ...]) -> tuple[research_events.ResearchEvent, ...]:
        """Reject imported entries without a response at the end."""
        if not events or not isinstance(events[-1], research_events.Done):
            raise ValueError("must end with done")
        return events

    @property
    def plan(self) -> tuple[str, ...]:
        return self._response.metadata.plan

    def repeat_events(self, request_id: str) -> Iterator[research_events.ResearchEvent]:
        """Return all events but the last, under another request id."""
        return (event.model_copy(update={"request_id": request_id}) for event in self.events[:-1])

    @property
    def replayed_response(self) -> ResearchResponse:
        """The response with `stored_at`. Calls, tokens, cost and searches are 0, because the replay spends nothing."""
        response = self._response
        metadata = response.metadata.model_copy(
            update={
                "cache_hit": True,
                "stored_at": self.finished_at,
                **NOTHING_SPENT.metadata(),
                "searches": 0,
                "sent_to": (),
                "cached_sent_to": merge_sent((*response.metadata.cached_sent_to, *response.metadata.sent_to)),
            }
        )
        return response.model_copy(update={"metadata": metadata})

    def sanitize_response(self) -> ResearchResponse | None:
        """Return the sanitized response for readers who open the report by its topic; None if it exceeds the limits."""
        response = self._response
        try:
            request = ResearchRequest(query=response.query, depth="report")
        except ValidationError:  # an imported report may hold anything
            return None
        replayed = replay_events(self.events, self.sources, request, response.metadata.language)
        if replayed is None:
            return None
        return self.model_copy(update={"events": replayed[0]}).replayed_response

    @property
    def _response(self) -> ResearchResponse:
        done = self.events[-1]
        if not isinstance(done, research_events.Done):
            raise AssertionError("the validator rejects other last events")
        return done.response


class FinishedMark(EndsTopic, frozen=True):
    """Records that a report of the topic is finished. The report itself is not stored, because its documents may change."""

    finished_at: datetime


class OwnedReport(BaseModel, frozen=True):
    """The key (`make_report_key`) of the last report of a topic that an owner asked for."""

    report: str


def make_owner_entry_key(owner: str) -> str:
    """Return the key of the OwnedReport of this owner, which does not reveal who it is."""
    return store_key(version="owner", model="", language="", owner=owner)


async def store_owner(checkpoints: CheckpointStore, owner: str, key: str) -> None:
    """Store that this owner asked for the stored report with this key."""
    position, owned = make_owner_entry_key(owner), OwnedReport(report=key)
    if await checkpoints.get("answers", position, OwnedReport) != owned:
        await checkpoints.put("answers", position, owned)


async def find_stored_report(
    checkpoints: CheckpointStore, key: str, request: ResearchRequest, language: str, *, offline: bool
) -> StoredReport | None:
    """Return the stored report of this request, sanitized. Models, engines and prompts must be the same (`make_report_key`).

    Offline, they may differ, and the latest report of the same request is returned.
    """
    found = await checkpoints.get("answers", key, StoredReport)
    if found is None and offline:
        asked = make_request_key(request, language)
        candidates = [
            report
            for report in await checkpoints.values("answers", StoredReport)
            if report.asked == asked and request.plan in (None, report.plan)
        ]
        found = max(candidates, key=lambda report: report.finished_at, default=None)
    return found and await asyncio.to_thread(_sanitize_report, found, request, language)


def _sanitize_report(found: StoredReport, request: ResearchRequest, language: str) -> StoredReport | None:
    sanitized = replay_events(found.events, found.sources, request, language)
    if sanitized is None:
        return None
    events, sources = sanitized
    return found.model_copy(update={"events": events, "sources": sources})


async def store_report(
    checkpoints: CheckpointStore,
    key: str,
    request: ResearchRequest,
    language: str,
    *,
    events: tuple[research_events.ResearchEvent, ...],
    sources: tuple[Source, ...],
) -> None:
    """Store the report under its key."""
    report = StoredReport(
        asked=make_request_key(request, language), finished_at=datetime.now(UTC), events=events, sources=sources
    )
    await checkpoints.put("answers", key, report)


async def mark_finished(checkpoints: CheckpointStore, key: str) -> None:
    """Store a mark that the report with this key finished, without its response."""
    await checkpoints.put(
        "answers", checkpoints.make_key("", "", candidates=key), FinishedMark(finished_at=datetime.now(UTC))
    )
