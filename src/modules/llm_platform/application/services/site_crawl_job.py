"""Crawl a site as a background run, which reads pages and writes no answer."""

import time
from collections.abc import AsyncGenerator
from typing import Final

from modules.llm_platform.application.research.events import Done, Read, ResearchEvent, Started
from modules.llm_platform.application.research.run import StoreSources
from modules.llm_platform.application.services.site_crawl_service import SiteCrawlService
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.research_job_dtos import CRAWL, ClaimedJob
from modules.llm_platform.domain.dtos.site_crawl_dtos import SiteCrawlRequest
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.text.counts import format_count

READ: Final = "ok"  # status of a page that was read
NOT_READ: Final = "page_error"  # status of an unread page without an error code


class SiteCrawlRunner:
    """Crawls a site for a background run. The pages are the sources of the run, and each page has an event."""

    def __init__(self, site_crawl: SiteCrawlService) -> None:
        self._site_crawl = site_crawl

    async def stream(self, job: ClaimedJob, store_sources: StoreSources) -> AsyncGenerator[ResearchEvent, None]:
        """Yield the events. Raises the page error of the first page, as the crawl does."""
        began = time.perf_counter()
        yield Started(request_id=job.id)
        found = await self._site_crawl.crawl(SiteCrawlRequest.model_validate(job.client_request[CRAWL]))
        sources = tuple(
            Source(
                index=number,
                title=page.title,
                url=page.url,
                text=page.text,
                published=page.published,
                extraction=page.extraction,
            )
            for number, page in enumerate((linked.page for linked in found.pages), 1)
        )
        await store_sources(sources)
        for source in sources:
            yield Read(request_id=job.id, url=source.url, status=READ, chars=len(source.text))
        for failed in found.failed:
            yield Read(request_id=job.id, url=failed.url, status=failed.code or NOT_READ, chars=0)
        metadata = ResearchMetadata(
            latency_ms=round((time.perf_counter() - began) * 1000),
            request_id=job.id,
            pages_read=len(sources),
            pages_failed=len(found.failed),
        )
        were = "was" if len(sources) == 1 else "were"
        synthesis = f"{format_count(len(sources), 'page')} of {found.base_url} {were} read."
        response = ResearchResponse(
            query=job.request.query, depth=job.request.depth, synthesis=synthesis, metadata=metadata
        )
        yield Done(request_id=job.id, response=response)
