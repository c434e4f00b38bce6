"""Join all search providers into one, with routing by source kind, single flight, failover, caches and guards."""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from pydantic import BaseModel
from pydantic_core import to_json

from modules.llm_platform.application.research.find.search import fuse_answers
from modules.llm_platform.domain.concurrency.single_flight import SingleFlight
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS, SourceKind, WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import WebSearchConfigError, WebSearchRequestError
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.key_lock import NO_KEY_LOCK, IKeyLock
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.privacy.egress_log import log_cached, record_sent
from modules.llm_platform.domain.search.fresh_searches import searches_afresh
from modules.llm_platform.domain.search.request_count import count_requests
from modules.llm_platform.infrastructure.limits.upstream_guard import UpstreamGuard
from shared.exceptions import AppException

log = logging.getLogger(__name__)

NO_DOCUMENTS_TO_SEARCH = (
    "There are no documents to search: set DOCUMENTS_DIR to a folder, or run `llm-platform index PATH`"
)
NO_WEB_TO_SEARCH = (
    "This platform has no web search, so only documents were searched: "
    "set SEARXNG_URL or a key such as BRAVE_API_KEY, and do not set LLM_PLATFORM_OFFLINE"
)
DEGRADED_TTL_S: Final = 60.0  # a provider that failed may be back soon
_UTC_NOW: Final = partial(datetime.now, UTC)
EMPTY_TTL_S: Final = 300.0
STALE_TTL_S: Final = 6 * 3600.0  # results of a search that may be shown when every provider fails


class StoredSearch(BaseModel, frozen=True):
    """A response and the time at which the provider gave it."""

    response: WebSearchResponse
    stored_at: datetime


class SearchUpstream(NamedTuple):
    """A provider and its guard.

    The guard is None for documents. They are local, so they have no limit, and they can change, so they have no cache.
    """

    provider: IWebSearchProvider
    guard: UpstreamGuard | None = None


class SearchCaches(NamedTuple):
    """The caches of a chain. Processes that share a cache share its lock: of equal searches at once, one does the work."""

    ttl_s: float
    answers: ICache[WebSearchResponse]
    stale: ICache[StoredSearch] | None = None
    lock: IKeyLock = NO_KEY_LOCK


