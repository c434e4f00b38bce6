"""All services of the platform."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from modules.llm_platform.application.rag.indexing import IndexingService
from modules.llm_platform.application.rag.retrieval import RetrievalService
from modules.llm_platform.application.services.answer_check_service import AnswerCheckService
from modules.llm_platform.application.services.answer_service import AnswerService
from modules.llm_platform.application.services.doctor_service import DoctorService
from modules.llm_platform.application.services.embedding_service import EmbeddingService
from modules.llm_platform.application.services.health_service import HealthService
from modules.llm_platform.application.services.llm_service import LLMService
from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.application.services.rerank_service import RerankService
from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.seal_service import SealService
from modules.llm_platform.application.services.site_crawl_service import SiteCrawlService
from modules.llm_platform.application.services.store_service import StoreService
from modules.llm_platform.application.services.verification_service import VerificationService
from modules.llm_platform.application.services.watch_service import WatchService
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.document_dtos import DocumentList
from modules.llm_platform.domain.dtos.indexing_dtos import IndexProgress
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind
from modules.llm_platform.domain.ports.icon_reader import IIconReader
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.rate_limiter import IRateLimiter
from modules.llm_platform.domain.ports.tracing import NO_TRACER, ITracer

DocumentTitles = Callable[[int], Awaitable[tuple[str, ...]]]


ListDocuments = Callable[[int], Awaitable[DocumentList]]

CLOSED = (
    "this platform is closed and cannot be opened again: call build_platform() for each `async with`, and in an application "
    "for each of its lifespans"
)


async def list_no_titles(limit: int) -> tuple[str, ...]:
    return ()


async def list_no_documents(limit: int) -> DocumentList:
    return DocumentList()


@dataclass(frozen=True, slots=True)
class LLMPlatform:
    """The services, wired. Use as `async with build_platform() as platform`, or call `aclose` when done.

    - `pages` reads pages of the web, `result_pages` also the documents that a search finds.
    - `source_kinds` are the kinds of sources that can be searched with these settings, `document_titles(limit)` some
      titles of the documents among them, and `list_documents(limit)` the documents with the files that cannot be read.
    - `icons` reads the icons of sites. None means that icons are not requested.
    """

    web_search: WebSearchService
    llm: LLMService
    research: ResearchService
    research_jobs: ResearchJobService
    pages: PageService
    result_pages: PageService
    site_crawl: SiteCrawlService
    store: StoreService
    verification: VerificationService
    answer_checks: AnswerCheckService
    seals: SealService
    watches: WatchService
    embeddings: EmbeddingService
    reranking: RerankService
    retrieval: RetrievalService
    indexing: IndexingService
    answers: AnswerService
    health: HealthService
    doctor: DoctorService
    metrics: IMetrics = field(default=NO_METRICS, kw_only=True)
    tracer: ITracer = field(default=NO_TRACER, kw_only=True)
    source_kinds: tuple[SourceKind, ...] = field(default=(), kw_only=True)
    document_titles: DocumentTitles = field(default=list_no_titles, kw_only=True)
    list_documents: ListDocuments = field(default=list_no_documents, kw_only=True)
    icons: IIconReader | None = field(default=None, kw_only=True)
    _close: Callable[[], Awaitable[None]] = field(repr=False)
    _is_closed: Callable[[], bool] = field(default=lambda: False, repr=False)
    _rate_limiter: Callable[[], IRateLimiter | None] = field(default=lambda: None, repr=False)
    _reading: Callable[[], IndexProgress | None] = field(default=lambda: None, repr=False)

    @property
    def reading(self) -> IndexProgress | None:
        """The progress of indexing a searched folder; None if none is being indexed."""
        return self._reading()

    @property
    def rate_limiter(self) -> IRateLimiter | None:
        """The limits on requests of clients, for servers; None if there are none."""
        return self._rate_limiter()

    async def aclose(self) -> None:
        """Close every connection that the platform opened; a second call does nothing."""
        await self._close()

    async def __aenter__(self) -> Self:
        if self._is_closed():
            raise RuntimeError(CLOSED)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
