"""A platform from a script, and terminals without a terminal."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Self

from modules.llm_platform.application.research.events import Done, ResearchEvent
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.health_dtos import CheckResult
from modules.llm_platform.domain.dtos.report_dtos import AcceptedPlan, PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.privacy.egress_log import log_sent
from modules.llm_platform.infrastructure.search.from_settings.providers import list_provider_names
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.setup import Wiring
from shared.config import Settings


def no_worker(settings: Settings) -> NoReturn:
    """In the place of a worker's parts: nothing here works."""
    raise AssertionError("no worker was asked for")


SENTENCE = "Coroutines run on an event loop."
ANSWER = ResearchResponse(
    query="What is asyncio?",
    depth="shallow",
    synthesis=f"{SENTENCE} [1] Nobody knows why. [2]",
    sources=(
        SourceRef(index=1, title="asyncio — docs", url="https://docs.example.org/asyncio"),
        SourceRef(index=2, title="Notes", url="doc:notes/a.md"),
    ),
    citations=(
        Citation(start=0, end=32, source_index=1, quote=SENTENCE, quote_end=32, verdict="supported", score=0.93),
        Citation(start=37, end=53, source_index=2, verdict="unsupported", score=0.1),
    ),
    degraded=(Degraded(component="searxng/google", reason="captcha"),),
    metadata=ResearchMetadata(
        latency_ms=1234, searches=1, providers=("searxng",), synthesizer="extractive", correction="asyncio"
    ),
)
MARKED = f"{SENTENCE} [1] Nobody knows why. [2] **○ not found**"  # as people read it
PLANNER, PLAN_BYTES = "model.example.org", 120  # who makes a plan, and what it is sent for one
ACCEPTED_AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
PLAN = ResearchPlan(
    query="What is asyncio?",
    language="en",
    questions=("What is an event loop?", "Who uses asyncio?", "What else is there?"),
    planner="llm/m",
)
FOUND = WebSearchResponse(
    query="asyncio",
    total_matches=7,
    provider="searxng",
    results=(
        WebSearchResultItem(title="One", url="https://example.org/1", snippet="First.", site_name="example", score=1.0),
        WebSearchResultItem(title="Two", url="https://example.org/2", snippet="Second.", published_date="2026-01-02"),
    ),
    raw={"kept": "from people"},
)


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


def terminal_console(source: str = "") -> tuple[Console, Terminal, Terminal]:
    """Return a console whose three streams are terminals, and the two that it writes to."""
    out, err = Terminal(), Terminal()
    return Console(out, err, Terminal(source)), out, err


def piped_console(source: str = "") -> tuple[Console, io.StringIO, io.StringIO]:
    """Return a console in the middle of a pipe, and the two streams that it writes to."""
    out, err = io.StringIO(), io.StringIO()
    return Console(out, err, io.StringIO(source)), out, err


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class PlatformPart:
    """An asynchronous context manager, for a platform with one service."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def part_wiring(platform: Any, settings: list[Settings] | None = None, *, model: bool = False) -> Wiring:
    """Return the wiring whose platform is this one; the settings that it is built with are appended to `settings`."""

    def build(loaded: Settings) -> Any:
        if settings is not None:
            settings.append(loaded)
        return platform

    return Wiring(build, lambda _: (), lambda _: model, lambda _: None, no_worker)


class FakePlatform:
    """Returns the given answers, or raises a given exception. Records its requests and whether it was closed."""

    def __init__(
        self,
        found: WebSearchResponse | Exception = FOUND,
        answer: ResearchResponse | BaseException = ANSWER,
        events: Sequence[ResearchEvent] = (),
        findings: Sequence[CheckResult] = (),
        plans: Sequence[ResearchPlan | Exception] = (PLAN,),
    ) -> None:
        self._found, self._findings = found, tuple(findings)
        self.searches: list[WebSearchRequest] = []
        self.research = FakeResearch(answer, events, plans)
        self.web_search = self.doctor = self
        self.spend: bool | None = None
        self.closed = False
        self.settings: Settings | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed = True

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.searches.append(request)
        if isinstance(self._found, Exception):
            raise self._found
        return self._found

    async def examine(self, *, spend: bool = False) -> tuple[CheckResult, ...]:
        self.spend = spend
        return self._findings


class FakeResearch:
    """`research` returns or raises the answer, `stream` yields the events and then the answer, and `plan` returns the
    plans in turn.
    """

    def __init__(
        self,
        answer: ResearchResponse | BaseException,
        events: Sequence[ResearchEvent],
        plans: Sequence[ResearchPlan | Exception],
    ) -> None:
        self._answer, self._events, self._plans = answer, events, iter(plans)
        self.requests: list[ResearchRequest] = []
        self.planned: list[PlanRequest] = []
        self.accepted: dict[PlanRequest, AcceptedPlan] = {}
        self.streamed = False

    async def plan(self, request: PlanRequest) -> ResearchPlan:
        self.planned.append(request)
        log_sent(PLANNER, "query", PLAN_BYTES)
        plan = next(self._plans)
        if isinstance(plan, Exception):
            raise plan
        return plan

    async def accept_plan(self, request: PlanRequest, questions: Sequence[str]) -> None:
        self.accepted[request] = AcceptedPlan(query=request.query, questions=tuple(questions), accepted_at=ACCEPTED_AT)

    async def accepted_plan(self, request: PlanRequest) -> AcceptedPlan | None:
        return self.accepted.get(request)

    async def research(self, request: ResearchRequest, *, is_stored: bool = False) -> ResearchResponse:
        self.requests.append(request)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer

    async def stream(self, request: ResearchRequest, *, is_stored: bool = False) -> AsyncIterator[ResearchEvent]:
        self.streamed = True
        for event in self._events:
            yield event
        yield Done(request_id="r", response=await self.research(request))


def wiring(
    platform: FakePlatform,
    *,
    order: tuple[str, ...] = ("searxng",),
    model: bool = False,
    serve: Callable[[Settings], None] = lambda settings: None,
    providers: Callable[[], tuple[str, ...]] = list_provider_names,
) -> Wiring:
    """Return the wiring whose platform is this one."""

    def build(settings: Settings) -> FakePlatform:
        platform.settings = settings
        return platform

    def fallback(settings: Settings) -> bool:
        return not settings.SEARCH_PROVIDERS and order == ("ddgs",)

    models = lambda settings: model  # noqa: E731
    return Wiring(build, lambda settings: order, models, serve, no_worker, providers, fallback)  # type: ignore[arg-type]
