"""A research as the service hands it on: what is asked, whom to tell, where the ledger is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from modules.llm_platform.application.research.events import ResearchEvent
from modules.llm_platform.domain.dtos.research_dtos import ResearchRequest, Source
from modules.llm_platform.domain.egress_log import EgressLog
from modules.llm_platform.domain.text.language import detect

OWN_LANGUAGE = "en"  # for our own words where the question's language is not known

Tell = Callable[[ResearchEvent], None]


@dataclass(frozen=True, slots=True)
class ResearchContext:
    """One research. `began` is event loop time in seconds; `detected` the question's language, None where nobody can say;
    `hold` keeps the texts that quotes point into, so that they can be asked for. `streamed`: somebody reads the tokens.
    """

    request: ResearchRequest
    request_id: str
    detected: str | None
    tell: Tell
    hold: Callable[[tuple[Source, ...]], Awaitable[None]]
    streamed: bool
    began: float
    ledger: EgressLog

    @property
    def language(self) -> str:
        """Of our own words and of the answer."""
        return self.detected or OWN_LANGUAGE


def language_of(request: ResearchRequest) -> str | None:
    """The language that is asked for, else the question's; None where nobody can say."""
    return request.language or detect(request.query)
