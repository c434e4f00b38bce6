"""The common part of search services with an API key. An adapter adds the request, the answer and the refusals."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date
from email.utils import parsedate_to_datetime
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlencode

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.freshness import Freshness
from modules.llm_platform.domain.dtos.web_search_dtos import (
    MAX_COUNT,
    SourceKind,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.domain.exceptions import WebSearchConfigError
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.search.freshness import freshness_window, is_admitted
from modules.llm_platform.domain.text.language import detect_language
from modules.llm_platform.domain.urls.canonical_url import canonical_url, get_host, is_web_url
from modules.llm_platform.infrastructure.http.client import Reply, Upstream, check_api_key
from modules.llm_platform.infrastructure.http.errors import NO_RESULTS, Rule, retry_after_s
from modules.llm_platform.infrastructure.http.untrusted_json import read_dict, read_line, read_number, read_text
from shared.exceptions import AppException

if TYPE_CHECKING:
    import httpx2

MAX_ERROR_BYTES: Final = 64_000  # part of a refusal that is searched for its reason
# The end of the running search in event loop time, for all of its requests. Adapters need not pass it on.
_until: Final[ContextVar[float]] = ContextVar("until")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ENGLISH_DATE = re.compile(rf"({'|'.join(_MONTHS)})[a-z]* ([0-9]{{1,2}}), ([0-9]{{4}})")
_WEEKDAY = re.compile(r"[A-Z][a-z]{2}, [0-9]")


@dataclass(slots=True)
class FoundResults:
    """The results of a service for one kind of sources, best first.

    - `raw` is the answer of the service.
    - `notes` are reasons for `degraded`.
    """

    items: list[WebSearchResultItem] = field(default_factory=list)
    raw: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    correction: str | None = None
    total_matches: int | None = None


class KeyedWebSearch(IWebSearchProvider):
    """A search service with an API key, which is asked once for each kind of sources that it has a search for.

    The key is checked at the call and not at the start. Results that the request does not admit (their site, their date) are
    dropped, whatever the service makes of its filters. `timeout` is the limit in seconds for a search with all its requests.
    """

    label: ClassVar[str]
    base_url: ClassVar[str]
    address_setting: ClassVar[str] = "SEARCH_BASE_URLS"
    timeout_s: ClassVar[float] = 15.0
    key_headers: ClassVar[tuple[tuple[str, str], ...]] = (("Authorization", "Bearer {key}"),)  # sent with every request
    key_parameter: ClassVar[str | None] = None  # sent with every GET, of a service that takes its key in the address
    kinds: ClassVar[tuple[SourceKind, ...]] = ("web",)  # any other kind is searched on the web
    has_pages: ClassVar[bool] = True
    max_results: ClassVar[int] = MAX_COUNT  # results of one search
    takes_language: ClassVar[bool] = True
    takes_freshness: ClassVar[bool] = True  # `time_range` and `freshness`
    rules: ClassVar[Mapping[int, Rule]] = {}  # statuses that mean something else than in `http.errors`
    notes: ClassVar[Mapping[str, str]] = {}  # what becomes of a field, for docs/howto/paid-search-services.md

    def __init__(
        self,
        api_key: str,
        base_url: str | None = None,
        timeout: float | None = None,
        client: httpx2.AsyncClient | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        key, setting = api_key.strip(), f"{self.name.upper()}_API_KEY"
        self._key_parameters = {self.key_parameter: key} if self.key_parameter else {}
        self._key_error = check_api_key(self.label, key, setting)
        self._upstream = Upstream(
            self.label,
            base_url or self.base_url,
            setting=self.address_setting,
            timeout=timeout or self.timeout_s,
            client=client,
            headers={} if self._key_error else {name: template.format(key=key) for name, template in self.key_headers},
            rules={401: Rule("config", f"does not accept the key (401): check {setting}"), **self.rules},
            redactor=redactor,
        )

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        window = freshness_window(request)
        if self._key_error:
            raise WebSearchConfigError(self._key_error)
        served = request.model_copy(update={"count": min(request.count, self.max_results)})
        token = _until.set(asyncio.get_running_loop().time() + self._upstream.timeout)
        try:
            found = await self._find_kinds(served, window)
        finally:
            _until.reset(token)
        items = _interleave([answer.items for answer in found])
        notes = (*self.list_unsupported(request), *chain.from_iterable(answer.notes for answer in found))
        return WebSearchResponse(
            query=request.query,
            total_matches=found[0].total_matches if len(found) == 1 else None,
            results=tuple(islice((item for item in items if is_admitted(item, request, window)), request.count)),
            provider=self.name,
            degraded=tuple(Degraded(component=self.name, reason=note) for note in dict.fromkeys(notes)),
            correction=next((answer.correction for answer in found if answer.correction), None),
            raw=found[0].raw if len(found) == 1 else None,
        )

    async def _find_kinds(self, request: WebSearchRequest, window: Freshness | None) -> list[FoundResults]:
        """Search each kind. A kind that fails after another one answered is a note: the answer has been paid for."""
        found: list[FoundResults] = []
        for kind in self._choose_kinds(request):
            try:
                found.append(await self.find(kind, request, window))
            except AppException as error:
                if not found:
                    raise
                found.append(FoundResults(notes=[f"{kind} failed: {error.code}: {error.message}"]))
        return found

    def _choose_kinds(self, request: WebSearchRequest) -> Iterator[SourceKind]:
        lacks_one = not set(request.sources) <= set(self.kinds)
        return (kind for kind in self.kinds if kind in request.sources or (kind == "web" and lacks_one))

    # --- what an adapter defines ---------------------------------------------------------------------------------------

    @abstractmethod
    async def find(self, kind: SourceKind, request: WebSearchRequest, window: Freshness | None) -> FoundResults:
        """Search one of `kinds`. `window` is the age limit of the request, whose `count` is at most `max_results`."""

    def refusal(self, reply: Reply) -> Rule | None:
        """Return the error of an unsuccessful reply whose body says more than its status."""
        return None

    def find_reported_error(self, answer: Mapping[str, Any]) -> Rule | None:
        """Return the error that a field of a successful answer reports: some services send errors with status 200."""
        return None

    def list_unsupported(self, request: WebSearchRequest) -> Iterator[str]:
        """Yield the parts of the request that the service does not support."""
        if kinds := [kind for kind in request.sources if kind not in self.kinds]:
            yield f"has no search of its own for {', '.join(kinds)}: searched the web"
        if request.engines:
            yield "cannot choose engines"
        if request.page > 1 and not self.has_pages:
            yield "has only a first page"
        if request.count > self.max_results:
            yield f"has at most {self.max_results} results"
        if not self.takes_language and request.language:
            detected = detect_language(request.query)
            if detected and detected != request.language.partition("-")[0]:
                yield "answers in the language of the query"
        if not self.takes_freshness and freshness_window(request):
            yield "cannot limit the age of results: only dates outside of a range are left out"

    # --- what an adapter uses ------------------------------------------------------------------------------------------

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST the body without its fields of None, and return the JSON object of the answer."""
        sent = {name: value for name, value in body.items() if value is not None}
        return self.read_answer(await self._upstream.post_json(path, sent, _until.get(None), sent_kind="query"))

    async def get(self, path: str, parameters: Mapping[str, str]) -> Reply:
        """GET the path with these parameters. `read_answer` reads the reply."""
        address = f"{path}?{urlencode({**parameters, **self._key_parameters})}"
        return await self._upstream.get(address, _until.get(None), sent_kind="query")

    def read_answer(self, reply: Reply) -> dict[str, Any]:
        """Return the JSON object of a successful reply. Raises the error of the tables for any other reply."""
        is_small_error = reply.status // 100 != 2 and len(reply.body) <= MAX_ERROR_BYTES
        if is_small_error and (rule := self.refusal(reply)):
            raise self._upstream.rule_error(rule, retry_after_s(reply.headers))
        answer = self._upstream.json_object(reply)
        if rule := self.find_reported_error(answer):
            raise self._upstream.rule_error(rule, retry_after_s(reply.headers))
        return answer

    def list_rows(self, answer: Mapping[str, Any], name: str) -> list[Any]:
        """Return the list in this field of an answer, which is empty if nothing was found.

        Raises an error for an answer without the list: some services and gateways send errors with status 200.
        """
        rows = answer.get(name)
        if not isinstance(rows, list):
            raise self._upstream.rule_error(NO_RESULTS)
        return rows

    def items(self, rows: Iterable[Any]) -> list[WebSearchResultItem]:
        """Return the rows of an answer that have a usable address."""
        return [item for row in rows if (item := self.item(read_dict(row)))]

    def item(self, row: Mapping[str, Any]) -> WebSearchResultItem | None:
        """Return a row of an answer by the names that most services use, or None without a usable address."""
        return self.result(row.get("url"), row.get("title"), row.get("description"))

    def result(
        self, url: Any, title: Any, snippet: Any, *, score: Any = None, **fields: Any
    ) -> WebSearchResultItem | None:
        """Return a result of untrusted values, or None without a usable address. `fields` are optional texts of a result.

        A value of another type is left out.
        """
        address = read_text(url)
        if not is_web_url(address):
            return None
        optional: dict[str, Any] = {name: read_text(value) or None for name, value in fields.items()}
        return WebSearchResultItem(
            title=read_line(title) or get_host(address),
            url=address,
            snippet=read_text(snippet),
            source=self.name,
            score=read_number(score),
            **optional,
        )


