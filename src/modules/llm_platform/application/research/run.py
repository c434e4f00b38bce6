"""One research run: what is asked, by whom, until when, and where its events and sources go."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from modules.llm_platform.application.research.events import ResearchEvent
from modules.llm_platform.domain.concurrency.early_finish import EarlyFinish
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest, Turn
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.privacy.egress_log import EgressLog
from modules.llm_platform.domain.text.language import DEFAULT_LANGUAGE, detect_language

EmitEvent = Callable[[ResearchEvent], None]
StoreSources = Callable[[tuple[Source, ...]], Awaitable[None]]
OnProgress = Callable[[], Awaitable[None]]


def ignore_event(event: ResearchEvent) -> None:
    """Ignore the event: nobody reads the events of this run."""


async def ignore_sources(sources: tuple[Source, ...]) -> None:
    """Ignore the sources: nobody stores the sources of this run."""


async def ignore_progress() -> None:
    """Ignore the progress, for runs that are not attempted again."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The result of understanding a question in its conversation.

    - `asked` is the question as it was asked, and `query` the question that stands alone.
    - `questions` are the searches that the same model call planned.
    - `sources` are the sources of the earlier run, if it searched where this one does.
    - `highest_cost_usd` is what a call costs at most, in US dollars. It counts against the limit of the request if the cost of
      the call is unknown.
    """

    asked: str
    query: str
    turns: tuple[Turn, ...] = ()
    language: str | None = None
    questions: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    spent: Spending = NOTHING_SPENT
    highest_cost_usd: float = 0.0
    degraded: tuple[Degraded, ...] = ()


@dataclass(frozen=True, slots=True)
class GivenPages:
    """Pages that were read before a shallow or deep run, by their requested addresses. They are its first sources.

    If `replaces_search` is True, the run does not search.
    """

    pages: Mapping[str, Page]
    replaces_search: bool = False


@dataclass(slots=True, kw_only=True)
class Run:
    """One research run. The stages read it, and the service fills in what it learns before they begin.

    - `request` is what the stages answer: its files are sources, and its query stands alone. `original_request` is the request
      as the caller sent it.
    - `owner` is the caller; empty if no API key is required.
    - `detected` is the language of the question; None if it is unknown.
    - `began` and `deadline` are event loop times. At `deadline` the fallback of a quick answer starts to write.
    - `is_streamed` is True if the caller reads tokens.
    - `emit` passes an event to the caller.
    - `store_sources` stores the texts that quotes point into. `on_sources` is a callback of the caller for these, and
      `keeps_sources` is True if the service stores them too. `sources` are the ones stored last.
    - `given` are pages that were read before the run; None for most runs. Only background runs of watches have them.
    - `early_finish` lets the caller ask for the text before the search has ended.
    - `on_progress` is called when an item is stored that a new attempt at this run would not make again.
    """

    request: ResearchRequest
    original_request: ResearchRequest
    request_id: str
    owner: str = ""
    is_streamed: bool = False
    detected: str | None = None
    follow_up: FollowUp | None = None
    given: GivenPages | None = None
    began: float = 0.0
    deadline: float = math.inf
    emit: EmitEvent = ignore_event
    store_sources: StoreSources = ignore_sources
    on_sources: StoreSources | None = None
    keeps_sources: bool = True
    sources: tuple[Source, ...] = ()
    egress_log: EgressLog = field(default_factory=EgressLog)
    early_finish: EarlyFinish = field(default_factory=EarlyFinish)
    on_progress: OnProgress = ignore_progress

    @property
    def language(self) -> str:
        """The language of the answer and of its messages."""
        return self.detected or DEFAULT_LANGUAGE

    @property
    def asked(self) -> tuple[str, ...]:
        """The questions of the conversation, this one as it was asked and as it was understood."""
        follow_up = self.follow_up
        return (
            self.request.query,
            *((follow_up.asked, *(turn.question for turn in follow_up.turns)) if follow_up else ()),
        )

    @property
    def earlier_sources(self) -> tuple[Source, ...]:
        """The sources of the earlier research that this one may reuse."""
        return self.follow_up.sources if self.follow_up else ()


def detect_request_language(request: ResearchRequest) -> str | None:
    """Return the language of the request, else of its question; None if unknown."""
    return request.language or detect_language(request.query)