class WebSearchChain(IWebSearchProvider):
    """Sends a request to the web, to the documents, or to both at the same time, by its source kinds.

    With documents only, they also serve the other kinds. If the request names such a kind, that is reported in `degraded`; the
    kind of a request that names none is not. With the web only, `documents` alone is a config error, and together with
    other kinds it is reported in `degraded`.

    The providers of the web are called in order until one answers. `degraded` lists the errors of the others. "Nothing
    found" is an answer. A WebSearchRequestError is raised at once, because the request is wrong for every provider. When all
    fail, their last response to the same request is returned, up to STALE_TTL_S old, and `degraded` names the error and the
    age. If there is none, the last error is raised.

    Equal searches at the same time are one search. The answers of each provider are cached, failures never. Those that join
    a search or come from a cache are marked as `cached`. Tasks that search afresh get nothing from the caches.
    """

    def __init__(
        self,
        web: Sequence[SearchUpstream],
        documents: IWebSearchProvider | None = None,
        caches: SearchCaches | None = None,
        now: Callable[[], datetime] = _UTC_NOW,
    ) -> None:
        self._web_name = ",".join(upstream.provider.name for upstream in web)
        self.name = ",".join(filter(None, (self._web_name, documents.name if documents else "")))
        self._web = tuple(web)
        self._documents = documents
        self._caches = caches
        self._now = now
        self._flights: SingleFlight[WebSearchResponse] = SingleFlight()

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        count_requests(0)
        if DOCUMENTS not in request.sources or not self._web:
            if self._web:
                return await self._search_web(request)
            if self._documents is None:
                raise WebSearchConfigError(
                    "No search provider is configured: set SEARXNG_URL, a key such as BRAVE_API_KEY, or DOCUMENTS_DIR"
                )
            answer = await _call(self._documents, request)
            return answer.with_degraded(_report_missing_web(request))
        web_kinds = tuple(kind for kind in request.sources if kind != DOCUMENTS)
        if not web_kinds:
            if self._documents is None:
                raise WebSearchConfigError(NO_DOCUMENTS_TO_SEARCH)
            return await _call(self._documents, request)
        if self._documents is None:
            answer = await self._search_web(request.with_(sources=web_kinds))
            return answer.with_degraded([Degraded.of(DOCUMENTS, WebSearchConfigError(NO_DOCUMENTS_TO_SEARCH))])
        return await self._search_both(request, self._documents, web_kinds)

    async def _search_both(
        self, request: WebSearchRequest, documents: IWebSearchProvider, web_kinds: tuple[SourceKind, ...]
    ) -> WebSearchResponse:
        """Return one answer from both. A failure is listed in `degraded`.

        If both fail, the error of the web is raised, which says more about the question than the error of a folder.
        """
        outcomes = await asyncio.gather(
            self._search_web(request.with_(sources=web_kinds)),
            _call(documents, request.with_(sources=(DOCUMENTS,))),
            return_exceptions=True,
        )
        answers: list[WebSearchResponse] = []
        failures: list[tuple[str, AppException]] = []
        for name, outcome in zip((self._web_name, documents.name), outcomes, strict=True):
            if isinstance(outcome, WebSearchResponse):
                answers.append(outcome)
            elif isinstance(outcome, AppException) and not isinstance(outcome, WebSearchRequestError):
                failures.append((name, outcome))
            else:
                raise outcome  # the caller's mistake, or a defect
        if not answers:
            raise failures[0][1]
        return fuse_answers(request, answers).with_degraded([Degraded.of(name, error) for name, error in failures])

    async def _search_web(self, request: WebSearchRequest) -> WebSearchResponse:
        # A search that must be fresh joins none that a cache may answer.
        key = request, searches_afresh()
        answer, has_joined = await self._flights.run(key, partial(self._find_first_answer, request))
        return answer.model_copy(update={"cached": True}) if has_joined and not answer.cached else answer

    async def _find_first_answer(self, request: WebSearchRequest) -> WebSearchResponse:
        degraded: list[Degraded] = []
        with record_sent() as egress_log:
            for provider, guard in self._web:
                try:
                    found = await (self._search_cached(provider, guard, request) if guard else _call(provider, request))
                    break
                except WebSearchRequestError:
                    raise
                except AppException as error:
                    last_error = error
                    if len(self._web) > 1:
                        log.warning("search provider failed", extra={"provider": provider.name, "error": error.code})
                        degraded.append(Degraded.of(provider.name, error))
            else:
                return await self._get_stale_answer(request, last_error)
        answer = found.with_degraded(degraded) if degraded else found
        stale = self._caches.stale if self._caches else None
        if stale is not None and answer.results and not answer.cached and DOCUMENTS not in answer.provider:
            entry = answer.model_copy(update={"sent_to": egress_log.sent()})
            stored = StoredSearch(response=entry, stored_at=self._now())
            await stale.set(search_key(self._web_name, request), stored, STALE_TTL_S)
        return answer

    async def _get_stale_answer(self, request: WebSearchRequest, error: AppException) -> WebSearchResponse:
        stale = self._caches.stale if self._caches and not searches_afresh() else None
        stored = await stale.get(search_key(self._web_name, request)) if stale is not None else None
        if stored is None:
            raise error
        log_cached(stored.response.sent_to)
        log.warning("stale search results served", extra={"provider": self._web_name, "error": error.code})
        minutes = int((self._now() - stored.stored_at).total_seconds() // 60)
        age = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
        reason = f"stale: every search provider failed ({error.code}): these results are {age} old"
        entry = Degraded.of(self._web_name, error).model_copy(update={"reason": reason})
        return stored.response.model_copy(update={"cached": True}).with_degraded([entry])

    async def _search_cached(
        self, provider: IWebSearchProvider, guard: UpstreamGuard, request: WebSearchRequest
    ) -> WebSearchResponse:
        """Return the provider's answer from its cache, or from the provider."""
        caches = self._caches
        if caches is None:
            return await self._search_and_store(provider, guard, request)
        key = search_key(provider.name, request)
        if searches_afresh():
            return await self._search_and_store(provider, guard, request, key)
        hit = await caches.answers.get(key)
        if hit is None and caches.lock is NO_KEY_LOCK:
            return await self._search_and_store(provider, guard, request, key)
        if hit is None:
            async with caches.lock.hold(key) as has_waited:
                hit = await caches.answers.get(key) if has_waited else None
                if hit is None:
                    return await self._search_and_store(provider, guard, request, key)
        log_cached(hit.sent_to)
        return hit

    async def _search_and_store(
        self, provider: IWebSearchProvider, guard: UpstreamGuard, request: WebSearchRequest, key: str = ""
    ) -> WebSearchResponse:
        """Return the provider's answer, which is stored under the key if there is one."""
        with record_sent() as egress_log:
            answer = await guard.call(partial(_call, provider, request))
        if self._caches is not None and key and answer.provider != DOCUMENTS:
            ttl_s = self._caches.ttl_s
            if answer.degraded or not answer.results:
                ttl_s = min(ttl_s, DEGRADED_TTL_S if answer.degraded else EMPTY_TTL_S)
            # Marked when it is stored, so that a hit needs no copy.
            entry = answer.model_copy(update={"cached": True, "sent_to": egress_log.sent()})
            await self._caches.answers.set(key, entry, ttl_s)
        return answer


def _report_missing_web(request: WebSearchRequest) -> tuple[Degraded, ...]:
    """Return an entry for `degraded` if the request names kinds of sources that are not documents."""
    named = request.sources if "sources" in request.model_fields_set else ()
    missing = [kind for kind in named if kind != DOCUMENTS]
    return (Degraded.of(missing[0], WebSearchConfigError(NO_WEB_TO_SEARCH)),) if missing else ()


async def _call(provider: IWebSearchProvider, request: WebSearchRequest) -> WebSearchResponse:
    count_requests(1)
    return await provider.search(request)


def search_key(provider: str, request: WebSearchRequest) -> str:
    """Return a digest of the provider, the type of the request and its fields. The order in lists does not count."""
    fields = request.model_dump()
    for name in ("engines", "sources", "domains"):
        fields[name] = sorted(set(fields[name]))
    return hashlib.sha256(to_json([provider, type(request).__name__, fields])).hexdigest()