def cut_query(query: str, max_chars: int) -> str:
    return query if len(query) <= max_chars else query[: max_chars + 1].rpartition(" ")[0] or query[:max_chars]


def get_territory(language: str | None) -> str | None:
    """Return the two letters of the territory in a tag such as `de-AT`."""
    territory = (language or "").partition("-")[2].rpartition("-")[2]
    return territory if len(territory) == 2 else None


def make_iso_date(value: Any) -> str | None:
    """Return a date in ISO 8601 for `2026-03-31T…`, `Tue, 31 Mar 2026 …` or `Mar 31, 2026`, or None for any other text."""
    text = read_text(value, 100)
    with suppress(ValueError, OverflowError):  # a day that does not exist, or a number beyond all years
        if match := _ENGLISH_DATE.fullmatch(text):
            return date(int(match[3]), 1 + _MONTHS.index(match[1]), int(match[2])).isoformat()
        if _WEEKDAY.match(text):
            return parsedate_to_datetime(text).isoformat()
        date.fromisoformat(text[:10])
        return text
    return None


def _interleave(lists: Iterable[list[WebSearchResultItem]]) -> Iterator[WebSearchResultItem]:
    """Yield the first result of each kind, then the second ones, each address once."""
    seen: set[str] = set()
    for item in chain.from_iterable(zip_longest(*lists)):
        if item is not None and (address := canonical_url(item.url)) not in seen:
            seen.add(address)
            yield item
