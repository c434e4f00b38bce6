"""A platform of fake services and a client of the application around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import Any, get_args

import httpx2
from tests.fakes.embedder import HashEmbedder
from tests.fakes.metrics import MemoryMetrics
from tests.fakes.research_job_store import MemoryResearchJobStore
from tests.fakes.site_reader import FakeSiteReader
from tests.support.sealed_answers import make_seals

from modules.llm_platform.application.platform import LLMPlatform, list_no_documents, list_no_titles
from modules.llm_platform.application.research.events import (
    Done,
    FoundResult,
    ResearchEvent,
    RoundStarted,
    Searched,
    SourcesNumbered,
    Started,
    Token,
)
from modules.llm_platform.application.research.run import OnProgress, StoreSources, ignore_progress
from modules.llm_platform.application.services.answer_check_service import AnswerCheckService
from modules.llm_platform.application.services.embedding_service import EmbeddingService
from modules.llm_platform.application.services.health_service import HealthService
from modules.llm_platform.application.services.llm_service import LLMService
from modules.llm_platform.application.services.rerank_service import RerankService
from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.application.services.research_job_worker import JobOptions
from modules.llm_platform.application.services.site_crawl_job import SiteCrawlRunner
from modules.llm_platform.application.services.site_crawl_service import SiteCrawlService
from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.application.services.verification_job import VerificationRunner
from modules.llm_platform.application.services.verification_service import VerificationService
from modules.llm_platform.application.services.watch_notices import WatchNotices
from modules.llm_platform.application.services.watch_service import WatchService
from modules.llm_platform.application.services.webhook_service import WebhookService
from modules.llm_platform.domain.concurrency.early_finish import EarlyFinish
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceLine, EvidenceSource
from modules.llm_platform.domain.dtos.llm_dtos import (
    ConfiguredModel,
    LLMRequest,
    LLMResponse,
    LLMToken,
    Spending,
    Usage,
)
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest, ReportAmounts, ResearchPlan
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest, StoredTurns
from modules.llm_platform.domain.dtos.source_dtos import HeldSource, RawResult, Source, SourceRef, StoredSources
from modules.llm_platform.domain.dtos.web_search_dtos import (
    SourceKind,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.domain.exceptions import PreviousResearchNotFoundError, SourceNotHeldError
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.icon_reader import IIconReader
from modules.llm_platform.domain.ports.rate_limiter import IRateLimiter
from modules.llm_platform.domain.ports.tracing import NO_TRACER
from modules.llm_platform.domain.ports.watch_store import IWatchStore
from modules.llm_platform.domain.search.freshness import freshness_window
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.infrastructure.stores.research_runs.disk import NoResearchStore
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.testing.page_reader import FakePageReader, PageOutcome
from modules.llm_platform.testing.web_search import FakeWebSearch
from shared.config import Settings

HIT = WebSearchResultItem(
    title="asyncio", url="https://docs.example.org/asyncio", snippet="An event loop.", source="wiki", score=0.5
)
REF = SourceRef(index=1, title="asyncio", url="https://docs.example.org/asyncio")
SEARCHED = Searched(
    request_id="", query="asyncio event loop", provider="fake", count=1, cached=False, results=(FoundResult.of(HIT),)
)
EMBEDDER = "wordllama/l2_supercat_256"
MODEL = ConfiguredModel("fake", "fake-1")
CITATION = Citation(
    start=0, end=25, source_index=1, quote="An event loop.", quote_start=0, quote_end=14, verdict="supported", score=0.9
)
STORED_TEXT = Source(index=1, title=REF.title, url=REF.url, text="An event loop runs tasks.")
STORED_SOURCE = HeldSource(index=1, url=REF.url, title=REF.title, text="An event loop runs tasks.", sha256="0" * 64)


PAGE = Page(
    url=REF.url,
    title="asyncio",
    text="An event loop runs tasks.",
    read_at=datetime(2026, 1, 1, tzinfo=UTC),
    reader="fake",
    sha256="0" * 64,
    media_type="text/html",
)


def hits(count: int) -> tuple[WebSearchResultItem, ...]:
    """As many results as a provider sends that does not keep to the number it is asked for."""
    return tuple(HIT.model_copy(update={"url": f"https://docs.example.org/{number}"}) for number in range(count))


class FakeServices:
    """The services of the platform. `delay_s`: seconds before each response; `error` is raised instead of it.

    `requests` records the requests; `cancelled` counts cancelled calls.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.verified_pages: dict[str, PageOutcome] = {}  # the pages that a verification reads
        self.verification_search = FakeWebSearch()
        self.icons: IIconReader | None = None
        self.watch_store: IWatchStore | None = None  # None: nothing is watched
        self.error_after_first_event: Exception | None = None
        self.delay_s = 0.0
        self.requests: list[Any] = []
        self.request_ids: list[str | None] = []
        self.owners: list[str] = []
        self.cancelled = 0
        self.closed = 0
        self.source_kinds: dict[str, tuple[str, ...]] = {
            "searxng": ("web", "news", "academic"),
            "documents": ("documents",),
        }
        self.found = WebSearchResponse(query="q", total_matches=7, results=(HIT,), provider="fake")
        self.citations: tuple[Citation, ...] = (CITATION,)
        self.answer = "An event loop runs tasks. [1]"
        self.output: dict[str, Any] | None = {
            "says": "An event loop runs tasks. [1]",
            "tasks": [1],
        }  # if there is a schema
        self.degraded: tuple[Degraded, ...] = ()
        self.models: tuple[ConfiguredModel, ...] = (MODEL,)
        self.tool_calls: tuple[dict[str, Any], ...] = ()  # calls of the language model
        self.replacements: dict[str, str] = {}  # ANTHROPIC_MODELS
        self.llm_tokens: tuple[LLMToken, ...] = ()  # tokens of a stream, in the place of the answer
        self.llm_fields: dict[str, Any] = {}  # fields of its whole answer
        self.planning = Spending()
        self.searches: tuple[Searched | RoundStarted, ...] = ()  # events of a research run
        self.early_finishes: dict[str, EarlyFinish] = {}  # of the streams, by request id
        self.gate = asyncio.Event()  # calls end when it is set
        self.gate.set()
        self.metrics = MemoryMetrics()
        self.jobs = MemoryResearchJobStore()
        self.site = FakeSiteReader({"https://example.org/": ["/a"], "https://example.org/a": []}, others=())
        self.embedder: IEmbedder = HashEmbedder(name=EMBEDDER)

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        await self._work(request)
        freshness_window(request)
        return self.found

    async def search_multi(self, requests: Sequence[WebSearchRequest]) -> list[WebSearchResponse]:
        return [await self.search(request) for request in requests]

    async def generate(self, request: LLMRequest) -> LLMResponse:
        await self._work(request)
        return self._llm_response()

    async def stream_chat(self, request: LLMRequest) -> AsyncIterator[LLMToken | LLMResponse]:
        await self._work(request)
        for token in self.llm_tokens or (LLMToken(text=self.answer),):
            yield token
        if self.tool_calls:
            yield LLMToken(text="", tool_calls=self.tool_calls)
        if self.error_after_first_event:
            raise self.error_after_first_event
        yield self._llm_response()

    async def research(
        self,
        request: ResearchRequest,
        *,
        request_id: str | None = None,
        owner: str = "",
        on_event: Callable[[ResearchEvent], None] | None = None,
        is_stored: bool = False,
    ) -> ResearchResponse:
        self.owners.append(owner)
        await self._work(request, request_id)
        if on_event:
            for searched in self.searches:
                on_event(searched.model_copy(update={"request_id": request_id or ""}))
            on_event(SourcesNumbered(request_id=request_id or "", sources=(REF,)))
        return self._research_response(request, request_id)

    async def stream_research(
        self,
        request: ResearchRequest,
        *,
        request_id: str | None = None,
        owner: str = "",
        store_sources: StoreSources | None = None,
        is_stored: bool = False,
        early_finish: EarlyFinish | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> AsyncIterator[ResearchEvent]:
        self.owners.append(owner)
        name = request_id or ""
        if early_finish is not None:
            self.early_finishes[name] = early_finish
        yield Started(request_id=name)
        await self._work(request, request_id)
        if store_sources is not None:
            await store_sources((STORED_TEXT,))
        for searched in self.searches:
            yield searched.model_copy(update={"request_id": name})
        yield SourcesNumbered(request_id=name, sources=(REF,))
        if self.error_after_first_event:
            raise self.error_after_first_event
        yield Token(request_id=name, text=self.answer)
        yield Done(request_id=name, response=self._research_response(request, request_id))

    async def plan(self, request: PlanRequest, *, owner: str = "") -> ResearchPlan:
        await self._work(request)
        return ResearchPlan(
            query=request.query,
            language="en",
            questions=(request.query, "How?"),
            planner="fake/fake-1",
            spent=self.planning,
        )

    def check(self, request: ResearchRequest) -> None:
        """All requests are valid."""

    def estimate(self, request: ResearchRequest, *, searches_nothing: bool = False) -> ReportAmounts:
        return ReportAmounts(searches=0 if searches_nothing else 2, pages=3)

    async def load_earlier_turns(self, request: ResearchRequest, *, owner: str = "") -> StoredTurns | None:
        """No research run is stored."""
        return None

    async def load_stored_answer(self, request_id: str, *, owner: str = "") -> str:
        raise PreviousResearchNotFoundError

    async def get_stored_sources(self, request_id: str, *, owner: str = "") -> StoredSources | None:
        return StoredSources(sources=(STORED_TEXT,))

    async def forget(self, request_id: str, *, owner: str = "") -> None:
        """Nothing is cached."""

    async def get_source(self, request_id: str, index: int, *, owner: str = "") -> HeldSource:
        self.owners.append(owner)
        if request_id != "held" or index != STORED_SOURCE.index:
            raise SourceNotHeldError
        return STORED_SOURCE

    async def list_evidence(self, request_id: str, *, owner: str = "") -> tuple[EvidenceLine, ...]:
        self.owners.append(owner)
        if request_id != "held":
            raise SourceNotHeldError
        source = EvidenceSource(index=1, url=STORED_SOURCE.url, title=STORED_SOURCE.title)
        quote = EvidenceLine(question="What?", state="answered", quote="line\nbreak", end=10, source=source, round=0)
        return (quote, EvidenceLine(question="Why?", state="open"))

    async def read(self, url: str) -> Page:
        await self._work(url)
        return PAGE.model_copy(update={"url": url})

    async def close(self) -> None:
        self.closed += 1
        await self.jobs.aclose()

    async def _work(self, request: Any, request_id: str | None = None) -> None:
        self.requests.append(request)
        self.request_ids.append(request_id)
        try:
            await asyncio.sleep(self.delay_s)
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error

    def _llm_response(self) -> LLMResponse:
        whole = LLMResponse(
            content=self.answer,
            provider="fake",
            model="fake-1",
            usage=Usage(prompt_tokens=3, completion_tokens=4),
            tool_calls=self.tool_calls,
            finish_reason="tool_calls" if self.tool_calls else "stop",
        )
        return whole.model_copy(update=self.llm_fields)

    def _research_response(self, request: ResearchRequest, request_id: str | None) -> ResearchResponse:
        raw = None if request.omit_raw else tuple(map(RawResult.of, self.found.results[:1]))
        return ResearchResponse(
            query=request.query,
            depth=request.depth,
            synthesis=self.answer,
            output=None if request.output_schema is None else self.output,
            sources=(REF,),
            citations=self.citations,
            raw_results=raw,
            degraded=self.degraded,
            metadata=ResearchMetadata(latency_ms=1, synthesizer="fake", request_id=request_id or ""),
        )


class _Service:
    """A service with the given methods."""

    def __init__(self, **methods: Any) -> None:
        self.__dict__.update(methods)


class _LLMService:
    """The language models; a test may change which ones there are."""

    def __init__(self, services: FakeServices) -> None:
        self._services = services
        self.generate, self.stream = services.generate, services.stream_chat
        real = LLMService(None, turns=MemoryCache(10))
        self.replacements = services.replacements
        self.keep_turns, self.load_kept_turns = real.keep_turns, real.load_kept_turns

    @property
    def models(self) -> tuple[ConfiguredModel, ...]:
        return self._services.models


def research_jobs_of(services: FakeServices) -> ResearchJobService:
    """Return background runs in memory; a webhook is refused."""
    research: Any = _Service(
        check=services.check,
        stream=services.stream_research,
        load_earlier_turns=services.load_earlier_turns,
        get_stored_sources=services.get_stored_sources,
        forget=services.forget,
    )
    webhooks = WebhookService(services.jobs, _Service, ())  # type: ignore[arg-type]
    options = JobOptions(lease_s=5.0, poll_s=0.05, flush_s=0.0)
    others: Any = {
        "crawl": SiteCrawlRunner(SiteCrawlService(services.site)),
        "verification": VerificationRunner(verification_of(services)),
    }
    return ResearchJobService(research, services.jobs, webhooks, options, services.metrics, others=others)


def watches_of(services: FakeServices, jobs: ResearchJobService) -> WatchService:
    """Return watched questions over `services.watch_store` that are never run. Webhooks are refused."""
    research: Any = _Service(check=services.check, estimate=services.estimate)
    store = services.watch_store
    webhooks = WebhookService(services.jobs, _Service, ())  # type: ignore[arg-type]
    return WatchService(research, jobs, store, WatchNotices(store, webhooks, None) if store else None, None)


def verification_of(services: FakeServices) -> VerificationService:
    """Return the verification of texts that cite `services.verified_pages`."""
    return VerificationService(FakePageReader(services.verified_pages), services.verification_search)


def platform_of(
    services: FakeServices, health: HealthService | None = None, rate_limiter: IRateLimiter | None = None
) -> LLMPlatform:
    """Return a platform with these services."""
    jobs = research_jobs_of(services)

    async def close() -> None:
        await jobs.aclose()
        await services.close()

    parts: dict[str, Any] = {
        "pages": _Service(read=services.read),
        "result_pages": _Service(read=services.read),
        "source_kinds": get_args(SourceKind),
        "document_titles": list_no_titles,
        "list_documents": list_no_documents,
        "icons": services.icons,
        "site_crawl": SiteCrawlService(services.site),
        "web_search": _Service(
            search=services.search, search_multi=services.search_multi, source_kinds=services.source_kinds
        ),
        "llm": _LLMService(services),
        "embeddings": EmbeddingService(services.embedder),
        "reranking": RerankService(services.embedder),
        "research": _Service(
            research=services.research,
            stream=services.stream_research,
            get_source=services.get_source,
            list_evidence=services.list_evidence,
            plan=services.plan,
            load_stored_answer=services.load_stored_answer,
        ),
        "research_jobs": jobs,
        "verification": verification_of(services),
        "answer_checks": AnswerCheckService(verification_of(services), timeout_s=60.0),
        "seals": make_seals(jobs=jobs),
        "watches": watches_of(services, jobs),
        "health": health or HealthService({"fake": object()}, {}),
        "store": StoreService(NoResearchStore()),
        "metrics": services.metrics,
        "tracer": NO_TRACER,
    }
    unused = {field.name: _Service() for field in fields(LLMPlatform)}
    own = {"_close": close, "_is_closed": lambda: False, "_rate_limiter": lambda: rate_limiter}
    return LLMPlatform(**unused | parts | own)


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document. It takes half a second, and is the same for all settings: see http/test_openapi.py."""
    return create_app(platform_of(FakeServices()), Settings.without_environment()).openapi()


@asynccontextmanager
async def app_client(
    services: FakeServices | None = None,
    health: HealthService | None = None,
    base_url: str = "http://localhost",
    rate_limiter: IRateLimiter | None = None,
    peer: str = "127.0.0.1",
    limits_are_set: bool = True,
    **values: Any,
) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a client of a running application with these settings.

    `limits_are_set`: the operator has set the limits of `rate_limiter`.
    """
    if rate_limiter is not None and limits_are_set:
        values.setdefault("RATE_LIMIT_PER_MINUTE", 30)
    app = create_app(
        platform_of(services or FakeServices(), health, rate_limiter), Settings.without_environment(**values)
    )
    app.openapi = openapi_document  # type: ignore[method-assign]
    transport = httpx2.ASGITransport(app=app, client=(peer, 50_000))
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=transport, base_url=base_url) as client:
        yield client
